//! How a pool ends: closing, draining, discarding, and the last handle going away. In each of
//! these models a worker that never learns of the end stays blocked, which loom reports.
#![cfg(loom)]

use loom_tests::{
    AtLeast, Ghost, Payload, Seen, Signal, against, check_at_rest, explore, finish, pool,
    resting_pool, unexplored,
};
use std::sync::Arc;
use weirpool::loom;
use weirpool::{JobError, JobHandle, Permit, Pool, Reason, Shutdown};

/// Submits a job that counts that it ran, unless the pool is closed.
fn submit(pool: &Pool, ran: &Arc<Ghost>) -> Option<JobHandle<usize>> {
    let ran = Arc::clone(ran);
    match pool.try_submit(move || ran.add()) {
        Ok(handle) => Some(handle),
        Err(rejected) => {
            assert_eq!(rejected.reason(), Reason::Closed);
            None
        }
    }
}

/// What became of a job in the end; how many were accepted.
fn check_submitted(seen: &Seen, handle: Option<JobHandle<usize>>) -> usize {
    let Some(mut handle) = handle else {
        seen.note("refused");
        return 0;
    };
    match handle.try_take().expect("every handle has resolved by now") {
        Ok(_) => seen.note("ran"),
        Err(JobError::Discarded) => seen.note("discarded"),
        Err(other) => panic!("{other}"),
    }
    1
}

/// A job is submitted while the pool is shut down.
fn submit_against_shutdown(name: &str, how: Shutdown, must_see: &[&'static str]) {
    explore(name, Some(2), AtLeast(1_000), must_see, move |seen| {
        let pool = resting_pool(1, 1);
        let ran = Arc::new(Ghost::default());
        let own = pool.clone();
        let (handle, report) = against(|| submit(&pool, &ran), move || own.shutdown(how, None));
        let accepted = check_submitted(seen, handle);
        // A job that had ended before the closing is in no report.
        let at_close = report.completed + report.discarded;
        assert!(at_close <= accepted && report.still_running == 0, "{report:?}");
        seen.note(if at_close == 1 { "reported" } else { "nothing to report" });
        assert_eq!(ran.get() + report.discarded, accepted, "{report:?}");
        check_at_rest(&pool, accepted as u64);
    });
}

/// Drained: what was accepted runs.
#[test]
fn submit_against_drain() {
    let must_see = ["ran", "refused", "reported", "nothing to report"];
    submit_against_shutdown("ends: submit, drain", Shutdown::Drain, &must_see);
}

/// Discarded: what was accepted runs or is discarded, by whichever thread comes to it.
#[test]
fn submit_against_discard() {
    let must_see = ["ran", "refused", "discarded", "reported", "nothing to report"];
    submit_against_shutdown("ends: submit, discard", Shutdown::Discard, &must_see);
}

/// The only worker is in a body that ends when another job has: so nobody but the threads that
/// submit and shut down is there to end that one.
#[test]
fn a_job_pushed_while_the_queue_is_discarded_is_discarded() {
    let must_see = ["refused", "discarded"];
    explore("ends: push, discard", Some(2), AtLeast(1_000), &must_see, |seen| {
        let pool = resting_pool(1, 2);
        let signal = Arc::new(Signal::default());
        let running = unexplored(|| {
            let signal = Arc::clone(&signal);
            pool.try_submit(move || signal.wait()).unwrap()
        });
        let own = pool.clone();
        let (accepted, _) = against(
            || {
                let second = submit(&pool, &Arc::default());
                let accepted = 1 + u64::from(second.is_some());
                seen.note(match second.map(JobHandle::join) {
                    None => "refused",
                    Some(Err(JobError::Discarded)) => "discarded",
                    Some(other) => panic!("the worker was busy: {other:?}"),
                });
                signal.give();
                accepted
            },
            move || own.shutdown(Shutdown::Discard, None),
        );
        running.join().unwrap();
        check_at_rest(&pool, accepted);
    });
}

/// Closing doesn't wait; what was accepted before it ends all the same.
#[test]
fn submit_against_close() {
    explore("ends: submit, close", Some(2), AtLeast(1_000), &["ran", "refused"], |seen| {
        let pool = resting_pool(1, 1);
        let ran = Arc::new(Ghost::default());
        let (own, theirs) = (pool.clone(), Arc::clone(&ran));
        let (handle, ()) = against(
            || submit(&pool, &ran),
            move || {
                own.close();
                let at_close = own.in_flight();
                own.wait_idle();
                assert_eq!(own.in_flight(), 0, "nothing comes in after the closing");
                assert!(theirs.get() >= at_close, "idle although an accepted job had not run");
            },
        );
        let accepted = u64::from(handle.is_some());
        seen.note(if handle.is_some() { "ran" } else { "refused" });
        if let Some(handle) = handle {
            handle.join().unwrap();
        }
        check_at_rest(&pool, accepted);
    });
}

/// One permit is used and one is given back while the pool is closed.
#[test]
fn permits_against_close() {
    explore("ends: permits, close", Some(2), AtLeast(1_000), &["used", "void"], |seen| {
        let pool = resting_pool(1, 2);
        let (used, unused) = (pool.try_reserve().unwrap(), pool.try_reserve().unwrap());
        let own = pool.clone();
        let (accepted, ()) = against(
            || {
                drop(unused);
                use_permit(used, seen)
            },
            move || {
                own.close();
                assert!(own.in_flight() <= 1, "no permit holds a slot of a closed pool");
            },
        );
        finish(pool, accepted);
    });
}

/// Submits with a permit; how many jobs that makes.
fn use_permit(permit: Permit, seen: &Seen) -> u64 {
    match permit.submit(|| 7) {
        Ok(handle) => {
            seen.note("used");
            assert_eq!(handle.join().unwrap(), 7);
            1
        }
        Err(rejected) => {
            seen.note("void");
            assert_eq!(rejected.reason(), Reason::Closed);
            0
        }
    }
}

/// One thread drains, another comes and discards what is left of the drain.
#[test]
fn discard_escalates_drain() {
    let must_see = ["ran", "discarded"];
    explore("ends: drain, discard", Some(2), AtLeast(1_000), &must_see, |seen| {
        let pool = resting_pool(1, 1);
        let job = pool.try_submit(|| ()).unwrap();
        let own = pool.clone();
        let (drained, discarded) = against(
            || pool.shutdown(Shutdown::Drain, None),
            move || own.shutdown(Shutdown::Discard, None),
        );
        assert_eq!(drained, discarded, "both tell of the same jobs");
        seen.note(match job.join() {
            Ok(()) => "ran",
            Err(JobError::Discarded) => "discarded",
            Err(other) => panic!("{other}"),
        });
        check_at_rest(&pool, 1);
    });
}

/// Two idle workers: both must learn of the end.
#[test]
fn shutdown_wakes_all() {
    explore("ends: two workers", Some(2), AtLeast(1_000), &[], |_| {
        let pool = pool(2, 1);
        let report = pool.shutdown(Shutdown::Drain, None);
        assert_eq!((report.completed, report.discarded, report.still_running), (0, 0, 0));
        check_at_rest(&pool, 0);
    });
}

/// Two workers and one job: the one that has nothing to do waits for the other's job to end.
#[test]
fn shutdown_waits_for_the_last_job() {
    explore("ends: two workers, one job", Some(2), AtLeast(1_000), &[], |_| {
        let pool = resting_pool(2, 1);
        let job = pool.try_submit(|| 7).unwrap();
        let report = pool.shutdown(Shutdown::Drain, None);
        assert_eq!((report.discarded, report.still_running), (0, 0));
        assert_eq!(job.join().unwrap(), 7);
        check_at_rest(&pool, 1);
    });
}

/// A body shuts its own pool down: that doesn't wait for itself.
#[test]
fn shutdown_from_a_body() {
    explore("ends: shutdown inside", Some(2), AtLeast(1_000), &[], |_| {
        let pool = pool(1, 2);
        let own = pool.clone();
        let stopper = pool.try_submit(move || own.shutdown(Shutdown::Discard, None)).unwrap();
        let other = pool.try_submit(|| ());
        let accepted = 1 + u64::from(other.is_ok());
        let report = stopper.join().unwrap();
        assert!(report.still_running >= 1, "itself: {report:?}");
        assert!(pool.is_closed());
        loom::stop_exploring();
        let later = pool.shutdown(Shutdown::Drain, None);
        assert_eq!(later.still_running, 0);
        let jobs = later.completed + later.discarded;
        assert_eq!(report.completed + report.discarded + report.still_running, jobs, "{report:?}");
        if let Ok(other) = other {
            assert!(matches!(other.join(), Ok(()) | Err(JobError::Discarded)));
        }
        check_at_rest(&pool, accepted);
    });
}

/// The last handle on the pool goes while two jobs are queued: they run, then the worker leaves.
#[test]
fn the_last_pool_goes_on_the_main_thread() {
    explore("ends: last pool", Some(2), AtLeast(1_000), &[], |_| {
        let pool = resting_pool(1, 2);
        let ran = Arc::new(Ghost::default());
        let [first, second] = [(), ()].map(|()| {
            let ran = Arc::clone(&ran);
            pool.try_submit(move || ran.add()).unwrap()
        });
        drop(pool);
        assert_eq!((first.join().unwrap(), second.join().unwrap()), (0, 1));
    });
}

/// The last handle on the pool goes inside a body, behind a job that it has just submitted, or on
/// the main thread at the same time.
#[test]
fn the_last_pool_goes_inside_a_body() {
    explore("ends: last pool inside", Some(2), AtLeast(1_000), &[], |_| {
        let pool = pool(1, 2);
        let own = pool.clone();
        let parent = pool.try_submit(move || own.try_submit(|| 7).unwrap()).unwrap();
        drop(pool);
        let child = parent.join().unwrap();
        assert_eq!(child.join().unwrap(), 7);
    });
}

/// A permit keeps the pool open when the last `Pool` is gone.
#[test]
fn a_permit_keeps_the_pool_open() {
    explore("ends: last permit", Some(2), AtLeast(1_000), &[], |_| {
        let pool = pool(1, 1);
        let permit = pool.try_reserve().unwrap();
        let ((), result) = against(
            || drop(pool),
            || permit.submit(|| 7).expect("the permit keeps it open").join(),
        );
        assert_eq!(result.unwrap(), 7);
    });
}

/// Two threads wait for the pool to be idle while its last job ends; both find it ended, and one of
/// them looks at what it did.
#[test]
fn wait_idle_against_the_last_end() {
    explore("ends: wait idle", Some(2), AtLeast(1_000), &[], |_| {
        let pool = pool(1, 1);
        let (payload, ran) = (Arc::new(Payload::default()), Arc::new(Ghost::default()));
        {
            let (payload, ran) = (Arc::clone(&payload), Arc::clone(&ran));
            let job = move || {
                payload.touch();
                ran.add();
            };
            assert!(pool.try_spawn(job).is_ok());
        }
        let (own, rans) = (pool.clone(), Arc::clone(&ran));
        against(
            || {
                pool.wait_idle();
                assert_eq!(ran.get(), 1);
                payload.touch();
            },
            move || {
                own.wait_idle();
                assert_eq!(rans.get(), 1);
            },
        );
        finish(pool, 1);
    });
}

//! The pool as its users see it: who owns a slot, how long, and what comes back with it.
#![cfg(loom)]

use loom_tests::{
    AtLeast, Ghost, Payload, Seen, Signal, against, builder, explore, finish, pool, resting_pool,
};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use weirpool::loom::future;
use weirpool::protocols::set_door_jobs;
use weirpool::test::ManualClock;
use weirpool::{JobError, JobHandle, Pool, Reason, ShedReason};

/// Submits a body that touches the payload, and joins it; how many were accepted.
fn touch_once(pool: &Pool, payload: Arc<Payload>) -> u64 {
    match pool.try_submit(move || payload.touch()) {
        Ok(handle) => {
            handle.join().unwrap();
            1
        }
        Err(rejected) => {
            assert_eq!(rejected.reason(), Reason::Full);
            0
        }
    }
}

/// Two threads submit to one slot.
#[test]
fn a_slot_has_one_owner() {
    let must_see = ["both got in", "one was refused"];
    explore("slots: two submitters", Some(1), AtLeast(1_000), &must_see, |seen| {
        let pool = pool(1, 1);
        let payload = Arc::new(Payload::default());
        let theirs = (pool.clone(), Arc::clone(&payload));
        let (mine, theirs) =
            against(|| touch_once(&pool, payload), move || touch_once(&theirs.0, theirs.1));
        let accepted = mine + theirs;
        assert!(accepted >= 1, "a false refusal: nobody held the slot");
        seen.note(if accepted == 2 { "both got in" } else { "one was refused" });
        finish(pool, accepted);
    });
}

/// Two threads reserve one slot, and what their bodies capture lives only while they hold it.
#[test]
fn captures_live_only_while_their_slot_is_taken() {
    let must_see = ["both got in", "one was refused"];
    explore("slots: captures", Some(1), AtLeast(1_000), &must_see, |seen| {
        let pool = pool(1, 1);
        let payload = Arc::new(Payload::default());
        let submit = |pool: &Pool, payload: &Arc<Payload>| {
            let Ok(permit) = pool.try_reserve() else { return 0 };
            let captured = payload.capture();
            let handle = permit.submit(move || captured.touch()).expect("the pool is open");
            handle.join().unwrap();
            1
        };
        let theirs = (pool.clone(), Arc::clone(&payload));
        let (mine, theirs) =
            against(|| submit(&pool, &payload), move || submit(&theirs.0, &theirs.1));
        let accepted = mine + theirs;
        assert!(accepted >= 1, "a false refusal: nobody held the slot");
        seen.note(if accepted == 2 { "both got in" } else { "one was refused" });
        assert_eq!(payload.captures(), 0);
        finish(pool, accepted);
    });
}

/// One thread gives its permit back, unused, while another wants the slot.
#[test]
fn a_permit_given_back_is_a_slot_for_the_next() {
    let must_see = ["both got in", "one was refused"];
    explore("slots: permit given back", Some(2), AtLeast(100), &must_see, |seen| {
        let pool = pool(1, 1);
        let payload = Arc::new(Payload::default());
        let theirs = (pool.clone(), Arc::clone(&payload));
        let (accepted, reserved) = against(
            || touch_once(&pool, payload),
            move || {
                let permit = theirs.0.try_reserve().ok();
                if permit.is_some() {
                    theirs.1.touch();
                }
                u64::from(permit.is_some())
            },
        );
        assert!(accepted + reserved >= 1, "a false refusal: nobody held the slot");
        seen.note(if accepted + reserved == 2 { "both got in" } else { "one was refused" });
        finish(pool, accepted);
    });
}

/// One thread waits for the slot while the job that has it ends.
#[test]
fn a_submit_that_waits_gets_the_slot() {
    let must_see = ["slot was taken", "slot was free"];
    explore("slots: wait", Some(2), AtLeast(1_000), &must_see, |seen| {
        let pool = pool(1, 1);
        let payload = Arc::new(Payload::default());
        let first = {
            let payload = Arc::clone(&payload);
            pool.try_submit(move || payload.touch()).unwrap()
        };
        seen.note(if pool.in_flight() == 1 { "slot was taken" } else { "slot was free" });
        // A wake-up that is lost leaves this thread blocked, which loom reports.
        let second = pool.submit_blocking(move || payload.touch()).unwrap();
        finish(pool, 2);
        first.join().unwrap();
        second.join().unwrap();
    });
}

/// There are slots, but as many jobs are queued as the door lets wait, until the worker comes.
#[test]
fn a_submit_that_waits_for_a_shorter_queue_gets_in() {
    let must_see = ["waited", "found it short"];
    explore("slots: queue", Some(2), AtLeast(500), &must_see, |seen| {
        let pool = resting_pool(1, 4);
        set_door_jobs(&pool, 1);
        let first = pool.try_submit(|| ()).unwrap();
        let mut second = pool.submit(|| ());
        let at_once = Pin::new(&mut second).poll(&mut Context::from_waker(Waker::noop()));
        let second = if let Poll::Ready(second) = at_once {
            seen.note("found it short");
            second
        } else {
            seen.note("waited");
            // A wake-up that is lost leaves this thread blocked, which loom reports.
            future::block_on(second)
        };
        let second = second.expect("that the queue is long is no refusal for who waits");
        finish(pool, 2);
        first.join().unwrap();
        second.join().unwrap();
    });
}

/// The slot is back once the handle has resolved, by whichever of its faces.
#[test]
fn a_handle_that_has_resolved_has_given_its_slot_back() {
    let must_see = ["taken at once", "waited"];
    explore("slots: join, submit", Some(2), AtLeast(1_000), &must_see, |seen| {
        let pool = pool(1, 1);
        let mut first = pool.try_submit(|| 1).unwrap();
        let result = match first.try_take() {
            Some(result) => {
                seen.note("taken at once");
                result
            }
            None => {
                seen.note("waited");
                first.join()
            }
        };
        assert_eq!(result.unwrap(), 1);
        let second = pool.try_submit(|| 2).expect("the slot was back");
        finish(pool, 2);
        assert_eq!(second.join().unwrap(), 2);
    });
}

/// A task awaits the handle.
#[test]
fn a_handle_is_a_future() {
    explore("slots: await, submit", Some(2), AtLeast(1_000), &[], |_| {
        let pool = pool(1, 1);
        let first = pool.try_submit(|| 1).unwrap();
        assert_eq!(future::block_on(first).unwrap(), 1);
        let second = pool.try_submit(|| 2).expect("the slot was back");
        finish(pool, 2);
        assert_eq!(future::block_on(second).unwrap(), 2);
    });
}

/// A job on one slot whose body counts that it runs and holds a capture until it ends.
fn captured_job(pool: &Pool, payload: &Arc<Payload>, ran: &Arc<Ghost>) -> JobHandle<u32> {
    let permit = pool.try_reserve().expect("the slot is free");
    let (captured, ran) = (payload.capture(), Arc::clone(ran));
    let submitted = permit.submit(move || {
        captured.touch();
        ran.add();
        7
    });
    submitted.expect("the pool is open")
}

/// The slot is free, all that its last owner did is seen, and the worker goes on: another job gets
/// it at once, and runs.
fn finish_with_another(pool: Pool, payload: &Arc<Payload>) {
    let ran = Arc::new(Ghost::default());
    let next = captured_job(&pool, payload, &ran);
    finish(pool, 2);
    assert_eq!((next.join().unwrap(), ran.get()), (7, 1));
}

/// Checks that the job ended in one of two ways; true if it ran.
fn check_end(seen: &Seen, ran: &Ghost, result: Result<u32, JobError>) -> bool {
    match result {
        Ok(7) => {
            seen.note("ran");
            assert_eq!(ran.get(), 1);
            true
        }
        Err(JobError::Cancelled) => {
            seen.note("cancelled");
            assert_eq!(ran.get(), 0);
            false
        }
        other => panic!("{other:?}"),
    }
}

/// The handle cancels while the worker takes the job up.
#[test]
fn cancel_against_dequeue() {
    explore("slots: cancel", Some(2), AtLeast(1_000), &["ran", "cancelled"], |seen| {
        let pool = pool(1, 1);
        let (payload, ran) = (Arc::new(Payload::default()), Arc::new(Ghost::default()));
        let mut handle = captured_job(&pool, &payload, &ran);
        let result = if handle.cancel() {
            assert_eq!(payload.captures(), 0, "cancel returned before the closure was dropped");
            assert!(handle.is_finished(), "cancel returned before the handle resolved");
            payload.touch();
            handle.try_take().expect("finished")
        } else {
            handle.join()
        };
        check_end(seen, &ran, result);
        assert_eq!(pool.in_flight(), 0, "the only slot is free");
        finish_with_another(pool, &payload);
    });
}

/// One thread cancels while another waits for nothing but the slot: by the time that has it, the
/// closure is gone.
#[test]
fn a_cancelled_closure_goes_before_its_slot() {
    let must_see = ["ran", "cancelled", "next got in", "next was refused"];
    explore("slots: cancel, reserve", Some(2), AtLeast(1_000), &must_see, |seen| {
        let pool = resting_pool(1, 1);
        let (payload, ran) = (Arc::new(Payload::default()), Arc::new(Ghost::default()));
        let handle = captured_job(&pool, &payload, &ran);
        let canceller = handle.canceller();
        let (next, cancelled) = against(
            || {
                let permit = pool.try_reserve().ok();
                permit.is_some().then(|| payload.capture());
                permit
            },
            move || canceller.cancel(),
        );
        seen.note(if next.is_some() { "next got in" } else { "next was refused" });
        drop(next);
        finish(pool, 1);
        assert_eq!(check_end(seen, &ran, handle.join()), !cancelled);
    });
}

/// A canceller on another thread, the worker, and a join.
#[test]
fn a_canceller_against_dequeue_and_join() {
    explore("slots: canceller", Some(1), AtLeast(1_000), &["ran", "cancelled"], |seen| {
        let pool = pool(1, 1);
        let (payload, ran) = (Arc::new(Payload::default()), Arc::new(Ghost::default()));
        let handle = captured_job(&pool, &payload, &ran);
        let canceller = handle.canceller();
        let (completed, cancelled) =
            against(|| check_end(seen, &ran, handle.join()), move || canceller.cancel());
        assert_eq!(cancelled, !completed, "cancel says whether it won");
        finish_with_another(pool, &payload);
    });
}

/// A body panics: the slot comes back, the panic goes to the handle, the worker goes on.
#[test]
fn a_panic_costs_neither_slot_nor_worker() {
    explore("slots: panic", Some(2), AtLeast(1_000), &[], |_| {
        let pool = pool(1, 1);
        let payload = Arc::new(Payload::default());
        let permit = pool.try_reserve().unwrap();
        let captured = payload.capture();
        let failing = permit
            .submit(move || {
                captured.touch();
                resume_unwind(Box::new("no paper"))
            })
            .unwrap();
        let Err(JobError::Panicked(panic)) = failing.join() else { panic!("it panicked") };
        assert_eq!(*panic.into_inner().downcast::<&str>().unwrap(), "no paper");
        finish_with_another(pool, &payload);
    });
}

/// The handle goes while its body panics: the panic is told once, or goes with the handle.
#[test]
fn a_panic_against_drop_of_the_handle() {
    let must_see = ["told", "went with the handle"];
    explore("slots: panic, drop", Some(2), AtLeast(100), &must_see, |seen| {
        let told = Arc::new(Ghost::default());
        let pool = {
            let told = Arc::clone(&told);
            builder(1, 1).panic_handler(move |_| assert_eq!(told.add(), 0)).build().unwrap()
        };
        drop(pool.try_submit(|| resume_unwind(Box::new("no paper"))).unwrap());
        pool.wait_idle();
        finish(pool, 1);
        match told.get() {
            0 => seen.note("went with the handle"),
            1 => seen.note("told"),
            _ => unreachable!("the handler's panic would have been counted"),
        }
    });
}

/// The handle goes while its body ends: the body keeps its slot, the result is dropped once.
#[test]
fn drop_of_the_handle_against_completion() {
    /// A result that counts its drops.
    struct Output(Arc<Ghost>);
    impl Drop for Output {
        fn drop(&mut self) {
            self.0.add();
        }
    }

    explore("slots: drop of the handle", Some(2), AtLeast(1_000), &["free", "taken"], |seen| {
        let pool = pool(1, 1);
        let (payload, dropped) = (Arc::new(Payload::default()), Arc::new(Ghost::default()));
        let permit = pool.try_reserve().unwrap();
        let (captured, output) = (payload.capture(), Output(Arc::clone(&dropped)));
        let handle = permit.submit(move || {
            captured.touch();
            output
        });
        drop(handle.unwrap());
        // Dropping the handle gives nothing back: who gets the slot finds it left.
        let accepted = match pool.try_reserve() {
            Ok(permit) => {
                seen.note("free");
                let captured = payload.capture();
                permit.submit(move || captured.touch()).unwrap().join().unwrap();
                2
            }
            Err(refusal) => {
                seen.note("taken");
                assert_eq!(refusal.reason(), Reason::Full);
                1
            }
        };
        finish(pool, accepted);
        assert_eq!(dropped.get(), 1, "the result is dropped once");
    });
}

/// The handle is gone before the body ends: the result goes while the job still has its slot.
#[test]
fn a_result_that_nobody_wants_goes_before_its_slot() {
    let must_see = ["free", "taken"];
    explore("slots: unwanted result", Some(2), AtLeast(1_000), &must_see, |seen| {
        let pool = pool(1, 1);
        let (payload, gone) = (Arc::new(Payload::default()), Arc::new(Signal::default()));
        let permit = pool.try_reserve().unwrap();
        let (captured, handles) = (payload.capture(), Arc::clone(&gone));
        let handle = permit.submit(move || {
            handles.wait();
            // The result, whose destructor may run only while the slot is the job's.
            captured
        });
        drop(handle.unwrap());
        gone.give();
        if let Ok(_permit) = pool.try_reserve() {
            seen.note("free");
            drop(payload.capture());
        } else {
            seen.note("taken");
        }
        finish(pool, 1);
        assert_eq!(payload.captures(), 0);
    });
}

/// A body, its capture's destructor and a cancelled capture's destructor submit to the full pool:
/// refused, and never stuck.
#[test]
fn submits_from_bodies_and_destructors_never_hang() {
    /// Submits when it is dropped.
    struct Submits(Pool);
    impl Drop for Submits {
        fn drop(&mut self) {
            check_full(&self.0);
        }
    }

    fn check_full(pool: &Pool) {
        let refused = pool.try_submit(|| ()).expect_err("this job's own slot is the only one");
        assert_eq!(refused.reason(), Reason::Full);
    }

    explore("slots: submit inside", Some(2), AtLeast(1_000), &["ran", "cancelled"], |seen| {
        let pool = pool(1, 1);
        let captured = Submits(pool.clone());
        let handle = pool
            .try_submit(move || {
                check_full(&captured.0);
            })
            .unwrap();
        if handle.cancel() {
            seen.note("cancelled");
        } else {
            seen.note("ran");
            handle.join().unwrap();
        }
        finish(pool, 1);
    });
}

/// The time is up while the job waits: it never starts, and its slot is back.
#[test]
fn a_job_whose_deadline_has_passed_is_shed() {
    explore("slots: deadline", Some(2), AtLeast(1_000), &["in time", "shed"], |seen| {
        let clock = ManualClock::new();
        let pool = builder(1, 1).clock(clock.clone()).build().unwrap();
        let (payload, ran) = (Arc::new(Payload::default()), Arc::new(Ghost::default()));
        let permit = pool.job().timeout(Duration::from_secs(1)).try_reserve().unwrap();
        let (captured, count) = (payload.capture(), Arc::clone(&ran));
        let handle = permit.submit(move || {
            captured.touch();
            count.add();
        });
        clock.advance(Duration::from_secs(1));
        match handle.unwrap().join() {
            Ok(()) => {
                seen.note("in time");
                assert_eq!(ran.get(), 1);
            }
            Err(JobError::Shed(ShedReason::Deadline)) => {
                seen.note("shed");
                assert_eq!(ran.get(), 0);
            }
            Err(other) => panic!("{other}"),
        }
        finish_with_another(pool, &payload);
    });
}

//! Cancelling: a queued job is gone at once, a running one is asked, an ended one is left alone.

mod common;

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::thread;

use common::{
    Gate, Rendezvous, assert_all_slots_free, assert_all_workers_live, block_on, eventually, occupy,
    on_drop, poll, recv, rounds, waker, watchdog,
};
use weirpool::{Canceller, JobError, JobHandle, Pool, Priority, Reason};

fn is_cancelled<T>(result: &Result<T, JobError>) -> bool {
    matches!(result, Err(JobError::Cancelled))
}

/// A job that counts its runs and holds a clone of `token`.
fn submit_counting(pool: &Pool, token: &Arc<()>, ran: &Arc<AtomicUsize>) -> JobHandle<()> {
    let (token, ran) = (token.clone(), ran.clone());
    let job = pool.try_submit(move || {
        ran.fetch_add(1, SeqCst);
        drop(token);
    });
    job.expect("a slot is free")
}

#[test]
fn a_cancelled_job_leaves_nothing_in_the_queue() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 5).unwrap();
    let busy = occupy(&pool);
    let (token, ran) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
    let cancelled: Vec<_> = (0..4).map(|_| submit_counting(&pool, &token, &ran)).collect();
    assert_eq!((pool.in_flight(), pool.queued(), Arc::strong_count(&token)), (5, 4, 5));

    for (number, job) in cancelled.iter().enumerate() {
        assert!(job.cancel());
        assert!(job.is_finished());
        assert_eq!((pool.in_flight(), pool.queued()), (4 - number, 3 - number));
        assert_eq!(Arc::strong_count(&token), 4 - number);
    }

    let next: Vec<_> = (0..4).map(|_| submit_counting(&pool, &token, &ran)).collect();
    assert_eq!(pool.try_submit(|| ()).unwrap_err().reason(), Reason::Full);
    busy.free();
    for job in next {
        job.join().unwrap();
    }
    for job in cancelled {
        assert!(is_cancelled(&job.join()));
    }
    assert_eq!((ran.load(SeqCst), Arc::strong_count(&token)), (4, 1));
    let end = pool.snapshot();
    assert_eq!((end.cancelled, end.completed), (4, 5));
    assert_all_slots_free(&pool);
}

#[test]
fn a_cancelled_job_never_starts() {
    let _watchdog = watchdog();
    let pool = Pool::new(2, 4).unwrap();
    let busy = occupy(&pool);
    let (token, ran) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
    let jobs = [(); 2].map(|()| submit_counting(&pool, &token, &ran));
    assert!(jobs.iter().all(JobHandle::cancel));
    busy.free();
    assert_all_workers_live(&pool);
    assert_eq!(ran.load(SeqCst), 0);
    for mut job in jobs {
        assert!(is_cancelled(&job.try_take().expect("it is resolved")));
    }
    assert_all_slots_free(&pool);
}

#[test]
fn cancelling_works_in_every_lane() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 9).unwrap();
    let busy = occupy(&pool);
    let lanes = [Priority::Low, Priority::Normal, Priority::High, Priority::Critical];
    let jobs: Vec<_> = lanes
        .into_iter()
        .flat_map(|lane| [(lane, true), (lane, false)])
        .map(|(lane, cancel)| {
            (lane, cancel, pool.job().priority(lane).try_submit(move || lane).unwrap())
        })
        .collect();
    for (_, cancel, job) in &jobs {
        assert!(!cancel || job.cancel());
    }
    assert_eq!(pool.queued(), 4);
    busy.free();
    for (lane, cancel, job) in jobs {
        assert_eq!(job.join().ok(), (!cancel).then_some(lane));
    }
    assert_all_slots_free(&pool);
}

#[test]
fn a_running_job_is_asked_to_stop() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 1).unwrap();
    let (started, starts) = mpsc::channel();
    let gate = Gate::new();
    let wait = gate.clone();
    let job = pool.try_submit(move || {
        let context = weirpool::context().expect("inside a body");
        let before = (weirpool::is_cancelled(), context.is_cancelled());
        started.send(context.clone()).unwrap();
        wait.wait();
        (before, (weirpool::is_cancelled(), context.is_cancelled()))
    });
    let job = job.unwrap();
    let outside = recv(&starts);
    assert!(!outside.is_cancelled());
    assert!(!job.cancel(), "it has started: this call did not end it");
    assert!(!job.canceller().cancel());
    assert!(outside.is_cancelled());
    assert_eq!(pool.in_flight(), 1, "a running body keeps its slot");
    gate.open();
    assert_eq!(job.join().unwrap(), ((false, false), (true, true)));
    let end = pool.snapshot();
    assert_eq!((end.cancelled, end.completed), (0, 1));

    let next =
        pool.try_submit(|| (weirpool::is_cancelled(), weirpool::context().unwrap().is_cancelled()));
    assert_eq!(
        next.unwrap().join().unwrap(),
        (false, false),
        "the request leaked into the next job"
    );
}

#[test]
fn outside_a_body_nothing_is_cancelled() {
    assert!(!weirpool::is_cancelled());
    assert!(weirpool::context().is_none());
}

/// Spins, and yields now and then where there are fewer cores than threads.
fn spin_until(flag: &AtomicBool) {
    let mut spins = 0;
    while !flag.load(SeqCst) {
        spins += 1;
        if spins % 1_000 == 0 { thread::yield_now() } else { spin_loop() }
    }
}

#[test]
fn a_cancel_at_the_instant_the_worker_takes_the_job_ends_it_once() {
    let _watchdog = watchdog();
    let full = if cfg!(debug_assertions) { 20_000 } else { 50_000 };
    for workers in [1, 2] {
        let pool = Pool::new(workers, workers + 1).unwrap();
        let (token, ran) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
        for round in 0..rounds(full) {
            // Workers that are just coming free, so that the cancel meets the take and not the wake-up.
            let (go, left) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            let ahead: Vec<_> = (0..workers)
                .map(|_| {
                    let (go, left) = (go.clone(), left.clone());
                    let spin = move || {
                        spin_until(&go);
                        left.store(true, SeqCst);
                    };
                    pool.try_submit(spin).unwrap()
                })
                .collect();
            let before = ran.load(SeqCst);
            let job = submit_counting(&pool, &token, &ran);
            // The instant is looked for from both sides: from the last body's start to end, and from its end on.
            go.store(true, SeqCst);
            if round % 2 == 1 {
                spin_until(&left);
            }
            for _ in 0..round / 2 % 64 {
                spin_loop();
            }
            let cancelled = job.cancel();
            assert!(
                !cancelled || (Arc::strong_count(&token), job.is_finished()) == (1, true),
                "round {round}"
            );
            let result = job.join();
            assert_eq!(
                (is_cancelled(&result), result.is_ok()),
                (cancelled, !cancelled),
                "round {round}"
            );
            assert_eq!(ran.load(SeqCst) - before, usize::from(!cancelled), "round {round}");
            assert_eq!(Arc::strong_count(&token), 1, "round {round}");
            for job in ahead {
                job.join().unwrap();
            }
            assert_eq!(pool.in_flight(), 0, "round {round}");
        }
        assert_all_slots_free(&pool);
    }
}

#[test]
fn a_cancel_at_the_instant_a_join_takes_the_job_ends_it_once() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 2).unwrap();
    let (token, ran) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
    let (hand_over, cancellers) = mpsc::channel::<Canceller>();
    for round in 0..rounds(5_000) {
        let (inner_pool, token, counter, hand_over) =
            (pool.clone(), token.clone(), ran.clone(), hand_over.clone());
        let before = ran.load(SeqCst);
        let outer = pool.try_submit(move || {
            let inner = submit_counting(&inner_pool, &token, &counter);
            hand_over.send(inner.canceller()).unwrap();
            for _ in 0..round % 128 {
                spin_loop();
            }
            inner.join()
        });
        let cancelled = recv(&cancellers).cancel();
        let inner = outer.unwrap().join().unwrap();
        assert_eq!((is_cancelled(&inner), inner.is_ok()), (cancelled, !cancelled), "round {round}");
        assert_eq!(ran.load(SeqCst) - before, usize::from(!cancelled), "round {round}");
        assert_eq!(pool.in_flight(), 0, "round {round}");
    }
    assert_all_slots_free(&pool);
}

#[test]
fn of_many_cancellers_exactly_one_ends_the_job() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 2).unwrap();
    let busy = occupy(&pool);
    for _ in 0..rounds(500) {
        let (token, ran) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
        let job = submit_counting(&pool, &token, &ran);
        let (wins, start) = (AtomicUsize::new(0), Rendezvous::new(4));
        thread::scope(|s| {
            for _ in 0..4 {
                let canceller = job.canceller();
                let (wins, start, token) = (&wins, &start, &token);
                s.spawn(move || {
                    start.meet();
                    if canceller.clone().cancel() {
                        wins.fetch_add(1, SeqCst);
                        assert_eq!(Arc::strong_count(token), 1);
                    }
                });
            }
        });
        assert_eq!(wins.load(SeqCst), 1);
        assert!(!job.cancel(), "it has ended already");
        assert_eq!((pool.in_flight(), ran.load(SeqCst)), (1, 0));
        assert!(is_cancelled(&job.join()));
    }
    busy.free();
    assert_all_slots_free(&pool);
}

#[test]
fn cancelling_an_ended_job_does_nothing() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 1).unwrap();
    let job = pool.try_submit(|| 3).unwrap();
    eventually("it ends", || job.is_finished());
    assert!(!job.cancel());
    let canceller = job.canceller();
    assert_eq!(job.join().unwrap(), 3);
    assert!(!canceller.cancel());
    let end = pool.snapshot();
    assert_eq!((end.completed, end.cancelled), (1, 0));
    drop(pool);
    assert!(!canceller.cancel(), "the pool is gone, the canceller is harmless");
}

#[test]
fn a_canceller_outlives_the_handle_and_the_pool() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 3).unwrap();
    let busy = occupy(&pool);
    let (token, ran) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
    let [first, second] = [(); 2].map(|()| submit_counting(&pool, &token, &ran).canceller());
    assert_eq!(
        Arc::strong_count(&token),
        3,
        "dropping the handle of a queued job does not cancel it"
    );
    assert!(first.cancel());
    assert_eq!((Arc::strong_count(&token), pool.in_flight()), (2, 2));
    drop(pool);
    assert!(second.cancel());
    assert_eq!(Arc::strong_count(&token), 1);
    busy.free();
    assert_eq!(ran.load(SeqCst), 0);
}

#[test]
fn dropping_the_handle_of_a_queued_job_does_not_cancel_it() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 2).unwrap();
    let busy = occupy(&pool);
    let (token, ran) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
    drop(submit_counting(&pool, &token, &ran));
    assert_eq!((pool.in_flight(), Arc::strong_count(&token)), (2, 2));
    busy.free();
    pool.wait_idle();
    assert_eq!((ran.load(SeqCst), Arc::strong_count(&token), pool.snapshot().completed), (1, 1, 2));
}

#[test]
fn cancel_on_drop_ends_a_queued_job_and_detach_keeps_it() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 3).unwrap();
    let busy = occupy(&pool);
    let (token, ran) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
    let dropped = submit_counting(&pool, &token, &ran).cancel_on_drop();
    let detached = submit_counting(&pool, &token, &ran).cancel_on_drop();
    drop(dropped);
    assert_eq!((pool.in_flight(), Arc::strong_count(&token)), (2, 2));
    drop(detached.detach());
    assert_eq!((pool.in_flight(), Arc::strong_count(&token)), (2, 2));
    busy.free();
    pool.wait_idle();
    assert_eq!((ran.load(SeqCst), Arc::strong_count(&token)), (1, 1));

    assert_eq!(pool.try_submit(|| 1).unwrap().cancel_on_drop().join().unwrap(), 1);
    assert_eq!(block_on(pool.try_submit(|| 2).unwrap().cancel_on_drop()).unwrap(), 2);
    assert_eq!(pool.snapshot().cancelled, 1);
    assert_all_slots_free(&pool);
}

#[test]
fn a_client_that_hangs_up_cancels_what_waits_and_asks_what_runs() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 2).unwrap();
    let (started, starts) = mpsc::channel();
    let running = pool.try_submit(move || {
        started.send(()).unwrap();
        while !weirpool::is_cancelled() {
            thread::yield_now();
        }
    });
    recv(&starts);
    let (token, ran) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
    let waiting = submit_counting(&pool, &token, &ran);

    let handler = |job: JobHandle<()>| Box::pin(async move { job.cancel_on_drop().await });
    let (mut first, mut second) = (handler(running.unwrap()), handler(waiting));
    let idle = waker(|| ());
    assert!(poll(&mut first, &idle).is_pending());
    assert!(poll(&mut second, &idle).is_pending());
    drop(second);
    assert_eq!((Arc::strong_count(&token), pool.in_flight()), (1, 1));
    drop(first);
    pool.wait_idle();
    let end = pool.snapshot();
    assert_eq!((ran.load(SeqCst), end.completed, end.cancelled), (0, 1, 1));
    assert_all_slots_free(&pool);
}

#[test]
fn cancelling_wakes_whoever_waits() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 3).unwrap();
    let busy = occupy(&pool);

    let job = pool.try_submit(|| ()).unwrap();
    let canceller = job.canceller();
    let (blocked, entered) = mpsc::channel();
    let joins = thread::spawn(move || {
        blocked.send(()).unwrap();
        job.join()
    });
    recv(&entered);
    assert!(canceller.cancel());
    assert!(is_cancelled(&joins.join().unwrap()));

    let mut job = pool.try_submit(|| ()).unwrap();
    let (woken, wakes) = mpsc::channel();
    let woken = Mutex::new(woken);
    let waits = waker(move || woken.lock().unwrap().send(()).unwrap());
    assert!(poll(&mut job, &waits).is_pending());
    assert!(job.canceller().cancel());
    recv(&wakes);
    assert!(matches!(poll(&mut job, &waits), Poll::Ready(Err(JobError::Cancelled))));
    busy.free();
    assert_all_slots_free(&pool);
}

#[test]
fn a_body_cancels_another_job() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 3).unwrap();
    let gate = Gate::new();
    let (hand_over, victims) = mpsc::channel::<Canceller>();
    let wait = gate.clone();
    let body = pool.try_submit(move || {
        wait.wait();
        victims.into_iter().map(|victim| victim.cancel()).collect::<Vec<_>>()
    });
    let (token, ran) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
    let queued = [(); 2].map(|()| submit_counting(&pool, &token, &ran));
    for job in &queued {
        hand_over.send(job.canceller()).unwrap();
    }
    drop(hand_over);
    gate.open();
    assert_eq!(body.unwrap().join().unwrap(), [true, true]);
    assert_eq!((Arc::strong_count(&token), ran.load(SeqCst)), (1, 0));
    for job in queued {
        assert!(is_cancelled(&job.join()));
    }
    assert_all_slots_free(&pool);
}

#[test]
fn a_body_that_cancels_itself_is_only_asked() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 1).unwrap();
    let (hand_over, own) = mpsc::channel::<Canceller>();
    let job = pool.try_submit(move || {
        let own = recv(&own);
        (own.cancel(), weirpool::is_cancelled(), own.cancel())
    });
    let job = job.unwrap();
    hand_over.send(job.canceller()).unwrap();
    assert_eq!(job.join().unwrap(), (false, true, false));
    assert_all_slots_free(&pool);
}

#[test]
fn a_destructor_cancels_the_next_job_and_its_own() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 5).unwrap();
    let busy = occupy(&pool);
    // Each job's capture, when dropped, cancels its own job, which is ending already, and one other, whose capture does the same.
    let ends = Arc::new(Mutex::new(Vec::new()));
    let mut next: Option<Canceller> = None;
    let mut jobs = Vec::new();
    for _ in 0..4 {
        let (hand_over, own) = mpsc::channel::<Canceller>();
        let (ends, behind) = (ends.clone(), next.take());
        let capture = on_drop(move || {
            let own = recv(&own).cancel();
            let behind = behind.map(|job| job.cancel());
            ends.lock().unwrap().push((own, behind));
        });
        let job = pool.try_submit(move || drop(capture)).unwrap();
        hand_over.send(job.canceller()).unwrap();
        next = Some(job.canceller());
        jobs.push(job);
    }
    assert!(jobs.last().unwrap().cancel());
    assert_eq!(
        *ends.lock().unwrap(),
        [(false, None), (false, Some(true)), (false, Some(true)), (false, Some(true))]
    );
    assert_eq!(pool.in_flight(), 1);
    for job in jobs {
        assert!(is_cancelled(&job.join()));
    }
    busy.free();
    assert_eq!(pool.snapshot().cancelled, 4);
    assert_all_slots_free(&pool);
}

#[test]
fn a_nested_job_in_the_workers_own_queue_is_cancelled_as_any_other() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 5).unwrap();
    let gate = Gate::new();
    let (hand_over, nested) = mpsc::channel();
    let (token, ran) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
    let (inner_pool, inner_token, inner_ran, wait) =
        (pool.clone(), token.clone(), ran.clone(), gate.clone());
    let outer = pool.try_submit(move || {
        for _ in 0..4 {
            hand_over.send(submit_counting(&inner_pool, &inner_token, &inner_ran)).unwrap();
        }
        drop(inner_token);
        wait.wait();
    });
    let jobs: Vec<_> = (0..4).map(|_| recv(&nested)).collect();
    eventually("the body has let go of the token", || Arc::strong_count(&token) == 5);

    // From the middle, from both ends, and one that stays.
    for (already, number) in [1, 0, 3].into_iter().enumerate() {
        assert!(jobs[number].cancel());
        assert!(jobs[number].is_finished());
        assert_eq!((Arc::strong_count(&token), pool.in_flight()), (4 - already, 4 - already));
    }
    gate.open();
    outer.unwrap().join().unwrap();
    let results: Vec<_> = jobs.into_iter().map(|job| job.join().is_ok()).collect();
    assert_eq!(results, [false, false, true, false]);
    assert_eq!(ran.load(SeqCst), 1);
    assert_all_slots_free(&pool);
}

#[test]
fn a_body_cancels_and_joins_the_job_it_submitted() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 2).unwrap();
    let inner_pool = pool.clone();
    let (token, ran) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
    let (inner_token, inner_ran) = (token.clone(), ran.clone());
    let outer = pool.try_submit(move || {
        let inner = submit_counting(&inner_pool, &inner_token, &inner_ran);
        let seen = (inner.cancel(), Arc::strong_count(&inner_token), inner_pool.in_flight());
        (seen, is_cancelled(&inner.join()))
    });
    assert_eq!(outer.unwrap().join().unwrap(), ((true, 2, 1), true));
    assert_eq!(ran.load(SeqCst), 0);
    assert_all_slots_free(&pool);
}

#[test]
fn a_job_cancelled_while_another_worker_could_steal_it_ends_once() {
    let _watchdog = watchdog();
    let pool = Pool::new(2, 8).unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let mut expected = 0;
    for round in 0..rounds(2_000) {
        let (inner_pool, inner_ran) = (pool.clone(), ran.clone());
        let outer = pool.try_submit(move || {
            // In this worker's own queue; the idle one comes to steal them.
            let jobs: Vec<_> = (0..4)
                .map(|_| {
                    let ran = inner_ran.clone();
                    inner_pool.try_submit(move || ran.fetch_add(1, SeqCst)).unwrap()
                })
                .collect();
            for _ in 0..round % 256 {
                spin_loop();
            }
            let cancelled = jobs.iter().filter(|job| job.cancel()).count();
            (jobs, cancelled)
        });
        let (jobs, cancelled) = outer.unwrap().join().unwrap();
        let results: Vec<_> = jobs.into_iter().map(JobHandle::join).collect();
        assert_eq!(
            results.iter().filter(|result| is_cancelled(result)).count(),
            cancelled,
            "round {round}"
        );
        assert_eq!(
            results.iter().filter(|result| result.is_ok()).count(),
            4 - cancelled,
            "round {round}"
        );
        expected += 4 - cancelled;
        assert_eq!(ran.load(SeqCst), expected, "round {round}");
        assert_eq!(pool.in_flight(), 0, "round {round}");
    }
    assert_all_slots_free(&pool);
}

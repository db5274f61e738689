//! Ending: closing, draining, discarding, and the last handle dropped anywhere.
//!
//! Whatever the moment, each accepted job ends once, its slot comes back, its handle resolves, and
//! nobody waits for somebody who waits for him.

mod common;

use std::pin::Pin;
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use common::{
    Count, CountsWakes, Drops, Elsewhere, Gate, OnDrop, STEP, assert_adds_up, elsewhere,
    eventually, give_way, hold, on_drop, quiet_panic, recv, resolve, rounds_in, watchdog,
};
use weirpool::{JobError, JobHandle, Pool, Reason, Shutdown, ShutdownReport};

const BOTH: [Shutdown; 2] = [Shutdown::Drain, Shutdown::Discard];

/// `(completed, discarded, still_running)`.
fn counts(report: &ShutdownReport) -> (usize, usize, usize) {
    (report.completed, report.discarded, report.still_running)
}

/// A pool whose threads count their end.
fn counting_stops(workers: usize, capacity: usize) -> (Pool, Count) {
    let stopped = Count::new();
    let hook = stopped.clone();
    let builder = Pool::builder().batch().workers(workers).capacity(capacity);
    let pool = builder.on_thread_stop(move || hook.add()).build().unwrap();
    (pool, stopped)
}

fn shutdown_elsewhere(pool: &Pool, how: Shutdown) -> Elsewhere<ShutdownReport> {
    let pool = pool.clone();
    elsewhere(move || pool.shutdown(how, None))
}

fn is_discarded<T>(outcome: &Result<T, JobError>) -> bool {
    matches!(outcome, Err(JobError::Discarded))
}

#[test]
fn drain_runs_everything_that_was_accepted() {
    for workers in [1, 2, 4] {
        let pool = Pool::new(workers, 64).unwrap();
        let held = hold(&pool, workers);
        let handles: Vec<_> = (0..20).map(|i| pool.try_submit(move || i).unwrap()).collect();

        let drain = shutdown_elsewhere(&pool, Shutdown::Drain);
        eventually("shutdown closes the pool", || pool.is_closed());
        held.open();

        assert_eq!(counts(&drain.wait()), (workers + 20, 0, 0));
        for (i, handle) in handles.into_iter().enumerate() {
            assert_eq!(resolve(handle).unwrap(), i);
        }
        assert_eq!(pool.in_flight(), 0);
        assert_adds_up(&pool);
    }
}

#[test]
fn discard_drops_what_is_queued_although_all_workers_are_busy() {
    let pool = Pool::new(1, 16).unwrap();
    let held = hold(&pool, 1);
    let (ran, dropped) = (Count::new(), Drops::new());
    let mut handles = Vec::new();
    for _ in 0..8 {
        let (ran, ghost) = (ran.clone(), dropped.tracked());
        let body = move || {
            let _ghost = ghost;
            ran.add();
        };
        handles.push(pool.try_submit(body).unwrap());
    }

    let report = pool.shutdown(Shutdown::Discard, Some(Duration::ZERO));

    assert_eq!(counts(&report), (0, 8, 1));
    assert_eq!((ran.get(), dropped.count()), (0, 8), "closures are dropped unrun");
    assert_eq!((pool.in_flight(), pool.queued(), pool.running()), (1, 0, 1));
    for mut handle in handles {
        assert!(is_discarded(&handle.try_take().expect("resolved already")));
    }

    held.free();
    assert_eq!(counts(&pool.shutdown(Shutdown::Discard, None)), (1, 8, 0));
    assert_eq!((ran.get(), dropped.count(), pool.in_flight()), (0, 8, 0));
    assert_adds_up(&pool);
}

#[test]
fn a_time_bound_holds_for_the_whole_call_and_a_later_call_completes() {
    for limit in [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(5)] {
        for (how, queued_end) in [(Shutdown::Drain, (0, 4)), (Shutdown::Discard, (3, 1))] {
            let pool = Pool::new(1, 16).unwrap();
            let held = hold(&pool, 1);
            let queued: Vec<_> = (0..3).map(|_| pool.try_submit(|| ()).unwrap()).collect();

            let (discarded, still_running) = queued_end;
            let report = pool.shutdown(how, Some(limit));
            assert_eq!(counts(&report), (0, discarded, still_running), "{how:?} {limit:?}");

            held.free();
            assert_eq!(counts(&pool.shutdown(how, None)), (4 - discarded, discarded, 0));
            for handle in queued {
                assert_eq!(is_discarded(&resolve(handle)), discarded > 0);
            }
        }
    }
}

#[test]
fn shutdown_is_idempotent_and_all_callers_agree() {
    for how in BOTH {
        let pool = Pool::new(2, 64).unwrap();
        let held = hold(&pool, 2);
        for _ in 0..10 {
            pool.try_spawn(|| ()).unwrap();
        }
        let callers: Vec<_> = (0..6).map(|_| shutdown_elsewhere(&pool, how)).collect();
        eventually("the pool is closed", || pool.is_closed());
        held.open();

        let last = match how {
            Shutdown::Discard => (2, 10, 0),
            _ => (12, 0, 0),
        };
        for caller in callers {
            assert_eq!(counts(&caller.wait()), last);
        }
        for how in BOTH {
            assert_eq!(counts(&pool.shutdown(how, None)), last, "and again, after the end");
            assert_eq!(counts(&pool.shutdown(how, Some(Duration::ZERO))), last);
        }
    }
}

#[test]
fn discard_escalates_a_running_drain_but_drain_does_not_call_it_back() {
    let pool = Pool::new(1, 16).unwrap();
    let held = hold(&pool, 1);
    let queued: Vec<_> = (0..5).map(|_| pool.try_submit(|| ()).unwrap()).collect();
    let drain = shutdown_elsewhere(&pool, Shutdown::Drain);
    eventually("the drain has begun", || pool.is_closed());

    let report = pool.shutdown(Shutdown::Discard, Some(Duration::ZERO));
    assert_eq!(counts(&report), (0, 5, 1));
    let report = pool.shutdown(Shutdown::Drain, Some(Duration::ZERO));
    assert_eq!(counts(&report), (0, 5, 1));
    for handle in queued {
        assert!(is_discarded(&resolve(handle)));
    }
    assert!(drain.is_busy(), "one body is still running");

    held.open();
    assert_eq!(counts(&drain.wait()), (1, 5, 0));
}

#[test]
fn shutdown_wakes_workers_that_sleep_and_a_fresh_pool_ends() {
    for workers in [1, 2, 8] {
        for round in 0..rounds_in(50, 500) {
            let (pool, stopped) = counting_stops(workers, 8);
            give_way(round % 50);
            let how = BOTH[round % 2];
            assert_eq!(counts(&shutdown_elsewhere(&pool, how).wait()), (0, 0, 0));
            drop(pool);
            eventually("all threads have exited", || stopped.get() == workers);
        }
    }
}

#[test]
fn shutdown_on_a_worker_never_waits_and_counts_itself() {
    for (how, expected, at_last) in
        [(Shutdown::Drain, (0, 0, 4), (4, 0, 0)), (Shutdown::Discard, (0, 3, 1), (1, 3, 0))]
    {
        let pool = Pool::new(1, 16).unwrap();
        let (go, own) = (Gate::new(), pool.clone());
        let gate = go.clone();
        let caller = pool.try_submit(move || {
            gate.wait();
            own.shutdown(how, None)
        });
        let caller = caller.unwrap();
        eventually("it runs", || pool.running() == 1);
        let queued: Vec<_> = (0..3).map(|_| pool.try_submit(|| ()).unwrap()).collect();
        go.open();

        assert_eq!(counts(&resolve(caller).unwrap()), expected, "{how:?}");
        for handle in queued {
            assert_eq!(is_discarded(&resolve(handle)), expected.1 > 0);
        }
        assert_eq!(counts(&shutdown_elsewhere(&pool, how).wait()), at_last);
    }
}

/// Shuts the pool down in its destructor.
fn shuts_when_dropped(pool: &Pool, how: Shutdown) -> OnDrop<impl FnOnce() + use<>> {
    let pool = pool.clone();
    on_drop(move || {
        pool.shutdown(how, None);
    })
}

/// Calls shutdown somewhere on the pool's one worker, and returns when that job has ended.
type Caller = fn(&Pool, Shutdown);

const CALLERS: [(&str, Caller); 5] = [
    ("a child joined in place", |pool, how| {
        let own = pool.clone();
        let parent = pool.try_submit(move || {
            let inner = own.clone();
            own.try_submit(move || inner.shutdown(how, None)).unwrap().join().unwrap()
        });
        let report = resolve(parent.unwrap()).unwrap();
        assert_eq!(counts(&report), (0, 0, 2), "parent and child");
    }),
    ("the destructor of a captured value", |pool, how| {
        let captured = shuts_when_dropped(pool, how);
        resolve(pool.try_submit(move || drop(captured)).unwrap()).unwrap();
    }),
    ("the destructor of a captured value, in a panic", |pool, how| {
        let captured = shuts_when_dropped(pool, how);
        let job = pool.try_submit(move || {
            let _captured = captured;
            quiet_panic()
        });
        let job: JobHandle<()> = job.unwrap();
        assert!(resolve(job).unwrap_err().is_panic());
    }),
    ("the destructor of a result nobody wants", |pool, how| {
        let (own, gate) = (pool.clone(), Gate::new());
        let waiting = gate.clone();
        let job = pool.try_submit(move || {
            waiting.wait();
            shuts_when_dropped(&own, how)
        });
        drop(job.unwrap());
        gate.open();
        eventually("the result is dropped", || pool.in_flight() == 0);
    }),
    ("a body, twice", |pool, how| {
        let own = pool.clone();
        let job = pool.try_submit(move || {
            assert_eq!(own.shutdown(how, Some(STEP)).still_running, 1);
            assert_eq!(own.shutdown(how, None).still_running, 1);
        });
        resolve(job.unwrap()).unwrap();
    }),
];

#[test]
fn shutdown_never_waits_wherever_on_a_worker_it_is_called() {
    for (place, call) in CALLERS {
        for how in BOTH {
            let pool = Pool::new(1, 16).unwrap();
            call(&pool, how);
            assert!(pool.is_closed(), "{place}");
            let report = shutdown_elsewhere(&pool, Shutdown::Drain).wait();
            assert_eq!((report.still_running, pool.in_flight()), (0, 0), "{place}");
        }
    }
}

#[test]
fn two_workers_that_shut_the_pool_down_at_once_do_not_wait_for_each_other() {
    for how in BOTH {
        let pool = Pool::new(2, 8).unwrap();
        let meet = Arc::new(Barrier::new(2));
        let callers: Vec<_> = (0..2)
            .map(|_| {
                let (own, meet) = (pool.clone(), Arc::clone(&meet));
                let body = move || {
                    meet.wait();
                    own.shutdown(how, None).still_running
                };
                pool.try_submit(body).unwrap()
            })
            .collect();
        for caller in callers {
            assert!((1..=2).contains(&resolve(caller).unwrap()));
        }
        assert_eq!(counts(&shutdown_elsewhere(&pool, how).wait()), (2, 0, 0));
    }
}

#[test]
fn a_worker_of_another_pool_waits_like_anybody() {
    let (pool, other) = (Pool::new(1, 4).unwrap(), Pool::new(1, 4).unwrap());
    let held = hold(&pool, 1);
    let own = pool.clone();
    let caller = other.try_submit(move || own.shutdown(Shutdown::Drain, None)).unwrap();
    eventually("it is closed", || pool.is_closed());
    held.open();
    assert_eq!(counts(&resolve(caller).unwrap()), (1, 0, 0));
}

#[test]
fn everything_nested_is_refused_as_closed_after_the_close() {
    let pool = Pool::new(1, 8).unwrap();
    let (gate, own) = (Gate::new(), pool.clone());
    let waiting = gate.clone();
    let body = pool.try_submit(move || {
        waiting.wait();
        let submit = own.try_submit(|| ()).map(drop).unwrap_err().reason();
        let spawn = own.try_spawn(|| ()).unwrap_err().reason();
        let reserve = own.try_reserve().map(drop).unwrap_err().reason();
        let through_context = weirpool::context().unwrap().pool().try_spawn(|| ());
        [submit, spawn, reserve, through_context.unwrap_err().reason()]
    });
    let drain = shutdown_elsewhere(&pool, Shutdown::Drain);
    eventually("it is closed", || pool.is_closed());
    gate.open();
    assert_eq!(resolve(body.unwrap()).unwrap(), [Reason::Closed; 4]);
    assert_eq!(counts(&drain.wait()), (1, 0, 0));
}

#[test]
fn close_refuses_and_what_was_accepted_still_runs() {
    let pool = Pool::new(1, 2).unwrap();
    let held = hold(&pool, 1);
    let job = pool.try_submit(|| 7).unwrap();
    pool.close();
    pool.close();
    let refused = pool.try_submit(|| 8).map(drop).unwrap_err();
    assert_eq!(refused.reason(), Reason::Closed, "also when it is full as well");
    assert_eq!(refused.run_here(), 8, "the closure comes back");
    held.free();
    assert_eq!(resolve(job).unwrap(), 7);
    eventually("at rest", || pool.in_flight() == 0);
}

#[test]
fn unused_permits_are_invalidated_and_not_waited_for() {
    for how in BOTH {
        let pool = Pool::new(1, 4).unwrap();
        let permits = [pool.try_reserve().unwrap(), pool.try_reserve().unwrap()];
        let (kept, used) = permits.into();
        assert_eq!(pool.in_flight(), 2);

        assert_eq!(counts(&shutdown_elsewhere(&pool, how).wait()), (0, 0, 0));
        assert_eq!(pool.in_flight(), 0, "an invalid permit holds no slot");

        let refused = used.submit(|| 5).map(drop).unwrap_err();
        assert_eq!((refused.reason(), refused.run_here()), (Reason::Closed, 5));
        drop(kept);
        assert_eq!(pool.in_flight(), 0, "and gives back none");
        assert_eq!(pool.snapshot().reserved, 0);
    }
}

#[test]
fn a_permit_used_while_shutting_down_is_run_or_refused() {
    for round in 0..rounds_in(300, 3000) {
        let how = BOTH[round % 2];
        let pool = Pool::new(1 + round % 2, 4).unwrap();
        let permits: Vec<_> = (0..3).map(|_| pool.try_reserve().unwrap()).collect();
        let start = Arc::new(Barrier::new(4));
        let users: Vec<_> = permits
            .into_iter()
            .map(|permit| {
                let start = Arc::clone(&start);
                elsewhere(move || {
                    start.wait();
                    permit.submit(|| ()).map_err(|refused| refused.reason())
                })
            })
            .collect();
        start.wait();
        let report = shutdown_elsewhere(&pool, how).wait();
        assert_eq!(report.still_running, 0);
        for user in users {
            match (user.wait().map(resolve), how) {
                (Ok(Ok(())), _) | (Err(Reason::Closed), _) => {}
                (Ok(Err(JobError::Discarded)), Shutdown::Discard) => {}
                other => panic!("neither run nor refused: {other:?}"),
            }
        }
        assert_eq!(pool.in_flight(), 0);
        assert_adds_up(&pool);
    }
}

#[test]
fn a_permit_keeps_the_pool_open() {
    let (pool, stopped) = counting_stops(2, 4);
    let permit = pool.try_reserve().unwrap();
    drop(pool);
    give_way(1000);
    assert_eq!(stopped.get(), 0);
    let job = permit.submit(|| 3).expect("still open");
    assert_eq!(resolve(job).unwrap(), 3);
    eventually("then the threads exit", || stopped.get() == 2);
}

/// Four threads submit until they are told that it is closed, and one shuts down meanwhile.
fn submit_against_shutdown(how: Shutdown, round: usize) {
    let pool = Pool::new(1 + round % 2, 32).unwrap();
    let (made, ran, dropped) = (Count::new(), Count::new(), Drops::new());
    let start = Arc::new(Barrier::new(5));
    let submitters: Vec<_> = (0..4)
        .map(|who| {
            let (pool, start) = (pool.clone(), Arc::clone(&start));
            let (made, ran, dropped) = (made.clone(), ran.clone(), dropped.clone());
            elsewhere(move || {
                let mut handles = Vec::new();
                start.wait();
                loop {
                    made.add();
                    let (ran, ghost) = (ran.clone(), dropped.tracked());
                    let body = move || {
                        let _ghost = ghost;
                        ran.add();
                    };
                    match pool.try_submit(body) {
                        Ok(handle) => {
                            let cancelled = who == 3 && handle.cancel();
                            handles.push((handle, cancelled));
                        }
                        Err(refused) if refused.reason() == Reason::Closed => return handles,
                        Err(refused) => {
                            assert_eq!(refused.reason(), Reason::Full);
                            thread::yield_now();
                        }
                    }
                }
            })
        })
        .collect();
    start.wait();
    give_way(round % 16);
    let report = shutdown_elsewhere(&pool, how).wait();
    assert_eq!(report.still_running, 0);

    let handles: Vec<_> = submitters.into_iter().flat_map(Elsewhere::wait).collect();
    assert_eq!(pool.in_flight(), 0, "after shutdown every slot is back");
    let (accepted, mut completed, mut ended_unrun) = (handles.len(), 0, 0);
    for (handle, cancelled) in handles {
        match resolve(handle) {
            Ok(_) if !cancelled => completed += 1,
            Err(JobError::Cancelled) if cancelled => ended_unrun += 1,
            Err(JobError::Discarded) if how == Shutdown::Discard => ended_unrun += 1,
            other => panic!("{how:?}, cancelled: {cancelled}, but {other:?}"),
        }
    }
    assert_eq!((ran.get(), completed + ended_unrun), (completed, accepted));
    assert_eq!(dropped.count(), made.get(), "each closure is dropped once");
    assert!(report.completed + report.discarded <= accepted);
    assert_adds_up(&pool);
}

#[test]
fn work_submitted_while_shutting_down_is_run_or_refused() {
    for round in 0..rounds_in(200, 2000) {
        submit_against_shutdown(BOTH[round % 2], round / 2);
    }
}

#[test]
fn submit_cancel_and_shutdown_in_direct_succession() {
    let _watchdog = watchdog();
    for round in 0..rounds_in(500, 10_000) {
        let how = BOTH[round % 2];
        let pool = Pool::new(1, 4).unwrap();
        let ran = Count::new();
        let ran_there = ran.clone();
        let job = pool.try_submit(move || ran_there.add()).unwrap();
        let cancelled = job.cancel();
        let report = pool.shutdown(how, None);
        assert_eq!((report.still_running, pool.in_flight()), (0, 0));
        match (resolve(job), ran.get()) {
            (Ok(_), 1) if !cancelled => {}
            (Err(JobError::Cancelled), 0) if cancelled => {}
            (Err(JobError::Discarded), 0) if !cancelled && how == Shutdown::Discard => {}
            other => panic!("{how:?}, cancelled: {cancelled}, but {other:?}"),
        }
    }
}

/// Called once the other handles are gone.
type Farewell = Box<dyn FnOnce()>;

/// Arranges that the pool's last handle dies in some place, and gives what is left to do for it.
type Place = fn(Pool) -> Farewell;

const PLACES: [(&str, Place); 8] = [
    ("outside", |pool| Box::new(move || drop(pool))),
    ("in a body", |pool| {
        let own = pool.clone();
        pool.try_spawn(move || drop(own)).unwrap();
        Box::new(|| ())
    }),
    ("in a captured value, on a worker", |pool| {
        let own = pool.clone();
        let body = move || {
            let _captured = &own;
        };
        pool.try_spawn(body).unwrap();
        Box::new(|| ())
    }),
    ("in a captured value, in a panic", |pool| {
        let own = pool.clone();
        let body = move || {
            let _captured = own;
            quiet_panic()
        };
        pool.try_spawn(body).unwrap();
        Box::new(|| ())
    }),
    ("in a panic's payload", |pool| {
        let own = pool.clone();
        let body = move || std::panic::resume_unwind(Box::new(own));
        pool.try_spawn(body).unwrap();
        Box::new(|| ())
    }),
    ("in a result nobody wants", |pool| {
        let own = pool.clone();
        drop(pool.try_submit(move || own).unwrap());
        Box::new(|| ())
    }),
    ("in a queued closure that is cancelled", |pool| {
        let own = pool.clone();
        let body = move || {
            let _captured = &own;
        };
        let job = pool.try_submit(body).unwrap();
        Box::new(move || assert!(job.cancel()))
    }),
    ("in a permit", |pool| {
        let permit = pool.try_reserve().unwrap();
        Box::new(move || drop(permit))
    }),
];

#[test]
fn accepted_work_finishes_and_threads_exit_wherever_the_last_handle_dies() {
    for (name, place) in PLACES {
        for workers in [1, 2] {
            let (ran, dropped, stopped) = (Count::new(), Drops::new(), Count::new());
            let hook = stopped.clone();
            let builder = Pool::builder().batch().workers(workers).capacity(64);
            let builder = builder.panic_handler(|_| ());
            let pool = builder.on_thread_stop(move || hook.add()).build().unwrap();
            let held = hold(&pool, workers);

            let farewell = place(pool.clone());
            for _ in 0..10 {
                let (ran, ghost) = (ran.clone(), dropped.tracked());
                let body = move || {
                    let _ghost = ghost;
                    ran.add();
                };
                pool.try_spawn(body).unwrap();
            }
            drop(pool);
            farewell();
            held.free();

            eventually(name, || ran.get() == 10 && dropped.count() == 10);
            eventually(name, || stopped.get() == workers);
        }
    }
}

#[test]
fn without_a_panic_handler_too_the_payload_may_be_the_last_handle() {
    let (pool, stopped) = counting_stops(1, 4);
    let own = pool.clone();
    let body = move || std::panic::resume_unwind(Box::new(own));
    pool.try_spawn(body).unwrap();
    drop(pool);
    eventually("the thread exits", || stopped.get() == 1);
}

#[test]
fn dropping_the_last_handle_never_blocks() {
    let _watchdog = watchdog();
    let pool = Pool::new(2, 8).unwrap();
    let held = hold(&pool, 2);
    let queued = pool.try_submit(|| 1).unwrap();
    drop(pool);
    assert!(!queued.is_finished(), "nobody could have run it");
    held.free();
    assert_eq!(resolve(queued).unwrap(), 1);
}

#[test]
fn a_handle_made_in_a_body_after_the_last_one_died_is_closed() {
    let pool = Pool::new(1, 4).unwrap();
    let gate = Gate::new();
    let waiting = gate.clone();
    let job = pool.try_submit(move || {
        waiting.wait();
        let late = weirpool::context().unwrap().pool();
        (late.is_closed(), late.try_spawn(|| ()).unwrap_err().reason())
    });
    drop(pool);
    gate.open();
    assert_eq!(resolve(job.unwrap()).unwrap(), (true, Reason::Closed));
}

#[test]
fn the_stop_hook_may_own_the_last_handle() {
    for workers in [1, 3] {
        let (last, stopped) = (Arc::new(Mutex::new(None)), Count::new());
        let (slot, hook) = (Arc::clone(&last), stopped.clone());
        let builder = Pool::builder().batch().workers(workers).capacity(8);
        let builder = builder.on_thread_stop(move || {
            let own: Option<Pool> = slot.lock().unwrap().take();
            drop(own);
            hook.add();
        });
        let pool = builder.build().unwrap();
        *last.lock().unwrap() = Some(pool.clone());
        pool.try_spawn(|| ()).unwrap();
        assert_eq!(shutdown_elsewhere(&pool, Shutdown::Drain).wait().still_running, 0);
        drop(pool);
        eventually("all threads exit", || stopped.get() == workers);
        assert!(last.lock().unwrap().is_none());
    }
}

#[test]
fn hooks_that_panic_lose_no_thread() {
    let (started, stopped) = (Count::new(), Count::new());
    let (start_hook, stop_hook) = (started.clone(), stopped.clone());
    let builder = Pool::builder().batch().workers(3).capacity(8);
    let builder = builder.on_thread_start(move || {
        start_hook.add();
        quiet_panic()
    });
    let builder = builder.on_thread_stop(move || {
        stop_hook.add();
        quiet_panic()
    });
    let pool = builder.build().unwrap();
    hold(&pool, 3).free();
    assert_eq!(shutdown_elsewhere(&pool, Shutdown::Drain).wait().still_running, 0);
    drop(pool);
    eventually("each thread stops once", || stopped.get() == 3);
    assert_eq!(started.get(), 3);
}

#[test]
fn destructors_of_discarded_closures_may_use_the_pool_and_may_panic() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 16).unwrap();
    let held = hold(&pool, 1);
    let bystander = pool.try_submit(|| ()).unwrap();
    let (canceller, dropped) = (bystander.canceller(), Count::new());
    let mut handles = Vec::new();
    for i in 0..6 {
        let (own, canceller, dropped) = (pool.clone(), canceller.clone(), dropped.clone());
        let captured = on_drop(move || {
            dropped.add();
            assert!(own.is_closed() && own.in_flight() >= 1);
            assert_eq!(own.snapshot().running, 1);
            assert_eq!(own.try_spawn(|| ()).unwrap_err().reason(), Reason::Closed);
            canceller.cancel();
            own.shutdown(Shutdown::Discard, Some(Duration::ZERO));
            if i % 2 == 0 {
                quiet_panic()
            }
        });
        handles.push(pool.try_submit(move || drop(captured)).unwrap());
    }
    pool.shutdown(Shutdown::Discard, Some(Duration::ZERO));
    assert_eq!((dropped.get(), pool.in_flight()), (6, 1));
    for handle in handles {
        assert!(is_discarded(&resolve(handle)));
    }
    assert!(matches!(resolve(bystander), Err(JobError::Discarded | JobError::Cancelled)));
    held.free();
    assert_eq!(pool.shutdown(Shutdown::Drain, None).still_running, 0);
    assert_adds_up(&pool);
}

/// The ways in which a job may have ended when its pool is gone.
const FATES: [&str; 4] = ["completed", "panicked", "cancelled", "discarded"];

/// A handle in a `fate`, with its pool gone and the pool's thread exited.
fn orphan(fate: &str) -> JobHandle<u32> {
    let (pool, stopped) = counting_stops(1, 8);
    let held = hold(&pool, 1);
    let job = if fate == "panicked" {
        pool.try_submit(|| -> u32 { quiet_panic() }).unwrap()
    } else {
        pool.try_submit(|| 9).unwrap()
    };
    match fate {
        "cancelled" => assert!(job.cancel()),
        "discarded" => drop(pool.shutdown(Shutdown::Discard, Some(Duration::ZERO))),
        _ => {}
    }
    drop(pool);
    held.free();
    eventually("the thread has exited", || stopped.get() == 1);
    job
}

fn assert_fate(fate: &str, outcome: Result<u32, JobError>) {
    let right = match (fate, &outcome) {
        ("completed", Ok(9)) => true,
        ("panicked", Err(error)) => error.is_panic(),
        ("cancelled", Err(error)) => error.is_cancelled(),
        ("discarded", Err(error)) => error.is_discarded(),
        _ => false,
    };
    assert!(right, "{fate}, but {outcome:?}");
}

#[test]
fn a_handle_outlives_its_pool() {
    for fate in FATES {
        let handle = orphan(fate);
        assert!(handle.is_finished());
        assert!(!format!("{handle:?}").is_empty());
        assert!(!handle.cancel(), "it has ended as {fate}");
        assert_fate(fate, handle.join());

        assert_fate(fate, orphan(fate).try_take().expect("ended"));
        assert_fate(fate, orphan(fate).join_timeout(Duration::ZERO).expect("ended"));
        assert_fate(fate, pollster::block_on(orphan(fate)));
        assert_fate(fate, pollster::block_on(orphan(fate).cancel_on_drop()));
        drop(orphan(fate));
        drop(orphan(fate).cancel_on_drop());
    }
}

#[test]
fn a_canceller_outlives_pool_and_handle() {
    for fate in FATES {
        let handle = orphan(fate);
        let canceller = handle.canceller();
        assert!(!canceller.cancel());
        drop(handle);
        assert!(!canceller.clone().cancel(), "after {fate}");
    }
}

/// Polls once with `waker`; whether it was ready.
fn poll_once<T>(handle: &mut JobHandle<T>, waker: &Waker) -> Option<Result<T, JobError>> {
    match Future::poll(Pin::new(handle), &mut Context::from_waker(waker)) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

#[test]
fn a_wake_that_races_with_the_end_of_the_pool_touches_nothing_freed() {
    for round in 0..rounds_in(400, 10_000) {
        let pool = Pool::new(1, 4).unwrap();
        let mut job = pool.try_submit(move || round).unwrap();
        let counter = Arc::new(CountsWakes::default());
        let waker = Waker::from(Arc::clone(&counter));
        let ready = poll_once(&mut job, &waker);
        let ending = elsewhere(move || match round % 3 {
            0 => drop(pool),
            1 => drop(pool.shutdown(Shutdown::Drain, None)),
            _ => pool.close(),
        });
        match ready {
            Some(outcome) => assert_eq!(outcome.unwrap(), round),
            None if round % 2 == 0 => {
                eventually("it is woken", || counter.0.get() == 1);
                let outcome = poll_once(&mut job, &waker).expect("woken when ready");
                assert_eq!(outcome.unwrap(), round);
            }
            None => drop(job),
        }
        ending.wait();
        drop(waker);
        eventually("the waker is let go", || Arc::strong_count(&counter) == 1);
        assert!(counter.0.get() <= 1);
    }
}

/// A waker that owns a pool.
struct OwnsPool(Mutex<Option<Pool>>, Count);

impl Wake for OwnsPool {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().unwrap().take());
        self.1.add();
    }
}

#[test]
fn a_waker_may_own_the_last_handle() {
    for round in 0..rounds_in(100, 1000) {
        let ((pool, stopped), woken) = (counting_stops(1, 8), Count::new());
        let held = hold(&pool, 1);
        let mut job = pool.try_submit(|| ()).unwrap();
        let waker = Arc::new(OwnsPool(Mutex::new(Some(pool)), woken.clone()));
        assert!(poll_once(&mut job, &Waker::from(waker)).is_none());
        if round % 2 == 0 {
            held.free();
            eventually("the worker wakes it", || woken.get() == 1);
            resolve(job).unwrap();
        } else {
            drop(job);
            held.free();
        }
        eventually("the thread exits", || stopped.get() == 1);
    }
}

#[test]
fn a_join_across_pools_survives_the_end_of_either() {
    for round in 0..rounds_in(200, 5000) {
        let (here, there) = (Pool::new(1, 4).unwrap(), Pool::new(1, 4).unwrap());
        let far = there.try_submit(move || round).unwrap();
        let near = here.try_submit(move || far.join()).unwrap();
        let ending = elsewhere(move || {
            if round % 2 == 0 {
                drop(here);
                drop(there);
            } else {
                drop(there);
                drop(here);
            }
        });
        assert_eq!(resolve(near).unwrap().unwrap(), round);
        ending.wait();
    }
}

#[test]
fn wait_idle_returns_when_nothing_is_queued_or_running() {
    let _watchdog = watchdog();
    let pool = Pool::new(2, 64).unwrap();
    pool.wait_idle();
    let permit = pool.try_reserve().unwrap();
    let held = hold(&pool, 2);
    let ran = Count::new();
    for _ in 0..20 {
        let ran = ran.clone();
        pool.try_spawn(move || ran.add()).unwrap();
    }
    let cancelled = pool.try_submit(|| ()).unwrap();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let (pool, ran) = (pool.clone(), ran.clone());
            elsewhere(move || {
                pool.wait_idle();
                ran.get()
            })
        })
        .collect();
    assert!(cancelled.cancel());
    give_way(100);
    assert!(waiters.iter().all(Elsewhere::is_busy), "two bodies are running");
    held.open();
    for waiter in waiters {
        assert_eq!(waiter.wait(), 20);
    }
    assert_eq!(pool.in_flight(), 1, "the permit, which is neither queued nor running");
    drop(permit);
    pool.shutdown(Shutdown::Drain, None);
    pool.wait_idle();
}

#[test]
fn wait_idle_waits_for_what_jobs_submit_in_turn() {
    fn chain(pool: &Pool, left: usize, ran: &Count) {
        ran.add();
        if left > 0 {
            let (own, ran) = (pool.clone(), ran.clone());
            pool.try_spawn(move || chain(&own, left - 1, &ran)).unwrap();
        }
    }
    let _watchdog = watchdog();
    for workers in [1, 2] {
        let (pool, ran) = (Pool::new(workers, 8).unwrap(), Count::new());
        chain(&pool, 500, &ran);
        pool.wait_idle();
        assert_eq!(ran.get(), 501);
    }
}

#[test]
fn wait_idle_returns_when_the_last_queued_job_is_cancelled_or_discarded() {
    for discard in [false, true] {
        let pool = Pool::new(1, 8).unwrap();
        let held = hold(&pool, 1);
        let queued = pool.try_submit(|| ()).unwrap();
        let own = pool.clone();
        let waiter = elsewhere(move || own.wait_idle());
        held.free();
        if discard {
            pool.shutdown(Shutdown::Discard, None);
        } else {
            queued.cancel();
        }
        waiter.wait();
    }
}

#[test]
fn bounded_and_unbounded_callers_wait_side_by_side() {
    let pool = Pool::new(1, 8).unwrap();
    let held = hold(&pool, 1);
    let (reports, received) = mpsc::channel();
    for limit in [Some(Duration::ZERO), Some(Duration::from_millis(1)), None] {
        let (own, reports) = (pool.clone(), reports.clone());
        thread::spawn(move || reports.send(own.shutdown(Shutdown::Drain, limit)));
    }
    for _ in 0..2 {
        let bounded = recv(&received);
        assert_eq!(counts(&bounded), (0, 0, 1));
    }
    held.free();
    let unbounded = recv(&received);
    assert_eq!(counts(&unbounded), (1, 0, 0));
}

#[test]
fn an_endless_time_bound_is_no_bound() {
    let pool = Pool::new(1, 8).unwrap();
    let (held, own) = (hold(&pool, 1), pool.clone());
    let ending = elsewhere(move || own.shutdown(Shutdown::Drain, Some(Duration::MAX)));
    eventually("it is closed", || pool.is_closed());
    held.free();
    assert_eq!(counts(&ending.wait()), (1, 0, 0));
}

#[test]
fn a_permit_used_while_the_last_handle_is_dropped_is_run() {
    for round in 0..rounds_in(300, 5000) {
        let (pool, stopped) = counting_stops(1 + round % 2, 4);
        let permit = pool.try_reserve().unwrap();
        let start = Arc::new(Barrier::new(2));
        let meet = Arc::clone(&start);
        let using = elsewhere(move || {
            meet.wait();
            permit.submit(move || round).map_err(|refused| refused.reason())
        });
        start.wait();
        drop(pool);
        let job = using.wait().expect("a permit keeps the pool open");
        assert_eq!(resolve(job).unwrap(), round);
        eventually("the threads exit", || stopped.get() == 1 + round % 2);
    }
}

#[test]
fn clones_dropped_on_many_threads_at_once_end_the_pool_once() {
    for round in 0..rounds_in(200, 3000) {
        let workers = 1 + round % 3;
        let (pool, stopped) = counting_stops(workers, 16);
        let ran = Count::new();
        let start = Arc::new(Barrier::new(4));
        let droppers: Vec<_> = (0..4)
            .map(|_| {
                let (pool, ran, start) = (pool.clone(), ran.clone(), Arc::clone(&start));
                elsewhere(move || {
                    start.wait();
                    pool.try_spawn(move || ran.add()).unwrap();
                })
            })
            .collect();
        drop(pool);
        droppers.into_iter().for_each(Elsewhere::wait);
        eventually("the threads exit", || stopped.get() == workers);
        assert_eq!(ran.get(), 4);
    }
}

#[test]
fn what_a_body_brought_out_does_not_keep_the_pool_open() {
    let (pool, stopped) = counting_stops(2, 4);
    let job = pool.try_submit(|| weirpool::context().unwrap()).unwrap();
    let canceller = job.canceller();
    let context = resolve(job).unwrap();
    drop(pool);
    eventually("the threads exit", || stopped.get() == 2);
    assert!(context.pool().is_closed());
    assert!(!canceller.cancel());
}

#[test]
fn a_tree_of_joins_survives_a_shutdown_at_any_moment() {
    fn tree(pool: &Pool, depth: u32) -> u32 {
        if depth == 0 {
            return 1;
        }
        let branches: Vec<_> = (0..2)
            .map(|_| {
                let own = pool.clone();
                pool.try_submit(move || tree(&own, depth - 1)).map_err(|refused| refused.run_here())
            })
            .collect();
        let leaves = |branch: Result<JobHandle<u32>, u32>| match branch.map(JobHandle::join) {
            Ok(Ok(leaves)) => leaves,
            Ok(Err(JobError::Discarded)) => 1 << (depth - 1),
            Err(here) => here,
            Ok(Err(other)) => panic!("{other:?}"),
        };
        branches.into_iter().map(leaves).sum()
    }
    for round in 0..rounds_in(200, 3000) {
        let how = BOTH[round % 2];
        let pool = Pool::new(1 + round / 2 % 3, 64).unwrap();
        let own = pool.clone();
        let root = pool.try_submit(move || tree(&own, 6)).unwrap();
        give_way(round % 32);
        let report = shutdown_elsewhere(&pool, how).wait();
        assert_eq!((report.still_running, pool.in_flight()), (0, 0));
        match resolve(root) {
            Ok(leaves) => assert_eq!(leaves, 64),
            outcome => assert!(is_discarded(&outcome) && how == Shutdown::Discard),
        }
        assert_adds_up(&pool);
    }
}

#[test]
fn a_pool_may_be_built_used_and_dropped_in_a_body_of_another() {
    let (outer, stopped) = (Pool::new(1, 4).unwrap(), Count::new());
    for how in [None, Some(Shutdown::Drain), Some(Shutdown::Discard)] {
        let hook = stopped.clone();
        let job = outer.try_submit(move || {
            let builder = Pool::builder().batch().workers(2).capacity(4);
            let inner = builder.on_thread_stop(move || hook.add()).build().unwrap();
            let answer = inner.try_submit(|| 6).unwrap().join().unwrap();
            if let Some(how) = how {
                assert_eq!(inner.shutdown(how, None).still_running, 0);
            }
            answer
        });
        assert_eq!(resolve(job.unwrap()).unwrap(), 6);
    }
    eventually("the threads of all three exit", || stopped.get() == 6);
}

/// Uses a pool in all ways while its thread is about to be gone.
struct UsesPoolAtTheEnd(Pool, Option<JobHandle<u32>>, mpsc::Sender<(Option<Reason>, bool)>);

impl Drop for UsesPoolAtTheEnd {
    fn drop(&mut self) {
        let submitted = self.0.try_submit(|| 1);
        let refusal = submitted.as_ref().err().map(|refused| refused.reason());
        if let Ok(job) = submitted {
            assert_eq!(job.join().unwrap(), 1);
        }
        assert!(weirpool::context().is_none() && !weirpool::is_cancelled());
        let taken = self.1.take().is_some_and(|job| !job.cancel() && job.join().is_ok());
        self.0.shutdown(Shutdown::Drain, None);
        self.2.send((refusal, taken)).unwrap();
    }
}

thread_local! {
    static AT_THE_END: std::cell::RefCell<Option<UsesPoolAtTheEnd>> = const { std::cell::RefCell::new(None) };
}

#[test]
fn a_pool_may_be_used_in_the_destructor_of_a_thread_local() {
    let leave = |pool: &Pool, sender| {
        // So that whatever the crate keeps for this thread is there before, and goes after.
        let own = weirpool::context().map_or_else(|| pool.clone(), |context| context.pool());
        let job = own.try_submit(|| 2).unwrap();
        AT_THE_END.set(Some(UsesPoolAtTheEnd(own, Some(job), sender)));
    };
    let pool = Pool::new(1, 4).unwrap();
    let (sender, left) = mpsc::channel();
    let own = pool.clone();
    elsewhere(move || leave(&own, sender)).wait();
    assert_eq!(left.recv_timeout(STEP), Ok((None, true)), "on a thread of ours");

    let (pool, stopped) = counting_stops(1, 4);
    let (sender, left) = mpsc::channel();
    let own = pool.clone();
    resolve(pool.try_submit(move || leave(&own, sender)).unwrap()).unwrap();
    pool.shutdown(Shutdown::Drain, None);
    drop(pool);
    let on_a_worker = (Some(Reason::Closed), true);
    assert_eq!(left.recv_timeout(STEP), Ok(on_a_worker), "on a worker");
    assert_eq!(stopped.get(), 1);
}

//! The slots: how many are taken, by what, and when they come back.
//!
//! Black-box tests of the pool's first promise: a slot is taken before a job exists, is held as long as anything of the job does,
//! and returns exactly once, however the job ends.

mod common;

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use common::{
    Drops, Gate, Peak, Rendezvous, STEP, assert_all_slots_free, assert_all_workers_live,
    assert_at_rest, block_on, eventually, fail, fail_quietly, occupy, on_drop, poll, race, recv,
    rounds, waker, watchdog,
};
use weirpool::test::ManualClock;
use weirpool::{
    Clock as _, JobError, Permit, Pool, Priority, Reason, Refusal, ShedReason, Shutdown,
};

#[test]
fn a_burst_that_ends_in_every_way_leaves_all_slots_free() {
    let _watchdog = watchdog();
    let pool = Pool::new(2, 3).unwrap();
    let gate = Gate::new();
    let (started, starts) = mpsc::channel();

    // Twelve jobs meet three slots.
    let (mut accepted, mut refused) = (Vec::new(), Vec::new());
    for number in 0..12 {
        let (gate, started) = (gate.clone(), started.clone());
        match pool.try_submit(move || {
            started.send(number).unwrap();
            gate.wait();
            number
        }) {
            Ok(handle) => accepted.push((number, handle)),
            Err(rejected) => refused.push((number, rejected)),
        }
    }
    assert_eq!((accepted.len(), refused.len()), (3, 9));
    assert!(refused.iter().all(|(_, rejected)| rejected.reason() == Reason::Full));

    // Two of them run and one waits; no other job was ever made.
    let running = [recv(&starts), recv(&starts)];
    let now = pool.snapshot();
    assert_eq!((now.running, now.queued, now.reserved, now.in_flight), (2, 1, 0, 3));
    assert_eq!((now.accepted, now.rejected.get(Reason::Full), now.rejected.total()), (3, 9, 9));

    // Cancelling the one that waits makes room for exactly one more, which then fails.
    let waiting = accepted.iter().position(|(number, _)| !running.contains(number)).unwrap();
    let (_, waiting) = accepted.remove(waiting);
    assert!(waiting.cancel());
    assert_eq!(pool.in_flight(), 2);
    let failing = pool.try_submit(fail).unwrap();
    assert_eq!(pool.try_submit(fail).unwrap_err().reason(), Reason::Full);

    gate.open();
    for (number, handle) in accepted {
        assert_eq!(handle.join().unwrap(), number);
    }
    assert!(matches!(waiting.join(), Err(JobError::Cancelled)));
    assert!(matches!(failing.join(), Err(JobError::Panicked(_))));
    assert_eq!(starts.try_iter().count(), 0, "a refused or cancelled body ran");

    // The refused closures came back whole.
    for (number, rejected) in refused {
        assert_eq!(rejected.run_here(), number);
    }

    assert_all_slots_free(&pool);
    pool.close();
    assert_eq!(pool.try_submit(fail).unwrap_err().reason(), Reason::Closed);
    assert_at_rest(&pool);
    let end = pool.snapshot();
    assert_eq!((end.accepted, end.completed, end.panicked, end.cancelled), (4, 2, 1, 1));
}

#[test]
fn a_slot_is_not_handed_back_while_the_body_runs_though_its_handle_is_gone() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 1).unwrap();
    let bodies = Arc::new(Peak::default());
    for _ in 0..rounds(1_000) {
        let (gate, inside) = (Gate::new(), bodies.clone());
        let (started, starts) = mpsc::channel();
        let wait = gate.clone();
        let first = pool.try_submit(move || {
            inside.visit(|| {
                started.send(()).unwrap();
                wait.wait();
            });
        });
        recv(&starts);
        drop(first.unwrap());

        let inside = bodies.clone();
        let second = pool.try_submit(move || inside.visit(|| ()));
        assert_eq!(second.unwrap_err().reason(), Reason::Full);
        assert_eq!((pool.in_flight(), pool.running()), (1, 1));

        gate.open();
        eventually("the slot returns", || pool.in_flight() == 0);
        let inside = bodies.clone();
        pool.try_submit(move || inside.visit(|| ())).unwrap().join().unwrap();
    }
    assert_eq!(bodies.highest(), 1);
    assert_all_slots_free(&pool);
}

#[test]
fn giving_up_on_a_running_job_returns_nothing() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 1).unwrap();
    let busy = occupy(&pool);
    assert_eq!(pool.try_submit(|| ()).unwrap_err().reason(), Reason::Full);
    busy.free();

    let gate = Gate::new();
    let wait = gate.clone();
    let handle = pool.try_submit(move || wait.wait()).unwrap();
    let handle = handle.join_timeout(Duration::ZERO).expect_err("it cannot have ended");
    assert_eq!((pool.in_flight(), pool.try_submit(|| ()).unwrap_err().reason()), (1, Reason::Full));
    drop(handle);
    assert_eq!((pool.in_flight(), pool.try_submit(|| ()).unwrap_err().reason()), (1, Reason::Full));
    gate.open();
    eventually("the slot returns", || pool.in_flight() == 0);
}

#[test]
fn whoever_learns_that_a_job_has_ended_finds_its_slot_free() {
    let _watchdog = watchdog();
    type Learn = fn(weirpool::JobHandle<usize>) -> Option<usize>;
    let ways: [(&str, Learn); 4] = [
        ("join", |handle| handle.join().ok()),
        ("join_timeout", |handle| handle.join_timeout(STEP).ok()?.ok()),
        ("await", |handle| block_on(handle).ok()),
        ("try_take", |mut handle| {
            loop {
                match handle.try_take() {
                    Some(result) => return result.ok(),
                    None => thread::yield_now(),
                }
            }
        }),
    ];
    for (way, learn) in ways {
        let pool = Pool::new(2, 1).unwrap();
        for round in 0..rounds(10_000) {
            let handle = pool.try_submit(move || round);
            let handle =
                handle.unwrap_or_else(|rejected| panic!("{way}, round {round}: {rejected:?}"));
            assert_eq!(learn(handle), Some(round), "{way}");
            assert_eq!(pool.in_flight(), 0, "{way}");
        }
        assert_all_slots_free(&pool);
    }
}

#[test]
fn a_panic_frees_the_slot_before_its_handle_resolves_too() {
    let _watchdog = watchdog();
    let pool = Pool::new(2, 1).unwrap();
    for _ in 0..rounds(2_000) {
        assert!(
            pool.try_submit(fail_quietly).expect("a false Full").join().unwrap_err().is_panic()
        );
    }
    assert_eq!(pool.snapshot().panicked, rounds(2_000) as u64);
    assert_all_slots_free(&pool);
}

#[test]
fn the_queue_bound_is_a_bound() {
    let _watchdog = watchdog();
    let pool = Pool::new(8, 9).unwrap();
    let (gate, ran) = (Gate::new(), Arc::new(AtomicUsize::new(0)));
    let (admitted, refused) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..64 {
                    let (gate, ran) = (gate.clone(), ran.clone());
                    match pool.try_submit(move || {
                        ran.fetch_add(1, SeqCst);
                        gate.wait();
                    }) {
                        Ok(handle) => admitted.lock().unwrap().push(handle),
                        Err(rejected) => {
                            assert_eq!(rejected.reason(), Reason::Full);
                            refused.fetch_add(1, SeqCst);
                        }
                    }
                    assert!(pool.in_flight() <= 9);
                }
            });
        }
    });
    assert_eq!(
        (admitted.lock().unwrap().len(), refused.load(SeqCst), pool.in_flight()),
        (9, 247, 9)
    );
    eventually("all workers are busy", || ran.load(SeqCst) == 8);
    assert_eq!((pool.running(), pool.queued()), (8, 1));
    assert_eq!(
        pool.try_submit(|| ()).unwrap_err().reason(),
        Reason::Full,
        "a batch taken from the queue freed slots"
    );
    gate.open();
    for handle in admitted.into_inner().unwrap() {
        handle.join().unwrap();
    }
    assert_eq!(ran.load(SeqCst), 9);
    assert_all_slots_free(&pool);
}

/// The test's own account of a storm.
#[derive(Default)]
struct Ghost {
    bodies: Peak,
    ran: AtomicU64,
    panicked: AtomicU64,
    cancelled: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
}

impl Ghost {
    /// Notes the answer at the door.
    fn noted<T, E: Into<Refusal>>(&self, answer: Result<T, E>) -> Option<T> {
        match answer {
            Ok(accepted) => Some(accepted),
            Err(refused) => {
                assert_eq!(refused.into().reason(), Reason::Full);
                self.refused.fetch_add(1, SeqCst);
                None
            }
        }
    }

    fn body(self: &Arc<Self>) -> impl FnOnce() + Send + use<> {
        let ghost = self.clone();
        move || {
            ghost.bodies.visit(|| {
                ghost.ran.fetch_add(1, SeqCst);
            });
        }
    }
}

/// One job or permit, that ends in the way that `kind` says.
fn live_and_end(pool: &Pool, ghost: &Arc<Ghost>, kind: usize) {
    let submit = || {
        let job = ghost.noted(pool.try_submit(ghost.body()));
        ghost.accepted.fetch_add(u64::from(job.is_some()), SeqCst);
        job
    };
    match kind % 7 {
        0 => drop(submit()),
        1 => {
            if let Some(job) = submit() {
                job.join().unwrap();
            }
        }
        2 => {
            if submit().is_some_and(|job| job.cancel()) {
                ghost.cancelled.fetch_add(1, SeqCst);
            }
        }
        3 => drop(ghost.noted(pool.try_reserve())),
        4 => {
            if let Some(permit) = ghost.noted(pool.try_reserve()) {
                drop(permit.submit(ghost.body()).expect("a permit is a slot"));
                ghost.accepted.fetch_add(1, SeqCst);
            }
        }
        5 => {
            let (inner_pool, inner_ghost) = (pool.clone(), ghost.clone());
            let outer = move || {
                let ran = inner_ghost.body();
                let inner = inner_ghost.noted(inner_pool.try_submit(inner_ghost.body()));
                inner_ghost.accepted.fetch_add(u64::from(inner.is_some()), SeqCst);
                ran();
            };
            if ghost.noted(pool.try_spawn(outer)).is_some() {
                ghost.accepted.fetch_add(1, SeqCst);
            }
        }
        _ => {
            let panics = ghost.noted(pool.try_submit(fail_quietly));
            ghost.accepted.fetch_add(u64::from(panics.is_some()), SeqCst);
            ghost.panicked.fetch_add(u64::from(panics.is_some()), SeqCst);
            drop(panics.map(|job| job.join().unwrap_err()));
        }
    }
}

/// Many threads make and end jobs in every way while one looks at the pool; then the books must agree with the test's own.
fn storm(
    workers: usize,
    capacity: usize,
    submitters: usize,
    each: usize,
    look: impl Fn(&Pool) + Sync,
) {
    let pool = Pool::new(workers, capacity).unwrap();
    let (ghost, over) = (Arc::new(Ghost::default()), AtomicBool::new(false));
    thread::scope(|s| {
        s.spawn(|| {
            while !over.load(SeqCst) {
                look(&pool);
            }
        });
        let (pool, ghost) = (&pool, &ghost);
        let storm: Vec<_> = (0..submitters)
            .map(|first| {
                s.spawn(move || {
                    for round in 0..rounds(each) {
                        live_and_end(pool, ghost, first + round);
                    }
                })
            })
            .collect();
        let ends: Vec<_> = storm.into_iter().map(|thread| thread.join()).collect();
        over.store(true, SeqCst);
        assert!(ends.iter().all(Result::is_ok), "a submitter failed");
    });
    pool.wait_idle();

    assert!(
        ghost.bodies.highest() <= workers.min(capacity),
        "{} bodies at once",
        ghost.bodies.highest()
    );
    let end = pool.snapshot();
    let [accepted, refused, ran, panicked, cancelled] =
        [&ghost.accepted, &ghost.refused, &ghost.ran, &ghost.panicked, &ghost.cancelled]
            .map(|count| count.load(SeqCst));
    assert_eq!((end.accepted, end.rejected.get(Reason::Full)), (accepted, refused), "{end:?}");
    assert_eq!((end.completed, end.panicked, end.cancelled), (ran, panicked, cancelled), "{end:?}");
    assert_all_slots_free(&pool);
}

/// Workers, capacity, submitting threads, rounds of each.
const STORMS: [(usize, usize, usize, usize); 5] =
    [(1, 1, 4, 5_000), (2, 3, 4, 5_000), (4, 2, 4, 5_000), (3, 64, 6, 5_000), (16, 10, 64, 300)];

#[test]
fn one_load_of_in_flight_never_exceeds_the_capacity() {
    let _watchdog = watchdog();
    for (workers, capacity, submitters, each) in STORMS {
        storm(workers, capacity, submitters, each, |pool| {
            let seen = pool.in_flight();
            assert!(seen <= capacity, "{seen} of {capacity} slots");
        });
    }
}

#[test]
fn every_snapshot_adds_up_in_the_middle_of_a_storm() {
    let _watchdog = watchdog();
    for (workers, capacity, submitters, each) in STORMS {
        storm(workers, capacity, submitters, each, |pool| {
            let now = pool.snapshot();
            assert_eq!(now.in_flight, now.reserved + now.queued + now.running, "{now:?}");
            assert!(now.in_flight <= capacity && now.running <= workers, "{now:?}");
            assert_eq!((now.capacity, now.workers), (capacity, workers));
        });
    }
}

#[test]
fn counting_slots_and_taking_one_is_a_single_step() {
    let _watchdog = watchdog();
    let (capacity, takers) = (10, 64);
    let pool = Pool::new(1, capacity).unwrap();
    let held = Peak::default();
    let start = Rendezvous::new(takers);
    thread::scope(|s| {
        for _ in 0..takers {
            s.spawn(|| {
                start.meet();
                for _ in 0..rounds(2_000) {
                    if let Ok(permit) = pool.try_reserve() {
                        held.visit(|| assert!(pool.in_flight() <= capacity));
                        drop(permit);
                    }
                }
            });
        }
    });
    assert!(held.highest() <= capacity, "{} permits at once", held.highest());
    assert_all_slots_free(&pool);
}

#[test]
fn two_ends_of_one_job_return_one_slot() {
    let _watchdog = watchdog();
    type Round = fn(&Pool);
    let pairs: [(&str, Round); 9] = [
        ("finish and cancel", |pool| {
            let job = pool.try_submit(|| ()).unwrap();
            let canceller = job.canceller();
            let _ = race(|| job.join(), || canceller.cancel());
        }),
        ("panic and cancel", |pool| {
            let job = pool.try_submit(fail_quietly).unwrap();
            let canceller = job.canceller();
            let _ = race(|| job.join(), || canceller.cancel());
        }),
        ("timeout and finish", |pool| {
            let gate = Gate::new();
            let wait = gate.clone();
            let job = pool.try_submit(move || wait.wait()).unwrap();
            let _ = race(|| job.join_timeout(Duration::ZERO), || gate.open());
        }),
        ("timeout and cancel", |pool| {
            let job = pool.try_submit(|| ()).unwrap();
            let canceller = job.canceller();
            let _ = race(|| job.join_timeout(Duration::ZERO), || canceller.cancel());
        }),
        ("handle drop and cancel", |pool| {
            let job = pool.try_submit(|| ()).unwrap();
            let canceller = job.canceller();
            let _ = race(|| drop(job), || canceller.cancel());
        }),
        ("cancel and cancel", |pool| {
            let job = pool.try_submit(|| ()).unwrap();
            let canceller = job.canceller();
            let _ = race(|| job.cancel(), || canceller.cancel());
        }),
        ("cancel on drop and finish", |pool| {
            let gate = Gate::new();
            let wait = gate.clone();
            let job = pool.try_submit(move || wait.wait()).unwrap().cancel_on_drop();
            let _ = race(|| drop(job), || gate.open());
        }),
        ("cancel on drop and cancel", |pool| {
            let job = pool.try_submit(|| ()).unwrap();
            let (canceller, job) = (job.canceller(), job.cancel_on_drop());
            let _ = race(|| drop(job), || canceller.cancel());
        }),
        ("displaced and cancelled", |pool| {
            let busy = occupy(pool);
            let victim = pool.try_submit(|| ()).unwrap();
            // The slot of a job that another thread is just cancelling may still be taken: then this one is refused.
            let _ = race(
                || pool.job().priority(Priority::Critical).try_submit(|| ()),
                || victim.cancel(),
            );
            busy.free();
        }),
    ];
    for (pair, round) in pairs {
        let pool = Pool::new(1, 2).unwrap();
        for _ in 0..rounds(300) {
            round(&pool);
            assert!(pool.in_flight() <= 2, "{pair}: {pool:?}");
            eventually(pair, || pool.in_flight() == 0);
        }
        assert_all_slots_free(&pool);
        assert_all_workers_live(&pool);

        let busy = occupy(&pool);
        let second = pool.try_submit(|| ()).unwrap();
        assert_eq!(
            pool.try_submit(|| ()).unwrap_err().reason(),
            Reason::Full,
            "{pair}: the limit rose"
        );
        busy.free();
        second.join().unwrap();
    }
}

#[test]
fn shutdown_and_cancel_of_one_job_return_one_slot() {
    let _watchdog = watchdog();
    for how in [Shutdown::Drain, Shutdown::Discard] {
        for _ in 0..rounds(300) {
            let pool = Pool::new(1, 3).unwrap();
            let ran = Arc::new(AtomicUsize::new(0));
            let jobs = [(); 3].map(|()| {
                let ran = ran.clone();
                pool.try_submit(move || ran.fetch_add(1, SeqCst)).unwrap()
            });
            let (_, cancelled) = race(
                || pool.shutdown(how, Some(STEP)),
                || jobs.iter().filter(|job| job.cancel()).count(),
            );
            let mut ends = [0; 3];
            for job in jobs {
                match job.join() {
                    Ok(_) => ends[0] += 1,
                    Err(JobError::Cancelled) => ends[1] += 1,
                    Err(JobError::Discarded) => ends[2] += 1,
                    Err(other) => panic!("{other:?}"),
                }
            }
            assert_eq!((ends[0], ends[1]), (ran.load(SeqCst), cancelled), "{how:?}");
            let end = pool.snapshot();
            assert_eq!(
                [end.completed, end.cancelled, end.discarded],
                ends.map(|count| count as u64),
                "{how:?}"
            );
            assert_at_rest(&pool);
        }
    }
}

#[test]
fn a_permit_holds_a_slot_until_it_is_used_or_dropped() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 1).unwrap();
    let permit = pool.try_reserve().unwrap();
    let now = pool.snapshot();
    assert_eq!((now.reserved, now.in_flight, now.queued + now.running, now.accepted), (1, 1, 0, 0));
    assert_eq!(pool.in_flight(), 1);
    assert_eq!(pool.try_submit(|| ()).unwrap_err().reason(), Reason::Full);
    assert_eq!(pool.try_reserve().unwrap_err().reason(), Reason::Full);
    drop(permit);
    assert_eq!(pool.in_flight(), 0);

    let permit = pool.try_reserve().unwrap();
    let gate = Gate::new();
    let wait = gate.clone();
    let job = permit.submit(move || wait.wait()).unwrap();
    let now = pool.snapshot();
    assert_eq!((now.reserved, now.in_flight, now.queued + now.running, now.accepted), (0, 1, 1, 1));
    gate.open();
    job.join().unwrap();
    assert_all_slots_free(&pool);
}

#[test]
fn a_permit_keeps_the_pool_open_after_the_last_handle_on_it_is_gone() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 2).unwrap();
    let (first, second) = (pool.try_reserve().unwrap(), pool.try_reserve().unwrap());
    drop(pool);
    assert_eq!(first.submit(|| 1).expect("a permit keeps the pool open").join().unwrap(), 1);
    assert_eq!(second.submit(|| 2).expect("so does the last one").join().unwrap(), 2);
}

#[test]
fn closing_invalidates_permits_and_waits_for_none() {
    let _watchdog = watchdog();
    type End = fn(&Pool);
    let ends: [(&str, End); 3] = [
        ("close", Pool::close),
        ("drain", |pool| assert_eq!(pool.shutdown(Shutdown::Drain, None).still_running, 0)),
        ("discard", |pool| assert_eq!(pool.shutdown(Shutdown::Discard, None).still_running, 0)),
    ];
    for (how, end) in ends {
        let pool = Pool::new(1, 2).unwrap();
        let (used, dropped) = (pool.try_reserve().unwrap(), pool.try_reserve().unwrap());
        end(&pool);
        let drops = Drops::new();
        let capture = drops.tracked();
        let rejected = used
            .submit(move || {
                drop(capture);
                "handed back"
            })
            .expect_err(how);
        assert_eq!((rejected.reason(), drops.count()), (Reason::Closed, 0), "{how}");
        assert_eq!(rejected.run_here(), "handed back");
        drop(dropped);
        assert_at_rest(&pool);
        assert_eq!(pool.snapshot().accepted, 0);
    }
}

#[test]
fn permits_travel_between_threads() {
    let _watchdog = watchdog();
    let pool = Pool::new(2, 8).unwrap();
    for _ in 0..rounds(200) {
        let permits: Vec<Permit> = (0..8).map(|_| pool.try_reserve().unwrap()).collect();
        assert_eq!(pool.try_reserve().unwrap_err().reason(), Reason::Full);
        let ran: usize = thread::scope(|s| {
            let threads: Vec<_> = permits
                .into_iter()
                .enumerate()
                .map(|(number, permit)| {
                    s.spawn(move || match number % 2 {
                        0 => permit.submit(|| 1).unwrap().join().unwrap(),
                        _ => {
                            drop(permit);
                            0
                        }
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((ran, pool.in_flight()), (4, 0));
    }
    assert_all_slots_free(&pool);
}

#[test]
fn the_last_slots_are_for_critical_work() {
    let _watchdog = watchdog();
    let pool = Pool::builder().batch().workers(1).capacity(4).critical_reserve(1).build().unwrap();
    let with = |priority| pool.job().priority(priority);
    let _common: Vec<_> = (0..3).map(|_| pool.try_reserve().expect("below the reserve")).collect();
    for priority in [Priority::Low, Priority::Normal, Priority::High] {
        assert_eq!(
            with(priority).try_reserve().unwrap_err().reason(),
            Reason::Full,
            "{priority:?}"
        );
        assert_eq!(
            with(priority).try_submit(|| ()).unwrap_err().reason(),
            Reason::Full,
            "{priority:?}"
        );
        assert_eq!(
            with(priority).try_spawn(|| ()).unwrap_err().reason(),
            Reason::Full,
            "{priority:?}"
        );
    }
    let gate = Gate::new();
    let wait = gate.clone();
    let critical = with(Priority::Critical)
        .try_submit(move || wait.wait())
        .expect("the reserve is for this one");
    assert_eq!(pool.in_flight(), 4);
    assert_eq!(
        with(Priority::Critical).try_submit(|| ()).unwrap_err().reason(),
        Reason::Full,
        "beyond the capacity"
    );
    gate.open();
    critical.join().unwrap();
    assert_eq!(
        pool.try_reserve().unwrap_err().reason(),
        Reason::Full,
        "the reserve went to common work"
    );
    assert_eq!(pool.in_flight(), 3);
}

#[test]
fn a_body_that_panics_anywhere_returns_its_slot() {
    let _watchdog = watchdog();
    type Body = fn(Pool);
    let places: [(&str, Body); 5] = [
        ("at once", |_| fail()),
        ("with a permit in its hands", |pool| {
            let _permit = pool.try_reserve().unwrap();
            fail();
        }),
        ("after a nested submit", |pool| {
            let _nested = pool.try_submit(|| ()).unwrap();
            fail();
        }),
        ("with a refusal in its hands", |pool| {
            let _slots = (pool.try_reserve().unwrap(), pool.try_reserve().unwrap());
            drop(pool.try_submit(|| ()).unwrap());
        }),
        ("by joining a job that panicked", |pool| pool.try_submit(fail).unwrap().join().unwrap()),
    ];
    for (place, body) in places {
        let pool = Pool::new(1, 3).unwrap();
        let inner = pool.clone();
        let end = pool.try_submit(move || body(inner)).unwrap().join();
        assert!(end.unwrap_err().is_panic(), "{place}");
        pool.wait_idle();
        assert_all_slots_free(&pool);
        assert_all_workers_live(&pool);
    }
}

#[test]
fn a_full_pool_refuses_a_nested_job_at_once() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 1).unwrap();
    let inner = pool.clone();
    let outer =
        pool.try_submit(move || inner.try_submit(|| ()).err().map(|rejected| rejected.reason()));
    assert_eq!(outer.unwrap().join().unwrap(), Some(Reason::Full));
    assert_all_slots_free(&pool);
}

#[test]
fn a_refused_closure_comes_back_whole() {
    let pool = Pool::new(1, 1).unwrap();
    let _full = pool.try_reserve().unwrap();
    let drops = Drops::new();
    let refused = || {
        let capture = drops.tracked();
        pool.try_submit(move || {
            let _capture = capture;
            thread::current().id()
        })
        .unwrap_err()
    };

    let rejected = refused();
    assert_eq!(rejected.reason(), Reason::Full);
    assert_eq!(rejected.refusal().reason(), Reason::Full);
    assert!(!format!("{rejected}").is_empty() && format!("{rejected:?}").contains("Full"));
    assert_eq!(drops.count(), 0);
    assert_eq!(rejected.into_job()(), thread::current().id());
    assert_eq!(drops.count(), 1);

    assert_eq!(refused().run_here(), thread::current().id());
    assert_eq!(drops.count(), 2);

    let (refusal, job) = refused().into_parts();
    let copy = refusal;
    drop(job);
    assert_eq!((refusal.reason(), copy.reason(), drops.count()), (Reason::Full, Reason::Full, 3));

    drop(refused());
    assert_eq!(drops.count(), 4);
}

#[test]
fn a_question_mark_turns_a_refusal_into_any_error() {
    fn boxed(pool: &Pool) -> Result<(), Box<dyn Error + Send + Sync>> {
        let not_sync = std::cell::Cell::new(1);
        drop(pool.try_submit(move || not_sync.get())?);
        Ok(())
    }
    fn plain(pool: &Pool) -> Result<(), Refusal> {
        pool.try_spawn(|| ())?;
        drop(pool.try_reserve()?);
        Ok(())
    }
    let pool = Pool::new(1, 1).unwrap();
    boxed(&pool).unwrap();
    pool.wait_idle();
    let _full = pool.try_reserve().unwrap();
    assert!(!boxed(&pool).unwrap_err().to_string().is_empty());
    let refusal = plain(&pool).unwrap_err();
    assert_eq!(refusal.reason(), Reason::Full);
    let error: Box<dyn Error + Send + Sync> = refusal.into();
    assert_eq!(error.downcast::<Refusal>().unwrap().reason(), Reason::Full);
}

#[test]
fn every_refusal_is_counted_under_its_reason() {
    let clock = ManualClock::new();
    let pool = Pool::builder().workers(1).capacity(1).clock(clock.clone()).build().unwrap();
    let full = pool.try_reserve().unwrap();
    let past = clock.now();
    clock.advance(Duration::from_secs(1));
    let knock = || {
        for _ in 0..100 {
            let _ = pool.try_submit(|| ()).unwrap_err().retry_after();
            let _ = pool.job().deadline(past).try_submit(|| ()).unwrap_err().retry_after();
        }
    };
    knock();
    drop(full);
    pool.close();
    knock();
    let counts = pool.snapshot().rejected;
    let of = |reason| counts.get(reason);
    assert_eq!(
        (of(Reason::Full), of(Reason::Deadline), of(Reason::Closed), counts.total()),
        (100, 100, 200, 400)
    );
}

#[test]
fn a_deadline_in_the_past_is_refused_before_all_but_a_closed_pool() {
    for builder in [Pool::builder(), Pool::builder().batch()] {
        let clock = ManualClock::new();
        let pool = builder.workers(1).capacity(1).clock(clock.clone()).build().unwrap();
        let deadline = clock.now() + Duration::from_secs(1);
        pool.job().deadline(deadline).try_submit(|| ()).expect("still ahead").join().unwrap();
        clock.advance(Duration::from_secs(2));

        let late = pool.job().deadline(deadline);
        assert_eq!(late.try_submit(|| ()).unwrap_err().reason(), Reason::Deadline);
        assert_eq!(late.try_spawn(|| ()).unwrap_err().reason(), Reason::Deadline);
        assert_eq!(late.try_reserve().unwrap_err().reason(), Reason::Deadline);
        assert_eq!(
            late.priority(Priority::Critical).try_submit(|| ()).unwrap_err().reason(),
            Reason::Deadline
        );
        assert_eq!(
            late.timeout(Duration::from_secs(60)).try_submit(|| ()).unwrap_err().reason(),
            Reason::Deadline,
            "the earlier of both holds"
        );
        pool.job()
            .timeout(Duration::MAX)
            .try_submit(|| ())
            .expect("an overflow is no deadline")
            .join()
            .unwrap();
        assert_all_slots_free(&pool);

        let full = pool.try_reserve().unwrap();
        assert_eq!(late.try_submit(|| ()).unwrap_err().reason(), Reason::Deadline);
        drop(full);
        pool.close();
        assert_eq!(late.try_submit(|| ()).unwrap_err().reason(), Reason::Closed);
    }
}

#[test]
fn expired_work_is_not_run_and_gives_its_slots_back() {
    let _watchdog = watchdog();
    let clock = ManualClock::new();
    let pool =
        Pool::builder().batch().workers(1).capacity(106).clock(clock.clone()).build().unwrap();
    let busy = occupy(&pool);
    let ran = Arc::new(AtomicUsize::new(0));
    let body = || {
        let ran = ran.clone();
        move || ran.fetch_add(1, SeqCst)
    };
    let short = pool.job().timeout(Duration::from_secs(1));
    let expired: Vec<_> = (0..100).map(|_| short.try_submit(body()).unwrap()).collect();
    clock.advance(Duration::from_secs(10));
    let fresh: Vec<_> = (0..5).map(|_| short.try_submit(body()).unwrap()).collect();
    busy.free();
    for job in expired {
        assert!(matches!(job.join(), Err(JobError::Shed(ShedReason::Deadline))));
    }
    for job in fresh {
        job.join().unwrap();
    }
    assert_eq!((ran.load(SeqCst), pool.snapshot().shed.get(ShedReason::Deadline)), (5, 100));
    assert_all_slots_free(&pool);
}

#[test]
fn a_deadline_limits_the_start_and_never_the_body() {
    let _watchdog = watchdog();
    let clock = ManualClock::new();
    let pool = Pool::builder().batch().workers(1).capacity(1).clock(clock.clone()).build().unwrap();
    let (started, starts) = mpsc::channel();
    let gate = Gate::new();
    let wait = gate.clone();
    let job = pool.job().timeout(Duration::from_secs(1)).try_submit(move || {
        started.send(()).unwrap();
        wait.wait();
        "ran to its end"
    });
    recv(&starts);
    clock.advance(Duration::from_secs(5));
    gate.open();
    assert_eq!(job.unwrap().join().unwrap(), "ran to its end");
}

/// What a submit at the door meets, seen from a destructor or a waker.
fn knock(pool: &Pool, seen: &mpsc::Sender<Option<Reason>>) {
    seen.send(pool.try_spawn(|| ()).err().map(|rejected| rejected.reason())).unwrap();
}

#[test]
fn destructors_that_submit_find_the_slot_still_held() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 1).unwrap();
    let (seen, sights) = mpsc::channel();
    let knocks = || {
        let (pool, seen) = (pool.clone(), seen.clone());
        on_drop(move || knock(&pool, &seen))
    };

    let capture = knocks();
    pool.try_submit(move || drop(capture)).unwrap().join().unwrap();
    assert_eq!(recv(&sights), Some(Reason::Full), "a capture dropped by the body");

    let capture = knocks();
    let kept = pool.try_submit(move || {
        let _ = &capture;
    });
    kept.unwrap().join().unwrap();
    assert_eq!(recv(&sights), Some(Reason::Full), "a capture dropped after the body");

    let result = knocks();
    let gate = Gate::new();
    let wait = gate.clone();
    let detached = pool.try_submit(move || {
        wait.wait();
        result
    });
    drop(detached.unwrap());
    gate.open();
    assert_eq!(recv(&sights), Some(Reason::Full), "the result of a job whose handle is gone");
    pool.wait_idle();

    let result = knocks();
    drop(pool.try_submit(move || result).unwrap().join().unwrap());
    assert_eq!(recv(&sights), None, "a result in the hands of the one who joined");
    pool.wait_idle();
    assert_all_slots_free(&pool);
}

#[test]
fn a_waker_that_submits_finds_the_slot_returned() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 1).unwrap();
    let (seen, sights) = mpsc::channel();
    let gate = Gate::new();
    let wait = gate.clone();
    let mut job = pool.try_submit(move || wait.wait()).unwrap();
    let knocking = {
        let (pool, seen) = (pool.clone(), Mutex::new(seen));
        waker(move || knock(&pool, &seen.lock().unwrap()))
    };
    assert!(poll(&mut job, &knocking).is_pending());
    gate.open();
    assert_eq!(recv(&sights), None);
    job.join().unwrap();
    pool.wait_idle();
    assert_all_slots_free(&pool);
}

#[test]
fn a_destructor_that_submits_while_its_job_is_cancelled_does_not_deadlock() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 2).unwrap();
    let busy = occupy(&pool);
    let (seen, sights) = mpsc::channel();
    let capture = {
        let pool = pool.clone();
        on_drop(move || knock(&pool, &seen))
    };
    let job = pool.try_submit(move || drop(capture)).unwrap();
    assert!(job.cancel());
    assert_eq!(
        recv(&sights),
        Some(Reason::Full),
        "the slot returns after the captures are dropped"
    );
    let next = pool.try_submit(|| ()).expect("the slot returns before cancel does");
    busy.free();
    next.join().unwrap();
    assert_all_slots_free(&pool);
}

#[test]
fn a_critical_job_inherits_the_slot_of_the_one_it_displaces() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 2).unwrap();
    let busy = occupy(&pool);
    let (dropped_on, drops) = mpsc::channel();
    let capture = on_drop(move || dropped_on.send(thread::current().id()).unwrap());
    let ran = Arc::new(AtomicBool::new(false));
    let flag = ran.clone();
    let victim = pool
        .try_submit(move || {
            flag.store(true, SeqCst);
            drop(capture);
        })
        .unwrap();
    let critical = pool
        .job()
        .priority(Priority::Critical)
        .try_submit(|| 7)
        .expect("it displaces the queued one");
    assert_eq!(recv(&drops), thread::current().id());
    assert!(victim.is_finished());
    assert!(matches!(victim.join(), Err(JobError::Shed(ShedReason::Displaced))));
    assert_eq!((pool.in_flight(), pool.queued()), (2, 1));
    assert_eq!(pool.try_submit(|| ()).unwrap_err().reason(), Reason::Full);
    busy.free();
    assert_eq!(critical.join().unwrap(), 7);
    assert!(!ran.load(SeqCst));
    assert_eq!(pool.snapshot().shed.get(ShedReason::Displaced), 1);
    assert_all_slots_free(&pool);
}

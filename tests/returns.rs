//! Slots of very short jobs, whose returns workers note for themselves: nobody can tell.
//!
//! Each pool has so many slots, and so short jobs, that returns are noted.

mod common;

use std::sync::mpsc;
use std::thread;

use common::short::{SHORT, taught};
use common::{Gate, assert_at_rest, elsewhere, eventually, hold, recv, rounds_in, watchdog};
use weirpool::test::ManualClock;
use weirpool::{JobHandle, Partition, Pool, Priority, Reason, Shutdown};

const SLOTS: usize = 64;

fn pool(workers: usize) -> (Pool, ManualClock) {
    taught(Pool::builder().batch().workers(workers).capacity(SLOTS))
}

/// Jobs that come and go.
fn short_jobs(pool: &Pool, clock: &ManualClock, jobs: usize) {
    for _ in 0..jobs {
        let clock = clock.clone();
        pool.try_submit(move || clock.advance(SHORT)).unwrap().join().unwrap();
    }
}

/// One that lasts until its gate is opened, and tells when it starts.
fn long_job(pool: &Pool) -> (Gate, mpsc::Receiver<()>, JobHandle<()>) {
    let (gate, (started, starts)) = (Gate::new(), mpsc::channel());
    let opened = gate.clone();
    let job = move || {
        started.send(()).unwrap();
        opened.wait();
    };
    (gate, starts, pool.try_submit(job).unwrap())
}

#[test]
fn a_long_job_keeps_no_slots_but_its_own() {
    let (pool, clock) = pool(1);
    for short in (0..SLOTS - 1).chain(0..8) {
        let held = hold(&pool, 1);
        let jobs: Vec<_> = (0..short)
            .map(|_| {
                let clock = clock.clone();
                pool.try_submit(move || clock.advance(SHORT)).unwrap()
            })
            .collect();
        let (gate, starts, long) = long_job(&pool);
        held.free();
        recv(&starts);
        assert!(jobs.iter().all(|job| job.is_finished()));
        let now = pool.snapshot();
        assert_eq!((now.in_flight, now.running, now.queued), (1, 1, 0), "after {short}");
        assert_eq!((pool.in_flight(), pool.running(), pool.queued()), (1, 1, 0));
        let others = pool.try_reserve_many(SLOTS - 1).expect("all but one are free");
        assert_eq!(pool.try_reserve().unwrap_err().reason(), Reason::Full);
        drop(others);
        gate.open();
        long.join().unwrap();
    }
    assert_at_rest(&pool);
}

#[test]
fn whoever_has_joined_all_finds_all_slots() {
    let (pool, clock) = pool(2);
    for round in 0..rounds_in(300, 3_000) {
        let jobs = 1 + round % SLOTS;
        let handles: Vec<_> = (0..jobs)
            .map(|_| {
                let clock = clock.clone();
                pool.try_submit(move || clock.advance(SHORT)).expect("joined ones hold no slot")
            })
            .collect();
        handles.into_iter().for_each(|job| job.join().unwrap());
        assert_eq!(pool.in_flight(), 0);
        let all = pool.try_reserve_many(SLOTS).expect("nothing is in flight");
        assert_eq!(pool.try_reserve().unwrap_err().reason(), Reason::Full);
        drop(all);
    }
    assert_at_rest(&pool);
}

#[test]
fn each_submits_its_share_and_is_never_refused() {
    const PRODUCERS: usize = 4;
    let (pool, clock) = pool(2);
    thread::scope(|scope| {
        for _ in 0..PRODUCERS {
            scope.spawn(|| {
                for _ in 0..rounds_in(500, 20_000) {
                    let handles = [(); SLOTS / PRODUCERS].map(|()| {
                        let clock = clock.clone();
                        pool.try_submit(move || clock.advance(SHORT)).expect("a share is free")
                    });
                    handles.into_iter().for_each(|job| job.join().unwrap());
                }
            });
        }
        // And one who looks all the time.
        scope.spawn(|| {
            for _ in 0..rounds_in(2_000, 50_000) {
                let now = pool.snapshot();
                assert_eq!(now.in_flight, now.reserved + now.queued + now.running);
                assert!(pool.in_flight() <= SLOTS);
            }
        });
    });
    assert_at_rest(&pool);
}

#[test]
fn who_waits_for_a_slot_or_for_the_end_is_woken() {
    let _watchdog = watchdog();
    for _ in 0..rounds_in(20, 200) {
        let (pool, clock) = pool(2);
        thread::scope(|scope| {
            for _ in 0..SLOTS + 8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let clock = clock.clone();
                        let job = move || clock.advance(SHORT);
                        pool.submit_blocking(job).unwrap().join().unwrap();
                    }
                });
            }
        });
        for _ in 0..20 {
            (0..SLOTS / 2).for_each(|_| {
                let clock = clock.clone();
                pool.try_spawn(move || clock.advance(SHORT)).unwrap();
            });
            pool.wait_idle();
            assert_eq!(pool.in_flight(), 0);
        }
        assert_at_rest(&pool);
    }
}

#[test]
fn a_shutdown_counts_only_what_was_left() {
    for short in 0..40 {
        let (pool, clock) = pool(1);
        short_jobs(&pool, &clock, short);
        let (held, queued) = (hold(&pool, 1), pool.try_submit(|| ()).unwrap());
        let closing = {
            let pool = pool.clone();
            elsewhere(move || pool.shutdown(Shutdown::Drain, None))
        };
        eventually("it is closed", || pool.is_closed());
        held.free();
        let report = closing.wait();
        assert_eq!((report.completed, report.discarded, report.still_running), (2, 0, 0));
        queued.join().unwrap();
        assert_at_rest(&pool);
    }
}

#[test]
fn a_critical_job_displaces_nobody_while_slots_are_only_noted() {
    let (pool, clock) = pool(1);
    for short in 1..20 {
        // Of all slots only those of the short jobs come back before the critical job.
        let permits = pool.try_reserve_many(SLOTS - short - 3).unwrap();
        let held = hold(&pool, 1);
        for _ in 0..short {
            let clock = clock.clone();
            pool.try_spawn(move || clock.advance(SHORT)).unwrap();
        }
        let (gate, starts, long) = long_job(&pool);
        let victim = pool.try_submit(|| ()).unwrap();
        held.free();
        recv(&starts);
        let critical = pool.job().priority(Priority::Critical);
        let urgent: Vec<_> = (0..=short).map(|_| critical.try_submit(|| ()).unwrap()).collect();
        assert_eq!(pool.in_flight(), SLOTS);
        assert!(!victim.is_finished(), "it gave way to a job that had room");
        gate.open();
        long.join().unwrap();
        urgent.into_iter().for_each(|job| job.join().unwrap());
        victim.join().unwrap();
        drop(permits);
        // With the pool empty, returns are noted again.
        short_jobs(&pool, &clock, 2);
    }
    assert_at_rest(&pool);
}

/// A refusal that looks at nothing but the partition tells when to come back all the same.
#[test]
fn a_worker_that_sleeps_leaves_nothing_noted() {
    let builder = Pool::builder().batch().workers(1).capacity(SLOTS);
    let (pool, clock) = taught(builder.partition("one", Partition::new().max(1)));
    let one = pool.job().partition(pool.partition("one").unwrap());
    let _taken = one.try_reserve().unwrap();
    for jobs in 1..SLOTS - 1 {
        short_jobs(&pool, &clock, jobs);
        // Of one slot in flight, and half as much again.
        eventually("there is one permit in flight", || {
            one.try_reserve().unwrap_err().retry_after().unwrap() < 2 * SHORT
        });
    }
}

//! What becomes of a job that is shed: it never runs, whatever kind it is of; its slot comes back
//! once, beside cancelling, displacing and shutting down; and lanes below keep their turns.

use std::time::Duration;

use weirpool::{Builder, Partition, Priority, QueueDelay, ShedReason, Shutdown};

use crate::common::lockstep::Lockstep;
use crate::common::{
    Count, Drops, assert_adds_up, assert_all_slots_free, assert_at_rest, eventually, hold, on_drop,
    quiet_panic, resolve,
};
use crate::pools::{MS, PRIORITIES, SECOND, TARGET, is_delayed, pool_with, shed_for_delay};

#[test]
fn a_shed_job_never_runs_and_its_slot_is_back_before_its_handle_resolves() {
    let (pool, clock) = pool_with(QueueDelay::cutoff(TARGET), |builder| builder.capacity(3));
    let (ran, dropped) = (Count::new(), Drops::new());
    for round in 1..=200 {
        let held = hold(&pool, 1);
        let queue = |_| {
            let (ran, ghost) = (ran.clone(), dropped.tracked());
            let body = move || {
                let _ghost = ghost;
                ran.add();
            };
            pool.try_submit(body).unwrap()
        };
        let [first, last] = [0, 1].map(queue);
        clock.advance(2 * TARGET);
        held.open();
        assert!(is_delayed(&resolve(first)));
        assert!(dropped.count() >= 2 * round - 1, "what it captured is gone");
        assert!(is_delayed(&resolve(last)));
        assert_eq!((dropped.count(), pool.in_flight()), (2 * round, 0));
        held.free();
    }
    assert_eq!((ran.get(), shed_for_delay(&pool)), (0, 400));
    assert_all_slots_free(&pool);
}

#[test]
fn detached_reserved_and_scoped_jobs_are_shed_alike() {
    let (pool, clock) = pool_with(QueueDelay::cutoff(TARGET), |builder| builder);
    let permit = pool.try_reserve().unwrap();
    clock.advance(SECOND);
    let held = hold(&pool, 1);
    let of_permit = permit.submit(|| ()).unwrap();
    pool.try_spawn(|| ()).unwrap();
    let (outcome, ()) = std::thread::scope(|threads| {
        let scoped = threads.spawn(|| pool.scope(|scope| scope.try_submit(|| ()).unwrap().join()));
        eventually("all three wait", || pool.queued() == 3);
        clock.advance(500 * MS);
        held.free();
        (scoped.join().unwrap(), ())
    });
    assert!(is_delayed(&outcome), "{outcome:?}");
    assert!(is_delayed(&resolve(of_permit)), "its wait counts from the submit");
    eventually("the detached one, too", || shed_for_delay(&pool) == 3);
    assert_at_rest(&pool);
}

#[test]
fn a_destructor_that_panics_while_its_job_is_shed_costs_nothing() {
    let (pool, clock) = pool_with(QueueDelay::cutoff(TARGET), |builder| builder);
    let held = hold(&pool, 1);
    let bomb = on_drop(|| quiet_panic());
    let body = move || {
        let _bomb = &bomb;
    };
    let job = pool.try_submit(body).unwrap();
    clock.advance(2 * TARGET);
    held.free();
    assert!(is_delayed(&resolve(job)));
    assert_eq!(resolve(pool.try_submit(|| 5).unwrap()).unwrap(), 5);
    assert_eq!(pool.snapshot().contained_panics, 1);
    assert_at_rest(&pool);
}

#[test]
fn cancel_displace_drain_and_discard_go_on_beside_shedding() {
    for how in [Shutdown::Drain, Shutdown::Discard] {
        let set = |builder: Builder| {
            let a = Partition::new().reserved(4).max(8);
            builder.capacity(32).critical_reserve(2).partition("a", a).max_bytes(1_000)
        };
        let (pool, clock) = pool_with(QueueDelay::cutoff(TARGET), set);
        let of_a = pool.job().partition(pool.partition("a").unwrap()).bytes(10);
        let held = hold(&pool, 1);
        let mut jobs: Vec<_> = (0..6).map(|_| of_a.try_submit(|| ()).unwrap()).collect();
        for nth in 0..23 {
            let priority = PRIORITIES[nth % 3];
            jobs.push(pool.job().priority(priority).bytes(5).try_submit(|| ()).unwrap());
        }
        let critical = pool.job().priority(Priority::Critical);
        let urgent: Vec<_> = (0..6).map(|_| critical.try_submit(|| ()).unwrap()).collect();
        clock.advance(500 * MS);
        let cancelled = jobs.iter().step_by(5).filter(|job| job.cancel()).count() as u64;
        let fresh: Vec<_> = (0..2).filter_map(|_| pool.try_submit(|| ()).ok()).collect();
        assert!(!fresh.is_empty(), "cancelled slots are back");

        let report = pool.shutdown(how, Some(Duration::ZERO));
        drop(held);
        pool.shutdown(Shutdown::Drain, None);
        let now = pool.snapshot();
        let [delayed, displaced] =
            [ShedReason::QueueDelay, ShedReason::Displaced].map(|why| now.shed.get(why));
        assert_eq!(now.cancelled, cancelled);
        assert!(displaced >= 4, "{now:?}");
        if how == Shutdown::Drain {
            assert_eq!(delayed, 29 - cancelled - displaced);
            assert_eq!((report.discarded, now.discarded), (0, 0));
        } else {
            assert_eq!((delayed, now.discarded), (0, report.discarded as u64));
        }
        for job in jobs.into_iter().chain(urgent).chain(fresh) {
            let _ = resolve(job);
        }
        assert_at_rest(&pool);
        assert_eq!(now.bytes, 0);
    }
}

#[test]
fn a_waiting_lane_gets_its_turn_although_what_stands_at_its_head_is_not_run() {
    // Twice: low jobs that have waited too long, and low jobs whose time is up.
    for (law, timeout) in
        [(QueueDelay::cutoff(20 * MS), Duration::MAX), (QueueDelay::off(), 20 * MS)]
    {
        let (pool, clock) = pool_with(law, |builder| builder);
        let mut flood = Lockstep::new(pool, clock, MS);
        flood.offer_many(1);
        for tick in 0..5_000 {
            flood.offer(|pool| pool.job().priority(Priority::High)).unwrap();
            if tick % 5 == 0 {
                flood.offer(|pool| pool.job().priority(Priority::Low).timeout(timeout)).unwrap();
            }
            flood.tick();
        }
        let turns: Vec<_> = flood.log.iter().filter(|(_, of, _)| *of == Priority::Low).collect();
        assert!((4..=5).contains(&turns.len()), "{law:?}: {} turns", turns.len());
        let between = turns.windows(2).map(|pair| pair[1].0 - pair[0].0);
        assert!(between.clone().all(|apart| apart <= SECOND + 2 * MS), "{:?}", between.max());
        assert!(turns.iter().all(|(.., waited)| *waited <= 20 * MS));
        flood.finish();
        assert_adds_up(&flood.pool);
    }
}

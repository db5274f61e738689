//! The laws by which a worker sheds what it takes up: the interval rule, that of the RFC, and the
//! cut-off; and what is no overload to any of them.

use std::time::Duration;

use weirpool::{Clock, JobError, Priority, QueueDelay, Reason, ShedReason};

use crate::common::{assert_adds_up, hold, resolve};
use crate::pools::{
    INTERVAL, MS, SECOND, TARGET, fill, graded, is_delayed, offer_evenly, one_per_tick, pool_with,
    shed_for_delay, taught, taught_with,
};

#[test]
fn a_standing_queue_is_shed_by_the_interval_rule_and_no_burst_is() {
    let codel = QueueDelay::codel(TARGET, INTERVAL);
    let mut burst = one_per_tick(codel, 1);
    assert_eq!(burst.offer_many(60), 0);
    (0..100).for_each(|_| burst.tick());
    assert_eq!(burst.pool.snapshot().shed.total(), 0, "a burst of 60 ms");

    let mut flood = one_per_tick(codel, 1);
    let mut first = None;
    for tick in 0..3_000 {
        offer_evenly(&mut flood, 1, 5, 2);
        flood.offer_many(tick % 2);
        if first.is_none() && shed_for_delay(&flood.pool) > 0 {
            first = Some(tick);
        }
    }
    let first = first.expect("a standing queue is shed");
    assert!((100..250).contains(&first), "after an interval above the target: {first}");
    let from = flood.clock.now() - 2 * SECOND;
    let waits = flood.waits_since(from);
    assert!(waits[waits.len() * 99 / 100] <= 20 * MS, "{:?}", waits.last());
    assert!(waits.len() >= 2_000, "no worker was without work");
    assert!(flood.pool.snapshot().queue_delay.is_refusing);
    let now = flood.pool.snapshot().queue_delay;
    assert!(now.smallest_wait > Some(TARGET) && now.bound.is_none(), "{now:?}");
    flood.finish();
    assert_adds_up(&flood.pool);
}

#[test]
fn the_control_law_of_the_rfc_drops_one_and_the_next_by_the_square_root() {
    let mut flood = one_per_tick(QueueDelay::rfc8289(TARGET, INTERVAL), 1);
    // 100 jobs wait, and as many come as can be done: every wait is about 100 ms.
    flood.offer_many(100);
    let (mut drops, mut above_since) = (Vec::new(), None);
    let mut shed = 0;
    for tick in 0..900_u32 {
        flood.offer_many(1);
        flood.tick();
        if above_since.is_none() && flood.log.last().unwrap().2 >= TARGET {
            above_since = Some(tick);
        }
        let now = shed_for_delay(&flood.pool);
        assert!(now - shed <= 1, "one at a time");
        drops.extend((now > shed).then_some(f64::from(tick)));
        shed = now;
    }
    let mut due = f64::from(above_since.unwrap()) + 100.0;
    for (nth, dropped) in drops.iter().enumerate() {
        assert!((dropped - due).abs() <= 1.5, "drop {nth} at {dropped}, due at {due}");
        due += 100.0 / ((nth + 1) as f64).sqrt();
    }
    assert!(drops.len() >= 12, "{drops:?}");
    flood.finish();
    assert_adds_up(&flood.pool);
}

#[test]
fn sparse_traffic_does_not_escape_the_law() {
    for law in [QueueDelay::codel(TARGET, INTERVAL), QueueDelay::rfc8289(TARGET, INTERVAL)] {
        // One worker is busy for good, so that the pool never goes to rest.
        let (pool, clock) = taught_with(law, |builder| builder.workers(2));
        let for_good = hold(&pool, 1);
        let mut shed = 0;
        for _ in 0..20 {
            let gate = hold(&pool, 1);
            let job = pool.job().priority(Priority::Low).try_submit(|| ()).unwrap();
            clock.advance(50 * MS);
            gate.free();
            shed += usize::from(is_delayed(&resolve(job)));
            clock.advance(100 * MS);
        }
        assert!(shed >= 10, "{law:?}: {shed} of 20, each of which waited 50 ms");
        for_good.free();
    }
}

#[test]
fn a_cutoff_is_hard_and_exact() {
    let wait_of = |wait: Duration| {
        let (pool, clock) = pool_with(QueueDelay::cutoff(20 * MS), |builder| builder);
        let held = hold(&pool, 1);
        let job = pool.try_submit(|| ()).unwrap();
        clock.advance(wait);
        held.free();
        is_delayed(&resolve(job))
    };
    assert!(!wait_of(20 * MS), "that is no longer than it may");
    assert!(wait_of(20 * MS + Duration::from_nanos(1)));
    assert!(wait_of(3_600 * SECOND), "whatever made the time pass");
}

#[test]
fn without_a_law_nothing_is_shed() {
    for batch in [false, true] {
        let (pool, clock) = taught_with(QueueDelay::off(), |builder| {
            if batch { builder.queue_delay(graded()).batch() } else { builder }
        });
        let held = hold(&pool, 1);
        assert_eq!(fill(pool.job()), (511, Reason::Full));
        clock.advance(900 * MS);
        held.free();
        pool.wait_idle();
        let now = pool.snapshot();
        assert_eq!((now.shed.total(), now.completed), (0, 60 + 512));
        let state = now.queue_delay;
        assert_eq!((state.target, state.bound, state.door_jobs), (None, None, None));
        assert_eq!((state.offered_load, state.is_refusing), (None, false));
    }
}

#[test]
fn a_pause_of_the_whole_process_is_no_overload() {
    let laws = [
        (graded(), 0),
        (QueueDelay::codel(TARGET, INTERVAL), 0),
        (QueueDelay::rfc8289(TARGET, INTERVAL), 0),
        (QueueDelay::off(), 0),
        (QueueDelay::cutoff(SECOND), 10),
    ];
    for (law, expected) in laws {
        let (pool, clock) = taught(law);
        let held = hold(&pool, 1);
        let plain: Vec<_> = (0..10).map(|_| pool.try_submit(|| ()).unwrap()).collect();
        let expiring = pool.job().timeout(60 * SECOND).try_submit(|| ()).unwrap();
        clock.advance(3_600 * SECOND);
        held.free();
        let shed = plain.into_iter().filter_map(|job| resolve(job).err()).count();
        assert_eq!(shed, expected, "{law:?}");
        assert!(matches!(resolve(expiring), Err(JobError::Shed(ShedReason::Deadline))));
        assert_adds_up(&pool);
        // And what comes afterwards is served as ever.
        for _ in 0..10 {
            resolve(pool.try_submit(|| ()).unwrap()).unwrap();
        }
        assert!(pool.snapshot().mean_service_time.unwrap() < 3_600 * SECOND);
    }
}

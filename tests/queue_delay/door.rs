//! The graded door: how many may wait before it, for each class of priority; what it predicts and
//! advises; and whose way leads past it.

use std::sync::mpsc;
use std::time::Duration;

use weirpool::{Builder, Clock, Priority, QueueDelay, Reason, ShedReason};

use crate::common::{Count, Gate, assert_at_rest, eventually, hold, recv, resolve, watchdog};
use crate::pools::{
    MS, PRIORITIES, SECOND, TARGET, fill, graded, pool_with, shed_for_delay, taught, taught_with,
    teach,
};

#[test]
fn before_fifty_jobs_have_ended_only_the_capacity_refuses() {
    let (pool, clock) = pool_with(graded(), |builder| builder.capacity(64));
    assert_eq!(pool.snapshot().queue_delay.door_jobs, None);
    teach(&pool, &clock, 49, MS);
    let held = hold(&pool, 1);
    assert_eq!(fill(pool.job()), (63, Reason::Full));
    clock.advance(10 * MS);
    assert_eq!(pool.try_spawn(|| ()).unwrap_err().reason(), Reason::Full);
    held.free();
    pool.wait_idle();
    assert_eq!((shed_for_delay(&pool), pool.snapshot().completed), (0, 49 + 64));
    assert_eq!(pool.snapshot().rejected.get(Reason::QueueDelay), 0);

    let (pool, clock) = pool_with(graded(), |builder| builder.capacity(64));
    teach(&pool, &clock, 60, MS);
    let held = hold(&pool, 1);
    assert_eq!(fill(pool.job()), (20, Reason::QueueDelay), "four targets of 5 ms are 20 jobs");
    held.free();
}

#[test]
fn the_door_tells_what_it_allows_and_why_it_refuses() {
    let (pool, _clock) = taught(graded());
    let now = pool.snapshot().queue_delay;
    assert_eq!((now.target, now.bound, now.door_jobs), (Some(TARGET), Some(20 * MS), Some(20)));
    assert_eq!((now.predicted_wait, now.is_refusing), (Duration::ZERO, false));
    assert!(now.offered_load.unwrap() < 0.2, "{now:?}");
    assert!(pool.load().score < 0.1);

    let held = hold(&pool, 1);
    assert_eq!(fill(pool.job()), (20, Reason::QueueDelay));
    let now = pool.snapshot().queue_delay;
    assert_eq!((now.predicted_wait, now.is_refusing), (20 * MS, true));
    assert_eq!(pool.load().score, 1.0, "it refuses");
    assert!(pool.snapshot().in_flight < 100);
    held.free();
    pool.wait_idle();
    eventually("calm again", || pool.load().score == 0.0);
    assert_at_rest(&pool);
}

#[test]
fn two_workers_may_have_twice_as_many_waiting() {
    let (pool, _clock) = taught_with(graded(), |builder| builder.workers(2));
    let held = hold(&pool, 2);
    assert_eq!(fill(pool.job()), (40, Reason::QueueDelay));
    held.free();
}

#[test]
fn each_class_counts_its_own_lane_and_those_above() {
    let (pool, _clock) = taught(graded());
    let held = hold(&pool, 1);
    let of = |priority| pool.job().priority(priority);
    // Each fills its own bound, whatever waits below it.
    for priority in [Priority::Low, Priority::Normal, Priority::High] {
        assert_eq!(fill(of(priority)), (20, Reason::QueueDelay), "{priority:?}");
    }
    for priority in [Priority::Low, Priority::Normal, Priority::High] {
        let refused = of(priority).try_spawn(|| ()).unwrap_err();
        assert_eq!(refused.reason(), Reason::QueueDelay);
    }
    // Critical work never meets it: the first it meets is the capacity, and there it displaces.
    for _ in 0..512 - 61 + 40 {
        of(Priority::Critical).try_spawn(|| ()).unwrap();
    }
    let end = of(Priority::Critical).try_spawn(|| ()).unwrap_err();
    assert_eq!(end.reason(), Reason::Full, "of low and normal work nothing is left");
    held.free();
    pool.wait_idle();
    let now = pool.snapshot();
    assert_eq!(now.shed.get(ShedReason::Displaced), 40);
    assert_eq!(now.rejected.get(Reason::QueueDelay), 6);
    assert_at_rest(&pool);
}

#[test]
fn a_full_lane_above_refuses_those_below_and_none_above() {
    let (pool, _clock) = taught(graded());
    let held = hold(&pool, 1);
    assert_eq!(fill(pool.job().priority(Priority::Normal)), (20, Reason::QueueDelay));
    let low = pool.job().priority(Priority::Low).try_spawn(|| ()).unwrap_err();
    assert_eq!(low.reason(), Reason::QueueDelay);
    pool.job().priority(Priority::High).try_spawn(|| ()).unwrap();
    held.free();
}

#[test]
fn work_submitted_from_inside_a_body_meets_no_door_and_is_never_shed() {
    let _watchdog = watchdog();
    for law in [graded(), QueueDelay::cutoff(TARGET)] {
        let (pool, clock) = taught_with(law, |builder| builder.workers(1));
        let (inside, gate, ran) = (pool.clone(), Gate::new(), Count::new());
        let (ready, running) = mpsc::channel();
        let (wait, count) = (gate.clone(), ran.clone());
        let parent = pool.try_submit(move || {
            ready.send(()).unwrap();
            wait.wait();
            for priority in PRIORITIES.into_iter().cycle().take(40) {
                let count = count.clone();
                inside.job().priority(priority).try_spawn(move || count.add()).unwrap();
            }
            clock.advance(900 * MS);
        });
        recv(&running);
        (0..20).for_each(|_| pool.try_spawn(|| ()).unwrap());
        gate.open();
        resolve(parent.unwrap()).unwrap();
        pool.wait_idle();
        assert_eq!(ran.get(), 40, "{law:?}");
        assert_eq!(shed_for_delay(&pool), 20, "those from outside");
        assert_at_rest(&pool);
    }
}

#[test]
fn a_job_from_outside_that_is_joined_in_place_is_not_judged() {
    let _watchdog = watchdog();
    let (pool, clock) = taught(QueueDelay::cutoff(TARGET));
    let (give, take) = mpsc::channel();
    let time = clock.clone();
    let parent = pool.try_submit(move || {
        let child: weirpool::JobHandle<u32> = recv(&take);
        time.advance(900 * MS);
        child.join()
    });
    eventually("the parent runs", || pool.running() == 1);
    give.send(pool.try_submit(|| 7).unwrap()).unwrap();
    assert_eq!(resolve(parent.unwrap()).unwrap().unwrap(), 7);
    assert_eq!(shed_for_delay(&pool), 0);
}

#[test]
fn the_target_is_no_less_than_what_one_job_takes() {
    let (pool, clock) = pool_with(graded(), |builder| builder);
    teach(&pool, &clock, 60, 20 * MS);
    assert_eq!(pool.snapshot().queue_delay.target, Some(20 * MS));
    let held = hold(&pool, 1);
    assert_eq!(fill(pool.job()), (4, Reason::QueueDelay), "four targets are four jobs");
    held.free();
    pool.wait_idle();
    // However long jobs are, one of them may wait.
    let (pool, clock) = pool_with(graded(), |builder| builder);
    teach(&pool, &clock, 60, 3_600 * SECOND);
    let held = hold(&pool, 1);
    let (queued, reason) = fill(pool.job());
    assert!((1..=4).contains(&queued) && reason == Reason::QueueDelay, "{queued}");
    held.free();
}

#[test]
fn a_deadline_that_the_predicted_wait_misses_is_refused_at_once() {
    let (pool, clock) = taught(graded());
    let held = hold(&pool, 1);
    (0..10).for_each(|_| pool.try_spawn(|| ()).unwrap());
    let within = |wait| pool.job().timeout(wait).try_spawn(|| ()).map_err(|no| no.reason());
    assert_eq!(within(9 * MS), Err(Reason::Deadline));
    assert_eq!(within(11 * MS), Ok(()));
    // High work has nobody before it.
    let urgent = pool.job().priority(Priority::High).timeout(MS);
    urgent.try_spawn(|| ()).unwrap();
    // Those who wait for a slot can't wait for that either.
    let waiting = pool.job().timeout(5 * MS).submit_timeout(|| (), SECOND);
    assert_eq!(waiting.unwrap_err().reason(), Reason::Deadline);
    assert_eq!(pool.job().timeout(5 * MS).try_reserve().unwrap_err().reason, Reason::Deadline);
    let refused = pool.job().deadline(clock.now() + MS).try_spawn(|| ()).unwrap_err();
    assert_eq!(refused.retry_after(), None, "the deadline is past by then");
    held.free();

    let (pool, _clock) = taught_with(graded(), Builder::batch);
    let held = hold(&pool, 1);
    (0..10).for_each(|_| pool.try_spawn(|| ()).unwrap());
    assert!(pool.job().timeout(MS).try_spawn(|| ()).is_ok(), "batch work is not predicted");
    held.free();
}

#[test]
fn the_wait_hint_is_the_time_to_drain_with_some_spread() {
    let (pool, clock) = pool_with(graded(), |builder| builder.capacity(11));
    let held = hold(&pool, 1);
    let (_, reason) = fill(pool.job());
    assert_eq!(reason, Reason::Full);
    assert_eq!(pool.try_spawn(|| ()).unwrap_err().retry_after(), None, "no job has ended yet");
    assert_eq!(pool.load().retry_after(), None);
    held.free();
    pool.wait_idle();

    let (pool, _) = taught_with(graded(), |builder| builder.capacity(11));
    let held = hold(&pool, 1);
    assert_eq!(fill(pool.job()), (10, Reason::Full));
    let refused = pool.try_spawn(|| ()).unwrap_err();
    let hints: Vec<_> = (0..50).map(|_| refused.retry_after().unwrap()).collect();
    let drain = 11 * MS;
    assert!(hints.iter().all(|hint| (drain..=drain * 3 / 2).contains(hint)), "{hints:?}");
    assert!(hints.iter().any(|hint| *hint != hints[0]), "nobody comes back with the others");
    assert!((drain..=drain * 3 / 2).contains(&pool.load().retry_after().unwrap()));
    drop(clock);
    held.free();
}

//! Pools on a clock of their own that know how long their jobs take, and what fills their queues:
//! one job after the other, or a flood in virtual time.

use std::time::Duration;

use weirpool::{Builder, JobError, JobSpec, Pool, Priority, QueueDelay, Reason, ShedReason};

use crate::common::clocks::WatchedClock;
use crate::common::lockstep::Lockstep;
use crate::common::{eventually, resolve};

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const TARGET: Duration = Duration::from_millis(5);
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);
pub(crate) const PRIORITIES: [Priority; 4] =
    [Priority::Low, Priority::Normal, Priority::High, Priority::Critical];

pub(crate) fn graded() -> QueueDelay {
    QueueDelay::graded(TARGET)
}

/// A pool on a clock of its own, without a CPU gate.
pub(crate) fn pool_with(
    law: QueueDelay,
    set: impl FnOnce(Builder) -> Builder,
) -> (Pool, WatchedClock) {
    let clock = WatchedClock::new();
    let builder = Pool::builder().workers(1).capacity(512).clock(clock.clone());
    let builder = builder.queue_delay(law).no_cpu_gate().seed(1);
    (set(builder).build().unwrap(), clock)
}

/// Runs so many jobs one after the other, each of which takes `service`.
pub(crate) fn teach(pool: &Pool, clock: &WatchedClock, jobs: u64, service: Duration) {
    let before = pool.snapshot().class(Default::default()).jobs;
    for taught in 1..=jobs {
        let time = clock.clone();
        resolve(pool.try_submit(move || time.advance(service)).unwrap()).unwrap();
        // After each, or a worker could measure the body of another as part of its own.
        eventually("what was measured is handed over", || {
            pool.snapshot().class(Default::default()).jobs == before + taught
        });
    }
}

/// A pool that knows its jobs to take a millisecond.
pub(crate) fn taught_with(
    law: QueueDelay,
    set: impl FnOnce(Builder) -> Builder,
) -> (Pool, WatchedClock) {
    let (pool, clock) = pool_with(law, set);
    teach(&pool, &clock, 60 * pool.workers() as u64, MS);
    (pool, clock)
}

pub(crate) fn taught(law: QueueDelay) -> (Pool, WatchedClock) {
    taught_with(law, |builder| builder)
}

pub(crate) fn shed_for_delay(pool: &Pool) -> u64 {
    pool.snapshot().shed.get(ShedReason::QueueDelay)
}

pub(crate) fn is_delayed<T>(outcome: &Result<T, JobError>) -> bool {
    matches!(outcome, Err(JobError::Shed(ShedReason::QueueDelay)))
}

/// Fills the queue with jobs of this kind until one is refused: how many, and why.
pub(crate) fn fill(job: JobSpec<'_>) -> (usize, Reason) {
    let mut queued = 0;
    loop {
        match job.try_spawn(|| ()) {
            Ok(()) => queued += 1,
            Err(refused) => return (queued, refused.reason()),
        }
    }
}

/// A pool of so many workers whose jobs take as many milliseconds: one ends per tick.
pub(crate) fn one_per_tick(law: QueueDelay, workers: usize) -> Lockstep {
    let (pool, clock) = pool_with(law, |builder| builder.workers(workers).capacity(512));
    teach(&pool, &clock, 60 * workers as u64, MS * u32::try_from(workers).unwrap());
    // The flood of the teaching is over.
    clock.advance(SECOND);
    Lockstep::new(pool, clock, MS)
}

/// Offers `jobs` per `per_ticks` ticks, evenly, for some ticks; how many were refused.
pub(crate) fn offer_evenly(
    lockstep: &mut Lockstep,
    ticks: usize,
    jobs: usize,
    per_ticks: usize,
) -> usize {
    let mut refused = 0;
    for tick in 0..ticks {
        let due = |tick: usize| tick * jobs / per_ticks;
        refused += lockstep.offer_many(due(tick + 1) - due(tick));
        lockstep.tick();
    }
    refused
}

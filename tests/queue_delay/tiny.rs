//! The graded door and jobs of a microsecond: one that takes long by accident is one of many, and many
//! that take long are seen.

use std::time::Duration;

use weirpool::{Class, Pool};

use crate::common::clocks::WatchedClock;
use crate::common::{assert_at_rest, eventually, hold};
use crate::pools::{MS, fill, graded, pool_with, teach};

const TINY: Duration = Duration::from_micros(1);
const CAPACITY: usize = 16_384;

/// Runs so many jobs of this kind, which are queued together, a thousand at a time.
fn work_off(pool: &Pool, clock: &WatchedClock, jobs: u64, service: Duration) {
    let measured = || pool.snapshot().class(Class::default()).jobs;
    let before = measured();
    for job in 1..=jobs {
        let time = clock.clone();
        pool.try_spawn(move || time.advance(service)).unwrap();
        if job % 1_000 == 0 || job == jobs {
            eventually("what was measured is handed over", || measured() == before + job);
        }
    }
}

/// A pool that has done nothing but jobs of a microsecond for some tens of milliseconds.
fn at_tiny_jobs() -> (Pool, WatchedClock) {
    let (pool, clock) = pool_with(graded(), |builder| builder.capacity(CAPACITY));
    work_off(&pool, &clock, 35_000, TINY);
    (pool, clock)
}

fn door_jobs(pool: &Pool) -> usize {
    pool.snapshot().queue_delay.door_jobs.expect("it knows its jobs")
}

#[test]
fn one_long_job_among_tiny_ones_closes_no_door() {
    for lost in [3 * MS, 18 * MS] {
        let (pool, clock) = at_tiny_jobs();
        assert!(door_jobs(&pool).abs_diff(20_000) <= 200, "twenty milliseconds are four targets");
        // What has room in that time if a window had room for hardly more than the one.
        let lost_ms = lost.as_millis() as usize;
        let others_ms = 10 - lost_ms.min(5) - 1;
        let least = 20_000 * others_ms / (others_ms + lost_ms);
        for _ in 0..7 {
            // A body that has lost its core.
            work_off(&pool, &clock, 1, lost);
            assert!(door_jobs(&pool) >= least, "{lost:?}: {}", door_jobs(&pool));
            // Until the next window, and out of step with it.
            for _ in 0..37 {
                work_off(&pool, &clock, 311, TINY);
                assert!(door_jobs(&pool) >= least, "{lost:?}: {}", door_jobs(&pool));
            }
        }
        let held = hold(&pool, 1);
        let (queued, _) = fill(pool.job());
        assert!(queued >= least, "{queued} were let in");
        held.free();
        pool.wait_idle();
        assert_at_rest(&pool);
    }
}

#[test]
fn many_long_jobs_after_tiny_ones_are_seen_within_some_dozens() {
    let (pool, clock) = at_tiny_jobs();
    teach(&pool, &clock, 40, MS);
    // One worker, of whose last thirty jobs each took a millisecond.
    assert!(door_jobs(&pool) <= 20 * 500 / 20, "{}", door_jobs(&pool));
    teach(&pool, &clock, 1_500, MS);
    assert!((20..=22).contains(&door_jobs(&pool)), "{}", door_jobs(&pool));
}

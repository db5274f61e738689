//! Pools that know that their jobs are very short. Their clock stands still unless a body moves it.

use std::time::Duration;

use weirpool::test::ManualClock;
use weirpool::{Builder, Pool};

use super::eventually;

/// What each of the jobs takes.
pub(crate) const SHORT: Duration = Duration::from_nanos(100);
/// Of jobs that take no longer than this on average, as many as possible are taken at a time.
const SHORT_ENOUGH: Duration = Duration::from_nanos(125);

/// A pool that has seen many very short jobs.
pub(crate) fn taught(builder: Builder) -> (Pool, ManualClock) {
    let clock = ManualClock::new();
    let pool = builder.clock(clock.clone()).build().unwrap();
    // One worker may see the clock moved by another, now and then.
    eventually("the mean is known", || {
        for _ in 0..400 {
            let clock = clock.clone();
            pool.try_submit(move || clock.advance(SHORT)).unwrap().join().unwrap();
        }
        pool.snapshot().mean_service_time.is_some_and(|mean| mean <= SHORT_ENOUGH)
    });
    (pool, clock)
}

//! How loaded the pool is, in one figure and a few.

use std::time::Duration;

use crate::error::{Reason, Refusal};

/// How loaded a pool is at one moment, from [`Pool::load`](crate::Pool::load).
///
/// ```
/// let pool = weirpool::Pool::new(1, 4)?;
/// assert_eq!(pool.load().score, 0.0);
/// # Ok::<(), weirpool::BuildError>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// From 0 (idle) to 1 (refusing): the largest of the slots in use, as a share of those that work
    /// other than critical may use now, of the queue, as a share of what the queue delay allows, and
    /// of the chance that the CPU gate refuses a job of normal priority.
    pub score: f64,
    /// Slots in use.
    pub in_flight: usize,
    /// All slots.
    pub capacity: usize,
    /// The average CPU use by the gate's source, from 0 to 1. None before the first reading, and
    /// without a CPU gate.
    pub cpu: Option<f64>,
    drain_ns: f64,
}

impl Load {
    /// The score is the largest of the shares.
    pub(crate) fn new(
        in_flight: usize,
        capacity: usize,
        shares: [f64; 3],
        cpu: Option<f64>,
        drain_ns: f64,
    ) -> Self {
        let score = shares.into_iter().fold(0.0, f64::max).min(1.0);
        Self { score, in_flight, capacity, cpu, drain_ns }
    }

    /// The wait hint that a job refused now would get, see [`Refusal::retry_after`].
    pub fn retry_after(&self) -> Option<Duration> {
        Refusal::new(Reason::Full, self.drain_ns).retry_after()
    }
}

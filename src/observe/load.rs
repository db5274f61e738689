//! How loaded the pool is, in one figure and a few.

use std::time::Duration;

use crate::error::{Backlog, Reason, Refusal};

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
    /// From 0 (idle) to 1 (refusing): the larger of the slots in use, as a share of the limit in force,
    /// and of the queue, as a share of what the queue delay allows.
    pub score: f64,
    /// Slots in use.
    pub in_flight: usize,
    /// All slots.
    pub capacity: usize,
    /// The average CPU use by the gate's source, from 0 to 1. None before the first reading, and
    /// without a CPU gate.
    pub cpu: Option<f64>,
    backlog: Backlog,
}

impl Load {
    /// `queued` jobs of so many that are allowed.
    pub(crate) fn new(
        in_flight: usize,
        capacity: usize,
        limit: usize,
        (queued, allowed): (usize, usize),
        cpu: Option<f64>,
        backlog: Backlog,
    ) -> Self {
        let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
        let score = share(in_flight, limit).max(share(queued, allowed)).min(1.0);
        Self { score, in_flight, capacity, cpu, backlog }
    }

    /// The wait hint that a job refused now would get, see [`Refusal::retry_after`].
    pub fn retry_after(&self) -> Option<Duration> {
        Refusal::new(Reason::Full, self.backlog).retry_after()
    }
}

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
    /// From 0 (idle) to 1 (every slot taken): slots in use as a share of the capacity.
    pub score: f64,
    /// Slots in use.
    pub in_flight: usize,
    /// All slots.
    pub capacity: usize,
    backlog: Backlog,
}

impl Load {
    pub(crate) fn new(in_flight: usize, capacity: usize, backlog: Backlog) -> Self {
        let score = (in_flight as f64 / capacity as f64).min(1.0);
        Self { score, in_flight, capacity, backlog }
    }

    /// The wait hint that a job refused now would get, see [`Refusal::retry_after`].
    pub fn retry_after(&self) -> Option<Duration> {
        Refusal::new(Reason::Full, self.backlog).retry_after()
    }
}

//! How many workers take jobs.
//!
//! Down fast and up slowly, as in congestion control: 5 % less for each throttled sample of 100 ms,
//! one in a hundred of the workers more for each clean one. The number is a fraction, and the worker
//! at the edge takes jobs for that fraction of each slice of 10 ms. Whole workers are too coarse:
//! a quota of 4 cores with half a core of other threads holds 3.5 workers; 3 leave a seventh of it
//! unused, and 4 stand still for 11 % of the time.
//!
//! Only a quota makes workers stand by. Where other threads or neighbours take the CPU, fewer workers
//! would not get the same CPU in fewer pieces, but less of it: a scheduler that shares by thread gives
//! each its part. A first version gave way to them as long as that seemed to cost nothing, and lost a
//! quarter of its answers on a busy machine.

use super::Contention;

/// A worker at the edge takes jobs in a part of each slice. Ten of them in a usual quota period.
const SLICE_NS: u64 = 10_000_000;

/// What the steps refer to.
const STEP_NS: f64 = 100_000_000.0;
const KEPT_PER_STEP: f64 = 0.95;
const REGAINED_PER_STEP: f64 = 0.01;
/// One sample moves the number by at most so many steps, however long it was: it says that there was
/// contention, not that it lasted.
const MAX_STEPS: f64 = 3.0;
/// Longer than any pool in use goes without a sample. What happened meanwhile says nothing.
const PAUSE_NS: u64 = 10_000_000_000;

/// The workers that may take jobs at `now_ns` if `level` may on average.
///
/// # Example
/// With a level of 3.5, four of them in the first half of each slice and three in the second.
pub(crate) fn active_at(level: f64, now_ns: u64) -> usize {
    let whole = level.max(1.0).floor();
    let edge = level.max(1.0) - whole;
    let into_slice = (now_ns % SLICE_NS) as f64 / SLICE_NS as f64;
    whole as usize + usize::from(into_slice < edge)
}

/// The number of workers that may take jobs, from 1 to all.
#[derive(Debug, Clone)]
pub(crate) struct ActiveWorkers {
    workers: f64,
    level: f64,
    at_its_floor: bool,
}

impl ActiveWorkers {
    /// All of `workers`, of which there is at least one.
    pub(crate) fn new(workers: usize) -> Self {
        let workers = workers.max(1) as f64;
        Self { workers, level: workers, at_its_floor: false }
    }

    /// Adds what was taken from the pool in a sample of `dt_ns`. A pause changes nothing.
    pub(crate) fn add(&mut self, dt_ns: u64, shares: Contention) {
        if dt_ns == 0 || dt_ns > PAUSE_NS {
            return;
        }
        let shares = shares.clamped();
        let steps = (dt_ns as f64 / STEP_NS).min(MAX_STEPS);
        let before = self.level;
        let level = if shares.is_throttled() {
            self.level * KEPT_PER_STEP.powf(steps)
        } else {
            self.level + self.workers * REGAINED_PER_STEP * steps
        };
        self.level = level.clamp(1.0, self.workers);
        self.at_its_floor = shares.is_contended() && self.level >= before;
    }

    /// Whether the CPU was contended in the last sample, and letting fewer workers take jobs is no
    /// answer to that, or no more than was done.
    pub(crate) fn is_at_its_floor(&self) -> bool {
        self.at_its_floor
    }

    /// The number of workers that may take jobs on average, a fraction from 1 to all; what
    /// [`active_at`] takes.
    pub(crate) fn level(&self) -> f64 {
        self.level
    }
}

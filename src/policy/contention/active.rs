//! How many workers take jobs.
//!
//! Down fast and up slowly, as in congestion control: 5 % less for each throttled sample of 100 ms,
//! one in a hundred of the workers more for each clean one. The number is a fraction, and the worker
//! at the edge takes jobs for that fraction of each slice of 10 ms. Whole workers are too coarse:
//! a quota of 4 cores with half a core of other threads holds 3.5 workers; 3 leave a seventh of it
//! unused, and 4 stand still for 11 % of the time.
//!
//! Under other threads and neighbours there is a floor: the cores that the pool really gets. And if
//! it gets less *because* there are fewer of its threads (a scheduler that shares by thread gives
//! each its part), the number goes back to the one with which it got the most.

use super::super::ema::Ema;
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

/// How long the obtained cores are averaged.
const OBTAINED_TAU_NS: u64 = 1_000_000_000;
/// If the pool gets less than this part of what it got with more workers, they were of use.
const WORTH_KEEPING: f64 = 0.95;
/// With so much of what its workers could use the pool wants all there is.
const ALL: f64 = 0.9;

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
    /// Time as this policy counts it: the sum of the samples.
    time_ns: u64,
    obtained: Ema,
    yielding: Option<Yielding>,
    at_its_floor: bool,
}

/// Cores of CPU that the pool's threads had, and had or waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cores {
    pub(crate) obtained: f64,
    pub(crate) wanted: f64,
}

/// While others take CPU and the pool gives way.
#[derive(Debug, Clone, Copy)]
struct Yielding {
    /// The most cores that the pool got in this time, and the last number of workers that got them.
    most: f64,
    level_then: f64,
}

impl ActiveWorkers {
    /// All of `workers`, of which there is at least one.
    pub(crate) fn new(workers: usize) -> Self {
        let workers = workers.max(1) as f64;
        let obtained = Ema::new(OBTAINED_TAU_NS);
        Self { workers, level: workers, time_ns: 0, obtained, yielding: None, at_its_floor: false }
    }

    /// Adds a sample of `dt_ns`: what was taken from the pool, and the cores that it got and wanted, if
    /// known. A pause changes nothing.
    ///
    /// A pool that could not have used more than it got has no reason to give way: what others took,
    /// it had no use for, and how much it could get with fewer workers doesn't show.
    pub(crate) fn add(&mut self, dt_ns: u64, shares: Contention, cores: Option<Cores>) {
        if dt_ns == 0 || dt_ns > PAUSE_NS {
            return;
        }
        self.time_ns = self.time_ns.saturating_add(dt_ns);
        if let Some(cores) = cores.filter(|cores| cores.obtained >= 0.0) {
            self.obtained.add(self.time_ns, cores.obtained);
        }
        let shares = shares.clamped();
        let steps = (dt_ns as f64 / STEP_NS).min(MAX_STEPS);
        let before = self.level;
        if shares.is_throttled() {
            self.lower(steps, 1.0);
        } else if shares.is_taken() && cores.is_none_or(|cores| cores.wanted >= self.level * ALL) {
            self.give_way(steps);
        } else {
            self.yielding = None;
            self.raise(steps);
        }
        self.at_its_floor = shares.is_contended() && self.level >= before;
    }

    /// Whether the last sample asked for fewer workers, and there could not be fewer.
    pub(crate) fn is_at_its_floor(&self) -> bool {
        self.at_its_floor
    }

    /// Fewer workers, as long as that costs the pool no CPU.
    fn give_way(&mut self, steps: f64) {
        // Unknown: nothing can be said about what fewer would cost.
        let Some(obtained) = self.obtained.value() else { return };
        let level = self.level;
        let best = self.yielding.get_or_insert(Yielding { most: obtained, level_then: level });
        if obtained >= best.most {
            *best = Yielding { most: obtained, level_then: level };
        }
        let best = *best;
        if obtained < best.most * WORTH_KEEPING {
            if self.level < best.level_then {
                self.raise(steps);
                self.level = self.level.min(best.level_then);
            }
        } else {
            self.lower(steps, best.most.ceil());
        }
    }

    fn lower(&mut self, steps: f64, floor: f64) {
        let lowered = self.level * KEPT_PER_STEP.powf(steps);
        // The floor holds what is above it; it raises nothing.
        self.level = lowered.max(floor.min(self.level)).clamp(1.0, self.workers);
    }

    fn raise(&mut self, steps: f64) {
        let raised = self.level + self.workers * REGAINED_PER_STEP * steps;
        self.level = raised.clamp(1.0, self.workers);
    }

    /// The number of workers that may take jobs on average, a fraction from 1 to all; what
    /// [`active_at`] takes.
    pub(crate) fn level(&self) -> f64 {
        self.level
    }
}

//! The adaptive limit: how many jobs may be in flight, found by what they take.
//!
//! It is fed the *service time* of jobs that ended, in batches; the wait in the pool's own queue
//! would count the same congestion twice. Jobs that were refused, shed, cancelled or that panicked
//! are never fed. Each batch goes three ways:
//!
//! 1. [`window`]: after at least 10 jobs and 100 ms the window is closed, and its jobs are compared
//!    with what they would take by the baselines of their classes: that ratio is all that the
//!    algorithms see, so a shift between cheap and dear classes isn't taken for congestion. If at
//!    least half the limit was in use, one step of the algorithm ([`steps`]) moves it; a pool that
//!    uses less than half tells nothing about the limit, which then stays.
//! 2. [`baseline`]: what a job of each class takes when nothing is in its way.
//! 3. [`refresh`]: every 10 s of use the baselines are measured anew with few jobs in flight, if
//!    need be by lowering the limit for a moment: a probe.
//!
//! What a gap of more than a second without any job leaves of a window is dropped.
//!
//! Bounds in time: a service time that has truly become twice (ten times) as long is learnt to within
//! a tenth in 4 (8) refreshes, 50 (95) s of use; one that has become short again, to
//! within a fifth, in 3 s of windows.
//! Where a probe takes more than 0.4 s, the refreshes are 25 probes apart instead of 10 s.

mod baseline;
mod peak;
mod refresh;
mod steps;
#[cfg(test)]
mod tests;
mod window;

pub(crate) use steps::Algorithm;

use baseline::Baselines;
use peak::Peak;
use refresh::{JobsEnd, Likeness, Progress, Refresh};
use window::{Reading, Window};

/// Without a job for this long the pool was idle.
const IDLE_NS: u64 = 1_000_000_000;
/// No limit is above this, so that the arithmetic stays exact.
const MAX_LIMIT: f64 = (1u64 << 32) as f64;
/// A probe lowers the limit at least by the first, at most by the second.
const MIN_PROBE_DEPTH: f64 = 2.0;
const MAX_PROBE_DEPTH: f64 = 8.0;

/// Jobs of one class that ended one after the other on one worker.
///
/// Of at most about 10 ms, and handed over before the worker sleeps: their time counts as now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    /// 0 to 63; what is above counts as 63.
    pub(crate) class: u8,
    pub(crate) jobs: u64,
    /// All their time in the body.
    pub(crate) service_ns: u64,
    /// The most that were in flight when one of them ended, that one included.
    pub(crate) in_flight: usize,
}

/// One pool's adaptive limit.
#[derive(Debug)]
pub(crate) struct Limiter {
    algorithm: Algorithm,
    workers: f64,
    floor: f64,
    /// What the algorithm has found, whatever ceiling and probe say at the moment.
    limit: f64,
    last_ns: Option<u64>,
    window: Window,
    baselines: Baselines,
    refresh: Refresh,
    peak: Peak,
    /// Of the last window that could be judged.
    ratio: f64,
    like: Likeness,
}

impl Limiter {
    /// Of a pool with so many workers. Starts with `initial`, never goes below `floor` or 1.
    pub(crate) fn new(algorithm: Algorithm, workers: usize, floor: usize, initial: usize) -> Self {
        let floor = (floor as f64).clamp(1.0, MAX_LIMIT);
        Self {
            algorithm,
            workers: (workers as f64).clamp(1.0, MAX_LIMIT),
            floor,
            limit: (initial as f64).clamp(floor, MAX_LIMIT),
            last_ns: None,
            window: Window::since(0),
            baselines: Baselines::new(),
            refresh: Refresh::new(),
            peak: Peak::default(),
            ratio: 1.0,
            like: Likeness { mean_ns: 0.0, variance: 1.0 },
        }
    }

    /// How many jobs may be in flight: never more than `ceiling`, else never less than the floor.
    pub(crate) fn limit(&self, ceiling: usize) -> usize {
        // A ceiling that was below the floor for a while has pressed the limit below it, too.
        let limit = self.refresh.probe_limit().unwrap_or(self.limit).max(self.floor);
        whole(limit).clamp(1, ceiling.max(1))
    }

    /// Adds jobs that have ended and returns the limit from now on. `ceiling` is the capacity, which
    /// may change; `may_raise` is false while another gate refuses: what comes in then is not what
    /// the limit would let in.
    pub(crate) fn add(
        &mut self,
        now_ns: u64,
        batch: Batch,
        ceiling: usize,
        may_raise: bool,
    ) -> usize {
        if batch.jobs > 0 {
            self.measure(now_ns, batch, ceiling);
            match self.refresh.progress(self.like) {
                None if self.window.is_full(now_ns) => self.judge(now_ns, ceiling, may_raise),
                None | Some(Progress::Going) => {}
                Some(progress) => self.end_probe(now_ns, progress),
            }
        }
        self.limit(ceiling)
    }

    /// Adds the batch to the window, the baselines and what is measured quiet.
    fn measure(&mut self, now_ns: u64, batch: Batch, ceiling: usize) {
        let passed_ns = self.pass(now_ns, batch);
        let running = batch.in_flight.min(whole(self.workers));
        let few_in_flight = running <= whole(self.quiet_limit(ceiling));
        let quiet = self.refresh.pass(JobsEnd {
            now_ns,
            passed_ns,
            jobs: batch.jobs,
            few_in_flight,
            service_ns: batch.service_ns / batch.jobs,
            base_ns: self.baselines.of(batch.class),
        });
        if quiet {
            self.baselines.add_quiet(batch);
        }
        // A window in which the limit was lowered on purpose says nothing about the limit.
        if self.refresh.probe_limit().is_none() {
            self.window.add(now_ns, batch, self.baselines.expected(batch));
            self.baselines.add(batch);
        }
    }

    /// The time since the last batch; begins anew if the pool was idle in between.
    fn pass(&mut self, now_ns: u64, batch: Batch) -> u64 {
        let service_ns = batch.service_ns / batch.jobs;
        match self.last_ns {
            // Batches of several workers may come in a little out of order.
            Some(last_ns) if now_ns < last_ns && last_ns - now_ns <= IDLE_NS => 0,
            // A job that ends now has kept the pool busy for as long as it took.
            Some(last_ns)
                if now_ns >= last_ns && now_ns - last_ns <= IDLE_NS.saturating_add(service_ns) =>
            {
                self.last_ns = Some(now_ns);
                now_ns - last_ns
            }
            _ => {
                self.last_ns = Some(now_ns);
                self.window = Window::since(now_ns.saturating_sub(service_ns));
                self.refresh.rest();
                0
            }
        }
    }

    /// Closes the window: a step if half the limit was in use, a refresh if one is due.
    fn judge(&mut self, now_ns: u64, ceiling: usize, may_raise: bool) {
        let window = std::mem::replace(&mut self.window, Window::since(now_ns));
        let reading = window.reading(now_ns);
        self.baselines.close_laps();
        let Some(reading) = reading else {
            return;
        };
        self.ratio = reading.ratio;
        self.like = reading.like;
        let before = self.limit(ceiling);
        let in_use = window.in_flight().saturating_mul(2) >= before;
        if in_use {
            self.step(now_ns, reading, ceiling, may_raise);
        }
        if !self.refresh.is_due() {
            return;
        }
        if self.refresh.is_measured(self.like) {
            self.baselines.refresh();
            self.refresh.done();
        } else if in_use && (self.limit(ceiling) <= before || self.refresh.is_overdue()) {
            // While it rises, nothing seems to be in the way, and a probe would hold it up; but it
            // may also rise because the baseline was learnt in congestion.
            self.refresh.probe(self.limit, self.quiet_limit(ceiling));
        }
    }

    fn step(&mut self, now_ns: u64, reading: Reading, ceiling: usize, may_raise: bool) {
        let ceiling = (ceiling as f64).clamp(1.0, MAX_LIMIT);
        let limit = self.limit.min(ceiling);
        let next = match self.algorithm {
            Algorithm::Aimd => steps::aimd(limit, reading.ratio),
            Algorithm::Vegas => steps::vegas(limit, reading.ratio),
            Algorithm::Gradient => steps::gradient(limit, reading.ratio),
            Algorithm::Bdp => {
                steps::bdp(limit, reading.ratio, self.peak.add(now_ns, reading.product))
            }
        };
        let highest = if may_raise { ceiling } else { limit };
        self.limit = next.max(self.floor).min(highest);
    }

    fn end_probe(&mut self, now_ns: u64, progress: Progress) {
        if progress == Progress::Measured {
            self.baselines.refresh();
        }
        self.refresh.done();
        self.window = Window::since(now_ns);
    }

    /// In flight no more than this is few.
    ///
    /// Only jobs that run can be in each other's way, and of those there are as many as workers,
    /// however many wait: it is a part of the smaller of limit and workers. Without congestion it is
    /// half of that. Else the ratio shows how much queues behind the workers: a share of 1 / ratio
    /// would run as fast with no queue at all, if the baseline is right. If that is too high, learnt
    /// in congestion, then a share of 1 / (1 + ratio) is still fewer jobs than it was learnt with, so
    /// that each refresh brings it down.
    fn quiet_limit(&self, ceiling: usize) -> f64 {
        let few = || {
            let depth = (1.0 + self.ratio).clamp(MIN_PROBE_DEPTH, MAX_PROBE_DEPTH);
            let running = self.limit.min(ceiling as f64).min(self.workers);
            (running / depth).floor().max(self.floor)
        };
        self.refresh.probe_limit().unwrap_or_else(few)
    }
}

/// The nearest whole limit.
fn whole(limit: f64) -> usize {
    limit.round() as usize
}

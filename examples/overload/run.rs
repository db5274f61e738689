//! One load on its way through one pool, and what became of each arrival.
//!
//! Each arrival has one cell, allocated before the run, that says what became of it. So recording
//! costs one store, and the memory of the records is not mistaken for the pool's.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::arrivals::Load;
use crate::input::Work;

/// From the making of a run to its first moment, so that the generator is there in time.
const LEAD: Duration = Duration::from_millis(5);

/// What became of an arrival.
pub(crate) enum Fate {
    /// Refused, at this cost.
    Refused(Duration),
    /// Answered, or given up, so long after its arrival.
    Ended(Duration),
    /// Nothing yet; once a run is over: shed.
    Open,
}

/// A [`Fate`] in one word, for the generator or the job to set once.
struct FateCell(AtomicU64);

impl FateCell {
    const OPEN: u64 = u64::MAX;
    const REFUSED_BIT: u64 = 1 << 63;

    fn new() -> Self {
        FateCell(AtomicU64::new(Self::OPEN))
    }

    // Relaxed throughout: cells are read once the run is over, and `Run::ended` orders that.

    fn set_refused(&self, cost: Duration) {
        self.0.store(Self::REFUSED_BIT | cost.as_nanos() as u64, Ordering::Relaxed);
    }

    fn set_ended(&self, latency: Duration) {
        self.0.store(latency.as_nanos() as u64, Ordering::Relaxed);
    }

    fn get(&self) -> Fate {
        match self.0.load(Ordering::Relaxed) {
            Self::OPEN => Fate::Open,
            word if word & Self::REFUSED_BIT == 0 => Fate::Ended(Duration::from_nanos(word)),
            word => Fate::Refused(Duration::from_nanos(word & !Self::REFUSED_BIT)),
        }
    }
}

/// What the generator, the jobs and the onlooker share while a load is offered to a pool.
pub(crate) struct Run {
    work: Arc<Work>,
    pub(crate) arrivals: Arc<[Duration]>,
    fates: Box<[FateCell]>,
    accepted: AtomicUsize,
    started: AtomicUsize,
    ended: AtomicUsize,
    /// Set when the jobs that still wait are given up.
    closed_at: OnceLock<Duration>,
    pub(crate) start: Instant,
}

impl Run {
    pub(crate) fn new(work: &Arc<Work>, load: &Load) -> Arc<Self> {
        Arc::new(Run {
            work: Arc::clone(work),
            arrivals: Arc::clone(&load.arrivals),
            fates: load.arrivals.iter().map(|_| FateCell::new()).collect(),
            accepted: AtomicUsize::new(0),
            started: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            closed_at: OnceLock::new(),
            start: Instant::now() + LEAD,
        })
    }

    pub(crate) fn accepted_not_started(&self) -> usize {
        // A job may start before the generator has counted it as accepted.
        let started = self.started.load(Ordering::Relaxed);
        self.accepted.load(Ordering::Relaxed).saturating_sub(started)
    }

    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Jobs that were run or given up. What they recorded is seen by whoever sees them counted.
    pub(crate) fn ended(&self) -> usize {
        self.ended.load(Ordering::Acquire)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// From now on jobs are given up instead of run.
    pub(crate) fn close(&self) {
        self.closed_at.get_or_init(|| self.elapsed());
    }

    pub(crate) fn note_accepted(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_refused(&self, index: usize, cost: Duration) {
        self.fates[index].set_refused(cost);
    }

    /// Each arrival and its fate, in order of arrival.
    pub(crate) fn fates(&self) -> impl Iterator<Item = (Duration, Fate)> {
        self.arrivals.iter().copied().zip(self.fates.iter().map(FateCell::get))
    }
}

/// One arrival, on its way through a pool.
pub(crate) struct Job {
    pub(crate) run: Arc<Run>,
    pub(crate) index: usize,
}

impl Job {
    pub(crate) fn run(self) {
        let run = &*self.run;
        run.started.fetch_add(1, Ordering::Relaxed);
        let answered_at = run.closed_at.get().copied().unwrap_or_else(|| {
            std::hint::black_box(run.work.run_job(self.index));
            run.elapsed()
        });
        let latency = answered_at.saturating_sub(run.arrivals[self.index]);
        run.fates[self.index].set_ended(latency);
        run.ended.fetch_add(1, Ordering::Release);
    }
}

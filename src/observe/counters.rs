//! Counters without a shared cache line per job: one stripe per worker, a few for everybody else.

use crossbeam_utils::CachePadded;

use crate::error::{Reason, ShedReason};
use crate::job::Outcome;
use crate::sync::Striped;
use crate::sync::stat::{Acquire, AtomicU64, AtomicUsize, Relaxed, Release};

/// Who counts, and on which stripe.
#[derive(Clone, Copy)]
pub(crate) struct Counted<'a> {
    stripe: &'a Stripe,
    /// A worker on its own stripe, which nobody else writes: plain stores do.
    worker: Option<usize>,
}

pub(crate) struct Counters {
    workers: Box<[CachePadded<Stripe>]>,
    outside: Striped<Stripe>,
}

#[derive(Default)]
struct Stripe {
    /// Jobs started and not ended; of workers only.
    running: AtomicUsize,
    /// Jobs whose ending is under way.
    ending: AtomicUsize,
    completed: AtomicU64,
    panicked: AtomicU64,
    cancelled: AtomicU64,
    discarded: AtomicU64,
    shed: [AtomicU64; ShedReason::COUNT],
    contained: AtomicU64,
    refused: [AtomicU64; Reason::COUNT],
}

/// The sum of all stripes.
#[derive(Debug, Default, Clone)]
pub(crate) struct Totals {
    pub(crate) running: usize,
    pub(crate) completed: u64,
    pub(crate) panicked: u64,
    pub(crate) cancelled: u64,
    pub(crate) discarded: u64,
    pub(crate) shed: [u64; ShedReason::COUNT],
    pub(crate) contained: u64,
    pub(crate) refused: [u64; Reason::COUNT],
}

impl Counters {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            workers: (0..workers).map(|_| CachePadded::default()).collect(),
            outside: Striped::default(),
        }
    }

    /// A worker counts, on its own stripe.
    #[inline]
    pub(crate) fn by_worker(&self, worker: usize) -> Counted<'_> {
        Counted { stripe: &self.workers[worker], worker: Some(worker) }
    }

    /// Any thread counts.
    #[inline]
    pub(crate) fn by_outsider(&self) -> Counted<'_> {
        Counted { stripe: self.outside.mine(), worker: None }
    }

    #[inline]
    pub(crate) fn refused(&self, reason: Reason) {
        self.outside.mine().refused[reason.index()].fetch_add(1, Relaxed);
    }

    /// How many were refused for this reason.
    pub(crate) fn refusals(&self, reason: Reason) -> u64 {
        self.outside.iter().map(|stripe| stripe.refused[reason.index()].load(Relaxed)).sum()
    }

    /// How many jobs have not ended altogether although their slots may be back.
    pub(crate) fn ending(&self) -> usize {
        self.all().map(|stripe| stripe.ending.load(Acquire)).sum()
    }

    pub(crate) fn running(&self) -> usize {
        self.workers.iter().map(|stripe| stripe.running.load(Relaxed)).sum()
    }

    /// How many jobs workers have ended, in whatever way.
    pub(crate) fn ends_by_workers(&self) -> u64 {
        let ends = |stripe: &Stripe| {
            let Stripe { completed, panicked, discarded, .. } = stripe;
            let shed: u64 = stripe.shed.iter().map(|shed| shed.load(Relaxed)).sum();
            [completed, panicked, discarded].map(|ended| ended.load(Relaxed)).iter().sum::<u64>()
                + shed
        };
        self.workers.iter().map(|stripe| ends(stripe)).sum()
    }

    pub(crate) fn discarded(&self) -> usize {
        self.all().map(|stripe| stripe.discarded.load(Relaxed) as usize).sum()
    }

    fn all(&self) -> impl Iterator<Item = &Stripe> {
        self.workers.iter().map(|stripe| &**stripe).chain(self.outside.iter())
    }

    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for stripe in self.all() {
            totals.running += stripe.running.load(Relaxed);
            totals.completed += stripe.completed.load(Relaxed);
            totals.panicked += stripe.panicked.load(Relaxed);
            totals.cancelled += stripe.cancelled.load(Relaxed);
            totals.discarded += stripe.discarded.load(Relaxed);
            totals.contained += stripe.contained.load(Relaxed);
            add_each(&mut totals.shed, &stripe.shed);
            add_each(&mut totals.refused, &stripe.refused);
        }
        totals
    }
}

impl<'a> Counted<'a> {
    /// The worker who counts, if it is one.
    #[inline]
    pub(crate) fn worker(self) -> Option<usize> {
        self.worker
    }

    /// One more job of this worker runs.
    #[inline]
    pub(crate) fn started(self) {
        self.change_running(|running| running + 1);
    }

    /// The body that ran on this worker has ended. Nothing for others: they run none.
    #[inline]
    pub(crate) fn stopped(self) {
        if self.worker.is_some() {
            self.change_running(|running| running - 1);
        }
    }

    #[inline]
    fn change_running(self, step: impl Fn(usize) -> usize) {
        let running = &self.stripe.running;
        running.store(step(running.load(Relaxed)), Relaxed);
    }

    /// Counts a job's one end. Before its slot returns, so that at rest everything adds up.
    #[inline]
    pub(crate) fn ended(self, outcome: Outcome) {
        let counter = match outcome {
            Outcome::Completed => &self.stripe.completed,
            Outcome::Panicked => &self.stripe.panicked,
            Outcome::Cancelled => &self.stripe.cancelled,
            Outcome::Discarded => &self.stripe.discarded,
            Outcome::Shed(reason) => &self.stripe.shed[reason.index()],
        };
        self.add(counter, 1);
    }

    /// Counts panics of user code outside of bodies.
    #[inline]
    pub(crate) fn contained(self, panics: u64) {
        if panics > 0 {
            self.add(&self.stripe.contained, panics);
        }
    }

    /// The end of a job begins; it is through when the mark goes.
    #[inline]
    pub(crate) fn ending_begins(self) -> EndingMark<'a> {
        let mark = EndingMark(self);
        mark.change(|ending| ending.wrapping_add(1));
        mark
    }

    #[inline]
    fn add(self, counter: &AtomicU64, amount: u64) {
        if self.worker.is_some() {
            counter.store(counter.load(Relaxed) + amount, Relaxed);
        } else {
            counter.fetch_add(amount, Relaxed);
        }
    }
}

/// While it lives, a job is being ended.
pub(crate) struct EndingMark<'a>(Counted<'a>);

impl EndingMark<'_> {
    /// Release pairs with [`Counters::ending`]: who sees it fall also sees the outcome.
    #[inline]
    fn change(&self, step: impl Fn(usize) -> usize) {
        let Counted { stripe: Stripe { ending, .. }, worker } = self.0;
        if worker.is_some() {
            ending.store(step(ending.load(Relaxed)), Release);
        } else {
            let _ = ending.fetch_update(Release, Relaxed, |ending| Some(step(ending)));
        }
    }
}

impl Drop for EndingMark<'_> {
    #[inline]
    fn drop(&mut self) {
        self.change(|ending| ending.wrapping_sub(1));
    }
}

fn add_each(sums: &mut [u64], counters: &[AtomicU64]) {
    for (sum, counter) in sums.iter_mut().zip(counters) {
        *sum += counter.load(Relaxed);
    }
}

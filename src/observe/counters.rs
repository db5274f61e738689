//! Counters without a shared cache line per job: one stripe per worker, a few for everybody else.

use std::cell::Cell;

use crossbeam_utils::CachePadded;

use crate::error::{Reason, ShedReason};
use crate::job::Outcome;
use crate::sync::stat::{Acquire, AtomicU64, AtomicUsize, Relaxed, Release};

/// Stripes for threads that are not workers; more of them share less.
const OUTSIDE_STRIPES: usize = 8;

/// Who counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counted {
    /// A worker, on its own stripe, which nobody else writes.
    ByWorker(usize),
    /// Any thread.
    Outside,
}

pub(crate) struct Counters {
    workers: Box<[CachePadded<Stripe>]>,
    outside: [CachePadded<Stripe>; OUTSIDE_STRIPES],
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
            outside: Default::default(),
        }
    }

    /// Counts a job's one end. Before its slot returns, so that at rest everything adds up.
    #[inline]
    pub(crate) fn ended(&self, counted: Counted, outcome: Outcome) {
        self.add(counted, 1, |stripe| match outcome {
            Outcome::Completed => &stripe.completed,
            Outcome::Panicked => &stripe.panicked,
            Outcome::Cancelled => &stripe.cancelled,
            Outcome::Discarded => &stripe.discarded,
            Outcome::Shed(reason) => &stripe.shed[reason.index()],
        });
    }

    /// Counts panics of user code outside of bodies.
    pub(crate) fn contained(&self, counted: Counted, panics: u64) {
        if panics > 0 {
            self.add(counted, panics, |stripe| &stripe.contained);
        }
    }

    #[inline]
    pub(crate) fn refused(&self, reason: Reason) {
        self.outside[my_stripe()].refused[reason.index()].fetch_add(1, Relaxed);
    }

    /// How many were refused for this reason.
    pub(crate) fn refusals(&self, reason: Reason) -> u64 {
        self.outside.iter().map(|stripe| stripe.refused[reason.index()].load(Relaxed)).sum()
    }

    pub(crate) fn started(&self, worker: usize) {
        let running = &self.workers[worker].running;
        running.store(running.load(Relaxed) + 1, Relaxed);
    }

    pub(crate) fn stopped(&self, worker: usize) {
        let running = &self.workers[worker].running;
        running.store(running.load(Relaxed) - 1, Relaxed);
    }

    /// The end of a job begins; it is through when the mark goes.
    #[inline]
    pub(crate) fn ending_begins(&self, counted: Counted) -> EndingMark<'_> {
        let stripe = match counted {
            Counted::ByWorker(worker) => &self.workers[worker],
            Counted::Outside => &self.outside[my_stripe()],
        };
        let mark = EndingMark { ending: &stripe.ending, counted };
        mark.change(|ending| ending.wrapping_add(1));
        mark
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

    #[inline]
    fn add(&self, counted: Counted, amount: u64, which: impl Fn(&Stripe) -> &AtomicU64) {
        match counted {
            // The stripe has one writer, so that a plain store does.
            Counted::ByWorker(worker) => {
                let counter = which(&self.workers[worker]);
                counter.store(counter.load(Relaxed) + amount, Relaxed);
            }
            Counted::Outside => {
                which(&self.outside[my_stripe()]).fetch_add(amount, Relaxed);
            }
        }
    }

    fn all(&self) -> impl Iterator<Item = &Stripe> {
        self.workers.iter().chain(&self.outside).map(|stripe| &**stripe)
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

/// While it lives, a job is being ended.
pub(crate) struct EndingMark<'a> {
    ending: &'a AtomicUsize,
    counted: Counted,
}

impl EndingMark<'_> {
    /// Release pairs with [`Counters::ending`]: who sees it fall also sees the outcome.
    #[inline]
    fn change(&self, step: impl Fn(usize) -> usize) {
        match self.counted {
            // The stripe has one writer, so that a plain store does.
            Counted::ByWorker(_) => self.ending.store(step(self.ending.load(Relaxed)), Release),
            Counted::Outside => {
                let _ = self.ending.fetch_update(Release, Relaxed, |ending| Some(step(ending)));
            }
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

/// The calling thread's stripe, dealt out in turn. A counter only: no protocol, no loom.
#[inline]
fn my_stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    std::thread_local! { static MINE: Cell<usize> = const { Cell::new(usize::MAX) }; }

    MINE.try_with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Relaxed) % OUTSIDE_STRIPES);
        }
        mine.get()
    })
    .unwrap_or(0)
}

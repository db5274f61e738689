//! From which job the entries of a worker's deque descend, as far as that is known.
//!
//! A job that begins at the bottom of a worker's stack, with an empty deque, is its *root*. What is
//! pushed into the deque from then on, until another job is the root, descends from it. Two kinds of
//! entries don't: those that were pushed elsewhere and taken over ([`adopted`](super::nested::Nest::push_adopted)),
//! and those that are left of a job that ran on top of the root's without descending from it. The place
//! of an entry tells both: it names the deque that it was pushed to, and the number there.

use super::nested::{Place, follows};
use crate::job::{JobRef, UNPLACED};
use crate::sync::{AtomicU64, Ordering};

/// Written by the worker, read by all.
pub(super) struct Root {
    /// The root's place, [`UNPLACED`] if there is none.
    job: AtomicU64,
    /// The place in the worker's deque from which on entries descend from it; it only grows.
    first: AtomicU64,
}

/// What was the root before, and where the deque stood.
#[must_use]
pub(crate) struct Before {
    job: Place,
    /// The place of the next entry.
    pub(super) next: Place,
}

impl Root {
    pub(super) fn new(first: Place) -> Self {
        Self { job: AtomicU64::new(UNPLACED), first: AtomicU64::new(first) }
    }

    /// Whether this job is the root. Relaxed: a hint.
    pub(super) fn is(&self, job: &JobRef) -> bool {
        self.job.load(Ordering::Relaxed) == job.place()
    }

    /// Whether an entry that was taken out of the worker's deque descends from `job`.
    ///
    /// The deque's own edge, from push to theft, shows the thief the root under which the entry was pushed,
    /// or a later one. Acquire pairs with the Release of [`set`](Self::set): who sees a job that has become the root
    /// again also sees from where on.
    pub(super) fn is_above(&self, entry: &JobRef, job: &JobRef) -> bool {
        self.job.load(Ordering::Acquire) == job.place() && self.has(entry)
    }

    /// The same of the present root, for the worker; true if there is none.
    #[inline]
    pub(super) fn may_be_above(&self, entry: &JobRef) -> bool {
        self.job.load(Ordering::Relaxed) == UNPLACED || self.has(entry)
    }

    #[inline]
    fn has(&self, entry: &JobRef) -> bool {
        follows(entry.place(), self.first.load(Ordering::Relaxed))
    }

    /// A job becomes the root of what is pushed from the place `next` on; none, if it is none.
    #[inline]
    pub(super) fn begin(&self, job: Option<&JobRef>, next: Place) {
        match job {
            Some(job) => self.set(job.place(), next),
            None => self.job.store(UNPLACED, Ordering::Relaxed),
        }
    }

    pub(super) fn before(&self, next: Place) -> Before {
        Before { job: self.job.load(Ordering::Relaxed), next }
    }

    /// The root from before is the root again, of what is pushed from now on, and of what was before if
    /// nothing is left from in between.
    pub(super) fn end(&self, before: &Before, next: Option<Place>) {
        let first = next.unwrap_or_else(|| self.first.load(Ordering::Relaxed));
        self.set(before.job, first);
    }

    #[inline]
    fn set(&self, job: Place, first: Place) {
        self.first.store(first, Ordering::Relaxed);
        self.job.store(job, Ordering::Release);
    }
}

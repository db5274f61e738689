//! Very short jobs that a worker has taken from the lanes at one go.
//!
//! The lanes' lock, and the cache lines under it, travel from core to core with each job; where a job is
//! shorter than such a journey, that is most of what it costs. So a worker takes a few at a time
//! and keeps them where all others can see and take them, like the jobs of its deque: one of them may
//! turn out to be long, and what lies behind it must not wait for it beside an idle worker.

use std::cell::Cell;

use crossbeam_utils::CachePadded;

use crate::job::{JobCell, JobRef};

/// So many at most, besides the one that the worker runs next.
#[cfg(not(all(loom, feature = "loom")))]
const CELLS: usize = 31;
#[cfg(all(loom, feature = "loom"))]
const CELLS: usize = 1;

/// Only of jobs shorter than this several are taken at a time,
const SHORT_NS: u64 = 2_000;
/// and only so many that they take no longer than this together.
const ALL_NS: u64 = 4_000;

/// Whether jobs of this mean service time, if it is known, are so short that moving a cache line between
/// cores counts beside them.
#[inline]
pub(crate) fn are_short(mean_service_ns: u64) -> bool {
    (1..=SHORT_NS).contains(&mean_service_ns)
}

/// How many jobs of this mean service time a worker takes at a time; one while it is not known.
pub(crate) fn worth_taking(mean_service_ns: u64) -> usize {
    if are_short(mean_service_ns) {
        ((ALL_NS / mean_service_ns) as usize).min(1 + CELLS)
    } else {
        1
    }
}

/// One worker's.
pub(crate) struct Handful(CachePadded<[JobCell; CELLS]>);

impl Handful {
    pub(crate) fn new() -> Self {
        Self(CachePadded::new(std::array::from_fn(|_| JobCell::new())))
    }

    /// Whether nobody finds anything in it. A hint, but for the fences of the sleep protocol.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(JobCell::is_empty)
    }

    /// Takes the oldest job, which may be a tombstone. For all but the owner, who knows better
    /// where to look.
    pub(crate) fn steal(&self) -> Option<JobRef> {
        self.0.iter().find_map(JobCell::take)
    }

    /// The owner's next job, from the place `next` on, which is moved.
    #[inline]
    pub(crate) fn next(&self, next: &Cell<usize>) -> Option<JobRef> {
        while let Some(cell) = self.0.get(next.get()) {
            next.set(next.get() + 1);
            if let Some(after) = self.0.get(next.get()) {
                after.prefetch();
            }
            if let Some(job) = cell.take() {
                return Some(job);
            }
        }
        None
    }

    /// The owner, whose handful is used up, puts the `nth` of a new one into it.
    #[inline]
    pub(crate) fn put(&self, nth: usize, job: JobRef) {
        self.0[nth].put(job);
    }
}

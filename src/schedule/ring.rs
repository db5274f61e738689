//! One lane: its entries in the order in which they came, with holes where some were taken out.

use std::collections::VecDeque;

use crate::job::JobRef;
use crate::policy::ageing::NEVER;
use crate::policy::delay::Batch;
use crate::sync::prefetch_to_write;

/// Holes a ring may have beyond its live entries before it is squeezed.
pub(super) const SPARE_HOLES: usize = 64;

pub(super) struct Ring {
    pub(super) entries: VecDeque<Entry>,
    pub(super) live: usize,
    /// When the lane became non-empty or was last served, [`NEVER`] while it is empty.
    pub(super) waiting_since_ns: u64,
}

/// What is asked of a job under the lock stands here: its header lies in a cache line that another core
/// wrote last.
pub(super) struct Entry {
    pub(super) seq: u64,
    pub(super) job: Option<JobRef>,
    pub(super) enqueued_ns: u64,
    pub(super) deadline_ns: u64,
    pub(super) is_exempt: bool,
    pub(super) is_common: bool,
}

/// What a ring knows of a job that leaves it.
pub(super) struct Popped {
    pub(super) job: JobRef,
    pub(super) enqueued_ns: u64,
    pub(super) deadline_ns: u64,
    pub(super) is_exempt: bool,
}

/// Live entries, the holes there may be beside them, and the one that is being pushed.
pub(super) fn ring_entries(capacity: usize) -> usize {
    2 * capacity + SPARE_HOLES + 1
}

impl Ring {
    /// For so many live jobs, all memory taken now.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            entries: VecDeque::with_capacity(ring_entries(capacity)),
            live: 0,
            waiting_since_ns: NEVER,
        }
    }

    #[inline]
    pub(super) fn push(&mut self, seq: u64, job: JobRef, now_ns: u64) {
        debug_assert!(self.entries.len() < self.entries.capacity(), "allocation under the lock");
        if self.live == 0 {
            self.waiting_since_ns = now_ns;
        }
        self.live += 1;
        self.entries.push_back(Entry {
            seq,
            enqueued_ns: now_ns,
            deadline_ns: job.deadline_ns(),
            is_exempt: job.is_exempt(),
            is_common: job.is_common(),
            job: Some(job),
        });
        // A worker has read the line of the entry after the next when it was used last.
        if let Some(entry) = self.entries.back() {
            prefetch_to_write((&raw const *entry).wrapping_add(2));
        }
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Popped> {
        loop {
            let Entry { job, enqueued_ns, deadline_ns, is_exempt, .. } =
                self.entries.pop_front()?;
            let Some(job) = job else { continue };
            self.live -= 1;
            if self.live == 0 {
                self.waiting_since_ns = NEVER;
                // What comes next begins where the ring began, in memory that is in the caches.
                self.entries.clear();
            }
            return Some(Popped { job, enqueued_ns, deadline_ns, is_exempt });
        }
    }

    /// Takes the oldest entry if it is of a common job that goes into the batch and is not shed.
    #[inline]
    pub(super) fn pop_common(&mut self, batch: &mut Batch) -> Option<JobRef> {
        while self.entries.front()?.job.is_none() {
            self.entries.pop_front();
        }
        let oldest = self.entries.front()?;
        if !oldest.is_common || batch.takes(oldest.enqueued_ns, !oldest.is_exempt) {
            return None;
        }
        self.pop().map(|popped| popped.job)
    }

    pub(super) fn oldest_ns(&self) -> Option<u64> {
        self.entries.iter().find(|entry| entry.job.is_some()).map(|entry| entry.enqueued_ns)
    }

    pub(super) fn note_served(&mut self, now_ns: u64) {
        if self.live > 0 {
            self.waiting_since_ns = now_ns;
        }
    }

    pub(super) fn remove(&mut self, seq: u64) -> Option<JobRef> {
        let at = self.entries.binary_search_by_key(&seq, |entry| entry.seq).ok()?;
        let job = self.entries[at].job.take()?;
        self.live -= 1;
        if self.live == 0 {
            self.entries.clear();
            self.waiting_since_ns = NEVER;
        } else if self.entries.len() - self.live > self.live + SPARE_HOLES {
            self.entries.retain(|entry| entry.job.is_some());
        }
        Some(job)
    }
}

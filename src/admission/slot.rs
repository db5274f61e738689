//! One slot, on its way from the admission of a job to its end.

use super::ledger::{Holder, Holding, Ledger};
use super::partition::Taken;
use super::word::COMMITTED;
use crate::sync::Ordering;

/// One slot, owned by one job from its admission to its end. Dropping it returns it.
#[must_use]
pub(crate) struct Slot<'a> {
    ledger: &'a Ledger,
    holding: Holding,
}

impl<'a> Slot<'a> {
    /// Makes a value of a slot that was just taken, with what is held beside it.
    #[inline]
    pub(crate) fn of_taken(ledger: &'a Ledger, holding: Holding) -> Self {
        Self { ledger, holding }
    }

    /// Leaves the slot with a job that is about to be pushed. Whoever ends that job takes it up
    /// again with [`of_ended_job`](Self::of_ended_job).
    pub(crate) fn leave_with_job(self) {
        std::mem::forget(self);
    }

    /// Keeps the slot taken without this value: whoever goes on makes it anew with
    /// [`of_taken`](Self::of_taken).
    pub(crate) fn keep_taken(self) {
        std::mem::forget(self);
    }

    /// Takes up the slot of a job that has ended; called by the one function that ends jobs.
    pub(crate) fn of_ended_job(ledger: &'a Ledger, holding: Holding) -> Self {
        Self { ledger, holding }
    }

    /// Hands the slot of an ended job to one that holds `wanted` beside it, whose bytes are taken
    /// already: the slot is not returned and taken again, so nobody can come in between.
    ///
    /// None, with all of it returned, if a partition has changed meanwhile: the one wanted has filled
    /// up to its maximum, or the slot has become one of another's reserved share.
    pub(crate) fn pass_on(mut self, wanted: Holding) -> Option<Self> {
        let ledger = self.ledger;
        ledger.bytes.give_back(std::mem::replace(&mut self.holding.bytes, wanted.bytes));
        if self.holding.partition != wanted.partition {
            if let Some(index) = self.holding.partition {
                let partition = &ledger.partitions[usize::from(index)];
                // Out of its partition it is a common slot, if it is above the share. If not, it must
                // be committed before it leaves: else it would be in flight uncommitted for an instant.
                if !partition.give_back_above_share() {
                    if !ledger.commit_one_more() {
                        return None;
                    }
                    ledger.leave_partition(index);
                }
                self.holding.partition = None;
            }
            if let Some(index) = wanted.partition {
                if ledger.partitions[usize::from(index)].take()? == Taken::OfShare {
                    // The share was committed already: the common slot is free for others.
                    ledger.word.fetch_sub(COMMITTED, Ordering::AcqRel);
                }
                self.holding.partition = Some(index);
            }
        }
        // Less may be held now than before.
        ledger.serve_waiters_if_any();
        Some(self)
    }

    /// Returns the slot. True if that was the last job and somebody listens for its end: the caller
    /// then rings, once nothing of the job is left to be done.
    #[inline]
    pub(crate) fn give_back(self) -> bool {
        let before = self.ledger.return_parts(self.holding, Holder::Job);
        std::mem::forget(self);
        before.is_watched() && before.jobs() == 1
    }

    /// The same by the worker that has run the job. If it may, and nobody would miss the slot, it only
    /// notes the return.
    #[inline]
    pub(crate) fn give_back_by(self, worker: usize, may_note: bool) -> bool {
        if !self.holding.is_plain() {
            return self.give_back();
        }
        let last = self.ledger.return_by(worker, may_note);
        std::mem::forget(self);
        last
    }
}

impl Drop for Slot<'_> {
    #[inline]
    fn drop(&mut self) {
        let before = self.ledger.return_parts(self.holding, Holder::Job);
        if before.is_watched() && before.jobs() == 1 {
            self.ledger.ring_settled();
        }
    }
}

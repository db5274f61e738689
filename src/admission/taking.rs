//! How a slot is taken: for a job, for permits, for a waiter; and what a refusal reports.

use super::ledger::{Claim, Holder, Holding, Ledger, NoSlot};
use super::partition::{self, Taken};
use super::word::{COMMITTED, Word};
use crate::priority::Priority;
use crate::sync::Ordering;

impl Ledger {
    /// Takes a slot for a job, unless somebody waits for one who comes first. It is the caller's to
    /// make a [`Slot`] of, see [`Slot::of_taken`].
    #[inline(always)]
    pub(crate) fn take(&self, claim: Claim) -> Result<(), NoSlot> {
        self.look_beside(claim, 1)?;
        self.take_for(claim, Holder::Job, 1)
    }

    /// Takes `count` slots for permits, all or none; for each, [`redeem`](Self::redeem) or
    /// [`cancel_permit`](Self::cancel_permit) is owed, once.
    #[inline(always)]
    pub(crate) fn reserve(&self, claim: Claim, count: usize) -> Result<(), NoSlot> {
        if count == 0 {
            return if self.is_closed() { Err(NoSlot::Closed) } else { Ok(()) };
        }
        if claim.holding.is_plain() {
            // One step for all, so that nobody sees a part of it.
            return self.take_for(claim, Holder::Permit, count as u64);
        }
        self.look_beside(claim, count as u64)?;
        self.reserve_one_by_one(claim, count)
    }

    fn reserve_one_by_one(&self, claim: Claim, count: usize) -> Result<(), NoSlot> {
        for taken in 0..count {
            if let Err(no_slot) = self.take_for(claim, Holder::Permit, 1) {
                let left = (count - taken) as u64;
                let no_slot = self.first_reason(claim, left, no_slot);
                for _ in 0..taken {
                    self.cancel_permit(claim.holding);
                }
                return Err(no_slot);
            }
        }
        Ok(())
    }

    /// Takes a slot for the waiter at the head of a line, if its wait in the queue would be short
    /// enough.
    ///
    /// What is queued was published before the returns that came after it; the waiter's flag, by
    /// which those find it, is set before this look. So the last of them, at the latest, serves it.
    ///
    /// `granted` tells how many slots of this class and above are promised to others, whose jobs will
    /// be queued before this one. Each of them comes back, used or not, and serves the line again.
    pub(super) fn grant(
        &self,
        claim: Claim,
        granted: impl FnOnce() -> usize,
    ) -> Result<(), NoSlot> {
        if claim.meets_delay && self.pressure.delays_behind(claim.priority, granted) {
            return Err(NoSlot::Delay);
        }
        self.take_parts(self.guess(), claim, Holder::Permit, 1)
    }

    /// Refuses so many for what the partition or the bytes certainly don't have, by loads alone.
    ///
    /// Taking finds the same, but only with the slot in hand: it would write the word that everybody
    /// uses, twice, and have to serve those who found the slot taken meanwhile. What is refused here
    /// has taken nothing, so it owes nobody anything.
    #[inline]
    fn look_beside(&self, claim: Claim, count: u64) -> Result<(), NoSlot> {
        if claim.holding.is_plain() {
            return Ok(());
        }
        match self.lack_beside(claim.holding, count) {
            Some(_) if self.is_closed() => Err(NoSlot::Closed),
            Some(lack) => Err(lack),
            None => Ok(()),
        }
    }

    // Always inlined, with what it calls: for most jobs nearly all of it is known not to happen.
    #[inline(always)]
    fn take_for(&self, claim: Claim, holder: Holder, count: u64) -> Result<(), NoSlot> {
        loop {
            let mode = self.notes.mode();
            match self.try_to_take(claim, holder, count) {
                Err(NoSlot::Limit | NoSlot::Full) if !self.notes.stands(mode) => {
                    self.promptly(|| ());
                }
                taken => return taken,
            }
        }
    }

    #[inline(always)]
    fn try_to_take(&self, claim: Claim, holder: Holder, count: u64) -> Result<(), NoSlot> {
        let word = self.guess();
        let comes_before = if word.has_waiters() { self.waiters.come_before(claim) } else { None };
        let taken = match comes_before {
            Some(waits_for) => Err(self.first_bound(claim, count).unwrap_or(waits_for)),
            None => self.take_parts(word, claim, holder, count),
        };
        if !claim.holding.is_plain() {
            // On the way it may have held, for an instant, what a waiter could not have then.
            self.serve_waiters_if_any();
        }
        taken.map_err(|no_slot| self.first_reason(claim, count, no_slot))
    }

    #[inline(always)]
    fn take_parts(
        &self,
        word: Word,
        claim: Claim,
        holder: Holder,
        count: u64,
    ) -> Result<(), NoSlot> {
        let Holding { partition, bytes } = claim.holding;
        let critical = claim.priority == Priority::Critical;
        match partition {
            None => self.add(word, holder.amount(true), count, |word| {
                self.common_room(word, critical, count)
            })?,
            Some(index) => self.take_in_partition(index, critical, holder)?,
        }
        // Last, so that a large job about to be refused keeps no bytes from others meanwhile.
        if self.bytes.take(bytes) {
            return Ok(());
        }
        self.undo_parts(Holding { partition, bytes: 0 }, holder);
        Err(NoSlot::Bytes)
    }

    /// Inside its share a partition's slot is committed already; above it, it competes.
    ///
    /// The order of the steps, here and in [`return_parts`](Self::return_parts), keeps `in flight`
    /// at or below `committed`, which is at or below the capacity, at every instant.
    fn take_in_partition(
        &self,
        index: partition::Index,
        critical: bool,
        holder: Holder,
    ) -> Result<(), NoSlot> {
        let partition = &self.partitions[usize::from(index)];
        if partition.take_of_share() {
            let capacity = self.capacity() as u64;
            return self
                .add(self.guess(), holder.amount(false), 1, |word| {
                    if (word.in_flight() as u64) < capacity { Ok(()) } else { Err(NoSlot::Full) }
                })
                .inspect_err(|_| self.leave_partition(index));
        }
        if !partition.has_room(1) {
            return Err(NoSlot::Partition);
        }
        self.add(self.guess(), holder.amount(true), 1, |word| self.common_room(word, critical, 1))?;
        match partition.take() {
            Some(Taken::AboveShare) => Ok(()),
            // Somebody left the share meanwhile: this slot was committed all along.
            Some(Taken::OfShare) => {
                self.word.fetch_sub(COMMITTED, Ordering::AcqRel);
                Ok(())
            }
            None => {
                self.give_back_word(holder.amount(true));
                Err(NoSlot::Partition)
            }
        }
    }

    /// Commits a slot that is in flight already, if the capacity allows it.
    pub(super) fn commit_one_more(&self) -> bool {
        let capacity = self.capacity() as u64;
        let more = |word| (Word(word).committed() < capacity).then_some(word + COMMITTED);
        let commit = || self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).is_ok();
        commit() || self.promptly(commit)
    }

    /// Whether this class of work may commit so many more slots of the common part.
    ///
    /// The limit counts what is in flight, not what is committed: reserved shares that nobody uses
    /// don't load the machine, and must not leave a low limit with no room for anybody else.
    #[inline]
    fn common_room(&self, word: Word, critical: bool, count: u64) -> Result<(), NoSlot> {
        let capacity = self.capacity.load(Ordering::Relaxed);
        if critical {
            let room = capacity.saturating_sub(word.committed());
            return if count <= room { Ok(()) } else { Err(NoSlot::Full) };
        }
        let limit = self.limit.load(Ordering::Relaxed);
        if limit < capacity && count > limit.saturating_sub(word.in_flight() as u64) {
            Err(NoSlot::Limit)
        } else if count
            > capacity.saturating_sub(self.critical_reserve).saturating_sub(word.committed())
        {
            Err(NoSlot::Full)
        } else {
            Ok(())
        }
    }

    /// Adds `count` times `amount` while there is room, beginning with a guess at the word.
    #[inline]
    fn add(
        &self,
        mut word: Word,
        amount: u64,
        count: u64,
        has_room: impl Fn(Word) -> Result<(), NoSlot>,
    ) -> Result<(), NoSlot> {
        loop {
            if word.is_closed() {
                return Err(NoSlot::Closed);
            }
            has_room(word)?;
            // Acquire: see the notes of `ledger`. Release: whoever is refused for want of this slot sees
            // that returns are noted, if this thread does; see `Notes::stands`. Relaxed on failure: the
            // value is only tried again.
            match self.word.compare_exchange_weak(
                word.0,
                word.0 + count * amount,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(current) => word = Word(current),
            }
        }
    }

    /// The bound that stands in the way of so many of the common part, if one does.
    #[cold]
    fn first_bound(&self, claim: Claim, count: u64) -> Option<NoSlot> {
        let critical = claim.priority == Priority::Critical;
        let is_common = claim.holding.partition.is_none();
        is_common.then(|| self.common_room(self.word(), critical, count).err()).flatten()
    }

    /// Of all that stands in the way of so many, what is reported first: partition, bytes, the bound.
    #[inline]
    fn first_reason(&self, claim: Claim, count: u64, no_slot: NoSlot) -> NoSlot {
        if self.is_closed() {
            NoSlot::Closed
        } else if claim.holding.is_plain() {
            no_slot
        } else {
            self.lack_beside(claim.holding, count).unwrap_or(no_slot)
        }
    }

    /// Which of partition and bytes doesn't suffice for so many, if one doesn't.
    fn lack_beside(&self, Holding { partition, bytes }: Holding, count: u64) -> Option<NoSlot> {
        let has_place =
            |index: partition::Index| self.partitions[usize::from(index)].has_room(count);
        if !partition.is_none_or(has_place) {
            Some(NoSlot::Partition)
        } else if !self.bytes.has_room(bytes.saturating_mul(count)) {
            Some(NoSlot::Bytes)
        } else {
            None
        }
    }
}

//! The only place where a slot is taken or returned. The counts are one word, see [`super::word`];
//! this folder's README tells the protocols.
//!
//! # Orderings
//!
//! Taking a slot is `Acquire` and pairs with the `Release` of the return that freed it: what the
//! old job's captures did when they were dropped is visible to whoever reuses its slot. Without
//! it, "at most `capacity` closures alive" would hold for the counter and not for the closures.

use crossbeam_utils::CachePadded;

use super::bytes::Bytes;
use super::notes::Notes;
use super::partition::{self, Partition, PartitionSlots, Taken};
use super::pressure::Pressure;
pub(crate) use super::slot::Slot;
use super::waiters::Waiters;
pub(crate) use super::word::MAX_CAPACITY;
use super::word::{CLOSED, COMMITTED, IN_FLIGHT, RESERVED, WAITERS, WATCHED, Word};
use crate::error::Reason;
use crate::priority::Priority;
use crate::sync::stat::Arc;
use crate::sync::{AtomicU64, Bell, Ordering, fence};

/// Why no slot was given. Each is the number of its reason, so that one becomes the other by nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum NoSlot {
    /// The pool is closed.
    Closed = Reason::Closed as u8,
    /// The partition has its maximum.
    Partition = Reason::Partition as u8,
    /// The budget of bytes is used up.
    Bytes = Reason::Bytes as u8,
    /// The adaptive limit is reached.
    Limit = Reason::Limit as u8,
    /// The bound of this class of work is reached.
    Full = Reason::Full as u8,
    /// Somebody waits before it for a shorter queue.
    Delay = Reason::QueueDelay as u8,
}

/// What one job asks of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) priority: Priority,
    pub(crate) holding: Holding,
    /// Whether a waiter with it is served only while the predicted wait is short enough.
    pub(crate) meets_delay: bool,
}

/// What a job holds beyond its slot in the word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holding {
    pub(crate) partition: Option<partition::Index>,
    pub(crate) bytes: u64,
}

impl Holding {
    /// Whether there is anything but the slot, which is what most jobs hold.
    pub(super) fn is_plain(self) -> bool {
        self.partition.is_none() && self.bytes == 0
    }
}

/// Who takes a slot: a job, or a permit (or a waiter's grant, which is one).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    Job,
    Permit,
}

impl Holder {
    /// The word's part that is the holder's own, in the common part and out of it.
    pub(super) fn amount(self, committed: bool) -> u64 {
        IN_FLIGHT
            + if committed { COMMITTED } else { 0 }
            + if self == Self::Permit { RESERVED } else { 0 }
    }
}

/// No adaptive limit.
const NO_LIMIT: u64 = u64::MAX;

/// The slots of one pool.
pub(crate) struct Ledger {
    // On a cache line of its own: every submit and nearly every job's end writes it.
    pub(super) word: CachePadded<AtomicU64>,
    pub(super) notes: Notes,
    capacity: AtomicU64,
    /// What an adaptive limit allows to be in flight; binds the common part alone.
    limit: AtomicU64,
    critical_reserve: u64,
    pub(super) partitions: Box<[PartitionSlots]>,
    pub(super) bytes: Bytes,
    waiters: Waiters,
    /// What waiters for a shorter queue are judged by.
    pressure: Arc<Pressure>,
    settled: Bell,
}

impl Ledger {
    /// The builder has validated it: `critical_reserve < capacity <= MAX_CAPACITY`, and the
    /// reserved shares and the critical reserve fit in the capacity together. So many workers may note
    /// returns.
    pub(crate) fn new(
        capacity: usize,
        critical_reserve: usize,
        partitions: &[Partition],
        max_bytes: Option<u64>,
        pressure: Arc<Pressure>,
        noting_workers: usize,
    ) -> Self {
        debug_assert!(critical_reserve < capacity && capacity <= MAX_CAPACITY);
        let partitions: Box<[_]> = partitions.iter().copied().map(PartitionSlots::new).collect();
        let reserved: u64 = partitions.iter().map(PartitionSlots::reserved).sum();
        Self {
            word: CachePadded::new(AtomicU64::new(reserved * COMMITTED)),
            notes: Notes::new(noting_workers),
            capacity: AtomicU64::new(capacity as u64),
            limit: AtomicU64::new(NO_LIMIT),
            critical_reserve: critical_reserve as u64,
            partitions,
            bytes: Bytes::new(max_bytes),
            waiters: Waiters::new(),
            pressure,
            settled: Bell::new(),
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed) as usize
    }

    /// Sets the capacity. What is in flight stays, and nothing is admitted before it has drained
    /// below the new bound.
    pub(crate) fn set_capacity(&self, capacity: usize) {
        debug_assert!((1..=MAX_CAPACITY).contains(&capacity));
        self.capacity.store(capacity as u64, Ordering::Relaxed);
        self.serve_waiters();
    }

    /// What may be in flight of work that is neither critical nor of a reserved share.
    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed).min(self.capacity.load(Ordering::Relaxed)) as usize
    }

    /// What may be in flight before work that is not critical is refused, partitions apart.
    pub(crate) fn ordinary_bound(&self) -> usize {
        let unreserved = self.capacity().saturating_sub(self.critical_reserve as usize);
        self.limit().min(unreserved)
    }

    /// Sets the adaptive limit, at least 1; none for the capacity alone.
    pub(crate) fn set_limit(&self, limit: Option<usize>) {
        let limit = limit.map_or(NO_LIMIT, |limit| limit.max(1) as u64);
        if self.limit.swap(limit, Ordering::Relaxed) < limit {
            self.serve_waiters_if_any();
        }
    }

    /// The present word, with all that has been noted. `Acquire` pairs with the return of a slot: who
    /// reads that no job is left also sees all that the last one did.
    #[inline]
    pub(crate) fn word(&self) -> Word {
        if !self.notes.mode().is_prompt() {
            self.take_in_notes();
        }
        Word(self.word.load(Ordering::Acquire))
    }

    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        Word(self.word.load(Ordering::Acquire)).is_closed()
    }

    /// Whether any slot is in flight. Notes are taken in only where they could be all that is.
    #[inline]
    pub(crate) fn is_in_use(&self) -> bool {
        let at_most = self.in_flight_at_most();
        at_most > self.notes.at_most() || at_most > 0 && self.word().in_flight() > 0
    }

    /// How many slots are in flight at most: returns that are only noted count as in flight.
    #[inline]
    pub(crate) fn in_flight_at_most(&self) -> usize {
        self.guess().in_flight()
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    // ── Taking ──────────────────────────────────────────────────────────────────────────────

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

    /// What the word may be: a place to start from, confirmed by the compare-and-swap.
    #[inline]
    pub(super) fn guess(&self) -> Word {
        Word(self.word.load(Ordering::Relaxed))
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
            // Acquire: see the module's notes. Release: whoever is refused for want of this slot sees
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

    // ── Returning ───────────────────────────────────────────────────────────────────────────

    /// Returns all that a holder took, and serves those who wait for it. Returns the word as it was
    /// before.
    #[inline]
    pub(super) fn return_parts(&self, holding: Holding, holder: Holder) -> Word {
        let before = self.undo_parts(holding, holder);
        if holding.is_plain() {
            if before.has_waiters() {
                self.serve_waiters();
            }
        } else {
            self.serve_waiters_if_any();
        }
        before
    }

    /// The word first, then the partition, then what the partition held above its share: any other
    /// order lets `in flight` pass the capacity. Returns the word as it was before.
    #[inline]
    fn undo_parts(&self, holding: Holding, holder: Holder) -> Word {
        let before = self.give_back_word(holder.amount(holding.partition.is_none()));
        if let Some(index) = holding.partition {
            self.leave_partition(index);
        }
        self.bytes.give_back(holding.bytes);
        before
    }

    /// A partition's slot that has left the word leaves the partition, too.
    pub(super) fn leave_partition(&self, index: partition::Index) {
        if self.partitions[usize::from(index)].give_back() == Taken::AboveShare {
            self.word.fetch_sub(COMMITTED, Ordering::AcqRel);
        }
    }

    /// Takes `amount` off the word; returns what it was before.
    #[inline]
    pub(super) fn give_back_word(&self, amount: u64) -> Word {
        // Release pairs with the Acquire of `add` and `word`; AcqRel keeps the chain whole when
        // several jobs end one after the other and only the last is read.
        let before = Word(self.word.fetch_sub(amount, Ordering::AcqRel));
        debug_assert!(before.in_flight() > 0, "a slot was returned twice: {before:?}");
        before
    }

    /// Wakes those who listen for the last job's end; called by whoever ended it, as the last step.
    #[cold]
    pub(crate) fn ring_settled(&self) {
        self.word.fetch_and(!WATCHED, Ordering::Relaxed);
        self.settled.ring();
    }

    /// Returns bytes that were taken for a slot that could not be had.
    pub(crate) fn give_back_bytes(&self, bytes: u64) {
        self.bytes.give_back(bytes);
        self.serve_waiters_if_any();
    }

    /// Whether a job of the first partition may give way to a critical one of the second: it is the
    /// same one, or the slot is common.
    pub(crate) fn may_give_way(
        &self,
        victim: Option<partition::Index>,
        heir: Option<partition::Index>,
    ) -> bool {
        victim == heir
            || victim.is_none_or(|index| self.partitions[usize::from(index)].is_above_share())
    }

    // ── Permits ─────────────────────────────────────────────────────────────────────────────

    /// Turns a permit into a job's slot; fails once the pool is closed, which voided the permit.
    pub(crate) fn redeem(&self, holding: Holding) -> Result<Slot<'_>, NoSlot> {
        self.settle_permit(RESERVED)?;
        Ok(Slot::of_taken(self, holding))
    }

    /// Returns an unused permit's slot, as far as closing did not do that already, and what it holds
    /// beside it.
    pub(crate) fn cancel_permit(&self, holding: Holding) {
        let committed = holding.partition.is_none();
        if self.settle_permit(Holder::Permit.amount(committed)).is_err() && committed {
            self.word.fetch_sub(COMMITTED, Ordering::AcqRel);
        }
        if let Some(index) = holding.partition {
            self.leave_partition(index);
        }
        self.bytes.give_back(holding.bytes);
        self.serve_waiters_if_any();
    }

    fn settle_permit(&self, amount: u64) -> Result<(), NoSlot> {
        let mut word = self.guess();
        loop {
            if word.is_closed() {
                return Err(NoSlot::Closed);
            }
            debug_assert!(word.reserved() > 0, "a permit was settled twice: {word:?}");
            // Release: what the permit's owner did before comes before the slot's next use.
            match self.word.compare_exchange_weak(
                word.0,
                word.0 - amount,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(current) => word = Word(current),
            }
        }
    }

    // ── Waiting ─────────────────────────────────────────────────────────────────────────────

    pub(crate) fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    /// Says that somebody waits from now on. Called under the waiters' lock.
    ///
    /// The fence pairs with the one in [`serve_waiters_if_any`](Self::serve_waiters_if_any):
    /// either the return of a partition's slot or of bytes sees the flag, or the attempt that
    /// follows here sees what was returned.
    pub(super) fn announce_waiters(&self) {
        self.promptly(|| self.word.fetch_or(WAITERS, Ordering::AcqRel));
        fence(Ordering::SeqCst);
    }

    /// Says that nobody waits any more. Called under the waiters' lock.
    pub(super) fn retract_waiters(&self) {
        self.word.fetch_and(!WAITERS, Ordering::Relaxed);
    }

    /// Something was returned elsewhere than in the word's own last step.
    pub(crate) fn serve_waiters_if_any(&self) {
        fence(Ordering::SeqCst);
        if self.guess().has_waiters() {
            self.serve_waiters();
        }
    }

    #[cold]
    pub(super) fn serve_waiters(&self) {
        self.waiters.serve(self);
    }

    // ── Closing ─────────────────────────────────────────────────────────────────────────────

    /// Closes; true for the one call that did it. Returns with it how many jobs were left.
    ///
    /// The permits that are unused return their slots in the same step, so that nobody waits for
    /// them and their owners find them void. What they hold beside that comes back with their end.
    pub(crate) fn close(&self) -> Option<usize> {
        self.promptly(|| self.close_word())
    }

    fn close_word(&self) -> Option<usize> {
        let mut word = self.guess();
        loop {
            if word.is_closed() {
                return None;
            }
            let voided = word.reserved() as u64 * (IN_FLIGHT + RESERVED);
            match self.word.compare_exchange_weak(
                word.0,
                (word.0 - voided) | CLOSED,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(word.jobs()),
                Err(current) => word = Word(current),
            }
        }
    }

    /// Lets those go who wait for a slot of a closed pool. Their wakers are user code.
    pub(crate) fn close_waiters(&self) {
        self.waiters.close();
    }

    /// Rings when the last job ends. Who listens calls [`watch`](Self::watch) after it has
    /// registered and before it parks.
    pub(crate) fn settled(&self) -> &Bell {
        &self.settled
    }

    /// Asks for a ring at the last job's end, and tells whether that is past already.
    ///
    /// One read-modify-write on the word that ends change too: either it sees that no job is left,
    /// or the last job's end sees the flag.
    pub(crate) fn watch(&self) -> Word {
        let word = self.word();
        if word.jobs() == 0 {
            return word;
        }
        self.promptly(|| Word(self.word.fetch_or(WATCHED, Ordering::AcqRel)))
    }
}

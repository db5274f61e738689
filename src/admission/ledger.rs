//! The only place where a slot is taken or returned.
//!
//! # One word
//!
//! ```text
//!  63      60 59         40 39          20 19           0
//! ┌──────────┬─────────────┬──────────────┬──────────────┐
//! │  flags   │  reserved   │  committed   │  in flight   │
//! └──────────┴─────────────┴──────────────┴──────────────┘
//! ```
//!
//! | part | counts |
//! |---|---|
//! | in flight | slots taken: permits, queued jobs, running jobs |
//! | committed | slots that nobody else may have: the reserved shares of all partitions, what partitions hold above their share, and all slots outside of partitions; what the bounds are compared with |
//! | reserved | the part of *in flight* that are permits not yet used |
//! | `CLOSED` | no slot is given any more, for ever |
//! | `WATCHED` | somebody listens at [`Ledger::settled`] for the last job's end |
//! | `WAITERS` | somebody waits for a slot |
//!
//! Since all of it is one word, each of these is decided in one compare-and-swap and can't be torn
//! by another thread: a slot is taken only while the pool is open; closing voids the permits that
//! are unused and learns how many jobs are left; the last job to end knows that it is the last and
//! whether anybody waits for that. One load of *in flight* is never above the capacity.
//!
//! # Orderings
//!
//! Taking a slot is `Acquire` and pairs with the `Release` of the return that freed it: what the
//! old job's captures did when they were dropped is visible to whoever reuses its slot. Without
//! it, "at most `capacity` closures alive" would hold for the counter and not for the closures.

use crossbeam_utils::CachePadded;

use super::bytes::Bytes;
use super::partition::{self, Partition, PartitionSlots, Taken};
use super::waiters::Waiters;
use crate::priority::Priority;
use crate::sync::stat::{AtomicU64 as StatU64, Relaxed};
use crate::sync::{AtomicU64, Bell, Ordering, fence};

const FIELD_BITS: u32 = 20;
const FIELD_MASK: u64 = (1 << FIELD_BITS) - 1;

const IN_FLIGHT: u64 = 1;
const COMMITTED: u64 = 1 << FIELD_BITS;
const RESERVED: u64 = 1 << (2 * FIELD_BITS);
const CLOSED: u64 = 1 << (3 * FIELD_BITS);
const WATCHED: u64 = 1 << (3 * FIELD_BITS + 1);
const WAITERS: u64 = 1 << (3 * FIELD_BITS + 2);

/// The largest capacity that fits in the word.
pub(crate) const MAX_CAPACITY: usize = FIELD_MASK as usize;

/// The word, decoded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(u64);

impl Word {
    pub(crate) fn in_flight(self) -> usize {
        (self.0 & FIELD_MASK) as usize
    }

    fn committed(self) -> u64 {
        (self.0 >> FIELD_BITS) & FIELD_MASK
    }

    pub(crate) fn reserved(self) -> usize {
        ((self.0 >> (2 * FIELD_BITS)) & FIELD_MASK) as usize
    }

    /// Queued plus running.
    pub(crate) fn jobs(self) -> usize {
        self.in_flight() - self.reserved()
    }

    pub(crate) fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    /// Closed, and every job has ended.
    pub(crate) fn is_over(self) -> bool {
        self.is_closed() && self.jobs() == 0
    }

    fn is_watched(self) -> bool {
        self.0 & WATCHED != 0
    }

    fn has_waiters(self) -> bool {
        self.0 & WAITERS != 0
    }
}

impl std::fmt::Debug for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Word")
            .field("in_flight", &self.in_flight())
            .field("committed", &self.committed())
            .field("reserved", &self.reserved())
            .field("closed", &self.is_closed())
            .field("watched", &self.is_watched())
            .field("waiters", &self.has_waiters())
            .finish()
    }
}

/// Why no slot was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSlot {
    /// The pool is closed.
    Closed,
    /// The partition has its maximum.
    Partition,
    /// The budget of bytes is used up.
    Bytes,
    /// The bound of this class of work is reached.
    Full,
}

/// What one job asks of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) priority: Priority,
    pub(crate) holding: Holding,
}

/// What a job holds beyond its slot in the word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holding {
    pub(crate) partition: Option<partition::Index>,
    pub(crate) bytes: u64,
}

impl Holding {
    /// Whether there is anything but the slot, which is what most jobs hold.
    fn is_plain(self) -> bool {
        self.partition.is_none() && self.bytes == 0
    }
}

/// Who takes a slot: a job, or a permit (or a waiter's grant, which is one).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    Job,
    Permit,
}

impl Holder {
    /// The word's part that is the holder's own, in the common part and out of it.
    fn amount(self, committed: bool) -> u64 {
        IN_FLIGHT
            + if committed { COMMITTED } else { 0 }
            + if self == Self::Permit { RESERVED } else { 0 }
    }
}

/// The slots of one pool.
pub(crate) struct Ledger {
    // On a cache line of its own: every submit and every job's end writes it.
    word: CachePadded<AtomicU64>,
    capacity: StatU64,
    critical_reserve: u64,
    partitions: Box<[PartitionSlots]>,
    bytes: Bytes,
    waiters: Waiters,
    settled: Bell,
}

impl Ledger {
    /// The builder has validated it: `critical_reserve < capacity <= MAX_CAPACITY`, and the
    /// reserved shares and the critical reserve fit in the capacity together.
    pub(crate) fn new(
        capacity: usize,
        critical_reserve: usize,
        partitions: &[Partition],
        max_bytes: Option<u64>,
    ) -> Self {
        debug_assert!(critical_reserve < capacity && capacity <= MAX_CAPACITY);
        let partitions: Box<[_]> = partitions.iter().copied().map(PartitionSlots::new).collect();
        let reserved: u64 = partitions.iter().map(PartitionSlots::reserved).sum();
        Self {
            word: CachePadded::new(AtomicU64::new(reserved * COMMITTED)),
            capacity: StatU64::new(capacity as u64),
            critical_reserve: critical_reserve as u64,
            partitions,
            bytes: Bytes::new(max_bytes),
            waiters: Waiters::new(),
            settled: Bell::new(),
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity.load(Relaxed) as usize
    }

    /// Sets the capacity. What is in flight stays, and nothing is admitted before it has drained
    /// below the new bound.
    pub(crate) fn set_capacity(&self, capacity: usize) {
        debug_assert!((1..=MAX_CAPACITY).contains(&capacity));
        self.capacity.store(capacity as u64, Relaxed);
        self.serve_waiters();
    }

    /// The present word. `Acquire` pairs with the return of a slot: who reads that no job is left
    /// also sees all that the last one did.
    #[inline]
    pub(crate) fn word(&self) -> Word {
        Word(self.word.load(Ordering::Acquire))
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    // ── Taking ──────────────────────────────────────────────────────────────────────────────

    /// Takes a slot for a job, unless somebody waits for one who comes first.
    #[inline]
    pub(crate) fn take(&self, claim: Claim) -> Result<Slot<'_>, NoSlot> {
        self.take_for(claim, Holder::Job, 1)?;
        Ok(Slot { ledger: self, holding: claim.holding })
    }

    /// Takes `count` slots for permits, all or none; for each, [`redeem`](Self::redeem) or
    /// [`cancel_permit`](Self::cancel_permit) is owed, once.
    pub(crate) fn reserve(&self, claim: Claim, count: usize) -> Result<(), NoSlot> {
        if claim.holding.is_plain() {
            // One step for all, so that nobody sees a part of it.
            return self.take_for(claim, Holder::Permit, count as u64);
        }
        for taken in 0..count {
            if let Err(no_slot) = self.take_for(claim, Holder::Permit, 1) {
                for _ in 0..taken {
                    self.cancel_permit(claim.holding);
                }
                return Err(no_slot);
            }
        }
        Ok(())
    }

    /// Takes a slot for the waiter at the head of a line.
    pub(super) fn grant(&self, claim: Claim) -> Result<(), NoSlot> {
        self.take_parts(self.guess(), claim, Holder::Permit, 1)
    }

    #[inline]
    fn take_for(&self, claim: Claim, holder: Holder, count: u64) -> Result<(), NoSlot> {
        let word = self.guess();
        let taken = if word.has_waiters() && self.waiters.come_before(claim) {
            Err(NoSlot::Full)
        } else {
            self.take_parts(word, claim, holder, count)
        };
        if !claim.holding.is_plain() {
            // On the way it may have held, for an instant, what a waiter could not have then.
            self.serve_waiters_if_any();
        }
        taken.map_err(|no_slot| self.first_reason(claim, no_slot))
    }

    #[inline]
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
                word.committed() + count <= self.common_bound(critical)
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
                    (word.in_flight() as u64) < capacity
                })
                .inspect_err(|_| self.leave_partition(index));
        }
        if partition.is_full() {
            return Err(NoSlot::Partition);
        }
        self.add(self.guess(), holder.amount(true), 1, |word| {
            word.committed() < self.common_bound(critical)
        })?;
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

    /// How much of the common part this class of work may commit.
    #[inline]
    fn common_bound(&self, critical: bool) -> u64 {
        let capacity = self.capacity.load(Relaxed);
        if critical { capacity } else { capacity.saturating_sub(self.critical_reserve) }
    }

    /// What the word may be: a place to start from, confirmed by the compare-and-swap.
    #[inline]
    fn guess(&self) -> Word {
        Word(self.word.load(Ordering::Relaxed))
    }

    /// Adds `count` times `amount` while there is room, beginning with a guess at the word.
    #[inline]
    fn add(
        &self,
        mut word: Word,
        amount: u64,
        count: u64,
        has_room: impl Fn(Word) -> bool,
    ) -> Result<(), NoSlot> {
        loop {
            if word.is_closed() {
                return Err(NoSlot::Closed);
            }
            if !has_room(word) {
                return Err(NoSlot::Full);
            }
            // Acquire: see the module's notes. Relaxed on failure: the value is only tried again.
            match self.word.compare_exchange_weak(
                word.0,
                word.0 + count * amount,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(current) => word = Word(current),
            }
        }
    }

    /// Of all that stands in the way, what is reported first: partition, bytes, the bound.
    #[cold]
    fn first_reason(&self, claim: Claim, no_slot: NoSlot) -> NoSlot {
        let Holding { partition, bytes } = claim.holding;
        if no_slot == NoSlot::Closed {
            NoSlot::Closed
        } else if partition.is_some_and(|index| self.partitions[usize::from(index)].is_full()) {
            NoSlot::Partition
        } else if !self.bytes.has_room(bytes) {
            NoSlot::Bytes
        } else {
            no_slot
        }
    }

    // ── Returning ───────────────────────────────────────────────────────────────────────────

    /// Returns all that a holder took, and serves those who wait for it.
    #[inline]
    fn return_parts(&self, holding: Holding, holder: Holder) {
        let before = self.undo_parts(holding, holder);
        if holding.is_plain() {
            if before.has_waiters() {
                self.serve_waiters();
            }
        } else {
            self.serve_waiters_if_any();
        }
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
    fn leave_partition(&self, index: partition::Index) {
        if self.partitions[usize::from(index)].give_back() == Taken::AboveShare {
            self.word.fetch_sub(COMMITTED, Ordering::AcqRel);
        }
    }

    /// Takes `amount` off the word; rings if that was the last job and somebody listens.
    #[inline]
    fn give_back_word(&self, amount: u64) -> Word {
        // Release pairs with the Acquire of `add` and `word`; AcqRel keeps the chain whole when
        // several jobs end one after the other and only the last is read.
        let before = Word(self.word.fetch_sub(amount, Ordering::AcqRel));
        debug_assert!(before.in_flight() > 0, "a slot was returned twice: {before:?}");
        // A permit's end leaves the number of jobs as it is, and so never rings.
        if before.is_watched() && before.jobs() == 1 && Word(before.0 - amount).jobs() == 0 {
            self.ring_settled();
        }
        before
    }

    #[cold]
    fn ring_settled(&self) {
        self.word.fetch_and(!WATCHED, Ordering::Relaxed);
        self.settled.ring();
    }

    /// Returns bytes that were taken for a slot that could not be had.
    pub(crate) fn give_back_bytes(&self, bytes: u64) {
        self.bytes.give_back(bytes);
        self.serve_waiters_if_any();
    }

    // ── Permits ─────────────────────────────────────────────────────────────────────────────

    /// Turns a permit into a job's slot; fails once the pool is closed, which voided the permit.
    pub(crate) fn redeem(&self, holding: Holding) -> Result<Slot<'_>, NoSlot> {
        self.settle_permit(RESERVED)?;
        Ok(Slot { ledger: self, holding })
    }

    /// Returns an unused permit's slot, unless closing did that already.
    pub(crate) fn cancel_permit(&self, holding: Holding) {
        let amount = Holder::Permit.amount(holding.partition.is_none());
        if self.settle_permit(amount).is_err() {
            return;
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
        self.word.fetch_or(WAITERS, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// Says that nobody waits any more. Called under the waiters' lock.
    pub(super) fn retract_waiters(&self) {
        self.word.fetch_and(!WAITERS, Ordering::Relaxed);
    }

    /// Something was returned elsewhere than in the word's own last step.
    fn serve_waiters_if_any(&self) {
        fence(Ordering::SeqCst);
        if self.guess().has_waiters() {
            self.serve_waiters();
        }
    }

    #[cold]
    fn serve_waiters(&self) {
        self.waiters.serve(self);
    }

    // ── Closing ─────────────────────────────────────────────────────────────────────────────

    /// Closes; true for the one call that did it. Returns with it how many jobs were left.
    ///
    /// The permits that are unused return their slots in the same step, so that nobody waits for
    /// them and their owners find them void. (What they held of partitions, bytes and the common
    /// part stays taken: nothing is admitted any more.)
    pub(crate) fn close(&self) -> Option<usize> {
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
        let word = Word(self.word.load(Ordering::Acquire));
        if word.jobs() == 0 {
            return word;
        }
        Word(self.word.fetch_or(WATCHED, Ordering::AcqRel))
    }
}

/// One slot, owned by one job from its admission to its end. Dropping it returns it.
#[must_use]
pub(crate) struct Slot<'a> {
    ledger: &'a Ledger,
    holding: Holding,
}

impl<'a> Slot<'a> {
    /// What is held with it.
    pub(crate) fn holding(&self) -> Holding {
        self.holding
    }

    /// Leaves the slot with a job that is about to be pushed. Whoever ends that job takes it up
    /// again with [`of_ended_job`](Self::of_ended_job).
    pub(crate) fn leave_with_job(self) {
        std::mem::forget(self);
    }

    /// Takes up the slot of a job that has ended; called by the one function that ends jobs.
    pub(crate) fn of_ended_job(ledger: &'a Ledger, holding: Holding) -> Self {
        Self { ledger, holding }
    }

    /// Hands the slot of an ended job to one that holds `wanted` beside it, whose bytes are taken
    /// already: the slot is not returned and taken again, so nobody can come in between.
    ///
    /// The slot is a common one, or of the partition wanted. None, with all of it returned, if the
    /// partition has filled up to its maximum meanwhile.
    pub(crate) fn pass_on(mut self, wanted: Holding) -> Option<Self> {
        let ledger = self.ledger;
        ledger.bytes.give_back(self.holding.bytes);
        self.holding.bytes = wanted.bytes;
        if self.holding.partition != wanted.partition {
            debug_assert_eq!(self.holding.partition, None, "a slot of another partition");
            let index = wanted.partition?;
            if ledger.partitions[usize::from(index)].take()? == Taken::OfShare {
                // The share was committed already: the common slot is free for others.
                ledger.word.fetch_sub(COMMITTED, Ordering::AcqRel);
            }
            self.holding.partition = Some(index);
        }
        // Less may be held now than before.
        ledger.serve_waiters_if_any();
        Some(self)
    }

    /// Returns the slot; the same as dropping it, by a name that can be read.
    pub(crate) fn give_back(self) {}
}

impl Drop for Slot<'_> {
    #[inline]
    fn drop(&mut self) {
        self.ledger.return_parts(self.holding, Holder::Job);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn claim(priority: Priority, partition: Option<u16>, bytes: u64) -> Claim {
        Claim { priority, holding: Holding { partition, bytes } }
    }

    const NORMAL: Claim =
        Claim { priority: Priority::Normal, holding: Holding { partition: None, bytes: 0 } };

    #[test]
    fn closing_voids_permits_and_counts_jobs() {
        let ledger = Ledger::new(4, 0, &[], None);
        let slot = ledger.take(NORMAL).ok().unwrap();
        ledger.reserve(NORMAL, 2).unwrap();
        assert_eq!(ledger.word().in_flight(), 3);
        assert_eq!(ledger.close(), Some(1));
        assert_eq!(ledger.close(), None);
        ledger.cancel_permit(Holding::default());
        assert_eq!(ledger.redeem(Holding::default()).err(), Some(NoSlot::Closed));
        assert_eq!((ledger.word().in_flight(), ledger.word().reserved()), (1, 0));
        assert!(!ledger.word().is_over());
        slot.give_back();
        assert!(ledger.word().is_over());
    }

    #[test]
    fn the_reserve_is_for_critical_work() {
        let ledger = Ledger::new(3, 1, &[], None);
        let critical = claim(Priority::Critical, None, 0);
        let _two = (ledger.take(NORMAL).ok().unwrap(), ledger.take(NORMAL).ok().unwrap());
        assert_eq!(ledger.take(NORMAL).err(), Some(NoSlot::Full));
        let _third = ledger.take(critical).ok().unwrap();
        assert_eq!(ledger.take(critical).err(), Some(NoSlot::Full));
    }

    #[test]
    fn a_share_is_kept_free_and_the_rest_is_common() {
        let partitions = [Partition::new().reserved(2), Partition::new().max(1)];
        let ledger = Ledger::new(4, 0, &partitions, None);
        let (a, b) = (claim(Priority::Normal, Some(0), 0), claim(Priority::Normal, Some(1), 0));
        let common = (ledger.take(NORMAL).ok().unwrap(), ledger.take(b).ok().unwrap());
        assert_eq!(ledger.take(NORMAL).err(), Some(NoSlot::Full), "the rest is reserved");
        assert_eq!(ledger.take(b).err(), Some(NoSlot::Partition), "it has its maximum");
        let share = (ledger.take(a).ok().unwrap(), ledger.take(a).ok().unwrap());
        assert_eq!(ledger.take(a).err(), Some(NoSlot::Full));
        drop(common);
        // Above its share now; and the order of returns doesn't matter.
        let above = ledger.take(a).ok().unwrap();
        drop(share);
        let again = (ledger.take(a).ok().unwrap(), ledger.take(NORMAL).ok().unwrap());
        drop((above, again));
        assert_eq!((ledger.word().in_flight(), ledger.word().committed()), (0, 2));
    }

    #[test]
    fn bytes_come_back_with_the_slot_and_a_refusal_keeps_none() {
        let ledger = Ledger::new(2, 0, &[], Some(100));
        let sixty = claim(Priority::Normal, None, 60);
        let first = ledger.take(sixty).ok().unwrap();
        assert_eq!(ledger.take(sixty).err(), Some(NoSlot::Bytes));
        assert_eq!((ledger.word().in_flight(), ledger.bytes().used()), (1, 60));
        drop(first);
        assert_eq!((ledger.word().in_flight(), ledger.bytes().used()), (0, 0));
    }

    #[test]
    fn many_are_reserved_together_or_not_at_all() {
        let ledger = Ledger::new(3, 0, &[Partition::new().max(2)], None);
        assert_eq!(ledger.reserve(NORMAL, 4).err(), Some(NoSlot::Full));
        let in_partition = claim(Priority::Normal, Some(0), 0);
        assert_eq!(ledger.reserve(in_partition, 3).err(), Some(NoSlot::Partition));
        assert_eq!(ledger.word().in_flight(), 0);
        ledger.reserve(NORMAL, 3).unwrap();
        assert_eq!(ledger.word().reserved(), 3);
    }

    #[test]
    fn a_lowered_capacity_admits_nothing_until_it_has_drained() {
        let ledger = Ledger::new(3, 0, &[], None);
        let mut slots: Vec<_> = (0..3).map(|_| ledger.take(NORMAL).ok().unwrap()).collect();
        ledger.set_capacity(1);
        for _ in 0..2 {
            slots.pop();
            assert_eq!(ledger.take(NORMAL).err(), Some(NoSlot::Full));
        }
        slots.pop();
        assert!(ledger.take(NORMAL).is_ok());
    }

    #[test]
    fn a_large_head_blocks_its_own_line_only_and_nobody_overtakes_in_it() {
        use super::super::waiters::Standing;
        let waker = std::task::Waker::noop();
        let ledger = Ledger::new(4, 0, &[Partition::new()], Some(10));
        let large = claim(Priority::Normal, None, 8);
        let small = claim(Priority::Normal, None, 1);
        let other = claim(Priority::Normal, Some(0), 1);
        let held = ledger.take(claim(Priority::Normal, None, 5)).ok().unwrap();
        let waiters = ledger.waiters();
        let (first, second) = (waiters.join(&ledger, large), waiters.join(&ledger, small));
        assert_eq!(waiters.ask(first, waker), Standing::Waiting);
        assert_eq!(waiters.ask(second, waker), Standing::Waiting);
        assert!(ledger.take(small).is_err(), "it would overtake");
        assert!(ledger.take(claim(Priority::High, None, 1)).is_ok(), "a higher class may");
        assert!(ledger.take(other).is_ok(), "another line");
        waiters.leave(&ledger, first);
        assert_eq!(waiters.ask(second, waker), Standing::Granted);
        ledger.cancel_permit(small.holding);
        drop(held);
        assert_eq!((ledger.word().in_flight(), ledger.bytes().used()), (0, 0));
    }
}

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
    pub(super) capacity: AtomicU64,
    /// What an adaptive limit allows to be in flight; binds the common part alone.
    pub(super) limit: AtomicU64,
    pub(super) critical_reserve: u64,
    pub(super) partitions: Box<[PartitionSlots]>,
    pub(super) bytes: Bytes,
    pub(super) waiters: Waiters,
    /// What waiters for a shorter queue are judged by.
    pub(super) pressure: Arc<Pressure>,
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

    /// What the word may be: a place to start from, confirmed by the compare-and-swap.
    #[inline]
    pub(super) fn guess(&self) -> Word {
        Word(self.word.load(Ordering::Relaxed))
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
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
    pub(super) fn undo_parts(&self, holding: Holding, holder: Holder) -> Word {
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

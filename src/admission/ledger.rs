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
//! | committed | slots of the common part that are taken; what the bound for non-critical work is compared with |
//! | reserved | the part of *in flight* that are permits not yet used |
//! | `CLOSED` | no slot is given any more, for ever |
//! | `WATCHED` | somebody listens at [`Ledger::settled`] for the last job's end |
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

use crate::sync::{AtomicU64, Bell, Ordering};

const FIELD_BITS: u32 = 20;
const FIELD_MASK: u64 = (1 << FIELD_BITS) - 1;

const IN_FLIGHT: u64 = 1;
const COMMITTED: u64 = 1 << FIELD_BITS;
const RESERVED: u64 = 1 << (2 * FIELD_BITS);
const CLOSED: u64 = 1 << (3 * FIELD_BITS);
const WATCHED: u64 = 1 << (3 * FIELD_BITS + 1);

/// What one job takes from the word.
const SLOT: u64 = IN_FLIGHT | COMMITTED;
/// What one permit takes from the word.
const PERMIT: u64 = SLOT | RESERVED;

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
}

impl std::fmt::Debug for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Word")
            .field("in_flight", &self.in_flight())
            .field("committed", &self.committed())
            .field("reserved", &self.reserved())
            .field("closed", &self.is_closed())
            .field("watched", &self.is_watched())
            .finish()
    }
}

/// Why no slot was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSlot {
    /// The pool is closed.
    Closed,
    /// The bound of this class of work is reached.
    Full,
}

/// The slots of one pool.
pub(crate) struct Ledger {
    // On a cache line of its own: every submit and every job's end writes it.
    word: CachePadded<AtomicU64>,
    capacity: u64,
    critical_reserve: u64,
    settled: Bell,
}

impl Ledger {
    /// The builder has validated both: `critical_reserve < capacity <= MAX_CAPACITY`.
    pub(crate) fn new(capacity: usize, critical_reserve: usize) -> Self {
        debug_assert!(critical_reserve < capacity && capacity <= MAX_CAPACITY);
        Self {
            word: CachePadded::new(AtomicU64::new(0)),
            capacity: capacity as u64,
            critical_reserve: critical_reserve as u64,
            settled: Bell::new(),
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// The present word. `Acquire` pairs with [`give_back`](Self::give_back): who reads that no
    /// job is left also sees all that the last one did.
    #[inline]
    pub(crate) fn word(&self) -> Word {
        Word(self.word.load(Ordering::Acquire))
    }

    /// Takes a slot for a job.
    #[inline]
    pub(crate) fn take(&self, critical: bool) -> Result<Slot<'_>, NoSlot> {
        self.add(SLOT, critical)?;
        Ok(Slot { ledger: self })
    }

    /// Takes a slot for a permit; [`redeem`](Self::redeem) or [`cancel_permit`](Self::cancel_permit)
    /// is owed for it, once.
    pub(crate) fn reserve(&self, critical: bool) -> Result<(), NoSlot> {
        self.add(PERMIT, critical)
    }

    #[inline]
    fn add(&self, amount: u64, critical: bool) -> Result<(), NoSlot> {
        let mut word = Word(self.word.load(Ordering::Relaxed));
        loop {
            if word.is_closed() {
                return Err(NoSlot::Closed);
            }
            if !self.has_room(word, critical) {
                return Err(NoSlot::Full);
            }
            // Acquire: see the module's notes. Relaxed on failure: the value is only tried again.
            match self.word.compare_exchange_weak(
                word.0,
                word.0 + amount,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(current) => word = Word(current),
            }
        }
    }

    #[inline]
    fn has_room(&self, word: Word, critical: bool) -> bool {
        if critical {
            (word.in_flight() as u64) < self.capacity
        } else {
            word.committed() < self.capacity - self.critical_reserve
        }
    }

    /// Turns a permit into a job's slot; fails once the pool is closed, which voided the permit.
    pub(crate) fn redeem(&self) -> Result<Slot<'_>, NoSlot> {
        self.settle_permit(RESERVED)?;
        Ok(Slot { ledger: self })
    }

    /// Returns an unused permit's slot, unless closing did that already.
    pub(crate) fn cancel_permit(&self) {
        // A permit is no job, so its end can't be the last job's end: nobody to wake.
        let _ = self.settle_permit(PERMIT);
    }

    fn settle_permit(&self, amount: u64) -> Result<(), NoSlot> {
        let mut word = Word(self.word.load(Ordering::Relaxed));
        loop {
            if word.is_closed() {
                return Err(NoSlot::Closed);
            }
            debug_assert!(word.reserved() > 0, "a permit was settled twice: {word:?}");
            // Release: what the permit's owner did before comes before the slot's next use.
            match self.word.compare_exchange_weak(
                word.0,
                word.0 - amount,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(current) => word = Word(current),
            }
        }
    }

    /// Returns a job's slot, and rings if that was the last job and somebody listens.
    #[inline]
    fn give_back(&self) {
        // Release pairs with the Acquire of `add` and `word`; AcqRel keeps the chain whole when
        // several jobs end one after the other and only the last is read.
        let before = Word(self.word.fetch_sub(SLOT, Ordering::AcqRel));
        debug_assert!(before.jobs() > 0, "a slot was returned twice: {before:?}");
        if before.jobs() == 1 && before.is_watched() {
            self.ring_settled();
        }
    }

    #[cold]
    fn ring_settled(&self) {
        self.word.fetch_and(!WATCHED, Ordering::Relaxed);
        self.settled.ring();
    }

    /// Closes; true for the one call that did it. Returns with it how many jobs were left.
    ///
    /// The permits that are unused return their slots in the same step, so that nobody waits for
    /// them and their owners find them void.
    pub(crate) fn close(&self) -> Option<usize> {
        let mut word = Word(self.word.load(Ordering::Relaxed));
        loop {
            if word.is_closed() {
                return None;
            }
            let voided = word.reserved() as u64 * PERMIT;
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
}

impl<'a> Slot<'a> {
    /// Leaves the slot with a job that is about to be pushed. Whoever ends that job takes it up
    /// again with [`of_ended_job`](Self::of_ended_job).
    pub(crate) fn leave_with_job(self) {
        std::mem::forget(self);
    }

    /// Takes up the slot of a job that has ended; called by the one function that ends jobs.
    pub(crate) fn of_ended_job(ledger: &'a Ledger) -> Self {
        Self { ledger }
    }

    /// Returns the slot; the same as dropping it, by a name that can be read.
    pub(crate) fn give_back(self) {}
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.ledger.give_back();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn closing_voids_permits_and_counts_jobs() {
        let ledger = Ledger::new(4, 0);
        let slot = ledger.take(false).ok().unwrap();
        ledger.reserve(false).unwrap();
        ledger.reserve(false).unwrap();
        assert_eq!(ledger.word().in_flight(), 3);
        assert_eq!(ledger.close(), Some(1));
        assert_eq!(ledger.close(), None);
        ledger.cancel_permit();
        assert_eq!(ledger.redeem().err(), Some(NoSlot::Closed));
        assert_eq!((ledger.word().in_flight(), ledger.word().reserved()), (1, 0));
        assert!(!ledger.word().is_over());
        slot.give_back();
        assert!(ledger.word().is_over());
    }

    #[test]
    fn the_reserve_is_for_critical_work() {
        let ledger = Ledger::new(3, 1);
        let _two = (ledger.take(false).ok().unwrap(), ledger.take(false).ok().unwrap());
        assert_eq!(ledger.take(false).err(), Some(NoSlot::Full));
        let _third = ledger.take(true).ok().unwrap();
        assert_eq!(ledger.take(true).err(), Some(NoSlot::Full));
    }
}

//! The word that holds all counts of slots.
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
//! | `WATCHED` | somebody listens at [`Ledger::settled`](super::ledger::Ledger::settled) for the last job's end |
//! | `WAITERS` | somebody waits for a slot |
//!
//! Since all of it is one word, each of these is decided in one compare-and-swap and can't be torn
//! by another thread: a slot is taken only while the pool is open; closing voids the permits that
//! are unused and learns how many jobs are left; the last job to end knows that it is the last and
//! whether anybody waits for that. One load of *in flight* is never above the capacity.

const FIELD_BITS: u32 = 20;
const FIELD_MASK: u64 = (1 << FIELD_BITS) - 1;

pub(super) const IN_FLIGHT: u64 = 1;
pub(super) const COMMITTED: u64 = 1 << FIELD_BITS;
pub(super) const RESERVED: u64 = 1 << (2 * FIELD_BITS);
pub(super) const CLOSED: u64 = 1 << (3 * FIELD_BITS);
pub(super) const WATCHED: u64 = 1 << (3 * FIELD_BITS + 1);
pub(super) const WAITERS: u64 = 1 << (3 * FIELD_BITS + 2);

/// The largest capacity that fits in the word.
pub(crate) const MAX_CAPACITY: usize = FIELD_MASK as usize;

/// The word, decoded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(pub(super) u64);

impl Word {
    pub(crate) fn in_flight(self) -> usize {
        (self.0 & FIELD_MASK) as usize
    }

    pub(super) fn committed(self) -> u64 {
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

    /// Whether a return must look what else there is to do.
    pub(super) fn has_flags(self) -> bool {
        self.0 & (CLOSED | WATCHED | WAITERS) != 0
    }

    pub(super) fn is_watched(self) -> bool {
        self.0 & WATCHED != 0
    }

    pub(super) fn has_waiters(self) -> bool {
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

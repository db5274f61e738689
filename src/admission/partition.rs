//! The slots of partitions: what is kept for each, and what each may take beyond that.
//!
//! Only arithmetic on one word per partition; what it means for the common part is the ledger's.

use std::num::NonZeroUsize;

use crate::sync::{AtomicU64, Ordering};

/// A share of the pool's slots for one tenant, for [`Builder::partition`](crate::Builder::partition).
///
/// The reserved slots are kept free for the partition; beyond them it competes for the common part,
/// up to its maximum.
///
/// ```
/// use weirpool::{Partition, Pool};
///
/// let pool = Pool::builder()
///     .workers(1)
///     .capacity(8)
///     .partition("interactive", Partition::new().reserved(4))
///     .partition("batch", Partition::new().max(2))
///     .build()?;
/// let batch = pool.partition("batch").expect("just configured");
/// pool.job().partition(batch).try_submit(|| ()).unwrap().join().unwrap();
/// # Ok::<(), weirpool::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    pub(crate) reserved: usize,
    pub(crate) max: Option<usize>,
}

impl Partition {
    /// Nothing reserved, and no maximum but the capacity.
    pub const fn new() -> Self {
        Self { reserved: 0, max: None }
    }

    /// Slots kept for this partition alone. Default 0.
    pub const fn reserved(mut self, slots: usize) -> Self {
        self.reserved = slots;
        self
    }

    /// The most slots it may have, reserved ones included; at least 1. Default: no maximum.
    pub const fn max(mut self, slots: usize) -> Self {
        self.max = Some(slots);
        self
    }
}

impl Default for Partition {
    fn default() -> Self {
        Self::new()
    }
}

/// One partition's place in its pool.
///
/// Its `Option` is a whole word, which is copied in one piece: an `Option` of a short number is written
/// in two and read as one, for which a processor waits, and this is on the way of every job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Index(NonZeroUsize);

impl Index {
    pub(crate) fn of(place: usize) -> Self {
        Self(NonZeroUsize::MIN.saturating_add(place))
    }

    /// A short number for a job's header; zero is no partition.
    #[inline]
    pub(crate) fn code(partition: Option<Self>) -> u16 {
        partition.map_or(0, |Self(nth)| nth.get() as u16)
    }

    #[inline]
    pub(crate) fn of_code(code: u16) -> Option<Self> {
        NonZeroUsize::new(usize::from(code)).map(Self)
    }
}

impl From<Index> for usize {
    fn from(Index(nth): Index) -> Self {
        nth.get() - 1
    }
}

/// What a partition's `take` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A slot of the reserved share.
    OfShare,
    /// A slot above the share.
    AboveShare,
}

/// The slots one partition has taken.
pub(crate) struct PartitionSlots {
    used: AtomicU64,
    reserved: u64,
    max: u64,
}

impl PartitionSlots {
    pub(crate) fn new(partition: Partition) -> Self {
        Self {
            used: AtomicU64::new(0),
            reserved: partition.reserved as u64,
            max: partition.max.map_or(u64::MAX, |max| max as u64),
        }
    }

    pub(crate) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Whether it may have so many more.
    pub(crate) fn has_room(&self, count: u64) -> bool {
        count <= self.max.saturating_sub(self.used.load(Ordering::Acquire))
    }

    pub(crate) fn is_above_share(&self) -> bool {
        self.used.load(Ordering::Acquire) > self.reserved
    }

    /// Takes one of the share, if one is free. AcqRel, as for the ledger's word: a return
    /// synchronizes with the next taking.
    pub(crate) fn take_of_share(&self) -> bool {
        let share = self.reserved.min(self.max);
        self.take_below(share).is_some()
    }

    /// Takes one, of whichever kind; none at the maximum.
    pub(crate) fn take(&self) -> Option<Taken> {
        let before = self.take_below(self.max)?;
        Some(if before < self.reserved { Taken::OfShare } else { Taken::AboveShare })
    }

    fn take_below(&self, bound: u64) -> Option<u64> {
        self.used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
                (used < bound).then_some(used + 1)
            })
            .ok()
    }

    /// Returns one above the share, if there is one.
    pub(crate) fn give_back_above_share(&self) -> bool {
        self.used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
                (used > self.reserved).then(|| used - 1)
            })
            .is_ok()
    }

    /// Returns one, and says which kind is free again.
    pub(crate) fn give_back(&self) -> Taken {
        let before = self.used.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "a partition's slot was returned twice");
        if before > self.reserved { Taken::AboveShare } else { Taken::OfShare }
    }
}

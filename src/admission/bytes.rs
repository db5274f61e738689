//! The second budget: bytes.

use crate::sync::{AtomicU64, Ordering};

/// The bytes that jobs hold, as their submitters declared them.
pub(crate) struct Bytes {
    used: AtomicU64,
    max: Option<u64>,
}

impl Bytes {
    pub(crate) fn new(max: Option<u64>) -> Self {
        Self { used: AtomicU64::new(0), max }
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }

    /// Whether a job of this size could ever be taken.
    pub(crate) fn can_ever_hold(&self, bytes: u64) -> bool {
        self.max.is_none_or(|max| bytes <= max)
    }

    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.fits(self.used(), bytes)
    }

    fn fits(&self, used: u64, bytes: u64) -> bool {
        self.max.is_none_or(|max| used.checked_add(bytes).is_some_and(|sum| sum <= max))
    }

    /// Takes so many; all or none. Without a maximum nothing is counted.
    #[inline]
    pub(crate) fn take(&self, bytes: u64) -> bool {
        if bytes == 0 || self.max.is_none() {
            return true;
        }
        // AcqRel, as for the ledger's word.
        self.used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
                self.fits(used, bytes).then(|| used + bytes)
            })
            .is_ok()
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        if bytes > 0 && self.max.is_some() {
            let before = self.used.fetch_sub(bytes, Ordering::AcqRel);
            debug_assert!(before >= bytes, "bytes were returned twice");
        }
    }
}

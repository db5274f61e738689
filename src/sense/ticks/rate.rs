//! From ticks to nanoseconds.

use std::num::NonZeroU64;

/// How many ticks an answer of the kernel is used for: 0.1 to 0.5 ms with 5 to 1 GHz. Long enough that
/// asking (about 70 ns) doesn't count, short enough that no error does. A number of ticks, not a
/// time: it must not depend on a rate that may be wrong.
pub(super) const SPAN_TICKS: u64 = 1 << 19;

/// How many ticks may pass while the kernel is asked; it takes 50 to 100. If there are more, the
/// thread was interrupted, and which moment the answer belongs to is unknown.
pub(super) const WIDEST_TICKS: u64 = 1 << 10;

/// What a thread that has read nothing yet has read last: no span takes longer. No machine has let a
/// program run so soon after its start.
pub(super) const FIRST_NS: u64 = (SPAN_TICKS * LARGEST) >> UNIT_BITS;

/// A moment as the counter and as the kernel count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) ticks: u64,
    pub(super) ns: u64,
}

impl Pair {
    /// Stands for none: whatever the counter says, no time that it gives is after [`FIRST_NS`].
    pub(super) const NONE: Self = Self { ticks: 0, ns: 0 };

    /// The kernel said `ns`, somewhere between two readings of the counter; none if they are too far
    /// apart. It counts as said at the first one, so that the time is ahead rather than behind: a
    /// deadline that has passed must not seem to be still ahead.
    pub(super) fn between(before: u64, ns: u64, after: u64) -> Option<Self> {
        (after.wrapping_sub(before) <= WIDEST_TICKS).then_some(Self { ticks: before, ns })
    }

    /// The time at `ticks`, if that is within a span and after `last_ns`, which is what was read last.
    #[inline]
    pub(super) fn ns_at(self, ticks: u64, rate: Rate, last_ns: u64) -> Option<u64> {
        // What lies before the pair is a huge number here.
        let since = ticks.wrapping_sub(self.ticks);
        if since >= SPAN_TICKS {
            return None;
        }
        let ns = self.ns.saturating_add(rate.ns(since));
        (ns > last_ns).then_some(ns)
    }
}

/// Nanoseconds per tick, in units of 2⁻³².
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate(NonZeroU64);

const UNIT_BITS: u32 = 32;
/// Of 20 GHz and of 200 MHz. Counters run at 1 to 5 GHz.
const SMALLEST: u64 = (1 << UNIT_BITS) / 20;
const LARGEST: u64 = (1 << UNIT_BITS) * 5;

// The largest product fits in a word.
const _: () = assert!(SPAN_TICKS.checked_mul(LARGEST).is_some());

impl Rate {
    /// As it was between two pairs; none if that can't be.
    pub(super) fn between(from: Pair, to: Pair) -> Option<Self> {
        let ticks = to.ticks.checked_sub(from.ticks).filter(|&ticks| ticks > 0)?;
        let ns = to.ns.checked_sub(from.ns)?;
        let rate = u64::try_from((u128::from(ns) << UNIT_BITS) / u128::from(ticks)).ok()?;
        if (SMALLEST..=LARGEST).contains(&rate) { Self::from_word(rate) } else { None }
    }

    /// What [`word`](Self::word) made of a rate, or of none.
    #[inline]
    pub(super) fn from_word(word: u64) -> Option<Self> {
        NonZeroU64::new(word).map(Self)
    }

    pub(super) fn word(rate: Option<Self>) -> u64 {
        rate.map_or(0, |rate| rate.0.get())
    }

    /// What `ticks` take, fewer than a span.
    #[inline]
    fn ns(self, ticks: u64) -> u64 {
        ticks.wrapping_mul(self.0.get()) >> UNIT_BITS
    }

    /// Within 0.1 %: a daemon that keeps the time sets the kernel's clock by up to 0.05 % faster or
    /// slower.
    pub(super) fn agrees_with(self, other: Self) -> bool {
        self.0.get().abs_diff(other.0.get()) <= other.0.get() >> 10
    }
}

//! How many tokens there are: the arithmetic under [`TokenBucket`](super::TokenBucket) and
//! [`RetryBudget`](super::RetryBudget).
//!
//! Integers, so that nothing is rounded in somebody's favour: a level is counted in billionths of a
//! token, and the wait that is computed for some tokens is enough for them to the nanosecond.
//!
//! The refill is a function of the time since the last *change*, not since the last look. Asking
//! often therefore costs no fraction of a token.

use std::time::{Duration, Instant};

use super::time::anchor_for;

/// What one token counts.
pub(crate) const TOKEN: i128 = 1_000_000_000;

const NS_PER_S: i128 = 1_000_000_000;

/// Tokens per second: beyond this a nanosecond gives more than a thousand, and any clock is too
/// coarse to tell.
const MAX_RATE_PER_S: f64 = 1e12;

/// More tokens than anybody counts, and far from the end of the integers.
const MAX_TOKENS: f64 = 1e18;

/// `tokens` in units; 0 for what is negative or no number.
pub(crate) fn units(tokens: f64) -> i128 {
    // The conversion saturates, and takes NaN for 0.
    (tokens.clamp(0.0, MAX_TOKENS) * TOKEN as f64) as i128
}

/// Units in tokens.
pub(crate) fn tokens(units: i128) -> f64 {
    units as f64 / TOKEN as f64
}

/// A level that rises at a rate, up to a cap that the caller gives with each question.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    units: i128,
    units_per_s: i128,
    /// When the level was `units`; none before the first use.
    anchor: Option<Instant>,
}

impl Level {
    pub(crate) fn new(rate_per_s: f64, units: i128) -> Self {
        Self { units, units_per_s: units_per_s(rate_per_s), anchor: None }
    }

    pub(crate) fn rate_per_s(&self) -> f64 {
        tokens(self.units_per_s)
    }

    /// The level at `now`, negative if more was promised than there is.
    pub(crate) fn at(&mut self, now: Instant, cap: i128) -> i128 {
        self.uncapped_at(now).min(cap)
    }

    fn uncapped_at(&mut self, now: Instant) -> i128 {
        let refill = self.ns_since_anchor(now).saturating_mul(self.units_per_s) / NS_PER_S;
        self.units.saturating_add(refill)
    }

    /// If the clock was set back, the anchor goes along for good, also when nothing else changes: who
    /// finds the level too low, again and again, would otherwise wait for the clock to catch up.
    fn ns_since_anchor(&mut self, now: Instant) -> i128 {
        let Some(anchor) = self.anchor else { return 0 };
        let anchor = anchor_for(anchor, now);
        self.anchor = Some(anchor);
        let passed = now.saturating_duration_since(anchor).as_nanos();
        i128::try_from(passed).unwrap_or(i128::MAX)
    }

    /// Adds `units`, which may be negative, at `now`.
    pub(crate) fn add(&mut self, units: i128, now: Instant, cap: i128) {
        self.units = self.at(now, cap).saturating_add(units).min(cap);
        self.anchor = Some(self.anchor.map_or(now, |anchor| anchor.max(now)));
    }

    /// Adds `units` to whatever the level is and will be, as if they had never been taken.
    pub(crate) fn give_back(&mut self, units: i128) {
        self.units = self.units.saturating_add(units);
    }

    /// Changes the rate from `now` on.
    pub(crate) fn set_rate(&mut self, rate_per_s: f64, now: Instant, cap: i128) {
        self.add(0, now, cap);
        self.units_per_s = units_per_s(rate_per_s);
    }

    /// How long after `now` the level is at `units` if nobody takes any and the cap rises as far as it
    /// must. None: never, or not within the 584 years that 64 bits of nanoseconds count.
    pub(crate) fn wait_for(&mut self, units: i128, now: Instant, cap: i128) -> Option<Duration> {
        let level = self.uncapped_at(now);
        if units <= level.min(cap) {
            return Some(Duration::ZERO);
        }
        if self.units_per_s == 0 {
            return None;
        }
        // The refill counts from the anchor, and so does the wait, so that both round alike; unless
        // the cap has stopped it, so that it goes on from the cap.
        let (from, passed_ns) =
            if level > cap { (cap, 0) } else { (self.units, self.ns_since_anchor(now)) };
        let scaled = units.saturating_sub(from).saturating_mul(NS_PER_S);
        let needed_ns = scaled.saturating_add(self.units_per_s - 1) / self.units_per_s;
        let ns = u64::try_from(needed_ns.saturating_sub(passed_ns)).ok()?;
        Some(Duration::from_nanos(ns))
    }
}

fn units_per_s(rate_per_s: f64) -> i128 {
    // As in `units`.
    (rate_per_s.clamp(0.0, MAX_RATE_PER_S) * TOKEN as f64) as i128
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAP: i128 = 1_000_000_000 * TOKEN;

    #[test]
    fn looking_often_loses_no_fraction() {
        let begin = Instant::now();
        let mut level = Level::new(0.001, 0);
        level.add(0, begin, CAP);
        for ms in 0..100_000 {
            level.at(begin + Duration::from_millis(ms), CAP);
        }
        assert_eq!(level.at(begin + Duration::from_secs(1000), CAP), TOKEN);
    }

    #[test]
    fn the_wait_is_enough_and_no_nanosecond_too_long() {
        let begin = Instant::now();
        for rate in [0.3, 1.0, 3.0, 7.7, 1e5 / 3.0, 1e9] {
            let mut level = Level::new(rate, 0);
            level.add(0, begin, CAP);
            for start_ns in [0, 1, 333, 1_000_003] {
                let now = begin + Duration::from_nanos(start_ns);
                let target = level.at(now, CAP) + 2 * TOKEN;
                let wait = level.wait_for(target, now, CAP).unwrap();
                assert!(level.at(now + wait, CAP) >= target, "{rate}");
                assert!(level.at(now + wait - Duration::from_nanos(1), CAP) < target, "{rate}");
            }
        }
    }

    #[test]
    fn a_level_at_its_cap_waits_from_there() {
        let begin = Instant::now();
        let mut level = Level::new(10.0, 0);
        level.add(0, begin, 5 * TOKEN);
        let later = begin + Duration::from_secs(60);
        assert_eq!(level.wait_for(20 * TOKEN, later, 5 * TOKEN), Some(Duration::from_millis(1500)));
    }

    #[test]
    fn no_number_is_too_odd() {
        let begin = Instant::now();
        for rate in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300, 1e-300] {
            let mut level = Level::new(rate, units(rate));
            level.add(-CAP, begin, CAP);
            level.add(i128::MIN, begin + Duration::from_secs(1 << 30), CAP);
            level.add(i128::MAX, begin, CAP);
            assert!(level.at(begin, CAP) <= CAP);
            level.wait_for(i128::MAX, begin, CAP);
        }
    }
}

//! The smallest wait of an interval: what tells a standing queue from a burst.
//!
//! A burst makes long waits, too, but its last jobs, or the first after it, wait little; only where
//! even the smallest wait of a whole interval is above the target does the queue stand. The rule is
//! the one of folly's `Codel`, with 100 ms as its interval.

/// After so many intervals without a job the last one says nothing any more.
const STALE_INTERVALS: u64 = 16;

#[derive(Clone, Debug)]
pub(crate) struct Interval {
    length_ns: u64,
    ends_ns: u64,
    /// The smallest wait so far.
    present_ns: Option<u64>,
    /// The smallest wait of the interval before.
    last_ns: Option<u64>,
}

impl Interval {
    pub(crate) fn new(length_ns: u64) -> Self {
        Self { length_ns, ends_ns: 0, present_ns: None, last_ns: None }
    }

    /// A job was taken that has waited so long.
    #[inline]
    pub(crate) fn note(&mut self, waited_ns: u64, now_ns: u64) {
        // Nearly always: within the interval, and not the smallest wait.
        let left_ns = self.ends_ns.wrapping_sub(now_ns);
        let is_within = left_ns > 0 && left_ns <= self.length_ns;
        if is_within && self.present_ns.is_some_and(|present_ns| present_ns <= waited_ns) {
            return;
        }
        self.take_in(waited_ns, now_ns);
    }

    fn take_in(&mut self, waited_ns: u64, now_ns: u64) {
        let stale_ns = self.length_ns.saturating_mul(STALE_INTERVALS);
        let overdue_ns = now_ns.saturating_sub(self.ends_ns);
        // So far before the end of an interval of this length: the clock was set back. Not if it is only
        // before its beginning: the times of two workers may come in a little out of order.
        let set_back = self.ends_ns.saturating_sub(now_ns) > self.length_ns.saturating_mul(2);
        if overdue_ns > stale_ns || set_back {
            self.forget();
        }
        if now_ns < self.ends_ns {
            let smallest_ns = self.present_ns.map_or(waited_ns, |present| present.min(waited_ns));
            self.present_ns = Some(smallest_ns);
        } else {
            // Also where jobs are so few that each falls into an interval of its own.
            self.last_ns = self.present_ns;
            self.present_ns = Some(waited_ns);
            self.ends_ns = now_ns.saturating_add(self.length_ns);
        }
    }

    /// The smallest wait of the last full interval.
    pub(crate) fn last_ns(&self) -> Option<u64> {
        self.last_ns
    }

    /// Whether a queue stands: nobody in the last interval has waited less than `target_ns`.
    pub(crate) fn stands_above(&self, target_ns: u64) -> bool {
        self.last_ns.is_some_and(|smallest_ns| smallest_ns > target_ns)
    }

    pub(crate) fn forget(&mut self) {
        *self = Self::new(self.length_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn one_short_wait_shows_that_no_queue_stands() {
        let mut interval = Interval::new(100 * MS);
        for now_ms in 0..350 {
            let waited_ns =
                if (100..200).contains(&now_ms) && now_ms % 50 == 7 { MS } else { 9 * MS };
            interval.note(waited_ns, now_ms * MS);
            let standing = match now_ms {
                0..100 => false,
                100..200 => true,
                200..300 => false,
                _ => true,
            };
            assert_eq!(interval.stands_above(5 * MS), standing, "at {now_ms} ms");
        }
    }

    #[test]
    fn a_wait_at_the_target_is_not_above_it() {
        let mut interval = Interval::new(100 * MS);
        (0..200).for_each(|now_ms| interval.note(5 * MS, now_ms * MS));
        assert_eq!(interval.last_ns(), Some(5 * MS));
        assert!(!interval.stands_above(5 * MS) && interval.stands_above(5 * MS - 1));
    }

    #[test]
    fn a_time_from_just_before_the_interval_ends_nothing() {
        let mut interval = Interval::new(100 * MS);
        (0..=200).for_each(|now_ms| interval.note(9 * MS, now_ms * MS));
        interval.note(9 * MS, 200 * MS - 1);
        assert!(interval.stands_above(5 * MS));
        interval.note(7 * MS, 200 * MS - 1);
        interval.note(9 * MS, 300 * MS);
        assert_eq!(interval.last_ns(), Some(7 * MS));
    }

    #[test]
    fn a_clock_that_was_set_back_begins_anew() {
        let mut interval = Interval::new(100 * MS);
        (1_000..1_150).for_each(|now_ms| interval.note(9 * MS, now_ms * MS));
        interval.note(9 * MS, 7 * MS);
        assert!(!interval.stands_above(5 * MS));
        (8..=107).for_each(|now_ms| interval.note(9 * MS, now_ms * MS));
        assert!(interval.stands_above(5 * MS));
    }

    #[test]
    fn what_is_long_past_says_nothing() {
        let mut interval = Interval::new(100 * MS);
        (0..150).for_each(|now_ms| interval.note(9 * MS, now_ms * MS));
        assert!(interval.stands_above(5 * MS));
        interval.note(9 * MS, 3_600_000 * MS);
        assert!(!interval.stands_above(5 * MS));
    }
}

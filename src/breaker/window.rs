//! What the calls of the last while came to.

use std::time::Duration;

use super::types::Counts;
use crate::sense::clock::saturating_ns;

/// One call that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) failed: bool,
    pub(super) slow: bool,
}

/// A window of equal buckets that slides with the time.
///
/// The newest bucket is still being filled, so the window reaches back by its full length less the
/// part of a bucket that is yet to come. A bucket is three counts, whatever the number of calls.
#[derive(Debug)]
pub(super) struct Window {
    buckets: Box<[Counts]>,
    bucket_ns: u64,
    /// Number of the newest bucket since time zero; its place is that number modulo their count.
    newest: u64,
    total: Counts,
}

impl Window {
    /// `buckets` is above zero and `length` at least a nanosecond for each.
    pub(super) fn new(length: Duration, buckets: usize) -> Self {
        let bucket_ns = (saturating_ns(length) / buckets as u64).max(1);
        let buckets = vec![Counts::default(); buckets].into_boxed_slice();
        Self { buckets, bucket_ns, newest: 0, total: Counts::default() }
    }

    /// Forgets what has slid out at `now_ns`, which never goes back.
    pub(super) fn advance(&mut self, now_ns: u64) {
        let number = now_ns / self.bucket_ns;
        let steps = number.saturating_sub(self.newest);
        if steps == 0 {
            return;
        }
        let all = self.buckets.len() as u64;
        for stale in 1..=steps.min(all) {
            let place = (self.newest.wrapping_add(stale) % all) as usize;
            self.buckets[place] = Counts::default();
        }
        self.newest = number;
        // Added up again, not subtracted: counts that stood still at the end of the word would not
        // come out even.
        self.total = self.buckets.iter().fold(Counts::default(), |sum, one| sum.plus(*one));
    }

    /// Counts one call, after [`advance`](Self::advance).
    pub(super) fn add(&mut self, sample: Sample) {
        let one =
            Counts { calls: 1, failures: u64::from(sample.failed), slow: u64::from(sample.slow) };
        let place = (self.newest % self.buckets.len() as u64) as usize;
        self.buckets[place] = self.buckets[place].plus(one);
        self.total = self.total.plus(one);
    }

    pub(super) fn clear(&mut self) {
        self.buckets.fill(Counts::default());
        self.total = Counts::default();
    }

    pub(super) fn total(&self) -> Counts {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: Sample = Sample { failed: true, slow: false };

    fn calls_after(window: &mut Window, now_ns: u64) -> u64 {
        window.advance(now_ns);
        window.total().calls
    }

    #[test]
    fn a_call_slides_out_with_its_bucket() {
        let mut window = Window::new(Duration::from_nanos(100), 10);
        window.advance(25);
        window.add(FAILED);
        assert_eq!(calls_after(&mut window, 119), 1);
        assert_eq!(calls_after(&mut window, 120), 0);
    }

    #[test]
    fn idle_for_longer_than_the_window_leaves_nothing() {
        for idle_ns in [100, 101, 1_000, 365 * 86_400 * 1_000_000_000, u64::MAX] {
            let mut window = Window::new(Duration::from_nanos(100), 10);
            for now_ns in 0..100 {
                window.advance(now_ns);
                window.add(FAILED);
            }
            assert_eq!(window.total().calls, 100);
            assert_eq!(calls_after(&mut window, 99_u64.saturating_add(idle_ns)), 0, "{idle_ns}");
            window.add(FAILED);
            assert_eq!(window.total(), Counts { calls: 1, failures: 1, slow: 0 });
        }
    }

    #[test]
    fn counts_stand_still_at_the_end_of_the_word() {
        let mut window = Window::new(Duration::from_nanos(100), 2);
        let full = Counts { calls: u64::MAX, failures: u64::MAX - 1, slow: 0 };
        window.buckets[0] = full;
        window.total = full;
        window.add(FAILED);
        window.add(FAILED);
        assert_eq!(window.total(), Counts { calls: u64::MAX, failures: u64::MAX, slow: 0 });
        assert_eq!(window.total().failure_rate(), Some(1.0));
        assert_eq!(calls_after(&mut window, 50), u64::MAX);
        window.add(FAILED);
        assert_eq!(calls_after(&mut window, 100), 1, "what stood still has slid out");
    }

    #[test]
    fn one_bucket_is_a_window_too() {
        let mut window = Window::new(Duration::from_nanos(7), 1);
        window.add(FAILED);
        assert_eq!(calls_after(&mut window, 6), 1);
        assert_eq!(calls_after(&mut window, 7), 0);
    }

    #[test]
    fn the_longest_window_never_slides() {
        let mut window = Window::new(Duration::MAX, 1);
        window.add(FAILED);
        assert_eq!(calls_after(&mut window, u64::MAX - 1), 1);
    }
}

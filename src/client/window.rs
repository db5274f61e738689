//! Sums over the last so-and-so many seconds.

use std::time::{Duration, Instant};

use super::time::{anchor_for, later};

/// A sliding window in `N` buckets. What is put into it stays for at least *span* − *span*/`N` and at
/// most *span*.
#[derive(Clone, Debug)]
pub(crate) struct Window<T, const N: usize> {
    buckets: [T; N],
    width: Duration,
    /// The newest bucket's place in the ring.
    newest: usize,
    /// When the newest bucket began; none before the first use.
    began: Option<Instant>,
}

impl<T: Copy + Default, const N: usize> Window<T, N> {
    /// An empty window over `span`, at least a nanosecond per bucket.
    pub(crate) fn new(span: Duration) -> Self {
        let width = (span / N as u32).max(Duration::from_nanos(1));
        Self { buckets: [T::default(); N], width, newest: 0, began: None }
    }

    /// Forgets what has become too old by `now`.
    pub(crate) fn advance(&mut self, now: Instant) {
        let began = anchor_for(*self.began.get_or_insert(now), now);
        let steps = now.saturating_duration_since(began).as_nanos() / self.width.as_nanos();
        if steps >= N as u128 {
            self.buckets = [T::default(); N];
            self.began = Some(now);
            return;
        }
        for _ in 0..steps {
            self.newest = (self.newest + 1) % N;
            self.buckets[self.newest] = T::default();
        }
        self.began = Some(later(began, self.width * steps as u32));
    }

    /// The bucket of the present, as of the last [`advance`](Self::advance).
    pub(crate) fn newest(&mut self) -> &mut T {
        &mut self.buckets[self.newest]
    }

    /// All buckets, the oldest first.
    pub(crate) fn oldest_first(&mut self) -> impl Iterator<Item = &mut T> {
        let (newer, older) = self.buckets.split_at_mut(self.newest + 1);
        older.iter_mut().chain(newer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn sum(window: &mut Window<u32, 4>, now: Instant) -> u32 {
        window.advance(now);
        window.oldest_first().map(|bucket| *bucket).sum()
    }

    #[test]
    fn what_is_older_than_the_span_is_gone() {
        let begin = Instant::now();
        let mut window = Window::<u32, 4>::new(4 * SECOND);
        for (second, value) in [(0, 1), (1, 10), (2, 100), (3, 1000)] {
            window.advance(begin + second * SECOND);
            *window.newest() += value;
        }
        let seen: Vec<u32> = window.oldest_first().map(|bucket| *bucket).collect();
        assert_eq!(seen, [1, 10, 100, 1000]);
        for (second, left) in [(3, 1111), (4, 1110), (5, 1100), (6, 1000), (7, 0), (1000, 0)] {
            assert_eq!(sum(&mut window, begin + second * SECOND), left, "after {second} s");
        }
    }

    #[test]
    fn a_clock_that_is_set_back_neither_brings_back_nor_freezes() {
        let begin = Instant::now() + 1000 * SECOND;
        let mut window = Window::<u32, 4>::new(4 * SECOND);
        window.advance(begin);
        *window.newest() = 7;
        assert_eq!(sum(&mut window, begin - 500 * SECOND), 7);
        assert_eq!(sum(&mut window, begin - 496 * SECOND), 0);
    }

    #[test]
    fn spans_of_nothing_and_of_ages() {
        let now = Instant::now();
        for span in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
            let mut window = Window::<u32, 4>::new(span);
            window.advance(now);
            *window.newest() += 1;
            assert!(sum(&mut window, now + SECOND) <= 1);
        }
    }
}

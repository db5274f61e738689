//! How long to wait before a retry.

use std::time::Duration;

use fastrand::Rng;

use super::time::{seconds, unit};

/// Exponential backoff with full jitter: before retry *n* (from 0) a wait chosen evenly between 0 and
/// min(max, base × factorⁿ).
///
/// Full jitter spreads those who failed together over the whole interval; that is what keeps them from
/// coming back together (Brooker, "Exponential Backoff and Jitter", 2015). The power is capped before
/// it can overflow. gRPC's retries (gRFC A6) wait by the same rule.
///
/// Pure arithmetic: the random number is an argument, or comes from a generator that you seed. The
/// crates `backoff`, `backon` and `retry-policies` have this too, together with ways to call a
/// function again; here it is one part of [`Pacer`](super::Pacer), and core dependencies are fixed.
///
/// ```
/// use std::time::Duration;
/// use weirpool::client::Backoff;
///
/// let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));
/// assert_eq!(backoff.ceiling(0), Duration::from_millis(100));
/// assert_eq!(backoff.ceiling(3), Duration::from_millis(800));
/// assert_eq!(backoff.ceiling(u32::MAX), Duration::from_secs(10));
/// assert_eq!(backoff.delay(3, 0.5), Duration::from_millis(400));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    base: Duration,
    max: Duration,
    factor: f64,
}

impl Backoff {
    /// Waits of up to `base` before the first retry, twice as long before each further one, never
    /// longer than `max`.
    pub const fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, factor: 2.0 }
    }

    /// By how much each wait may be longer than the one before (default 2). What is below 1 or no
    /// number counts as 1.
    pub fn factor(mut self, factor: f64) -> Self {
        self.factor = factor.max(1.0);
        self
    }

    /// The longest wait before retry `attempt`, counted from 0.
    pub fn ceiling(&self, attempt: u32) -> Duration {
        if self.base.is_zero() {
            return Duration::ZERO; // and not 0 × infinity
        }
        // An infinite product is longer than any `max`.
        let grown_s = self.base.as_secs_f64() * self.factor.powf(f64::from(attempt));
        if grown_s < self.max.as_secs_f64() { seconds(grown_s) } else { self.max }
    }

    /// The wait before retry `attempt`, counted from 0; `random` is a number from 0 to 1, evenly
    /// distributed (no number counts as 1).
    pub fn delay(&self, attempt: u32, random: f64) -> Duration {
        let ceiling = self.ceiling(attempt);
        seconds(ceiling.as_secs_f64() * unit(random)).min(ceiling)
    }

    /// All the waits one after the other, without end, the same for the same seed.
    ///
    /// ```
    /// use weirpool::client::Backoff;
    ///
    /// let waits: Vec<_> = Backoff::default().delays(7).take(5).collect();
    /// assert_eq!(waits, Backoff::default().delays(7).take(5).collect::<Vec<_>>());
    /// ```
    pub fn delays(&self, seed: u64) -> Delays {
        Delays { backoff: *self, attempt: 0, rng: Rng::with_seed(seed) }
    }
}

impl Default for Backoff {
    /// From 100 ms to 10 s.
    fn default() -> Self {
        Self::new(Duration::from_millis(100), Duration::from_secs(10))
    }
}

/// The waits of a [`Backoff`], from [`Backoff::delays`]. It never ends.
#[derive(Clone, Debug)]
pub struct Delays {
    backoff: Backoff,
    attempt: u32,
    rng: Rng,
}

impl Iterator for Delays {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let delay = self.backoff.delay(self.attempt, self.rng.f64());
        self.attempt = self.attempt.saturating_add(1);
        Some(delay)
    }
}

//! The token bucket.

use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

use super::level::{Level, TOKEN, tokens};
use super::time::later;
use crate::sync::stat::Mutex;

/// A rate limiter: so many tokens a second, and at most a burst of them at once.
///
/// A bucket begins full. It is refilled continuously, fractions included, and never above its burst.
/// In any stretch of time *t* it hands out at most burst + rate × *t* tokens. What is refused or
/// given back costs nothing.
///
/// - Rate 0 means that nothing is refilled: the first burst is all there ever is.
/// - Burst 0 means that nothing is ever handed out: even one token is more than the bucket holds.
/// - A rate that is negative or no number counts as 0; one above 10¹² a second, as that.
///
/// Time comes in as an argument. A `now` a little before an earlier one counts as no time passed, one
/// that lies more than a second back as a clock that was set: time goes on from there.
///
/// The algorithm is the usual one (Turner 1986, "leaky bucket as a meter", in its refilled form); the
/// arithmetic is in whole billionths of a token. The crate `governor` does the same with one atomic
/// word; weirpool has its own because its core dependencies are fixed, and because [`Pacer`]
/// changes the rate with each answer.
///
/// ```
/// use std::time::{Duration, Instant};
/// use weirpool::client::TokenBucket;
///
/// let now = Instant::now();
/// let bucket = TokenBucket::new(10.0, 2); // ten a second, two at once
/// assert!(bucket.try_take(2, now).is_ok());
/// assert!(bucket.try_take(1, now).is_err());
/// assert!(bucket.try_take(1, now + Duration::from_millis(100)).is_ok());
/// ```
///
/// [`Pacer`]: super::Pacer
pub struct TokenBucket {
    state: Mutex<State>,
}

#[derive(Clone, Debug)]
struct State {
    level: Level,
    burst: u64,
    /// What reservations hold that are neither sent nor cancelled. It takes up room in the bucket,
    /// so that a cancelled reservation leaves it exactly as if it had never been.
    held: i128,
}

impl State {
    /// Up to where the level rises.
    fn cap(&self) -> i128 {
        i128::from(self.burst) * TOKEN - self.held
    }

    fn check_size(&self, tokens: u64) -> Result<i128, BucketError> {
        if tokens > self.burst {
            return Err(BucketError::TooLarge { asked: tokens, burst: self.burst });
        }
        Ok(i128::from(tokens) * TOKEN)
    }
}

impl TokenBucket {
    /// A full bucket: `rate_per_s` tokens a second, at most `burst` at once.
    pub fn new(rate_per_s: f64, burst: u64) -> Self {
        let level = Level::new(rate_per_s, i128::from(burst) * TOKEN);
        Self { state: Mutex::new(State { level, burst, held: 0 }) }
    }

    /// Takes `tokens` if they are there.
    ///
    /// # Errors
    ///
    /// [`BucketError::TooLarge`] if the bucket never holds so many, else [`BucketError::Empty`].
    /// Neither changes anything.
    pub fn try_take(&self, tokens: u64, now: Instant) -> Result<(), BucketError> {
        let mut state = self.state.lock();
        let (units, cap) = (state.check_size(tokens)?, state.cap());
        if state.level.at(now, cap) < units {
            return Err(BucketError::Empty { wait: state.level.wait_for(units, now, cap) });
        }
        state.level.add(-units, now, cap);
        Ok(())
    }

    /// Takes a place in line for `tokens`: they are there when [`Reservation::ready_at`] has come.
    ///
    /// First come, first served: whoever asks later waits until these are paid off.
    ///
    /// # Errors
    ///
    /// [`BucketError::TooLarge`] if the bucket never holds so many; [`BucketError::Empty`] with no
    /// wait if nothing is refilled, or not within five centuries. Neither changes anything.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use weirpool::client::TokenBucket;
    ///
    /// let now = Instant::now();
    /// let bucket = TokenBucket::new(10.0, 20);
    /// bucket.try_take(15, now)?;
    /// let place = bucket.reserve(10, now)?; // 5 are there, the rest comes in half a second
    /// assert_eq!(place.ready_at(), now + Duration::from_millis(500));
    /// place.cancel(); // it costs nothing
    /// bucket.try_take(5, now)?;
    /// # Ok::<(), weirpool::client::BucketError>(())
    /// ```
    pub fn reserve(&self, tokens: u64, now: Instant) -> Result<Reservation<'_>, BucketError> {
        self.reserve_within(tokens, Duration::MAX, now)
    }

    /// The same, if the tokens are there within `max_wait`; else [`BucketError::Empty`] says how long
    /// it would take, and nothing has changed.
    pub fn reserve_within(
        &self,
        tokens: u64,
        max_wait: Duration,
        now: Instant,
    ) -> Result<Reservation<'_>, BucketError> {
        let mut state = self.state.lock();
        let (units, cap) = (state.check_size(tokens)?, state.cap());
        let wait = state.level.wait_for(units, now, cap);
        match wait {
            Some(wait) if wait <= max_wait => {
                state.level.add(-units, now, cap);
                state.held = state.held.saturating_add(units);
                Ok(Reservation { bucket: self, units, ready_at: later(now, wait) })
            }
            _ => Err(BucketError::Empty { wait }),
        }
    }

    /// How many tokens there are; negative while reservations wait for theirs.
    pub fn available(&self, now: Instant) -> f64 {
        let mut state = self.state.lock();
        let cap = state.cap();
        tokens(state.level.at(now, cap))
    }

    /// Tokens a second.
    pub fn rate_per_s(&self) -> f64 {
        self.state.lock().level.rate_per_s()
    }

    /// The most tokens at once.
    pub fn burst(&self) -> u64 {
        self.state.lock().burst
    }

    /// Changes the rate from `now` on, and nothing else: tokens that are there stay, and the
    /// reservations made so far keep their time.
    pub fn set_rate(&self, rate_per_s: f64, now: Instant) {
        let mut state = self.state.lock();
        let cap = state.cap();
        state.level.set_rate(rate_per_s, now, cap);
    }

    /// Changes the burst from `now` on, and nothing else, but that tokens above it are gone.
    pub fn set_burst(&self, burst: u64, now: Instant) {
        let mut state = self.state.lock();
        let cap = state.cap();
        state.level.add(0, now, cap);
        state.burst = burst;
    }
}

impl fmt::Debug for TokenBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock().clone();
        f.debug_struct("TokenBucket")
            .field("rate_per_s", &state.level.rate_per_s())
            .field("burst", &state.burst)
            .finish_non_exhaustive()
    }
}

/// Tokens with a time, from [`TokenBucket::reserve`].
///
/// Wait until [`ready_at`](Self::ready_at), then call [`spend`](Self::spend) and go ahead. Dropping it
/// is the same as [`cancel`](Self::cancel), so that a caller who gives up while it waits costs nobody
/// anything.
#[must_use = "a reservation that is dropped gives its tokens back"]
#[derive(Debug)]
pub struct Reservation<'a> {
    bucket: &'a TokenBucket,
    /// 0 once spent.
    units: i128,
    ready_at: Instant,
}

impl Reservation<'_> {
    /// When the tokens are there.
    pub fn ready_at(&self) -> Instant {
        self.ready_at
    }

    /// How long after `now` the tokens are there; zero if they are.
    pub fn wait(&self, now: Instant) -> Duration {
        self.ready_at.saturating_duration_since(now)
    }

    /// Uses the tokens at `now`. (Before [`ready_at`](Self::ready_at) this works too: the caller
    /// then runs ahead of the rate, and everybody else waits for it.)
    pub fn spend(mut self, now: Instant) {
        let units = std::mem::take(&mut self.units);
        let mut state = self.bucket.state.lock();
        let cap = state.cap();
        state.level.add(0, now, cap);
        state.held -= units;
    }

    /// Gives the place up. Places taken later keep their times; whoever asks from now on finds the
    /// tokens.
    pub fn cancel(self) {}
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.units != 0 {
            let mut state = self.bucket.state.lock();
            state.held -= self.units;
            state.level.give_back(self.units);
        }
    }
}

/// Why a [`TokenBucket`] gave nothing.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketError {
    /// The bucket never holds so many tokens: waiting can't help.
    #[non_exhaustive]
    TooLarge {
        /// What was asked for.
        asked: u64,
        /// What the bucket holds when it is full.
        burst: u64,
    },
    /// The tokens are not there now.
    #[non_exhaustive]
    Empty {
        /// In how long they are, if nobody else takes them. None: never, since the rate is 0, or not
        /// within five centuries.
        wait: Option<Duration>,
    },
}

impl fmt::Display for BucketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { asked, burst } => {
                write!(f, "{asked} tokens asked of a bucket that holds at most {burst}")
            }
            Self::Empty { wait: Some(wait) } => write!(f, "not enough tokens for {wait:?}"),
            Self::Empty { wait: None } => f.write_str("not enough tokens, and they never come"),
        }
    }
}

impl Error for BucketError {}

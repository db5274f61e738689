//! How many retries a client may make.

use std::fmt;
use std::time::{Duration, Instant};

use super::level::{Level, TOKEN, tokens, units};
use super::window::Window;
use crate::sync::stat::Mutex;

const BUCKETS: usize = 10;
const DEFAULT_RATIO: f64 = 0.2;
const DEFAULT_PER_S: f64 = 10.0;
const DEFAULT_TTL: Duration = Duration::from_secs(10);

/// Keeps retries to a share of the requests, for all callers of one server together.
///
/// Each request [deposits](Self::deposit) a share of a token, each retry
/// [withdraws](Self::withdraw) one. What is deposited is lost after a while, so that a quiet hour
/// doesn't pay for a storm. A reserve that fills at a steady rate lets a client with few requests
/// retry as well; it begins full, and holds what comes in within one lifetime (at least one token,
/// unless its rate is 0).
///
/// A limit per request ("at most three attempts") can't do this: when everything fails, everybody
/// makes three attempts, and a server that was full meets three times its load.
///
/// Rule and defaults (20 % of the requests, 10 a second, 10 s) are those of Finagle's `RetryBudget`,
/// but for the reserve: Finagle's comes back all at once when its use is a lifetime old, this one
/// evenly. The arithmetic is exact, also between threads. Tower has a budget of the same kind in
/// `tower::retry`, bound to its services.
///
/// ```
/// use std::time::Instant;
/// use weirpool::client::RetryBudget;
///
/// let now = Instant::now();
/// let budget = RetryBudget::new().ratio(0.5).min_per_second(0.0);
/// budget.deposit(now);
/// assert!(!budget.withdraw(now)); // half a token
/// budget.deposit(now);
/// assert!(budget.withdraw(now));
/// ```
pub struct RetryBudget {
    deposit_units: i128,
    per_s: f64,
    ttl: Duration,
    state: Mutex<State>,
}

#[derive(Clone, Debug)]
struct State {
    deposits: Window<i128, BUCKETS>,
    reserve: Level,
}

impl RetryBudget {
    /// 20 % of the requests, and 10 retries a second; deposits last 10 s.
    pub fn new() -> Self {
        Self::with(units(DEFAULT_RATIO), DEFAULT_PER_S, DEFAULT_TTL)
    }

    fn with(deposit_units: i128, per_s: f64, ttl: Duration) -> Self {
        let per_s = if per_s.is_nan() { 0.0 } else { per_s.clamp(0.0, 1e9) };
        let reserve = Level::new(per_s, reserve_cap(per_s, ttl));
        let state = State { deposits: Window::new(ttl), reserve };
        Self { deposit_units, per_s, ttl, state: Mutex::new(state) }
    }

    /// Retries per request (default 0.2); at most 1000, and what is negative or no number counts as 0.
    /// Changes nothing else, but like the other settings it starts the books anew.
    pub fn ratio(self, retries_per_request: f64) -> Self {
        Self::with(units(retries_per_request.min(1000.0)), self.per_s, self.ttl)
    }

    /// Retries a second that need no request (default 10); 0 for none. What is negative or no number
    /// counts as 0. Changes nothing else.
    pub fn min_per_second(self, retries: f64) -> Self {
        Self::with(self.deposit_units, retries, self.ttl)
    }

    /// How long a deposit lasts, and how long the reserve takes to fill (default 10 s). Changes
    /// nothing else.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self::with(self.deposit_units, self.per_s, ttl)
    }

    /// Notes a request. Retries are no requests.
    pub fn deposit(&self, now: Instant) {
        let mut state = self.state.lock();
        state.deposits.advance(now);
        let newest = state.deposits.newest();
        *newest = newest.saturating_add(self.deposit_units);
    }

    /// Whether a retry may be made; if so, it is paid for. The oldest deposits go first, the reserve
    /// last.
    #[must_use = "a retry without a token must not be made"]
    pub fn withdraw(&self, now: Instant) -> bool {
        let mut state = self.state.lock();
        state.deposits.advance(now);
        let State { deposits, reserve } = &mut *state;
        let cap = reserve_cap(self.per_s, self.ttl);
        let deposited = sum(deposits);
        let from_reserve = (TOKEN - deposited).max(0);
        if from_reserve > reserve.at(now, cap) {
            return false;
        }
        let mut owed = TOKEN - from_reserve;
        for deposit in deposits.oldest_first() {
            let paid = owed.min(*deposit);
            *deposit -= paid;
            owed -= paid;
        }
        reserve.add(-from_reserve, now, cap);
        true
    }

    /// How many retries could be made at `now`, fractions included.
    pub fn balance(&self, now: Instant) -> f64 {
        let mut state = self.state.lock();
        state.deposits.advance(now);
        let reserve = state.reserve.at(now, reserve_cap(self.per_s, self.ttl));
        tokens(sum(&mut state.deposits).saturating_add(reserve))
    }
}

fn sum(deposits: &mut Window<i128, BUCKETS>) -> i128 {
    deposits.oldest_first().fold(0_i128, |sum, deposit| sum.saturating_add(*deposit))
}

/// What the reserve holds. Less than a token would never be enough for a retry.
fn reserve_cap(per_s: f64, ttl: Duration) -> i128 {
    if per_s == 0.0 { 0 } else { units(per_s * ttl.as_secs_f64()).max(TOKEN) }
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for RetryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryBudget")
            .field("ratio", &tokens(self.deposit_units))
            .field("min_per_second", &self.per_s)
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}

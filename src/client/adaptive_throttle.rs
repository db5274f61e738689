//! The client throttle of the SRE book.

use std::fmt;
use std::time::{Duration, Instant};

use super::time::unit;
use super::window::Window;
use crate::sync::stat::Mutex;

const BUCKETS: usize = 24;
const DEFAULT_K: f64 = 2.0;
const DEFAULT_WINDOW: Duration = Duration::from_secs(120);
const DEFAULT_MIN_REQUESTS: u64 = 10;

/// Below 1 by the least there is, so that some call always gets through to find out.
const MAX_PROBABILITY: f64 = 1.0 - f64::EPSILON / 2.0;

/// Refuses calls on the client's side, with the probability max(0, (*requests* − K × *accepts*) /
/// (*requests* + 1)) over a sliding window.
///
/// As long as a server accepts at least one in K of the requests, nothing is refused here. When it
/// accepts fewer, what it would refuse anyway is more and more refused before it is sent, and costs
/// the server nothing. Because refusals on this side count as requests too, the probability rises as
/// long as callers keep asking; it is never 1.
///
/// The rule is "Handling Overload" of *Site Reliability Engineering* (Beyer et al. 2016), with its K
/// of 2 and its two minutes. gRPC and Envoy have it too.
///
/// | what happens to a call | call | requests | accepts |
/// |---|---|---|---|
/// | refused here | [`admit`](Self::admit) returns false | + 1 | |
/// | accepted by the server (whatever the answer) | [`accepted`](Self::accepted) | + 1 | + 1 |
/// | refused by the server, or no answer in time | [`refused`](Self::refused) | + 1 | |
/// | cancelled by its caller | nothing | | |
///
/// The crates with this rule are parts of service frameworks; weirpool's own stands alone.
///
/// ```
/// use std::time::Instant;
/// use weirpool::client::AdaptiveThrottle;
///
/// let now = Instant::now();
/// let throttle = AdaptiveThrottle::new();
/// for call in 0..100 {
///     if call < 40 { throttle.accepted(now) } else { throttle.refused(now) }
/// }
/// assert_eq!(throttle.probability(now), 20.0 / 101.0);
/// assert!(!throttle.admit(0.1, now)); // a random number from 0 to 1
/// assert!(throttle.admit(0.5, now));
/// ```
pub struct AdaptiveThrottle {
    k: f64,
    min_requests: u64,
    window: Mutex<Window<Calls, BUCKETS>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Calls {
    requests: u64,
    accepts: u64,
}

impl AdaptiveThrottle {
    /// K = 2, over two minutes, idle below 10 requests.
    pub fn new() -> Self {
        Self {
            k: DEFAULT_K,
            min_requests: DEFAULT_MIN_REQUESTS,
            window: Mutex::new(Window::new(DEFAULT_WINDOW)),
        }
    }

    /// How many requests per accepted one are let through (default 2). Lower refuses earlier; what is
    /// below 1 counts as 1, what is no number as the default.
    pub fn k(mut self, k: f64) -> Self {
        self.k = if k.is_nan() { DEFAULT_K } else { k.clamp(1.0, 1e9) };
        self
    }

    /// How long a call counts (default two minutes), in steps of a 24th. Forgets what was counted.
    pub fn window(mut self, span: Duration) -> Self {
        self.window = Mutex::new(Window::new(span));
        self
    }

    /// Below so many requests in the window nothing is refused (default 10): the first call of a
    /// client says little about the server. 0 leaves the bare formula.
    pub fn min_requests(mut self, requests: u64) -> Self {
        self.min_requests = requests;
        self
    }

    /// The probability with which a call made at `now` is refused here: at least 0, less than 1.
    pub fn probability(&self, now: Instant) -> f64 {
        let mut window = self.window.lock();
        window.advance(now);
        self.probability_of(&mut window)
    }

    fn probability_of(&self, window: &mut Window<Calls, BUCKETS>) -> f64 {
        let (mut requests, mut accepts) = (0_u64, 0_u64);
        for calls in window.oldest_first() {
            requests = requests.saturating_add(calls.requests);
            accepts = accepts.saturating_add(calls.accepts);
        }
        if requests < self.min_requests {
            return 0.0;
        }
        let (requests, accepts) = (requests as f64, accepts as f64);
        ((requests - self.k * accepts) / (requests + 1.0)).clamp(0.0, MAX_PROBABILITY)
    }

    /// Whether to send a call at `now`; `random` is a number from 0 to 1, evenly distributed. False
    /// counts as a request that was not accepted; true counts nothing until the call has ended.
    pub fn admit(&self, random: f64, now: Instant) -> bool {
        let mut window = self.window.lock();
        window.advance(now);
        let admitted = unit(random) >= self.probability_of(&mut window);
        if !admitted {
            count(&mut window, 0);
        }
        admitted
    }

    /// The server accepted a call: it did the work, well or badly.
    pub fn accepted(&self, now: Instant) {
        self.ended(1, now);
    }

    /// The server refused a call for overload, or did not answer it in time.
    pub fn refused(&self, now: Instant) {
        self.ended(0, now);
    }

    fn ended(&self, accepts: u64, now: Instant) {
        let mut window = self.window.lock();
        window.advance(now);
        count(&mut window, accepts);
    }
}

fn count(window: &mut Window<Calls, BUCKETS>, accepts: u64) {
    let calls = window.newest();
    calls.requests = calls.requests.saturating_add(1);
    calls.accepts = calls.accepts.saturating_add(accepts);
}

impl Default for AdaptiveThrottle {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for AdaptiveThrottle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptiveThrottle")
            .field("k", &self.k)
            .field("min_requests", &self.min_requests)
            .finish_non_exhaustive()
    }
}

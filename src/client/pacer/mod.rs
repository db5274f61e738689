//! When to send, wait, give up and retry.

mod rate;

use std::fmt;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::time::later;
use super::{AdaptiveThrottle, Backoff, BucketError, Reservation, RetryBudget, TokenBucket};
use crate::sync::stat::Mutex;
use rate::Rate;

const DEFAULT_MAX_WAIT: Duration = Duration::from_millis(100);
const DEFAULT_MAX_ATTEMPTS: u32 = 3;
const DEFAULT_MIN_PER_S: f64 = 0.5;
const DEFAULT_RETRY_RATIO: f64 = 0.1;
const DEFAULT_RETRIES_PER_S: f64 = 0.1;

/// A server's wish to be left alone, obeyed for no longer than this.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// What may be sent at once, in time at the present rate: about what a timer is late.
const BURST_S: f64 = 0.02;

/// Paces the requests of one client to one server, so that a server that can't keep up is offered what
/// it can do and no more.
///
/// ```
/// use std::time::{Duration, Instant};
/// use weirpool::client::{Decision, Hint, Pacer, Retry};
///
/// # fn call() -> Result<f64, Option<Duration>> { Ok(0.3) }
/// fn request(pacer: &Pacer) -> Result<(), &'static str> {
///     for attempt in 0.. {
///         match pacer.ask(attempt, Instant::now()) {
///             Decision::Send => {}
///             Decision::Wait(turn) => {
///                 std::thread::sleep(turn.wait(Instant::now()));
///                 turn.send(Instant::now());
///             }
///             Decision::GiveUp(_) => return Err("too busy, not even tried"),
///         }
///         match call() {
///             Ok(score) => {
///                 pacer.reported(score, Instant::now()); // if the answer had a load report
///                 pacer.accepted(Instant::now());
///                 return Ok(());
///             }
///             Err(retry_after) => {
///                 let hint = retry_after.map_or(Hint::None, Hint::After);
///                 match pacer.refused(attempt, hint, Instant::now()) {
///                     Retry::After(wait) => std::thread::sleep(wait),
///                     Retry::No(_) => return Err("refused"),
///                 }
///             }
///         }
///     }
///     unreachable!()
/// }
/// # request(&Pacer::new()).unwrap();
/// ```
///
/// # What it does
///
/// - **Nothing, at first.** Until the server refuses something or reports a score above 0.83, every
///   request is sent. Then the pacer measures for a second how much it sends, and goes on from there.
/// - **A [`TokenBucket`] holds the rate.** Each refusal lowers it by one request a second, each
///   accepted request raises it by a little: less, the higher it is. So all clients of one server end
///   up with the same rate, unless they ask for less. With reports of the server's load the rate
///   settles at a score of about 0.85; without them where a few percent are refused (about 2 % at 50
///   requests a second, 5 % at 5).
/// - **Requests above the rate** wait for their turn, or are given up at once if that is too far away.
/// - **Retries** wait by [`Backoff`], and at least as long as the server asked for. They are paid from
///   a [`RetryBudget`] (10 % of the requests, and one in ten seconds), go through the bucket like
///   everything else, and end after three attempts.
/// - **An outage** is ten refusals in a row. A `Retry-After` then holds everything back until it is
///   over; otherwise it concerns only the request that got it. (A busy server refuses a few percent
///   with a whole second or more. Who stopped completely for each would hardly send anything.) The
///   rate falls to a trickle, and when the server accepts again it returns within seconds to nearly
///   what it was.
///
/// What it comes to, simulated in `tests/pacing` with 2, 20 and 200 clients that ask for 2.5 times what
/// a server of 1000 requests a second can do: after eight seconds less than 1.1 times its capacity is
/// offered, 2 to 7 % of that is refused, a request is sent 1.02 times on the average, and the clients
/// get equal shares (Jain's index above 0.9). A server that is back after a stall, or has twice the
/// capacity, is in full use again within ten seconds, with reports within three or four.
///
/// It knows the less, the less it sends and is told. Below about ten requests a second per client and
/// without reports everything takes longer. And clients that begin with unequal rates become equal
/// within about twenty seconds where the server reports its load, without it in minutes.
///
/// What is cancelled, or fails for other reasons than overload, need not be reported: it counts for
/// nothing. A request that got no answer in time was refused.
///
/// An [`AdaptiveThrottle`] can be added; by default there is none, because it would act on the same
/// refusals as the rate, with a memory of two minutes, and slow the return from an outage.
///
/// Time comes in as an argument, random numbers from a generator that can be seeded. Share one pacer
/// per server between threads and tasks.
pub struct Pacer {
    max_wait: Duration,
    max_attempts: u32,
    backoff: Backoff,
    budget: RetryBudget,
    throttle: Option<AdaptiveThrottle>,
    bucket: TokenBucket,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    rate: Rate,
    rng: Rng,
    /// The server wants to be left alone until then.
    paused_until: Option<Instant>,
}

impl State {
    /// How long the server is still to be left alone.
    fn pause(&mut self, now: Instant) -> Duration {
        let Some(until) = self.paused_until else { return Duration::ZERO };
        let pause = until.saturating_duration_since(now);
        // Longer than any pause: the clock was set back.
        if pause > 2 * MAX_PAUSE {
            self.paused_until = None;
            return Duration::ZERO;
        }
        pause
    }
}

impl Pacer {
    /// A pacer with the defaults that the type describes.
    pub fn new() -> Self {
        let rate = Rate::new(DEFAULT_MIN_PER_S);
        Self {
            max_wait: DEFAULT_MAX_WAIT,
            max_attempts: DEFAULT_MAX_ATTEMPTS,
            backoff: Backoff::default(),
            budget: RetryBudget::new()
                .ratio(DEFAULT_RETRY_RATIO)
                .min_per_second(DEFAULT_RETRIES_PER_S),
            throttle: None,
            bucket: TokenBucket::new(0.0, 1),
            state: Mutex::new(State { rate, rng: Rng::new(), paused_until: None }),
        }
    }

    /// How long a request may wait for its turn (default 100 ms). One whose turn is further away is
    /// given up at once. Zero: nothing waits.
    pub fn max_wait(mut self, wait: Duration) -> Self {
        self.max_wait = wait;
        self
    }

    /// How often a request may be sent, the first time included (default 3). 0 counts as 1.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts.max(1);
        self
    }

    /// Requests a second that are sent in any case (default 0.5), to see whether a server that
    /// refuses everything has come back. From 0.001 to 10⁹; no number counts as the least.
    pub fn min_rate(mut self, per_second: f64) -> Self {
        self.state.get_mut().rate = Rate::new(per_second);
        self
    }

    /// How long retries wait (default: up to 100 ms, 200 ms, …, 10 s).
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// How many retries there may be (default: 10 % of the requests, and one in ten seconds).
    pub fn retry_budget(mut self, budget: RetryBudget) -> Self {
        self.budget = budget;
        self
    }

    /// Asks `throttle` too (default: none).
    pub fn throttle(mut self, throttle: AdaptiveThrottle) -> Self {
        self.throttle = Some(throttle);
        self
    }

    /// Makes the random choices repeatable.
    pub fn seed(mut self, seed: u64) -> Self {
        self.state.get_mut().rng = Rng::with_seed(seed);
        self
    }

    /// Whether to send a request at `now`; `attempt` counts from 0, so that 0 is no retry.
    pub fn ask(&self, attempt: u32, now: Instant) -> Decision<'_> {
        let mut state = self.state.lock();
        let pause = state.pause(now);
        if pause > self.max_wait {
            return Decision::GiveUp(GiveUp::Paused);
        }
        if let Some(throttle) = &self.throttle {
            if !throttle.admit(state.rng.f64(), now) {
                return Decision::GiveUp(GiveUp::Throttled);
            }
        }
        let place = match self.place_in_line(&state, now) {
            None => None,
            Some(Ok(place)) => Some(place),
            Some(Err(_)) => {
                state.rate.limited(now);
                return Decision::GiveUp(GiveUp::Rate);
            }
        };
        let line = place.as_ref().map_or(Duration::ZERO, |place| place.wait(now));
        if !line.is_zero() {
            state.rate.limited(now);
        }
        let wait = line.max(pause);
        if wait.is_zero() {
            self.send(&mut state, place, attempt, now);
            return Decision::Send;
        }
        Decision::Wait(Turn { pacer: self, place, attempt, ready_at: later(now, wait) })
    }

    /// Brings the bucket up to date and takes a place in its line; none while there is no limit.
    fn place_in_line(
        &self,
        state: &State,
        now: Instant,
    ) -> Option<Result<Reservation<'_>, BucketError>> {
        let per_s = state.rate.per_s(now)?;
        let burst = if state.rate.is_outage() { 1 } else { 1 + (per_s * BURST_S).ceil() as u64 };
        self.bucket.set_burst(burst, now);
        self.bucket.set_rate(per_s, now);
        Some(self.bucket.reserve_within(1, self.max_wait, now))
    }

    fn send(&self, state: &mut State, place: Option<Reservation<'_>>, attempt: u32, now: Instant) {
        if let Some(place) = place {
            place.spend(now);
        }
        if attempt == 0 {
            self.budget.deposit(now);
        }
        state.rate.sent(now);
    }

    /// An answer, good or bad, said how loaded the server is: 0 idle, 1 full, more beyond what it
    /// wants. Call it before [`accepted`](Self::accepted) or [`refused`](Self::refused). What is no
    /// number is ignored; [`LoadReport::utilization`](crate::load::LoadReport::utilization) is the
    /// figure to pass. It counts for a second.
    pub fn reported(&self, score: f64, now: Instant) {
        self.state.lock().rate.reported(score, now);
    }

    /// The server accepted a request: it did the work, well or badly.
    pub fn accepted(&self, now: Instant) {
        if let Some(throttle) = &self.throttle {
            throttle.accepted(now);
        }
        let mut state = self.state.lock();
        state.rate.accepted(now);
        state.paused_until = None;
    }

    /// The server refused attempt `attempt` (from 0) of a request for overload, or did not answer it
    /// in time. Says whether it may be sent again; if so, wait, and [`ask`](Self::ask) again with the
    /// next number.
    #[must_use = "it says whether a retry is allowed"]
    pub fn refused(&self, attempt: u32, hint: Hint, now: Instant) -> Retry {
        if let Some(throttle) = &self.throttle {
            throttle.refused(now);
        }
        let mut state = self.state.lock();
        state.rate.refused(now);
        let wait = match hint {
            Hint::None => Duration::ZERO,
            Hint::After(wait) => wait,
            Hint::DoNotRetry => return Retry::No(NoRetry::Forbidden),
        };
        if state.rate.is_outage() && !wait.is_zero() {
            let spread = 1.0 + 0.25 * state.rng.f64();
            let until = later(now, wait.min(MAX_PAUSE).mul_f64(spread));
            state.paused_until =
                Some(state.paused_until.map_or(until, |earlier| earlier.max(until)));
        }
        if attempt.saturating_add(1) >= self.max_attempts {
            return Retry::No(NoRetry::Attempts);
        }
        if !self.budget.withdraw(now) {
            return Retry::No(NoRetry::Budget);
        }
        let jitter = self.backoff.delay(attempt, state.rng.f64());
        Retry::After(wait.saturating_add(jitter))
    }

    /// Requests a second that are let through at present; none while nothing is held back.
    pub fn rate(&self, now: Instant) -> Option<f64> {
        self.state.lock().rate.per_s(now)
    }
}

impl Default for Pacer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Pacer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pacer")
            .field("bucket", &self.bucket)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

/// What to do with a request, from [`Pacer::ask`].
#[must_use = "it says whether to send"]
#[derive(Debug)]
pub enum Decision<'a> {
    /// Send it now.
    Send,
    /// Send it when its turn has come.
    Wait(Turn<'a>),
    /// Don't send it.
    GiveUp(GiveUp),
}

/// A place in line, from [`Pacer::ask`]. Dropping it gives the place up and costs nothing.
#[must_use = "a turn that is dropped is given up"]
#[derive(Debug)]
pub struct Turn<'a> {
    pacer: &'a Pacer,
    place: Option<Reservation<'a>>,
    attempt: u32,
    ready_at: Instant,
}

impl Turn<'_> {
    /// When to send.
    pub fn ready_at(&self) -> Instant {
        self.ready_at
    }

    /// How long after `now` that is; zero if it has come.
    pub fn wait(&self, now: Instant) -> Duration {
        self.ready_at.saturating_duration_since(now)
    }

    /// Notes that the request is sent at `now`.
    pub fn send(self, now: Instant) {
        let Self { pacer, place, attempt, .. } = self;
        pacer.send(&mut pacer.state.lock(), place, attempt, now);
    }
}

/// Why a request is not sent.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GiveUp {
    /// Its turn is further away than [`Pacer::max_wait`].
    Rate,
    /// The server refuses everything and has asked to be left alone for a time.
    Paused,
    /// The [`AdaptiveThrottle`] said so.
    Throttled,
}

impl fmt::Display for GiveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rate => "the server takes fewer requests than there are",
            Self::Paused => "the server has asked to be left alone",
            Self::Throttled => "the server refuses too much",
        })
    }
}

/// What a refusal says about retries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Hint {
    /// Nothing.
    #[default]
    None,
    /// Not before so much time has passed: `Retry-After`, or `grpc-retry-pushback-ms`.
    After(Duration),
    /// Not at all.
    DoNotRetry,
}

/// Whether a request may be sent again, from [`Pacer::refused`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// After so long.
    After(Duration),
    /// Not at all.
    No(NoRetry),
}

/// Why there is no retry.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoRetry {
    /// The request was sent [`max_attempts`](Pacer::max_attempts) times.
    Attempts,
    /// The [`RetryBudget`] is used up.
    Budget,
    /// The server said so.
    Forbidden,
}

impl fmt::Display for NoRetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Attempts => "the request was sent as often as allowed",
            Self::Budget => "the budget of retries is used up",
            Self::Forbidden => "the server asked for no retry",
        })
    }
}

//! What users read: states, counts, news.

use std::fmt;
use std::time::Duration;

/// What a breaker does with calls.
///
/// ```
/// use weirpool::breaker::{CircuitBreaker, State};
///
/// assert_eq!(CircuitBreaker::new().state(), State::Closed);
/// assert_eq!(State::HalfOpen.to_string(), "half-open");
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Calls go through and are counted.
    Closed,
    /// Calls are refused until the cool-down is over. The first call after it finds the breaker
    /// half-open; until then it stays `Open`, since nobody is there to make the change.
    Open,
    /// A few calls go through as probes; the others are refused.
    HalfOpen,
    /// Calls are refused until somebody says otherwise.
    ForcedOpen,
    /// Calls go through and are counted, and nothing is concluded from them.
    ForcedClosed,
}

impl State {
    const ALL: [Self; 5] =
        [Self::Closed, Self::Open, Self::HalfOpen, Self::ForcedOpen, Self::ForcedClosed];

    /// Whether the state was imposed.
    pub fn is_forced(self) -> bool {
        matches!(self, Self::ForcedOpen | Self::ForcedClosed)
    }

    pub(super) fn to_bits(self) -> u64 {
        self as u64
    }

    pub(super) fn from_bits(bits: u64) -> Self {
        Self::ALL[bits as usize]
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
            Self::ForcedOpen => "forced open",
            Self::ForcedClosed => "forced closed",
        })
    }
}

/// Calls that were recorded: those that ended as a success, as a failure, or slow.
///
/// Refusals, ignored results and calls given up before they were slow are in none of the counts. A
/// call that both failed and was slow is one call. The counts stop at the end of their word.
///
/// ```
/// use weirpool::breaker::CircuitBreaker;
///
/// let breaker = CircuitBreaker::new();
/// let _ = breaker.call(|| Err::<(), _>("no route"));
/// let _ = breaker.call(|| Ok::<_, &str>(()));
/// let counts = breaker.snapshot().counts;
/// assert_eq!((counts.calls, counts.failures), (2, 1));
/// assert_eq!(counts.failure_rate(), Some(0.5));
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All of them.
    pub calls: u64,
    /// Those that failed, by an error or a panic.
    pub failures: u64,
    /// Those that took at least the threshold of
    /// [`Builder::slow_calls`](super::Builder::slow_calls).
    pub slow: u64,
}

impl Counts {
    /// Failures as a share of the calls, from 0 to 1; none without a call.
    pub fn failure_rate(self) -> Option<f64> {
        self.rate(self.failures)
    }

    /// Slow calls as a share of the calls, from 0 to 1; none without a call.
    pub fn slow_rate(self) -> Option<f64> {
        self.rate(self.slow)
    }

    /// One division, so that a share which is a round figure compares equal to that figure.
    fn rate(self, part: u64) -> Option<f64> {
        (self.calls > 0).then(|| part as f64 / self.calls as f64)
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls.saturating_add(other.calls),
            failures: self.failures.saturating_add(other.failures),
            slow: self.slow.saturating_add(other.slow),
        }
    }
}

/// One change of a breaker's state, as told to the observer.
///
/// ```
/// use weirpool::breaker::{CircuitBreaker, Transition};
///
/// let breaker = CircuitBreaker::builder()
///     .on_transition(|change: &Transition| {
///         eprintln!("{} -> {}: {:?}", change.from, change.to, change.counts.failure_rate())
///     })
///     .build()?;
/// breaker.force_open();
/// # Ok::<(), weirpool::BuildError>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The state that was left.
    pub from: State,
    /// The state that was entered.
    pub to: State,
    /// How many changes there have been, this one included: a number without gaps, so that a log
    /// shows whether one is missing.
    pub generation: u64,
    /// The window as it was when the state was left.
    pub counts: Counts,
    /// How long calls will be refused, if the new state is [`State::Open`].
    pub cool_down: Option<Duration>,
}

/// A breaker at one moment, from [`CircuitBreaker::snapshot`](super::CircuitBreaker::snapshot).
///
/// ```
/// use weirpool::breaker::CircuitBreaker;
///
/// let now = CircuitBreaker::new().snapshot();
/// assert_eq!((now.counts.calls, now.refused, now.next_probe_in), (0, 0, None));
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The state.
    pub state: State,
    /// How many changes of state there have been.
    pub generation: u64,
    /// What is in the window now. Probes are not: it is empty when they have closed the breaker.
    pub counts: Counts,
    /// Probes inside whose lease isn't over.
    pub probes_inside: usize,
    /// Probes that have succeeded since the breaker became half-open.
    pub probes_succeeded: usize,
    /// Time until the next call is let through as a probe, as
    /// [`Open::retry_after`](super::Open::retry_after) says it: zero if the next call will be one,
    /// none unless the breaker is open or half-open.
    pub next_probe_in: Option<Duration>,
    /// How long the breaker refuses calls when it opens next, or does now.
    pub cool_down: Duration,
    /// Calls refused since the breaker was built.
    pub refused: u64,
    /// Calls that ended too late to count: the state had changed since they began, or the lease of
    /// the probe was over.
    pub late: u64,
    /// Panics of the classifier and the observer.
    pub contained_panics: u64,
    /// Changes of state that the observer was never told of, because it was too far behind.
    pub missed_transitions: u64,
}

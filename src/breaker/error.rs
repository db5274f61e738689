//! What a breaker answers in place of a result.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::types::State;

/// A call was refused: the breaker is not closed.
///
/// Nothing was called, and nothing is recorded. The answer to give for it is "unavailable" (HTTP
/// 503), with [`retry_after`](Self::retry_after) as the hint.
///
/// ```
/// use weirpool::breaker::{CircuitBreaker, State};
///
/// let breaker = CircuitBreaker::new();
/// breaker.force_open();
/// let open = breaker.try_acquire().unwrap_err();
/// assert_eq!((open.state(), open.retry_after()), (State::ForcedOpen, None));
/// assert_eq!(open.to_string(), "call refused: the circuit breaker is forced open");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    state: State,
    retry_after: Option<Duration>,
}

impl Open {
    pub(super) fn new(state: State, retry_after_ns: Option<u64>) -> Self {
        Self { state, retry_after: retry_after_ns.map(Duration::from_nanos) }
    }

    /// The state that refused: open, half-open with all probes inside, or forced open.
    pub fn state(&self) -> State {
        self.state
    }

    /// How long until the next call is let through as a probe, as things stand; none if nobody can
    /// know, since the breaker was forced open.
    ///
    /// Open, that is the rest of the cool-down. Half-open, it is the time until a place is reclaimed
    /// at the latest: a probe that ends may close the breaker earlier, or start the cool-down again.
    /// All callers refused together get the same instant, and only the first few of them will be
    /// probes: whoever waits for it should add a random part.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl fmt::Display for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call refused: the circuit breaker is {}", self.state)
    }
}

impl Error for Open {}

/// Why a guarded call has no result: it was refused, or it failed by itself.
///
/// ```
/// use weirpool::breaker::{CallError, CircuitBreaker};
///
/// let breaker = CircuitBreaker::new();
/// match breaker.call(|| "x".parse::<u8>()) {
///     Ok(number) => println!("{number}"),
///     Err(CallError::Open(open)) => println!("again in {:?}", open.retry_after()),
///     Err(CallError::Failed(error)) => println!("{error}"),
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallError<E> {
    /// The breaker refused it; nothing was called.
    Open(Open),
    /// It was called, and this is its own error, unchanged.
    Failed(E),
}

impl<E> CallError<E> {
    /// Whether the breaker refused the call.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }

    /// The refusal, if it was one.
    pub fn open(&self) -> Option<Open> {
        match self {
            Self::Open(open) => Some(*open),
            Self::Failed(_) => None,
        }
    }

    /// Answers a refusal with `fallback`, and leaves the call's own error an error.
    ///
    /// ```
    /// use weirpool::breaker::{CallError, CircuitBreaker};
    ///
    /// # async fn rates() -> Result<f64, std::io::Error> { Ok(1.09) }
    /// # async fn rate(breaker: CircuitBreaker) -> Result<f64, std::io::Error> {
    /// let rate = breaker.call_async(rates()).await.or_else(|error| error.fallback(|_| 1.0))?;
    /// # Ok(rate) }
    /// ```
    ///
    /// # Errors
    ///
    /// The call's own error.
    pub fn fallback<T>(self, fallback: impl FnOnce(Open) -> T) -> Result<T, E> {
        match self {
            Self::Open(open) => Ok(fallback(open)),
            Self::Failed(error) => Err(error),
        }
    }
}

impl<E> From<Open> for CallError<E> {
    fn from(open: Open) -> Self {
        Self::Open(open)
    }
}

impl<E> fmt::Display for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(open) => open.fmt(f),
            Self::Failed(_) => f.write_str("the guarded call failed"),
        }
    }
}

impl<E: Error + 'static> Error for CallError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // Found in a chain of errors, where `E` may have no name.
            Self::Open(open) => Some(open),
            Self::Failed(error) => Some(error),
        }
    }
}

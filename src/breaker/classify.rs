//! What a result says about the dependency.

/// What a call's result says about the dependency.
///
/// ```
/// use weirpool::breaker::{CircuitBreaker, Verdict};
///
/// let breaker = CircuitBreaker::new();
/// breaker.try_acquire()?.end(Verdict::Ignore);
/// assert_eq!(breaker.snapshot().counts.calls, 0);
/// # Ok::<(), weirpool::breaker::Open>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It is well.
    Success,
    /// It is not.
    Failure,
    /// Nothing: the call is not recorded, and a probe gives its place back.
    ///
    /// For the caller's own mistakes (a request that was wrong, a key that doesn't exist), and for
    /// the refusal of another limit that the call met on its way.
    Ignore,
}

/// Says what a result says about the dependency.
///
/// Every closure from `&Result<T, E>` to [`Verdict`] does. Implement it yourself for one classifier
/// that judges several types, or that needs a name:
///
/// ```
/// use weirpool::breaker::{CircuitBreaker, Classify, Verdict};
///
/// /// An answer of the server's fault is a failure, although it is an answer.
/// struct ByStatus;
///
/// impl<E> Classify<u16, E> for ByStatus {
///     fn classify(&self, result: &Result<u16, E>) -> Verdict {
///         match result {
///             Ok(500..=599) | Err(_) => Verdict::Failure,
///             Ok(400..=499) => Verdict::Ignore,
///             Ok(_) => Verdict::Success,
///         }
///     }
/// }
///
/// let breaker: CircuitBreaker<ByStatus> = CircuitBreaker::builder().classifier(ByStatus).build()?;
/// assert_eq!(breaker.call(|| Ok::<u16, ()>(503)).ok(), Some(503));
/// assert_eq!(breaker.snapshot().counts.failures, 1);
/// # Ok::<(), weirpool::BuildError>(())
/// ```
///
/// If it panics, the panic is contained and counted, and the result is judged as by
/// [`ErrIsFailure`].
pub trait Classify<T, E> {
    /// Judges one result.
    fn classify(&self, result: &Result<T, E>) -> Verdict;
}

/// The default classifier: `Err` is a failure, `Ok` a success.
///
/// ```
/// use weirpool::breaker::{Classify, ErrIsFailure, Verdict};
///
/// assert_eq!(ErrIsFailure.classify(&Err::<(), _>("down")), Verdict::Failure);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ErrIsFailure;

impl<T, E> Classify<T, E> for ErrIsFailure {
    fn classify(&self, result: &Result<T, E>) -> Verdict {
        if result.is_ok() { Verdict::Success } else { Verdict::Failure }
    }
}

impl<T, E, F: Fn(&Result<T, E>) -> Verdict> Classify<T, E> for F {
    fn classify(&self, result: &Result<T, E>) -> Verdict {
        self(result)
    }
}

//! A guarded call as a future.

use std::fmt;
use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::CircuitBreaker;
use super::classify::{Classify, ErrIsFailure};
use super::core::Core;
use super::error::CallError;
use super::machine::Ending;
use super::permit::Guard;
use crate::sync::stat::Arc;

/// A guarded call, from [`CircuitBreaker::call_async`]: for any runtime, without an allocation.
///
/// The breaker is asked at the first poll; a refused future is dropped unpolled, within that poll.
/// Dropped before its first poll it was no call at all; dropped between polls the call is given up.
/// A panic of the inner future counts as a failure and goes on to the caller. The inner future is
/// dropped when it has ended, not when this one is dropped.
///
/// # Panics
///
/// When it is polled after it has ended.
#[must_use = "futures do nothing unless polled"]
pub struct CallAsync<F, C = ErrIsFailure> {
    // Declared before the guard: a call that is given up leaves the dependency before its place is
    // free.
    future: Option<F>,
    stage: Stage,
    breaker: CircuitBreaker<C>,
}

enum Stage {
    /// Not polled yet.
    Waiting,
    /// Between two polls.
    Calling(Guard<Arc<Core>>),
    /// Being polled, or ended.
    Over,
}

impl<F, C> CallAsync<F, C> {
    pub(super) fn new(breaker: CircuitBreaker<C>, future: F) -> Self {
        Self { future: Some(future), stage: Stage::Waiting, breaker }
    }
}

impl<F, C, T, E> Future for CallAsync<F, C>
where
    F: Future<Output = Result<T, E>>,
    C: Classify<T, E>,
{
    type Output = Result<T, CallError<E>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `future` is the one field that is pinned: it is reached below through a `Pin`
        // alone and dropped in place by `set`; the others are moved at will. There is no destructor
        // of our own, and the type is `Unpin` only if `F` is.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let mut future = unsafe { Pin::new_unchecked(&mut this.future) };
        let mut guard = match std::mem::replace(&mut this.stage, Stage::Over) {
            Stage::Calling(guard) => guard,
            Stage::Waiting => match this.breaker.core.acquire() {
                Ok(admitted) => {
                    Guard::new(Arc::clone(&this.breaker.core), admitted, Ending::GivenUp)
                }
                Err(open) => {
                    future.set(None);
                    return Poll::Ready(Err(CallError::Open(open)));
                }
            },
            Stage::Over => panic!("a guarded call was polled after it had ended"),
        };
        let running = future.as_mut().as_pin_mut().expect("it is dropped when the call is over");
        // The guard is on this stack now: only a panic of the poll drops it here.
        guard.if_dropped(Ending::Failure);
        let Poll::Ready(result) = running.poll(context) else {
            guard.if_dropped(Ending::GivenUp);
            this.stage = Stage::Calling(guard);
            return Poll::Pending;
        };
        this.breaker.conclude(&mut guard, &result);
        future.set(None);
        Poll::Ready(result.map_err(CallError::Failed))
    }
}

impl<F, C> fmt::Debug for CallAsync<F, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Waiting => "waiting",
            Stage::Calling(_) => "calling",
            Stage::Over => "over",
        };
        f.debug_struct("CallAsync").field("stage", &stage).finish_non_exhaustive()
    }
}

// As for the breaker; the inner future decides for itself.
impl<F: UnwindSafe, C> UnwindSafe for CallAsync<F, C> {}
impl<F: RefUnwindSafe, C> RefUnwindSafe for CallAsync<F, C> {}

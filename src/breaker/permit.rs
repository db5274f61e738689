//! The right to make one call, held by somebody.

use std::fmt;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};

use super::classify::Verdict;
use super::core::{Admitted, Core};
use super::machine::Ending;
use crate::sync::stat::Arc;
use crate::sync::thread;

/// A call under way: whatever becomes of it, the breaker is told of its end once.
pub(super) struct Guard<P: Deref<Target = Core>> {
    core: P,
    /// None once it has ended.
    admitted: Option<Admitted>,
    if_dropped: Ending,
}

impl<P: Deref<Target = Core>> Guard<P> {
    /// Dropped without a word it counts as `if_dropped`.
    pub(super) fn new(core: P, admitted: Admitted, if_dropped: Ending) -> Self {
        Self { core, admitted: Some(admitted), if_dropped }
    }

    pub(super) fn if_dropped(&mut self, ending: Ending) {
        self.if_dropped = ending;
    }

    /// Tells the breaker how it ended.
    pub(super) fn end(&mut self, verdict: Verdict) {
        self.tell(match verdict {
            Verdict::Success => Ending::Success,
            Verdict::Failure => Ending::Failure,
            Verdict::Ignore => Ending::Ignored,
        });
    }

    fn tell(&mut self, ending: Ending) {
        if let Some(admitted) = self.admitted.take() {
            self.core.end(admitted, ending);
        }
    }
}

impl<P: Deref<Target = Core>> Drop for Guard<P> {
    fn drop(&mut self) {
        self.tell(self.if_dropped);
    }
}

/// The right to make one call, from
/// [`CircuitBreaker::try_acquire`](super::CircuitBreaker::try_acquire): for calls that don't fit
/// into a closure or a future, such as one that begins on one thread and ends on another.
///
/// Say how the call ended. Dropped without that it counts as given up: it is not recorded, and a
/// probe gives its place back, unless it had already lasted long enough to be slow
/// ([`Builder::slow_calls`](super::Builder::slow_calls)). Dropped by a panic that unwinds it counts
/// as a failure.
///
/// ```
/// use weirpool::breaker::CircuitBreaker;
///
/// let breaker = CircuitBreaker::new();
/// let permit = breaker.try_acquire()?;
/// match "42".parse::<u8>() {
///     Ok(_) => permit.success(),
///     Err(_) => permit.failure(),
/// }
/// assert_eq!(breaker.snapshot().counts.calls, 1);
/// # Ok::<(), weirpool::breaker::Open>(())
/// ```
#[must_use = "dropped at once, it guards nothing"]
pub struct CallPermit {
    guard: Guard<Arc<Core>>,
    /// Whether it was acquired while a panic was unwinding already, which then isn't the call's.
    acquired_in_a_panic: bool,
}

impl CallPermit {
    pub(super) fn new(core: Arc<Core>, admitted: Admitted) -> Self {
        let guard = Guard::new(core, admitted, Ending::GivenUp);
        Self { guard, acquired_in_a_panic: thread::panicking() }
    }

    /// The call ended, and this is what it says about the dependency.
    pub fn end(mut self, verdict: Verdict) {
        self.guard.end(verdict);
    }

    /// The call ended well.
    pub fn success(self) {
        self.end(Verdict::Success);
    }

    /// The call failed.
    pub fn failure(self) {
        self.end(Verdict::Failure);
    }

    /// The call ended, and says nothing about the dependency.
    pub fn ignore(self) {
        self.end(Verdict::Ignore);
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        if thread::panicking() && !self.acquired_in_a_panic {
            self.guard.if_dropped(Ending::Failure);
        }
    }
}

impl fmt::Debug for CallPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallPermit").finish_non_exhaustive()
    }
}

// Nothing of the breaker is left half done by a panic: the lock is held by code of ours alone.
impl UnwindSafe for CallPermit {}
impl RefUnwindSafe for CallPermit {}

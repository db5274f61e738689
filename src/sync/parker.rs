//! A token that one thread waits for and any thread may leave.

use std::task::{Wake, Waker};
use std::time::Instant;

use super::stat::Arc;
use super::{Condvar, Mutex, has_given_up, wait_until};

/// Blocks one thread until somebody leaves a token. A token left early is kept, a second is lost.
///
/// Its reference count is the standard library's in both builds, since a [`Waker`] asks for that.
///
/// A thread has one parker for all that it waits for, so [`park`](Self::park) may return for an
/// older reason: whoever parks looks at its condition again, in a loop.
#[derive(Debug)]
pub(crate) struct Parker {
    token: Mutex<bool>,
    left: Condvar,
}

impl Parker {
    pub(crate) fn new() -> Self {
        Self { token: Mutex::new(false), left: Condvar::new() }
    }

    /// Takes the token, waiting for it if need be.
    pub(crate) fn park(&self) {
        self.park_until(None);
    }

    /// Takes the token; false if `until` (real time) came first.
    pub(crate) fn park_until(&self, until: Option<Instant>) -> bool {
        let mut token = self.token.lock();
        while !*token {
            if wait_until(&self.left, &mut token, until) {
                break;
            }
        }
        let taken = std::mem::take(&mut *token);
        drop(token);
        if !taken {
            has_given_up();
        }
        taken
    }

    /// Leaves the token. What the caller wrote before is seen by the thread that takes it.
    pub(crate) fn unpark(&self) {
        *self.token.lock() = true;
        self.left.notify_one();
    }

    /// The parker of the calling thread, made once and kept: waiting allocates nothing.
    #[cfg(not(all(loom, feature = "loom")))]
    pub(crate) fn of_this_thread() -> Arc<Self> {
        std::thread_local! { static MINE: Arc<Parker> = Arc::new(Parker::new()); }
        // A thread that is being torn down has lost its own; a fresh one does as well.
        MINE.try_with(Arc::clone).unwrap_or_else(|_| Arc::new(Parker::new()))
    }

    /// A fresh parker: loom's objects must not outlive one execution.
    #[cfg(all(loom, feature = "loom"))]
    pub(crate) fn of_this_thread() -> Arc<Self> {
        Arc::new(Self::new())
    }

    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.unpark();
    }
}

//! A token that one thread waits for and any thread may leave.

use std::task::{Wake, Waker};
use std::time::Instant;

use super::stat::Arc;
use super::{AtomicU32, Condvar, Mutex, Ordering, Patience, has_given_up, wait_until};

/// No token, and the owner is awake.
const EMPTY: u32 = 0;
/// A token lies there.
const LEFT: u32 = 1;
/// No token, and the owner blocks or is about to: one less than [`EMPTY`], see [`Parker::take`].
const BLOCKED: u32 = EMPTY.wrapping_sub(1);

/// Blocks one thread until somebody leaves a token. A token left early is kept, a second is lost.
///
/// Its reference count is the standard library's in both builds, since a [`Waker`] asks for that.
///
/// A thread has one parker for all that it waits for, so [`park`](Self::park) may return for an
/// older reason: whoever parks looks at its condition again, in a loop. Only its owner parks.
#[derive(Debug)]
pub(crate) struct Parker {
    token: AtomicU32,
    /// Held while the owner looks at the token for the last time before it blocks, and by whoever
    /// finds it blocked, before the signal: without it the signal could fall between that look and
    /// the wait.
    blocking: Mutex<()>,
    left: Condvar,
    patience: Patience,
}

impl Parker {
    pub(crate) fn new() -> Self {
        Self {
            token: AtomicU32::new(EMPTY),
            blocking: Mutex::new(()),
            left: Condvar::new(),
            patience: Patience::default(),
        }
    }

    /// Takes the token, waiting for it if need be.
    pub(crate) fn park(&self) {
        self.park_until(None);
    }

    /// Takes the token; false if `until` (real time) came first.
    ///
    /// Without a limit, and if the token is likely to come soon, this looks for it some microseconds
    /// before it blocks, in which leaving it costs no system call.
    pub(crate) fn park_until(&self, until: Option<Instant>) -> bool {
        if until.is_some() {
            let taken = self.take(until);
            if !taken {
                has_given_up();
            }
            return taken;
        }
        // Relaxed: only the owner takes the token, so one that is seen is still there for the take.
        let has_come = || self.token.load(Ordering::Relaxed) == LEFT;
        self.patience.wait(has_come, || self.take(None))
    }

    /// Takes the token, blocking for it if need be.
    ///
    /// Whichever way the token is taken, it is by a read-modify-write with Acquire, which pairs with
    /// the Release in [`unpark`](Self::unpark). It reads the last of all tokens left so far, and so
    /// sees what each of them tells of, since their swaps are one release sequence. By a load and a
    /// store, a token that comes in between would be lost with what it tells of.
    fn take(&self, until: Option<Instant>) -> bool {
        // From a token to none, or from none to blocked: either in one step.
        self.token.fetch_sub(1, Ordering::Acquire) == LEFT || self.block_until(until)
    }

    /// The same once the token says "blocked".
    #[cold]
    fn block_until(&self, until: Option<Instant>) -> bool {
        let mut blocking = self.blocking.lock();
        loop {
            // Acquire: see above. Failing orders nothing: who leaves a token from now on finds us
            // blocked, and waits for the lock before it signals.
            let taken =
                self.token.compare_exchange(LEFT, EMPTY, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                return true;
            }
            if wait_until(&self.left, &mut blocking, until) {
                // Acquire: see above, for a token that came at the last moment.
                return self.token.swap(EMPTY, Ordering::Acquire) == LEFT;
            }
        }
    }

    /// Leaves the token. What the caller wrote before is seen by the thread that takes it.
    ///
    /// Release pairs with the Acquire of whoever takes the token. It is a swap also if a token lies
    /// there already: the owner, that takes that one, must see what this caller wrote, too.
    #[inline]
    pub(crate) fn unpark(&self) {
        if self.token.swap(LEFT, Ordering::Release) == BLOCKED {
            self.signal();
        }
    }

    /// Wakes the owner, that blocks or is about to.
    #[cold]
    fn signal(&self) {
        // Either the owner has yet to look at the token, and will see it, since the lock orders
        // that look after this; or it waits already, and gets the signal.
        drop(self.blocking.lock());
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

//! The types of an ordinary build.

pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub(crate) use std::thread;

/// How many rounds a thread that found nothing looks again before it goes to sleep: about a
/// microsecond, which is what waking it would cost.
const SPIN_ROUNDS: u32 = 64;

/// Looks again and again for a short while; true once `ready` is.
pub(crate) fn spin_until(mut ready: impl FnMut() -> bool) -> bool {
    for _ in 0..SPIN_ROUNDS {
        if ready() {
            return true;
        }
        spin_loop();
    }
    false
}

/// The system's monotonic clock.
#[inline]
pub(crate) fn system_now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Lets others run until `ready`, which is a few instructions away in one of them.
pub(crate) fn yield_until(ready: impl Fn() -> bool) {
    while !ready() {
        thread::yield_now();
    }
}

/// A thread-local value that needs no destructor.
macro_rules! local {
    (static $name:ident: $type:ty = $init:expr;) => {
        std::thread_local! { static $name: $type = const { $init }; }
    };
}
pub(crate) use local;

/// [`std::cell::UnsafeCell`] behind loom's interface, so that loom can check each access.
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Hands the address to `f`; what `f` does with it is for its own `unsafe` to justify.
    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// Waits for `guard`'s condition, or until `until`; true if the time is up.
pub(crate) fn wait_until<T>(
    condvar: &Condvar,
    guard: &mut MutexGuard<'_, T>,
    until: Option<std::time::Instant>,
) -> bool {
    match until {
        None => {
            condvar.wait(guard);
            false
        }
        Some(until) => condvar.wait_until(guard, until).timed_out(),
    }
}

//! The types of a build for loom.

use std::ops::{Deref, DerefMut};

pub(crate) use loom::sync::Arc;
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub(crate) use loom::thread;
pub(crate) use loom::thread_local as loom_thread_local;

/// A spin adds schedules and proves nothing.
pub(crate) fn spin_until(_: impl FnMut() -> bool) -> bool {
    false
}

/// The same of a longer look.
pub(crate) fn look_until(_: impl Fn() -> bool) -> bool {
    false
}

/// Nor does a look before blocking.
#[derive(Debug, Default)]
pub(crate) struct Patience {}

impl Patience {
    pub(crate) fn wait<R>(&self, _: impl Fn() -> bool, block: impl FnOnce() -> R) -> R {
        block()
    }
}

/// No cache line is seen by a model.
pub(crate) fn prefetch_to_write<T>(_: *const T) {}

/// The same in nanoseconds.
pub(crate) fn system_ns() -> u64 {
    0
}

/// Time stands still: a model must take the same path each time it is run.
pub(crate) fn system_now() -> std::time::Instant {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    *START.get_or_init(std::time::Instant::now)
}

/// What is waited for so is a statistic, which models don't see.
pub(crate) fn yield_until(_: impl Fn() -> bool) {}

/// The standard library's thread-locals are shared by all of loom's threads, so these are loom's.
macro_rules! local {
    (static $name:ident: $type:ty = $init:expr;) => {
        crate::sync::loom_thread_local! { static $name: $type = $init; }
    };
}
pub(crate) use local;

pub(crate) use loom::cell::UnsafeCell;

/// loom's mutex with parking_lot's interface (no poison: user code never runs under our locks).
#[derive(Debug)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let guard = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        MutexGuard(Some(guard))
    }
}

/// Holds loom's guard in an option, since loom's condition variable takes it by value.
pub(crate) struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().expect("held outside wait_until")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_deref_mut().expect("held outside wait_until")
    }
}

/// loom's condition variable.
#[derive(Debug)]
pub(crate) struct Condvar(loom::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self(loom::sync::Condvar::new())
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }
}

/// Waits for the condition. loom knows no time: with `until` set it gives up at once.
pub(crate) fn wait_until<T>(
    condvar: &Condvar,
    guard: &mut MutexGuard<'_, T>,
    until: Option<std::time::Instant>,
) -> bool {
    if until.is_some() {
        return true;
    }
    let held = guard.0.take().expect("held outside wait_until");
    let again = condvar.0.wait(held).unwrap_or_else(|poisoned| poisoned.into_inner());
    guard.0 = Some(again);
    false
}

/// A timed wait has given up, which here takes no time: whoever polls by such waits would go round for
/// ever if others did not go first.
pub(crate) fn has_given_up() {
    thread::yield_now();
}

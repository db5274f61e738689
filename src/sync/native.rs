//! The types of an ordinary build.

pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub(crate) use std::thread;

/// How many rounds a thread that found nothing looks again before it says that it waits: about half a
/// microsecond. It keeps its core to itself meanwhile, of which the thread that it waits for may be in
/// need, so a longer look is left to [`Patience`](super::Patience).
const SPIN_ROUNDS: u32 = 16;

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

/// Asks for the cache line at an address that is soon written. If another core has it, it comes over
/// meanwhile, and for writing: a mere copy would have to be asked for a second time.
///
/// A write that misses waits behind the others until its line is there, and every locked instruction
/// waits until all of them are through. So nobody sees the miss itself: what looks slow is the next
/// lock.
#[inline]
pub(crate) fn prefetch_to_write<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if !address.is_null() {
        // By its name, since the intrinsic becomes a prefetch for reading unless the compiler is told
        // that the processor has this one. Those of 64 bits have it or take it for a `nop`, but for the
        // very first of 2004.
        //
        // SAFETY: a hint to the cache may name any address: it neither faults nor changes anything
        // that a program can see.
        unsafe {
            std::arch::asm!(
                "prefetchw [{}]",
                in(reg) address,
                options(readonly, nostack, preserves_flags)
            );
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// The system's monotonic clock.
#[inline]
pub(crate) fn system_now() -> std::time::Instant {
    std::time::Instant::now()
}

/// The same clock in nanoseconds since some beginning: two are read for each job, and an
/// [`Instant`](std::time::Instant) takes as long to subtract as to read.
#[cfg(target_os = "linux")]
#[inline]
pub(crate) fn system_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to `now` alone, which is a live `timespec` of this function's own.
    // It can't fail for this clock, which every Linux has; if it did, time would stand still.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

/// The same clock in nanoseconds since some beginning.
#[cfg(not(target_os = "linux"))]
pub(crate) fn system_ns() -> u64 {
    static BEGINNING: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let elapsed = BEGINNING.get_or_init(system_now).elapsed();
    elapsed.as_secs().saturating_mul(1_000_000_000).saturating_add(elapsed.subsec_nanos().into())
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

/// A timed wait has given up: it has taken its time.
#[inline]
pub(crate) fn has_given_up() {}

//! Clocks that do what time doesn't: they jump, or say how often they were looked at.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use weirpool::Clock;
use weirpool::test::ManualClock;

use super::Count;

/// A clock that can be set back, also behind the time at which it was made.
#[derive(Clone)]
pub(crate) struct JumpyClock {
    start: Instant,
    elapsed_ns: Arc<AtomicI64>,
}

impl JumpyClock {
    pub(crate) fn new() -> Self {
        // So far ahead that there is a past to jump to, however young the machine is.
        let start = Instant::now() + Duration::from_secs(100 * 86_400);
        Self { start, elapsed_ns: Arc::default() }
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.elapsed_ns.fetch_add(i64::try_from(by.as_nanos()).unwrap(), SeqCst);
    }

    pub(crate) fn jump_back(&self, by: Duration) {
        self.elapsed_ns.fetch_sub(i64::try_from(by.as_nanos()).unwrap(), SeqCst);
    }
}

impl Clock for JumpyClock {
    fn now(&self) -> Instant {
        let elapsed_ns = self.elapsed_ns.load(SeqCst);
        let distance = Duration::from_nanos(elapsed_ns.unsigned_abs());
        if elapsed_ns < 0 { self.start - distance } else { self.start + distance }
    }
}

/// A clock that counts how often it is read.
#[derive(Clone)]
pub(crate) struct CountingClock<C> {
    pub(crate) inner: C,
    pub(crate) reads: Count,
}

impl<C: Clock> CountingClock<C> {
    pub(crate) fn of(inner: C) -> Self {
        Self { inner, reads: Count::new() }
    }
}

impl<C: Clock> Clock for CountingClock<C> {
    fn now(&self) -> Instant {
        self.reads.add();
        self.inner.now()
    }
}

/// A clock that stands still until it is moved, and says how often each thread has looked at it.
#[derive(Clone, Default)]
pub(crate) struct WatchedClock {
    time: ManualClock,
    looks: Arc<Mutex<HashMap<ThreadId, usize>>>,
}

impl WatchedClock {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.time.advance(by);
    }

    /// How often this thread has looked so far.
    pub(crate) fn looks_of(&self, thread: ThreadId) -> usize {
        self.looks.lock().unwrap().get(&thread).copied().unwrap_or(0)
    }
}

impl Clock for WatchedClock {
    fn now(&self) -> Instant {
        let now = self.time.now();
        // Counted afterwards: who sees the count may move the clock.
        *self.looks.lock().unwrap().entry(thread::current().id()).or_default() += 1;
        now
    }
}

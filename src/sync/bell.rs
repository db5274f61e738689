//! Something that many wait for, threads and tasks alike.

use std::task::Waker;
use std::time::Instant;

use super::{Mutex, Parker};
use crate::contain::{call_contained, drop_contained};

/// A list of those to be woken at the next ring.
///
/// A bell says nothing about the condition: who waits registers first, looks second, parks third;
/// who makes the condition true does so first and rings second.
#[derive(Debug)]
pub(crate) struct Bell {
    listeners: Mutex<Vec<Waker>>,
}

impl Bell {
    pub(crate) fn new() -> Self {
        Self { listeners: Mutex::new(Vec::new()) }
    }

    /// Adds `waker` to those woken at the next ring, once however often it asks.
    pub(crate) fn listen(&self, waker: &Waker) {
        // User code, outside the lock, as is the end of a clone that is not needed.
        let mut fresh = Some(waker.clone());
        let mut listeners = self.listeners.lock();
        if !listeners.iter().any(|known| known.will_wake(waker)) {
            listeners.extend(fresh.take());
        }
        drop(listeners);
        drop_contained(fresh);
    }

    /// Takes `waker` off the list again: a task that goes away must not stay on it until a ring
    /// that may be long in coming.
    pub(crate) fn forget(&self, waker: &Waker) {
        let forgotten = {
            let mut listeners = self.listeners.lock();
            let at = listeners.iter().position(|known| known.will_wake(waker));
            at.map(|at| listeners.swap_remove(at))
        };
        // User code, outside the lock.
        drop_contained(forgotten);
    }

    /// Wakes all who listen, outside the lock, since a waker is user code.
    pub(crate) fn ring(&self) {
        let listeners = std::mem::take(&mut *self.listeners.lock());
        for waker in listeners {
            // A waker that panics must not keep the others asleep.
            call_contained(|| waker.wake());
        }
    }

    /// Blocks until `ready` or `until` (real time); returns what `ready` said last.
    pub(crate) fn wait(&self, until: Option<Instant>, ready: impl Fn() -> bool) -> bool {
        if ready() {
            return true;
        }
        let parker = Parker::of_this_thread();
        let waker = parker.waker();
        loop {
            self.listen(&waker);
            if ready() {
                return true;
            }
            if !parker.park_until(until) {
                self.forget(&waker);
                return ready();
            }
        }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        // User code, on whatever thread comes last.
        for listener in std::mem::take(&mut *self.listeners.lock()) {
            drop_contained(listener);
        }
    }
}

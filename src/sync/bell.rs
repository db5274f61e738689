//! Something that many wait for, threads and tasks alike.

use std::task::Waker;
use std::time::Instant;

use super::{Mutex, Parker};
use crate::contain::call_contained;

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
        let mut listeners = self.listeners.lock();
        if !listeners.iter().any(|known| known.will_wake(waker)) {
            listeners.push(waker.clone());
        }
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
                return ready();
            }
        }
    }
}

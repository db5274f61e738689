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
    listeners: Mutex<Listeners>,
}

#[derive(Debug, Default)]
struct Listeners {
    wakers: Vec<(u64, Waker)>,
    next_key: u64,
}

/// One listener's place on a bell's list, which it keeps across questions.
#[derive(Debug, Default)]
pub(crate) struct Place(Option<u64>);

impl Bell {
    pub(crate) fn new() -> Self {
        Self { listeners: Mutex::new(Listeners::default()) }
    }

    /// Puts `waker` on the list, in this listener's place.
    pub(crate) fn listen(&self, place: &mut Place, waker: &Waker) {
        // User code, outside the lock, as is the end of the waker that it replaces.
        let fresh = waker.clone();
        let mut listeners = self.listeners.lock();
        let known = listeners.wakers.iter_mut().find(|(key, _)| Some(*key) == place.0);
        let old = if let Some((_, known)) = known {
            Some(std::mem::replace(known, fresh))
        } else {
            let key = listeners.next_key;
            listeners.next_key += 1;
            listeners.wakers.push((key, fresh));
            place.0 = Some(key);
            None
        };
        drop(listeners);
        drop_contained(old);
    }

    /// Gives the place up: whoever goes away must not stay on the list until a ring that may be long
    /// in coming.
    pub(crate) fn forget(&self, place: &mut Place) {
        let Some(key) = place.0.take() else { return };
        let forgotten = {
            let wakers = &mut self.listeners.lock().wakers;
            let at = wakers.iter().position(|(known, _)| *known == key);
            at.map(|at| wakers.swap_remove(at))
        };
        // User code, outside the lock.
        drop_contained(forgotten);
    }

    /// Wakes all who listen, outside the lock, since a waker is user code.
    pub(crate) fn ring(&self) {
        let wakers = std::mem::take(&mut self.listeners.lock().wakers);
        for (_, waker) in wakers {
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
        let mut place = Place::default();
        let came_true = loop {
            self.listen(&mut place, &waker);
            if ready() {
                break true;
            }
            if !parker.park_until(until) {
                break ready();
            }
        };
        self.forget(&mut place);
        came_true
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        // User code, on whatever thread comes last.
        for listener in std::mem::take(&mut self.listeners.lock().wakers) {
            drop_contained(listener);
        }
    }
}

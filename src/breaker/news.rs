//! Changes of state on their way to the observer: in order, one at a time.

use std::collections::VecDeque;

use super::types::Transition;

/// How many changes may wait while the observer is busy with one.
const MOST_WAITING: usize = 64;

/// The changes that the observer has yet to be told. Lives under the breaker's lock; the observer
/// is called outside of it.
#[derive(Debug)]
pub(super) struct News {
    waiting: VecDeque<Transition>,
    /// Whether a thread is telling. It goes on until nothing waits, so that nobody else need come
    /// between it and the observer.
    being_told: bool,
    missed: u64,
}

impl News {
    pub(super) fn new(observed: bool) -> Self {
        let room = if observed { MOST_WAITING } else { 0 };
        Self { waiting: VecDeque::with_capacity(room), being_told: false, missed: 0 }
    }

    /// Adds a change; true if the caller has to tell it.
    #[must_use]
    pub(super) fn add(&mut self, change: Transition) -> bool {
        if self.waiting.len() >= MOST_WAITING {
            // The oldest, so that the observer ends up with the present state.
            self.waiting.pop_front();
            self.missed = self.missed.saturating_add(1);
        }
        self.waiting.push_back(change);
        !std::mem::replace(&mut self.being_told, true)
    }

    /// The next change for the thread that tells; with none it has ceased to be that thread.
    pub(super) fn next(&mut self) -> Option<Transition> {
        let next = self.waiting.pop_front();
        self.being_told = next.is_some();
        next
    }

    pub(super) fn missed(&self) -> u64 {
        self.missed
    }
}

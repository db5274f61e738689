//! A worker's own queue: crossbeam's deque.
//!
//! The owner takes the newest (the child a body is about to join lies on top), thieves take the
//! oldest (the root of the most work).

use crossbeam_deque::{Steal, Stealer, Worker};

/// The owner's end.
pub(crate) struct Owner<T>(Worker<T>);

/// Anybody's end.
pub(crate) struct Thief<T>(Stealer<T>);

pub(crate) fn deque<T>() -> (Owner<T>, Thief<T>) {
    let worker = Worker::new_lifo();
    let stealer = worker.stealer();
    (Owner(worker), Thief(stealer))
}

impl<T> Owner<T> {
    pub(crate) fn push(&self, item: T) {
        self.0.push(item);
    }

    #[inline]
    pub(crate) fn pop(&self) -> Option<T> {
        self.0.pop()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> Thief<T> {
    pub(crate) fn steal(&self) -> Option<T> {
        loop {
            match self.0.steal() {
                Steal::Success(item) => return Some(item),
                Steal::Empty => return None,
                Steal::Retry => super::spin_loop(),
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

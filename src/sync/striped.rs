//! What many threads add to, with a cache line for each of some stripes.
//!
//! For statistics: no protocol rests on a stripe, so it is never loom's.

use std::cell::Cell;

use crossbeam_utils::CachePadded;

use super::stat::{AtomicUsize, Relaxed};

/// More of them share less.
const STRIPES: usize = 8;

/// A `T` for each stripe.
#[derive(Default)]
pub(crate) struct Striped<T>([CachePadded<T>; STRIPES]);

impl<T> Striped<T> {
    /// The calling thread's. Others may have the same one.
    #[inline]
    pub(crate) fn mine(&self) -> &T {
        &self.0[my_stripe()]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|stripe| &**stripe)
    }
}

/// The calling thread's stripe, dealt out in turn.
#[inline]
fn my_stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    std::thread_local! { static MINE: Cell<usize> = const { Cell::new(usize::MAX) }; }

    MINE.try_with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Relaxed) % STRIPES);
        }
        mine.get()
    })
    .unwrap_or(0)
}

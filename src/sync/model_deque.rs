//! loom can't see into crossbeam-deque, so models run on this: it gives the edge from an item's
//! push to its taking and *nothing else*, which is less than the real deque gives. In particular a
//! thief may see it empty when it is not, unless fences say otherwise. What decides which item is
//! next is kept where loom doesn't look, so that it adds no edges of its own.

use std::collections::VecDeque;
use std::sync::Mutex as Unseen;

use super::{Arc, AtomicUsize, Ordering, UnsafeCell};

/// Each item has a cell of its own, made with the deque: loom wants an atomic's creation to be
/// known to all who use it, and a second use of a cell would be an edge the real deque
/// doesn't promise.
const MAX_PUSHES: usize = 8;

const EMPTY: usize = 0;
const FULL: usize = 1;

struct Cell<T> {
    state: AtomicUsize,
    item: UnsafeCell<Option<T>>,
}

// SAFETY: a cell's item is written before `state` is released as full, and taken once, by
// whoever swapped it to empty with Acquire.
unsafe impl<T: Send> Send for Cell<T> {}
// SAFETY: the same.
unsafe impl<T: Send> Sync for Cell<T> {}

struct Deque<T> {
    cells: Vec<Cell<T>>,
    /// How many were pushed, as thieves may see it.
    pushed: AtomicUsize,
    /// Touched, relaxed, before `order` changes: loom tries both orders of two changes only if
    /// it sees them meet somewhere.
    meeting: AtomicUsize,
    order: Unseen<Order>,
}

/// Which cells are full, oldest first.
#[derive(Default)]
struct Order {
    full: VecDeque<usize>,
    taken: usize,
}

impl<T> Deque<T> {
    fn take(&self, next: fn(&mut VecDeque<usize>) -> Option<usize>) -> Option<T> {
        self.meeting.fetch_add(1, Ordering::Relaxed);
        let cell = {
            let mut order = self.order.lock().unwrap();
            let cell = next(&mut order.full)?;
            order.taken += 1;
            &self.cells[cell]
        };
        let was = cell.state.swap(EMPTY, Ordering::Acquire);
        assert_eq!(was, FULL, "an item was taken twice");
        // SAFETY: see above.
        cell.item.with_mut(|item| unsafe { (*item).take() })
    }

    fn len(&self) -> usize {
        self.order.lock().unwrap().full.len()
    }
}

pub(crate) struct Owner<T>(Arc<Deque<T>>);

pub(crate) struct Thief<T>(Arc<Deque<T>>);

pub(crate) fn deque<T>() -> (Owner<T>, Thief<T>) {
    let cell = || Cell { state: AtomicUsize::new(EMPTY), item: UnsafeCell::new(None) };
    let deque = Arc::new(Deque {
        cells: std::iter::repeat_with(cell).take(MAX_PUSHES).collect(),
        pushed: AtomicUsize::new(0),
        meeting: AtomicUsize::new(0),
        order: Unseen::default(),
    });
    (Owner(Arc::clone(&deque)), Thief(deque))
}

impl<T> Owner<T> {
    pub(crate) fn push(&self, item: T) {
        // Only the owner writes it, so its own load is exact.
        let index = self.0.pushed.load(Ordering::Relaxed);
        let cell = self.0.cells.get(index).expect("a model pushes more than the stand-in holds");
        // SAFETY: see above; the cell was never used.
        cell.item.with_mut(|cell| unsafe { *cell = Some(item) });
        cell.state.store(FULL, Ordering::Release);
        self.0.meeting.fetch_add(1, Ordering::Relaxed);
        self.0.order.lock().unwrap().full.push_back(index);
        self.0.pushed.store(index + 1, Ordering::Relaxed);
    }

    pub(crate) fn pop(&self) -> Option<T> {
        self.0.take(VecDeque::pop_back)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Thief<T> {
    pub(crate) fn steal(&self) -> Option<T> {
        self.0.meeting.fetch_add(1, Ordering::Relaxed);
        if self.is_empty() { None } else { self.0.take(VecDeque::pop_front) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        let pushed = self.0.pushed.load(Ordering::Relaxed);
        self.0.order.lock().unwrap().taken >= pushed
    }
}

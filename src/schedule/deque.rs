//! A worker's own queue: crossbeam's deque, or under loom a stand-in.
//!
//! The owner takes the newest (the child a body is about to join lies on top), thieves take the
//! oldest (the root of the most work).

#[cfg(not(all(loom, feature = "loom")))]
mod types {
    use crossbeam_deque::{Steal, Stealer, Worker};

    use crate::job::JobRef;

    /// The owner's end.
    pub(crate) struct Owner(Worker<JobRef>);

    /// Anybody's end.
    pub(crate) struct Thief(Stealer<JobRef>);

    pub(crate) fn deque() -> (Owner, Thief) {
        let worker = Worker::new_lifo();
        let stealer = worker.stealer();
        (Owner(worker), Thief(stealer))
    }

    impl Owner {
        pub(crate) fn push(&self, job: JobRef) {
            self.0.push(job);
        }

        #[inline]
        pub(crate) fn pop(&self) -> Option<JobRef> {
            self.0.pop()
        }

        pub(crate) fn len(&self) -> usize {
            self.0.len()
        }
    }

    impl Thief {
        pub(crate) fn steal(&self) -> Option<JobRef> {
            loop {
                match self.0.steal() {
                    Steal::Success(job) => return Some(job),
                    Steal::Empty => return None,
                    Steal::Retry => crate::sync::spin_loop(),
                }
            }
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.0.is_empty()
        }
    }
}

/// loom can't see into crossbeam-deque, so models run on this: it gives the edge from an item's
/// push to its taking and *nothing else*, which is less than the real deque gives. In particular a
/// thief may see it empty when it is not, unless fences say otherwise. What decides which item is
/// next is kept where loom doesn't look, so that it adds no edges of its own.
#[cfg(all(loom, feature = "loom"))]
mod types {
    use std::collections::VecDeque;
    use std::sync::Mutex as Unseen;

    use crate::job::JobRef;
    use crate::sync::{Arc, AtomicUsize, Ordering, UnsafeCell};

    /// Each item has a cell of its own, made with the deque: loom wants an atomic's creation to be
    /// known to all who use it, and a second use of a cell would be an edge the real deque
    /// doesn't promise.
    const MAX_PUSHES: usize = 8;

    const EMPTY: usize = 0;
    const FULL: usize = 1;

    struct Cell {
        state: AtomicUsize,
        job: UnsafeCell<Option<JobRef>>,
    }

    // SAFETY: a cell's job is written before `state` is released as full, and taken once, by
    // whoever swapped it to empty with Acquire.
    unsafe impl Send for Cell {}
    // SAFETY: the same.
    unsafe impl Sync for Cell {}

    struct Deque {
        cells: Vec<Cell>,
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

    impl Deque {
        fn take(&self, next: fn(&mut VecDeque<usize>) -> Option<usize>) -> Option<JobRef> {
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
            cell.job.with_mut(|job| unsafe { (*job).take() })
        }

        fn len(&self) -> usize {
            self.order.lock().unwrap().full.len()
        }
    }

    pub(crate) struct Owner(Arc<Deque>);

    pub(crate) struct Thief(Arc<Deque>);

    pub(crate) fn deque() -> (Owner, Thief) {
        let cell = || Cell { state: AtomicUsize::new(EMPTY), job: UnsafeCell::new(None) };
        let deque = Arc::new(Deque {
            cells: std::iter::repeat_with(cell).take(MAX_PUSHES).collect(),
            pushed: AtomicUsize::new(0),
            meeting: AtomicUsize::new(0),
            order: Unseen::default(),
        });
        (Owner(Arc::clone(&deque)), Thief(deque))
    }

    impl Owner {
        pub(crate) fn push(&self, job: JobRef) {
            // Only the owner writes it, so its own load is exact.
            let index = self.0.pushed.load(Ordering::Relaxed);
            let cell =
                self.0.cells.get(index).expect("a model pushes more than the stand-in holds");
            // SAFETY: see above; the cell was never used.
            cell.job.with_mut(|cell| unsafe { *cell = Some(job) });
            cell.state.store(FULL, Ordering::Release);
            self.0.meeting.fetch_add(1, Ordering::Relaxed);
            self.0.order.lock().unwrap().full.push_back(index);
            self.0.pushed.store(index + 1, Ordering::Relaxed);
        }

        pub(crate) fn pop(&self) -> Option<JobRef> {
            self.0.take(VecDeque::pop_back)
        }

        pub(crate) fn len(&self) -> usize {
            self.0.len()
        }
    }

    impl Thief {
        pub(crate) fn steal(&self) -> Option<JobRef> {
            self.0.meeting.fetch_add(1, Ordering::Relaxed);
            if self.is_empty() { None } else { self.0.take(VecDeque::pop_front) }
        }

        pub(crate) fn is_empty(&self) -> bool {
            let pushed = self.0.pushed.load(Ordering::Relaxed);
            self.0.order.lock().unwrap().taken >= pushed
        }
    }
}

pub(crate) use types::{Owner, Thief, deque};

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
    use crate::sync::stat::{AtomicUsize as StatUsize, Relaxed};
    use crate::sync::{Arc, AtomicUsize, Ordering, UnsafeCell};

    const FULL: usize = 1;
    const EMPTY: usize = 0;

    struct Item {
        state: AtomicUsize,
        job: UnsafeCell<Option<JobRef>>,
    }

    // SAFETY: the cell is written before `state` is released as full, and taken once, by whoever
    // swapped it to empty with Acquire.
    unsafe impl Send for Item {}
    // SAFETY: the same.
    unsafe impl Sync for Item {}

    impl Item {
        fn take(&self) -> JobRef {
            let was = self.state.swap(EMPTY, Ordering::Acquire);
            assert_eq!(was, FULL, "an item was taken twice");
            // SAFETY: see above.
            self.job.with_mut(|job| unsafe { (*job).take() }).expect("full")
        }
    }

    struct Deque {
        items: Unseen<VecDeque<Arc<Item>>>,
        pushed: AtomicUsize,
        taken: StatUsize,
    }

    impl Deque {
        fn next(&self, from: fn(&mut VecDeque<Arc<Item>>) -> Option<Arc<Item>>) -> Option<JobRef> {
            let item = from(&mut self.items.lock().unwrap())?;
            self.taken.fetch_add(1, Relaxed);
            Some(item.take())
        }
    }

    pub(crate) struct Owner(Arc<Deque>);

    pub(crate) struct Thief(Arc<Deque>);

    pub(crate) fn deque() -> (Owner, Thief) {
        let deque = Arc::new(Deque {
            items: Unseen::new(VecDeque::new()),
            pushed: AtomicUsize::new(0),
            taken: StatUsize::new(0),
        });
        (Owner(Arc::clone(&deque)), Thief(deque))
    }

    impl Owner {
        pub(crate) fn push(&self, job: JobRef) {
            let item = Item { state: AtomicUsize::new(EMPTY), job: UnsafeCell::new(Some(job)) };
            item.state.store(FULL, Ordering::Release);
            self.0.items.lock().unwrap().push_back(Arc::new(item));
            // Only the owner writes it, so its own load is exact.
            let pushed = self.0.pushed.load(Ordering::Relaxed);
            self.0.pushed.store(pushed + 1, Ordering::Relaxed);
        }

        pub(crate) fn pop(&self) -> Option<JobRef> {
            self.0.next(VecDeque::pop_back)
        }

        pub(crate) fn len(&self) -> usize {
            self.0.items.lock().unwrap().len()
        }
    }

    impl Thief {
        pub(crate) fn steal(&self) -> Option<JobRef> {
            if self.is_empty() { None } else { self.0.next(VecDeque::pop_front) }
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.0.taken.load(Relaxed) >= self.0.pushed.load(Ordering::Relaxed)
        }
    }
}

pub(crate) use types::{Owner, Thief, deque};

//! Who takes care of what is held: at most one thread, and none while nothing is held.
//!
//! # The hand-over
//!
//! All of it lies under one lock: what is held, and `attended`, which says that there is a thread,
//! or that somebody is about to start it.
//!
//! - *Who puts something in* looks at `attended` in the same critical section. If it is not set, he
//!   sets it and must start the thread, after unlocking.
//! - *The thread* leaves only in a critical section in which it has seen that nothing is held; it
//!   clears `attended` there, and touches nothing held afterwards.
//!
//! So something put in is either seen by the thread's last look, or sees `attended` cleared. (To
//! look in one section and to clear in a second loses what comes between: seeded fault 70.)
//!
//! - *If the thread can't be created*, who was to start it clears `attended` and takes out all that
//!   is held, in one section, his own and what others have left to the thread; and releases it at
//!   once.
//!
//! # The end
//!
//! [`Owner`] is what handles share, and the thread has no part in it. When the last is dropped, it
//! closes the keeper and releases what is left, on its own thread.
//!
//! # Fork
//!
//! A forked child has no thread, and the lock may be held for ever. So each entrance asks first
//! whether this is the process in which the keeper was made. In a child nothing is held, waited for
//! or freed.

use std::time::Instant;

use super::settings::{Attendance, ThreadSpec};
use crate::error::BuildError;
use crate::sense::fork::{self, Generation};
use crate::sense::steady::{Readings, Steady};
use crate::sync::{Arc, Bell, Mutex, MutexGuard, thread};

/// After so many releases a thread lets others go first.
pub(super) const BATCH: usize = 64;

/// Why something was released before it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// There was no room for more.
    Bound,
    /// The hold was closed.
    Shutdown,
    /// No thread could be created.
    NoThread,
}

/// What the keeper does with what is held.
pub(super) trait Duty: Send + Sync + Sized + 'static {
    /// All that is held, and its counts: what the lock guards.
    type Held: Send + 'static;
    /// One thing that was held.
    type Item;
    /// What a thread keeps from one round to the next.
    type Scratch: Default;

    /// Whether the thread has nothing left to wait for.
    fn is_empty(held: &Self::Held) -> bool;

    /// How many are held, or are being released this moment.
    fn unsettled(held: &Self::Held) -> usize;

    /// Takes everything out and counts it.
    fn take_all(held: &mut Self::Held, why: Why) -> Vec<Self::Item>;

    /// Releases something that was taken out. May be user code: never under the lock.
    fn release(keeper: &Keeper<Self>, item: Self::Item);

    /// Does what is to be done now.
    fn round(keeper: &Keeper<Self>, scratch: &mut Self::Scratch);

    /// Waits until there is something to be done, or for [`wake`](Self::wake).
    fn wait(keeper: &Keeper<Self>, scratch: &mut Self::Scratch);

    /// Ends the thread's wait, or its next one.
    fn wake(&self);
}

/// What the lock guards.
pub(super) struct Book<H> {
    pub(super) held: H,
    pub(super) closed: bool,
    /// What was left when it was closed.
    pub(super) at_close: usize,
    attended: bool,
    time: Steady,
}

impl<H: Send + 'static> Book<H> {
    fn close<D: Duty<Held = H>>(&mut self) {
        if !self.closed {
            self.closed = true;
            self.at_close = D::unsettled(&self.held);
        }
    }
}

pub(super) struct Keeper<D: Duty> {
    pub(super) duty: D,
    book: Mutex<Book<D::Held>>,
    /// Rings, once closed, whenever there may be nothing left.
    pub(super) settled: Bell,
    readings: Readings,
    thread: Option<ThreadSpec>,
    born: Generation,
}

impl<D: Duty> Keeper<D> {
    pub(super) fn new(
        duty: D,
        held: D::Held,
        attendance: Attendance,
    ) -> Result<Arc<Self>, BuildError> {
        let (thread, readings) = attendance.build()?;
        fork::watch().map_err(BuildError::Spawn)?;
        let time = Steady::starting_at(readings.now_ns());
        let book = Book { held, closed: false, at_close: 0, attended: false, time };
        Ok(Arc::new(Self {
            duty,
            book: Mutex::new(book),
            settled: Bell::new(),
            readings,
            thread,
            born: Generation::current(),
        }))
    }

    pub(super) fn is_forked(&self) -> bool {
        self.born.is_past()
    }

    pub(super) fn has_thread(&self) -> bool {
        self.thread.is_some()
    }

    /// The book.
    pub(super) fn book(&self) -> MutexGuard<'_, Book<D::Held>> {
        self.book.lock()
    }

    /// The book, and the time in elapsed nanoseconds.
    pub(super) fn book_now(&self) -> (MutexGuard<'_, Book<D::Held>>, u64) {
        // User code, before the lock.
        let reading_ns = self.readings.now_ns();
        let mut book = self.book.lock();
        let now_ns = book.time.advance(reading_ns);
        (book, now_ns)
    }

    /// Lets `put` put something in, and sees to it that there is a thread for it.
    pub(super) fn take_in<R>(
        keeper: &Arc<Self>,
        put: impl FnOnce(&mut Book<D::Held>, u64) -> R,
    ) -> R {
        let (mut book, now_ns) = keeper.book_now();
        let outcome = put(&mut book, now_ns);
        let start = keeper.has_thread() && !book.attended && !D::is_empty(&book.held);
        book.attended |= start;
        drop(book);
        if start {
            Self::start(keeper);
        }
        outcome
    }

    #[cold]
    fn start(keeper: &Arc<Self>) {
        let Some(spec) = &keeper.thread else { return };
        let builder = thread::Builder::new().name(spec.name.clone());
        // loom's threads have stacks of their own kind.
        #[cfg(not(all(loom, feature = "loom")))]
        let builder = builder.stack_size(spec.stack_size);
        #[cfg(all(loom, feature = "loom"))]
        let _ = spec.stack_size;
        // The thread has a share of this state, and nothing of the caller's.
        let own = Arc::clone(keeper);
        if builder.spawn(move || own.attend()).is_err() {
            let orphans = {
                let mut book = keeper.book();
                book.attended = false;
                D::take_all(&mut book.held, Why::NoThread)
            };
            keeper.release_each(orphans);
            keeper.settled.ring();
        }
    }

    /// The thread.
    fn attend(&self) {
        let mut scratch = D::Scratch::default();
        loop {
            D::round(self, &mut scratch);
            if self.leave() {
                break;
            }
            D::wait(self, &mut scratch);
        }
        self.settled.ring();
    }

    /// Whether the thread may go: what comes from now on needs a new one.
    fn leave(&self) -> bool {
        let mut book = self.book();
        let empty = D::is_empty(&book.held);
        book.attended &= !empty;
        empty
    }

    pub(super) fn release_each(&self, items: impl IntoIterator<Item = D::Item>) {
        for (count, item) in items.into_iter().enumerate() {
            D::release(self, item);
            if count % BATCH == BATCH - 1 {
                thread::yield_now();
            }
        }
    }

    /// Nothing is held from now on; what is held goes soon.
    pub(super) fn close(&self) {
        self.book().close::<D>();
        self.duty.wake();
    }

    /// Closes, and releases all that is held on this thread.
    pub(super) fn close_and_release(&self) {
        let rest = {
            let mut book = self.book();
            book.close::<D>();
            D::take_all(&mut book.held, Why::Shutdown)
        };
        self.duty.wake();
        self.release_each(rest);
    }

    /// Waits until nothing is left and the thread has done its last, or until `until` (real time).
    pub(super) fn wait_settled(&self, until: Option<Instant>) -> bool {
        self.settled.wait(until, || {
            let book = self.book();
            D::unsettled(&book.held) == 0 && !book.attended
        })
    }
}

/// The share of the handles; dropping it ends the hold.
pub(super) struct Owner<D: Duty>(Arc<Keeper<D>>);

impl<D: Duty> Owner<D> {
    pub(super) fn new(keeper: Arc<Keeper<D>>) -> Self {
        Self(keeper)
    }

    pub(super) fn keeper(&self) -> &Arc<Keeper<D>> {
        &self.0
    }
}

impl<D: Duty> Drop for Owner<D> {
    fn drop(&mut self) {
        if self.0.is_forked() {
            // Freed by the parent alone: in here a lock or a destructor might wait for ever.
            std::mem::forget(Arc::clone(&self.0));
            return;
        }
        self.0.close_and_release();
    }
}

//! Holds anything that can be dropped, for a fixed time: the handle.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::{Duration, Instant};

use super::builder::HoldBuilder;
use super::keeper::{Duty, Keeper, Owner, Why};
use super::ring::Entry;
use super::shelf::{Shelf, is_releasing_here, release_due};
use crate::contain::drop_contained;
use crate::error::BuildError;
use crate::sync::Arc;

/// Holds refused connections, or anything else, for a set time, and then drops them.
///
/// ```
/// use std::time::Duration;
/// use weirpool::hold::RejectionHold;
/// use weirpool::test::ManualClock;
///
/// let clock = ManualClock::new();
/// let hold = RejectionHold::builder()
///     .hold_time(Duration::from_secs(10))
///     .max_items(2)
///     .clock(clock.clone())
///     .without_thread()
///     .build()?;
///
/// hold.hold("first");
/// hold.hold("second");
/// hold.hold("third"); // The first had to go.
/// assert_eq!((hold.snapshot().held, hold.snapshot().released_by_bound), (2, 1));
///
/// clock.advance(Duration::from_secs(10));
/// assert_eq!(hold.release_due(), 2);
/// # Ok::<(), weirpool::BuildError>(())
/// ```
///
/// # Bounds
///
/// At most [`max_items`](HoldBuilder::max_items) are held and at most
/// [`max_bytes`](HoldBuilder::max_bytes). When one more comes, the oldest are released at once, on
/// the thread that brought it. An item that alone exceeds the bytes is released itself. What is
/// being dropped at this moment is no longer held: at most one item on the hold's thread, and what
/// each caller has had to release. A held connection keeps its descriptor, so keep the bound well
/// below the process's limit of open files.
///
/// The memory grows by doubling as items come, to about `size_of::<T>() + 16` bytes for each of
/// `max_items`, and is given back when nothing is held.
///
/// # Time and the thread
///
/// All are held equally long, so the oldest is due first. An item is never released early, and at
/// most an eighth of the hold time (1 to 10 ms) and the system's own delays late, so that many
/// share one wake-up. One thread does that. It is created when the first item comes and exits when
/// nothing is held; until then it sleeps, and it yields after every 64 releases. If it can't be
/// created, what is held is released at once, on the thread that brought the item.
///
/// What is due is judged by the [clock](HoldBuilder::clock), and the thread waits in real time.
/// With a clock that jumps, call [`release_due`](Self::release_due) after the jump; with
/// [`without_thread`](HoldBuilder::without_thread) nothing else releases what is due. A clock that
/// jumps back delays nothing.
///
/// # Destructors
///
/// An item's destructor is user code. It runs outside every lock, so that it may use the hold; a
/// panic in it is contained and counted. Items that are due while a destructor blocks the thread
/// wait for it; those that have to go for lack of room do not.
///
/// # The end
///
/// A handle on shared state: clone it freely. When the last is dropped, that thread drops what is
/// still held, as with any collection; [`shutdown`](Self::shutdown) does it within a time bound.
///
/// In a forked child nothing is held: what is given to [`hold`](Self::hold) is dropped at once, and
/// what the parent held is leaked there.
pub struct RejectionHold<T: Send + 'static> {
    owner: Arc<Owner<Shelf<T>>>,
}

impl<T: Send + 'static> Clone for RejectionHold<T> {
    fn clone(&self) -> Self {
        Self { owner: Arc::clone(&self.owner) }
    }
}

// What is held is only reached through a short lock that no user code runs under.
impl<T: Send + 'static> UnwindSafe for RejectionHold<T> {}
impl<T: Send + 'static> RefUnwindSafe for RejectionHold<T> {}

impl<T: Send + 'static> RejectionHold<T> {
    pub(super) fn of(keeper: Arc<Keeper<Shelf<T>>>) -> Self {
        Self { owner: Arc::new(Owner::new(keeper)) }
    }

    /// The default settings: 10 s, 1024 items, 64 MiB.
    ///
    /// # Errors
    /// [`BuildError::Spawn`] if the system has no memory for being told of forks.
    pub fn new() -> Result<Self, BuildError> {
        Self::builder().build()
    }

    /// All settings.
    pub fn builder() -> HoldBuilder<T> {
        HoldBuilder::new()
    }

    /// Holds `item`, which counts as the bytes of its own value.
    ///
    /// Never waits, but for a destructor if an older item has to go. After
    /// [`shutdown`](Self::shutdown) the item is dropped at once.
    pub fn hold(&self, item: T) {
        self.hold_sized(item, size_of::<T>() as u64);
    }

    /// The same for an item that counts as `bytes`: say, its buffers too.
    ///
    /// ```
    /// # let hold = weirpool::hold::RejectionHold::new()?;
    /// let request = vec![0_u8; 4096];
    /// let bytes = request.capacity() as u64;
    /// hold.hold_sized(request, bytes);
    /// assert_eq!(hold.snapshot().bytes, 4096);
    /// # Ok::<(), weirpool::BuildError>(())
    /// ```
    pub fn hold_sized(&self, item: T, bytes: u64) {
        let keeper = self.owner.keeper();
        if keeper.is_forked() {
            drop_contained(item);
            return;
        }
        let hold_ns = keeper.duty.hold_ns;
        let outgoing = Keeper::take_in(keeper, |book, now_ns| {
            let (outgoing, why) = if book.closed {
                (vec![item], Why::Shutdown)
            } else {
                let due_ns = now_ns.saturating_add(hold_ns);
                (book.held.ring.put(Entry { item, bytes, due_ns }), Why::Bound)
            };
            book.held.accepted += 1;
            book.held.count(why, outgoing.len());
            outgoing
        });
        keeper.release_each(outgoing);
    }

    /// Releases what is due, on the calling thread; how many that were.
    ///
    /// Needed [without a thread](HoldBuilder::without_thread), and after moving a clock of your
    /// own. Otherwise the thread does it.
    pub fn release_due(&self) -> usize {
        let keeper = self.owner.keeper();
        if keeper.is_forked() {
            return 0;
        }
        let released = release_due(keeper, None);
        if released > 0 {
            // If nothing is left, the thread should go now.
            keeper.duty.wake();
        }
        released
    }

    /// Releases all that is held, and holds nothing any more.
    ///
    /// Waits until everything is dropped, at most for `limit` (real time; none: as long as it
    /// takes). Where there is a thread, it does the work, so that a destructor that blocks does not
    /// keep the caller longer than that; the thread goes on with the rest. Without one the caller
    /// does it, and looks at the time between two items. Calling it again, or from several threads,
    /// is fine; inside a destructor that a hold has called, it doesn't wait.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let hold = weirpool::hold::RejectionHold::new()?;
    /// hold.hold(vec![1, 2, 3]);
    /// let report = hold.shutdown(Some(Duration::from_secs(5)));
    /// assert_eq!((report.released, report.remaining), (1, 0));
    /// # Ok::<(), weirpool::BuildError>(())
    /// ```
    pub fn shutdown(&self, limit: Option<Duration>) -> HoldReport {
        let keeper = self.owner.keeper();
        if keeper.is_forked() {
            return HoldReport { released: 0, remaining: 0 };
        }
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        keeper.close();
        if !keeper.has_thread() {
            release_due(keeper, until);
        }
        let settled = !is_releasing_here() && keeper.wait_settled(until);
        let book = keeper.book();
        // What came after the closing may be on its way out this moment; it was none of those.
        let left = if settled { 0 } else { Shelf::unsettled(&book.held) };
        let remaining = left.min(book.at_close);
        HoldReport { released: book.at_close - remaining, remaining }
    }

    /// The figures at this moment, exact and of one moment. All zero in a forked child.
    pub fn snapshot(&self) -> HoldSnapshot {
        let keeper = self.owner.keeper();
        if keeper.is_forked() {
            return HoldSnapshot::default();
        }
        keeper.book().held.snapshot()
    }
}

impl<T: Send + 'static> fmt::Debug for RejectionHold<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RejectionHold").field("snapshot", &self.snapshot()).finish_non_exhaustive()
    }
}

/// The figures of a [`RejectionHold`] at one moment.
///
/// Always `accepted == held + released_by_time + released_by_bound + released_by_shutdown +
/// released_without_thread`: an item counts as released from the moment in which it is taken out.
///
/// ```
/// let hold = weirpool::hold::RejectionHold::new()?;
/// hold.hold("a connection");
/// hold.shutdown(None);
/// assert_eq!(hold.snapshot().released_by_shutdown, 1);
/// # Ok::<(), weirpool::BuildError>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HoldSnapshot {
    /// Items held.
    pub held: usize,
    /// Their bytes, as declared.
    pub bytes: u64,
    /// Items whose destructor is running, or about to.
    pub releasing: usize,
    /// Items ever given to the hold.
    pub accepted: u64,
    /// Released because their time had passed.
    pub released_by_time: u64,
    /// Released because there was no room.
    pub released_by_bound: u64,
    /// Released by [`RejectionHold::shutdown`], or because they came after it.
    pub released_by_shutdown: u64,
    /// Released because the thread could not be created.
    pub released_without_thread: u64,
    /// Panics of items' destructors.
    pub contained_panics: u64,
}

/// What became of the items that were held when a [`RejectionHold`] was shut down.
///
/// ```
/// let hold = weirpool::hold::RejectionHold::<String>::new()?;
/// let report = hold.shutdown(None);
/// assert_eq!(report.released + report.remaining, 0);
/// # Ok::<(), weirpool::BuildError>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldReport {
    /// Dropped.
    pub released: usize,
    /// Not yet dropped when the call returned.
    pub remaining: usize,
}

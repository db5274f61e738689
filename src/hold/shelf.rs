//! What is done with the items of a [`RejectionHold`](super::RejectionHold).

use std::cell::Cell;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use super::keeper::{BATCH, Book, Duty, Keeper, Why};
use super::rejection::HoldSnapshot;
use super::ring::Ring;
use super::settings::grain;
use crate::contain::drop_contained;
use crate::sense::clock::saturating_ns;
use crate::sync::{Parker, local, system_now, thread};

local! {
    // How many destructors this thread is in the middle of, for any hold.
    static RELEASING: Cell<usize> = Cell::new(0);
}

/// Whether the calling thread is inside a destructor that a hold has called, and so must not wait
/// for a hold.
pub(super) fn is_releasing_here() -> bool {
    RELEASING.try_with(Cell::get).unwrap_or(0) > 0
}

/// Releases what is due, or all of it if the hold is closed, until `until`; how many that were.
pub(super) fn release_due<T: Send + 'static>(
    keeper: &Keeper<Shelf<T>>,
    until: Option<Instant>,
) -> usize {
    let mut released = 0;
    let (mut book, mut now_ns) = keeper.book_now();
    while let Some(item) = take_due(&mut book, now_ns) {
        drop(book);
        release(keeper, item);
        released += 1;
        if until.is_some_and(|until| Instant::now() >= until) {
            return released;
        }
        if released % BATCH == 0 {
            thread::yield_now();
            (book, now_ns) = keeper.book_now();
        } else {
            book = keeper.book();
        }
    }
    let memory = book.held.ring.is_empty().then(|| book.held.ring.take_all());
    drop(book);
    drop(memory);
    released
}

fn take_due<T>(book: &mut Book<Held<T>>, now_ns: u64) -> Option<T> {
    let shelf = &mut book.held;
    let is_due = shelf.ring.next_due_ns()? <= now_ns;
    if !is_due && !book.closed {
        return None;
    }
    let item = shelf.ring.take_oldest()?;
    if book.closed {
        shelf.count(Why::Shutdown, 1);
    } else {
        shelf.by_time += 1;
        shelf.releasing += 1;
    }
    Some(item)
}

/// Drops an item that was counted as being released.
fn release<T: Send + 'static>(keeper: &Keeper<Shelf<T>>, item: T) {
    let step = |by: isize| {
        let _ = RELEASING.try_with(|depth| depth.set(depth.get().wrapping_add_signed(by)));
    };
    step(1);
    let calm = drop_contained(item);
    step(-1);
    let mut book = keeper.book();
    book.held.releasing -= 1;
    book.held.contained_panics += u64::from(!calm);
    let settled = book.closed && Shelf::unsettled(&book.held) == 0;
    drop(book);
    if settled {
        keeper.settled.ring();
    }
}

/// What the keeper does for a [`RejectionHold`].
pub(super) struct Shelf<T> {
    pub(super) hold_ns: u64,
    grain: Duration,
    asleep: Parker,
    items: PhantomData<fn(T)>,
}

impl<T> Shelf<T> {
    pub(super) fn new(hold_time: Duration) -> Self {
        Self {
            hold_ns: saturating_ns(hold_time),
            grain: grain(hold_time),
            asleep: Parker::new(),
            items: PhantomData,
        }
    }
}

/// What is held, and the counts.
pub(super) struct Held<T> {
    pub(super) ring: Ring<T>,
    /// Taken out, and their destructor not yet through.
    releasing: usize,
    pub(super) accepted: u64,
    by_time: u64,
    by_bound: u64,
    by_shutdown: u64,
    without_thread: u64,
    contained_panics: u64,
}

impl<T> Held<T> {
    pub(super) fn new(ring: Ring<T>) -> Self {
        Self {
            ring,
            releasing: 0,
            accepted: 0,
            by_time: 0,
            by_bound: 0,
            by_shutdown: 0,
            without_thread: 0,
            contained_panics: 0,
        }
    }

    /// So many were taken out, to be released.
    pub(super) fn count(&mut self, why: Why, items: usize) {
        self.releasing += items;
        let released = match why {
            Why::Bound => &mut self.by_bound,
            Why::Shutdown => &mut self.by_shutdown,
            Why::NoThread => &mut self.without_thread,
        };
        *released += items as u64;
    }

    pub(super) fn snapshot(&self) -> HoldSnapshot {
        HoldSnapshot {
            held: self.ring.len(),
            bytes: self.ring.bytes(),
            releasing: self.releasing,
            accepted: self.accepted,
            released_by_time: self.by_time,
            released_by_bound: self.by_bound,
            released_by_shutdown: self.by_shutdown,
            released_without_thread: self.without_thread,
            contained_panics: self.contained_panics,
        }
    }
}

impl<T: Send + 'static> Duty for Shelf<T> {
    type Held = Held<T>;
    type Item = T;
    type Scratch = ();

    fn is_empty(held: &Held<T>) -> bool {
        held.ring.is_empty()
    }

    fn unsettled(held: &Held<T>) -> usize {
        held.ring.len() + held.releasing
    }

    fn take_all(held: &mut Held<T>, why: Why) -> Vec<T> {
        let all: Vec<T> = held.ring.take_all().into_iter().map(|entry| entry.item).collect();
        held.count(why, all.len());
        all
    }

    fn release(keeper: &Keeper<Self>, item: T) {
        release(keeper, item);
    }

    fn round(keeper: &Keeper<Self>, (): &mut ()) {
        release_due(keeper, None);
    }

    fn wait(keeper: &Keeper<Self>, (): &mut ()) {
        let (book, now_ns) = keeper.book_now();
        let Some(due_ns) = book.held.ring.next_due_ns() else { return };
        drop(book);
        let shelf = &keeper.duty;
        if due_ns == u64::MAX {
            // Never: whoever closes the hold wakes the thread.
            shelf.asleep.park();
            return;
        }
        // The least wait lets many share one wake-up, and keeps a clock that stands still from
        // making the thread spin.
        let left = Duration::from_nanos(due_ns - now_ns.min(due_ns)).max(shelf.grain);
        shelf.asleep.park_until(system_now().checked_add(left));
    }

    fn wake(&self) {
        self.asleep.unpark();
    }
}

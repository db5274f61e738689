//! `RejectionHold`: its thread comes with the first item and goes with the last, and nothing is
//! lost in between; the bound; the end.
#![cfg(loom)]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use loom_tests::{AtLeast, Ghost, Signal, against, explore};
use weirpool::Clock;
use weirpool::hold::RejectionHold;
use weirpool::loom;

/// Each look at it is an hour after the one before, so that whatever is held is due. Loom can't
/// wait for a time, and needs none here.
struct Rushing(Instant, AtomicU64);

impl Rushing {
    fn new() -> Self {
        Self(Instant::now(), AtomicU64::new(0))
    }
}

impl Clock for Rushing {
    fn now(&self) -> Instant {
        self.0 + Duration::from_secs(3600 * self.1.fetch_add(1, Relaxed))
    }
}

/// Counts the living, those in their destructor, and the dead.
#[derive(Default)]
struct Ledger {
    alive: Ghost,
    dying: Ghost,
    /// Whether two were ever in their destructor at once. (To panic there would tell nobody.)
    overlaps: Ghost,
    dead: Ghost,
    all_dead: Signal,
    /// On which threads they were dropped. Not to be seen by loom.
    threads: Mutex<Vec<loom::thread::ThreadId>>,
}

/// One thing to be held; the last of `expected` to be dropped gives the signal.
struct Item {
    ledger: Arc<Ledger>,
    expected: usize,
}

impl Item {
    fn new(ledger: &Arc<Ledger>, expected: usize) -> Self {
        ledger.alive.add();
        Self { ledger: Arc::clone(ledger), expected }
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        self.ledger.threads.lock().unwrap().push(loom::thread::current().id());
        if self.ledger.dying.add() > 0 {
            self.ledger.overlaps.add();
        }
        self.ledger.alive.sub();
        self.ledger.dying.sub();
        if self.ledger.dead.add() + 1 == self.expected {
            self.ledger.all_dead.give();
        }
    }
}

/// With a thread, for which everything is due at once.
fn rushing() -> RejectionHold<Item> {
    RejectionHold::builder().clock(Rushing::new()).build().unwrap()
}

/// With a thread, for which nothing is ever due.
fn patient() -> RejectionHold<Item> {
    RejectionHold::builder().hold_time(Duration::MAX).clock(Rushing::new()).build().unwrap()
}

/// The thread releases the first item and is about to leave when the second comes. Nobody but it,
/// or the next thread, releases the second: if both leave it to the other, the model ends in a
/// deadlock.
#[test]
fn an_item_that_comes_while_the_thread_leaves_is_released() {
    let name = "hold: item against exit";
    explore(name, None, AtLeast(10_000), &["same thread", "next thread"], |seen| {
        let hold = rushing();
        let ledger = Arc::new(Ledger::default());
        hold.hold(Item::new(&ledger, 2));
        hold.hold(Item::new(&ledger, 2));
        ledger.all_dead.wait();
        let threads = ledger.threads.lock().unwrap();
        let same = threads[0] == threads[1];
        seen.note(if same { "same thread" } else { "next thread" });
        assert_eq!((ledger.dead.get(), ledger.alive.get()), (2, 0));
    });
}

/// Two bring the first item: one of them starts the thread, and only one. Two threads would release
/// at the same time.
#[test]
fn two_first_items_start_one_thread() {
    let name = "hold: two first items";
    explore(name, Some(4), AtLeast(1_000), &[], |_| {
        let hold = rushing();
        let ledger = Arc::new(Ledger::default());
        let (other, theirs) = (hold.clone(), Item::new(&ledger, 2));
        let mine = Item::new(&ledger, 2);
        against(|| hold.hold(mine), move || other.hold(theirs));
        ledger.all_dead.wait();
        assert_eq!(ledger.overlaps.get(), 0, "two threads");
    });
}

#[test]
fn the_bound_against_two_who_bring_one() {
    let name = "hold: bound";
    explore(name, None, AtLeast(10), &["mine stays", "theirs stays"], |seen| {
        let hold = RejectionHold::builder()
            .hold_time(Duration::MAX)
            .max_items(1)
            .clock(Rushing::new())
            .without_thread()
            .build()
            .unwrap();
        let (mine, theirs) = (Arc::new(Ledger::default()), Arc::new(Ledger::default()));
        let (other, their_item) = (hold.clone(), Item::new(&theirs, 1));
        let my_item = Item::new(&mine, 1);
        against(|| hold.hold(my_item), move || other.hold(their_item));
        let alive = (mine.alive.get(), theirs.alive.get());
        assert_eq!(alive.0 + alive.1, 1, "the one that there is room for");
        seen.note(if alive.0 == 1 { "mine stays" } else { "theirs stays" });
        assert_eq!(hold.shutdown(None).released, 1);
        assert_eq!((mine.dead.get(), theirs.dead.get()), (1, 1));
    });
}

/// What is held when it is shut down is dropped when that returns, and what comes later is dropped
/// at once. The thread, which waits for ever, must be woken; and who waits for it must be told.
#[test]
fn an_item_against_shutdown() {
    let name = "hold: item against shutdown";
    explore(name, Some(4), AtLeast(1_000), &["held", "late"], |seen| {
        let hold = patient();
        let ledger = Arc::new(Ledger::default());
        let (other, item) = (hold.clone(), Item::new(&ledger, 1));
        let (report, ()) = against(|| hold.shutdown(None), move || other.hold(item));
        assert_eq!(report.remaining, 0);
        seen.note(if report.released == 1 { "held" } else { "late" });
        assert_eq!((ledger.dead.get(), ledger.alive.get()), (1, 0));
    });
}

/// The last handle goes while the thread may be at it: each item is dropped once, by one of them.
#[test]
fn the_last_handle_against_the_thread() {
    let name = "hold: last handle";
    explore(name, Some(4), AtLeast(1_000), &["by the thread", "by the handle"], |seen| {
        let hold = rushing();
        let ledger = Arc::new(Ledger::default());
        hold.hold(Item::new(&ledger, 2));
        hold.hold(Item::new(&ledger, 2));
        drop(hold);
        ledger.all_dead.wait();
        let me = loom::thread::current().id();
        for thread in ledger.threads.lock().unwrap().iter() {
            seen.note(if *thread == me { "by the handle" } else { "by the thread" });
        }
        assert_eq!((ledger.dead.get(), ledger.alive.get()), (2, 0));
    });
}

//! The thread that releases: one at most, none while nothing is held, none if none can be made or
//! is wanted; it wakes up seldom, misses nothing, and keeps nothing of those who started it.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use weirpool::hold::RejectionHold;
use weirpool::test::ManualClock;

use crate::common::clocks::CountingClock;
#[cfg(target_os = "linux")]
use crate::common::process::threads_named;
use crate::common::settings::IMPOSSIBLE_STACK;
use crate::common::{Drops, elsewhere, eventually, on_drop, quiet_panic, rounds_in, watchdog};
use crate::holds::{SECOND, by_hand, for_ever};

#[test]
fn nothing_is_lost_between_the_threads_exit_and_the_next_item() {
    let _watchdog = watchdog();
    // So short a time that the thread is about to leave whenever the next item comes.
    let hold = RejectionHold::builder().hold_time(Duration::from_nanos(1)).build().unwrap();
    let drops = Drops::new();
    let rounds = rounds_in(300, 3_000);
    for round in 1..=rounds {
        hold.hold(drops.tracked());
        if round % 3 == 0 {
            eventually("released by the thread alone", || drops.count() == round);
        }
    }
    eventually("released by the thread alone", || drops.count() == rounds);
    assert_eq!(hold.snapshot().released_by_time, rounds as u64);
}

#[test]
fn thread_creation_fails_permit_lost_or_queued_work_orphaned_or_silent() {
    let _watchdog = watchdog();
    let hold = for_ever().stack_size(IMPOSSIBLE_STACK).build().unwrap();
    let drops = Drops::new();
    for count in 1..=10 {
        hold.hold(drops.tracked());
        assert_eq!(drops.count(), count, "released at once, by who brought it");
    }
    let now = hold.snapshot();
    assert_eq!((now.held, now.released_without_thread, now.contained_panics), (0, 10, 0));
    assert_eq!(hold.shutdown(None).released, 0);

    // A destructor that panics, with many callers.
    let hold = for_ever().stack_size(IMPOSSIBLE_STACK).build().unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    hold.hold(on_drop(|| quiet_panic()));
                }
            });
        }
    });
    let now = hold.snapshot();
    assert_eq!((now.held, now.releasing, now.released_without_thread), (0, 0, 100));
    assert_eq!(now.contained_panics, 100);
}

#[cfg(target_os = "linux")]
#[test]
fn there_is_one_thread_at_most_and_none_while_nothing_is_held() {
    let _watchdog = watchdog();
    let named = || threads_named("one-hold-thread").len();
    let clock = ManualClock::new();
    let hold = RejectionHold::builder().hold_time(10 * SECOND).clock(clock.clone());
    let hold = hold.name("one-hold-thread").build().unwrap();
    assert_eq!(named(), 0);
    for _ in 0..1_000 {
        hold.hold("item");
    }
    eventually("the thread is there", || named() == 1);
    clock.advance(10 * SECOND);
    hold.release_due();
    eventually("the thread is gone", || named() == 0);
    hold.hold("item");
    eventually("the thread is there", || named() == 1);
    drop(hold);
    eventually("the thread is gone", || named() == 0);
}

#[test]
fn a_hold_without_a_thread_makes_none() {
    // A stack that can't be had would show.
    let (builder, clock) = by_hand();
    let hold = builder.stack_size(IMPOSSIBLE_STACK).build().unwrap();
    hold.hold("item");
    assert_eq!((hold.snapshot().held, hold.snapshot().released_without_thread), (1, 0));
    clock.advance(10 * SECOND);
    assert_eq!(hold.release_due(), 1);
}

#[test]
fn idle_workers_spin() {
    // Counted in looks at the clock, not in CPU time: the thread looks each time it wakes up.
    let _watchdog = watchdog();
    let clock = CountingClock::of(ManualClock::new());
    // Held, and never due, although the clock stands a nanosecond before it.
    let hold_time = Duration::from_millis(80);
    let hold = RejectionHold::builder().hold_time(hold_time).clock(clock.clone()).build().unwrap();
    hold.hold("item");
    clock.inner.advance(hold_time - Duration::from_nanos(1));
    hold.hold("second");
    hold.release_due();
    let begin = Instant::now();
    let before = clock.reads.get();
    eventually("the thread has looked three times", || clock.reads.get() >= before + 6);
    // Two looks for each wake-up, 10 ms apart at least: slower is always right.
    let looks = clock.reads.get() - before;
    let wakes = begin.elapsed().as_millis() as usize / 10 + 2;
    assert!(looks <= 2 * wakes, "{looks} looks in {:?}", begin.elapsed());
}

#[test]
fn background_task_pins_a_requests_context() {
    thread_local! {
        static CONTEXT: std::cell::RefCell<Option<Arc<()>>> = const { std::cell::RefCell::new(None) };
    }
    let _watchdog = watchdog();
    let hold = for_ever().build().unwrap();
    let request = Arc::new(());
    let (handle, context) = (hold.clone(), Arc::clone(&request));
    elsewhere(move || {
        CONTEXT.set(Some(Arc::clone(&context)));
        let _in_a_closure = context;
        handle.hold("refused");
    })
    .wait();
    // The hold's thread was started in there, and lives on.
    assert_eq!(hold.snapshot().held, 1);
    eventually("nothing has kept the context", || Arc::strong_count(&request) == 1);
}

//! How long things are held, in which order they are released, and that no more are held than the
//! bounds say, whatever the settings, the clock and the callers do.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use weirpool::Clock;
use weirpool::hold::{HoldBuilder, RejectionHold};

use crate::common::clocks::JumpyClock;
use crate::common::settings::check_refused;
use crate::common::{Drops, Log, on_drop, quiet_panic, rounds_in, watchdog};
use crate::holds::{SECOND, by_hand, check_adds_up, for_ever};

#[test]
fn an_item_is_held_for_its_time_and_not_longer() {
    let (builder, clock) = by_hand();
    let hold = builder.build().unwrap();
    let drops = Drops::new();
    hold.hold(drops.tracked());
    clock.advance(4 * SECOND);
    hold.hold(drops.tracked());
    clock.advance(6 * SECOND - Duration::from_nanos(1));
    assert_eq!((hold.release_due(), drops.count()), (0, 0));
    clock.advance(Duration::from_nanos(1));
    assert_eq!((hold.release_due(), drops.count()), (1, 1));
    clock.advance(4 * SECOND);
    assert_eq!((hold.release_due(), drops.count()), (1, 2));
    let now = hold.snapshot();
    assert_eq!((now.held, now.bytes, now.released_by_time, now.accepted), (0, 0, 2, 2));
}

#[test]
fn items_are_released_in_the_order_in_which_they_came() {
    let (builder, clock) = by_hand();
    let hold = builder.build().unwrap();
    let log = Log::new();
    for number in 0..200 {
        let log = log.clone();
        hold.hold(on_drop(move || log.push(number)));
    }
    clock.advance(10 * SECOND);
    assert_eq!(hold.release_due(), 200);
    assert_eq!(log.entries(), (0..200).collect::<Vec<_>>());
}

#[test]
fn a_full_hold_releases_the_oldest_at_once() {
    let (builder, _clock) = by_hand();
    let hold = builder.max_items(3).build().unwrap();
    let log = Log::new();
    for number in 0..5 {
        let log = log.clone();
        hold.hold(on_drop(move || log.push(number)));
        assert!(hold.snapshot().held <= 3);
    }
    assert_eq!(log.entries(), [0, 1]);
    assert_eq!((hold.snapshot().held, hold.snapshot().released_by_bound), (3, 2));
    check_adds_up(&hold.snapshot());
}

#[test]
fn a_hold_full_of_bytes_releases_as_many_of_the_oldest_as_it_takes() {
    let (builder, _clock) = by_hand();
    let hold = builder.max_bytes(100).build().unwrap();
    let drops = Drops::new();
    for _ in 0..10 {
        hold.hold_sized(drops.tracked(), 10);
    }
    hold.hold_sized(drops.tracked(), 35);
    assert_eq!((drops.count(), hold.snapshot().held, hold.snapshot().bytes), (4, 7, 95));
    hold.hold_sized(drops.tracked(), 101);
    assert_eq!((drops.count(), hold.snapshot().held), (5, 7), "what never fits drives nothing out");
    hold.hold_sized(drops.tracked(), u64::MAX);
    assert_eq!((drops.count(), hold.snapshot().released_by_bound), (6, 6));
    hold.hold_sized(drops.tracked(), 100);
    assert_eq!((drops.count(), hold.snapshot().held, hold.snapshot().bytes), (13, 1, 100));
}

#[test]
fn queue_bound_not_really_a_bound() {
    let _watchdog = watchdog();
    // Destructors that wait hold up whoever runs them: the bound must hold all the same.
    let hold = for_ever().max_items(4).build().unwrap();
    let alive = Arc::new(Mutex::new((0_usize, 0_usize)));
    let callers = 4;
    thread::scope(|scope| {
        for _ in 0..callers {
            scope.spawn(|| {
                for _ in 0..rounds_in(200, 2_000) {
                    {
                        let mut now = alive.lock().unwrap();
                        now.0 += 1;
                        now.1 = now.1.max(now.0);
                    }
                    let alive = Arc::clone(&alive);
                    hold.hold(on_drop(move || {
                        thread::yield_now();
                        alive.lock().unwrap().0 -= 1;
                    }));
                    assert!(hold.snapshot().held <= 4);
                }
            });
        }
    });
    // Held, and one in the hands of each caller: that which it brings, or that which it drops.
    let (left, most) = *alive.lock().unwrap();
    assert_eq!(left, 4);
    assert!(most <= 4 + callers, "{most} were alive");
}

#[test]
fn zero_read_as_unlimited() {
    type Build = fn(HoldBuilder<()>) -> HoldBuilder<()>;
    let cases: [(&str, Build); 8] = [
        ("hold_time = 0ns: must be above zero", |b| b.hold_time(Duration::ZERO)),
        ("max_items = 0: must be from 1 to 16777216", |b| b.max_items(0)),
        ("max_items = 16777217: must be", |b| b.max_items((1 << 24) + 1)),
        ("max_items = 18446744073709551615: must be", |b| b.max_items(usize::MAX)),
        ("max_bytes = 0: must be from 1", |b| b.max_bytes(0)),
        ("stack_size = 0: must be from 65536", |b| b.stack_size(0)),
        ("stack_size = 18446744073709551615: must be", |b| b.stack_size(usize::MAX)),
        ("name = \"a\\0b\": must be free of NUL bytes", |b| b.name("a\0b")),
    ];
    for (expected, set) in cases {
        check_refused(set(RejectionHold::builder()).build().unwrap_err(), expected);
    }
}

#[test]
fn clocks_that_jump_neither_keep_items_nor_break_anything() {
    let clock = JumpyClock::new();
    let hold = RejectionHold::builder().hold_time(10 * SECOND).clock(clock.clone());
    let hold = hold.without_thread().build().unwrap();
    hold.hold(1);
    clock.advance(6 * SECOND);
    assert_eq!(hold.release_due(), 0);
    // Back, even to before the hold was made: the six seconds still count.
    clock.jump_back(10_006 * SECOND);
    hold.hold(2);
    clock.advance(4 * SECOND);
    assert_eq!(hold.release_due(), 1);
    clock.advance(999_996 * SECOND);
    assert_eq!(hold.release_due(), 1);
    hold.hold(3);
    clock.jump_back(1_000_000 * SECOND);
    assert_eq!((hold.release_due(), hold.snapshot().held), (0, 1));
}

#[test]
fn extreme_settings_neither_overflow_nor_panic() {
    let (builder, clock) = by_hand();
    let hold = builder.hold_time(Duration::MAX).max_bytes(u64::MAX).build().unwrap();
    hold.hold_sized("a", u64::MAX);
    hold.hold_sized("b", u64::MAX);
    clock.advance(Duration::MAX);
    assert_eq!((hold.release_due(), hold.snapshot().held), (0, 1));
    assert_eq!(hold.shutdown(Some(Duration::MAX)).released, 1);

    let (builder, clock) = by_hand();
    let hold =
        builder.hold_time(Duration::from_nanos(1)).max_items(1).max_bytes(1).build().unwrap();
    hold.hold_sized("a", 0);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(hold.release_due(), 1);
}

#[test]
fn a_clock_that_panics_costs_nothing() {
    struct Broken;
    impl Clock for Broken {
        fn now(&self) -> Instant {
            quiet_panic()
        }
    }
    let hold = RejectionHold::builder().clock(Broken).without_thread().build().unwrap();
    hold.hold("a");
    assert_eq!((hold.release_due(), hold.snapshot().held), (0, 1));
    assert_eq!(hold.shutdown(None).released, 1);
}

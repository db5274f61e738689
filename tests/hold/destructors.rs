//! Destructors of what was held: by whatever path an item goes, its destructor may panic, use the
//! hold, or hold its last handle.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;

use weirpool::hold::RejectionHold;
use weirpool::test::ManualClock;

use crate::common::{Drops, eventually, on_drop, quiet_panic, recv, watchdog};
use crate::holds::{SECOND, by_hand, check_adds_up, for_ever};

#[test]
fn body_panics_before_the_release_is_armed() {
    // Whatever path an item goes by, its destructor's panic costs no other item.
    let (builder, clock) = by_hand::<Box<dyn Any + Send>>();
    let hold = builder.max_items(4).build().unwrap();
    let bomb = || -> Box<dyn Any + Send> { Box::new(on_drop(|| quiet_panic())) };
    let drops = Drops::new();
    for _ in 0..3 {
        hold.hold(bomb());
        hold.hold(Box::new(drops.tracked()));
    }
    assert_eq!((hold.snapshot().contained_panics, drops.count()), (1, 1), "by the bound");
    clock.advance(10 * SECOND);
    assert_eq!(hold.release_due(), 4);
    assert_eq!((hold.snapshot().contained_panics, drops.count()), (3, 3), "by time");
    hold.hold(bomb());
    hold.hold(Box::new(drops.tracked()));
    assert_eq!(hold.shutdown(None).released, 2);
    hold.hold(bomb());
    assert_eq!((hold.snapshot().contained_panics, drops.count()), (5, 4), "at the end");
    let now = hold.snapshot();
    assert_eq!((now.held, now.releasing, now.released_by_shutdown), (0, 0, 3));
    check_adds_up(&now);
}

#[test]
fn one_pool_variant_helper_thread_or_callback_left_without_a_panic_guard() {
    let _watchdog = watchdog();
    // On the hold's own thread, with a payload whose destructor panics too.
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            quiet_panic()
        }
    }
    let hold = RejectionHold::<Box<dyn Any + Send>>::builder()
        .hold_time(Duration::from_millis(1))
        .build()
        .unwrap();
    let drops = Drops::new();
    for _ in 0..50 {
        hold.hold(Box::new(Bomb));
        hold.hold(Box::new(on_drop(|| std::panic::resume_unwind(Box::new(Bomb)))));
        hold.hold(Box::new(drops.tracked()));
    }
    eventually("all are gone", || drops.count() == 50 && hold.snapshot().releasing == 0);
    let now = hold.snapshot();
    assert_eq!((now.contained_panics, now.released_by_time, now.held), (100, 150, 0));

    // When the last handle goes, nothing reaches who drops it.
    let hold = for_ever::<Box<dyn Any + Send>>().build().unwrap();
    hold.hold(Box::new(Bomb));
    hold.hold(Box::new(drops.tracked()));
    catch_unwind(AssertUnwindSafe(|| drop(hold))).unwrap();
    assert_eq!(drops.count(), 51);
}

#[test]
fn a_destructor_may_use_the_hold() {
    let _watchdog = watchdog();
    type Item = Box<dyn Any + Send>;
    for threaded in [false, true] {
        // What comes in from within is never due: this clock moves once.
        let (clock, hold_time) = (ManualClock::new(), Duration::from_millis(1));
        let builder = RejectionHold::<Item>::builder().hold_time(hold_time).clock(clock.clone());
        let builder = if threaded { builder } else { builder.without_thread() };
        let hold = builder.build().unwrap();
        let (done, answers) = mpsc::channel();
        let inner = hold.clone();
        hold.hold(Box::new(on_drop(move || {
            inner.hold(Box::new("from within"));
            inner.release_due();
            let report = inner.shutdown(None);
            done.send((report.released, report.remaining, inner.snapshot().held)).unwrap();
        })));
        clock.advance(hold_time);
        eventually("released", || threaded || hold.release_due() > 0);
        // The one that asks is being dropped itself, so it can't be waited for.
        let (released, remaining, held) = recv(&answers);
        assert_eq!((released + remaining, remaining >= 1), (2, true));
        assert!(held <= 1);
        let report = hold.shutdown(None);
        assert_eq!((report.released, report.remaining), (2, 0), "threaded: {threaded}");
    }
}

#[test]
fn an_item_may_hold_the_last_handle() {
    let _watchdog = watchdog();
    let drops = Drops::new();
    let hold = RejectionHold::<Box<dyn Any + Send>>::builder()
        .hold_time(Duration::from_millis(1))
        .build()
        .unwrap();
    hold.hold(Box::new((hold.clone(), drops.tracked())));
    hold.hold(Box::new(drops.tracked()));
    drop(hold);
    eventually("all are dropped", || drops.count() == 2);
}

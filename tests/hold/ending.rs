//! The end of a hold, by a shutdown or with its last handle, also while others hold and while a
//! destructor blocks.

use std::any::Any;
use std::thread;
use std::time::Duration;

use weirpool::hold::RejectionHold;

use crate::common::{Drops, Gate, STEP, on_drop, race, rounds_in, watchdog};
use crate::holds::{check_adds_up, for_ever};

#[test]
fn the_last_handle_releases_what_is_held() {
    let _watchdog = watchdog();
    for builder in [for_ever(), for_ever().without_thread()] {
        let hold = builder.build().unwrap();
        let other = hold.clone();
        let drops = Drops::new();
        for _ in 0..100 {
            hold.hold(drops.tracked());
        }
        drop(hold);
        assert_eq!(drops.count(), 0);
        drop(other);
        assert_eq!(drops.count(), 100, "on the thread that dropped the last handle");
    }
}

#[test]
fn shutdown_releases_all_and_holds_nothing_more() {
    let _watchdog = watchdog();
    for builder in [for_ever(), for_ever().without_thread()] {
        let hold = builder.build().unwrap();
        let drops = Drops::new();
        for _ in 0..100 {
            hold.hold(drops.tracked());
        }
        let report = hold.shutdown(Some(STEP));
        assert_eq!((report.released, report.remaining, drops.count()), (100, 0, 100));
        hold.hold(drops.tracked());
        assert_eq!((drops.count(), hold.snapshot().held), (101, 0));
        assert_eq!(hold.snapshot().released_by_shutdown, 101);
        let again = hold.shutdown(None);
        assert_eq!((again.released, again.remaining), (100, 0));
        check_adds_up(&hold.snapshot());
    }
}

#[test]
fn shutdown_comes_back_in_time_although_a_destructor_blocks() {
    let _watchdog = watchdog();
    let hold = for_ever::<Box<dyn Any + Send>>().build().unwrap();
    let gate = Gate::new();
    let drops = Drops::new();
    let entered = Gate::new();
    let (held, seen) = (gate.clone(), entered.clone());
    hold.hold(Box::new(on_drop(move || {
        seen.open();
        held.wait();
    })));
    for _ in 0..9 {
        hold.hold(Box::new(drops.tracked()));
    }
    // Zero is not "without end".
    let report = hold.shutdown(Some(Duration::ZERO));
    assert_eq!(report.released + report.remaining, 10);
    entered.wait();
    let report = hold.shutdown(Some(Duration::from_millis(1)));
    assert_eq!((report.released, report.remaining), (0, 10));
    gate.open();
    let report = hold.shutdown(None);
    assert_eq!((report.released, report.remaining, drops.count()), (10, 0, 9));
}

#[test]
fn two_shutdowns_at_once_both_see_the_end() {
    let _watchdog = watchdog();
    for _ in 0..rounds_in(50, 500) {
        let hold = for_ever().build().unwrap();
        let drops = Drops::new();
        for _ in 0..10 {
            hold.hold(drops.tracked());
        }
        let end = || {
            let report = hold.shutdown(None);
            (report.released, report.remaining, drops.count())
        };
        assert_eq!(race(end, end), ((10, 0, 10), (10, 0, 10)));
    }
}

#[test]
fn many_threads_hold_while_it_is_shut_down() {
    let _watchdog = watchdog();
    for _ in 0..rounds_in(30, 300) {
        let hold = RejectionHold::builder()
            .hold_time(Duration::from_nanos(1))
            .max_items(3)
            .build()
            .unwrap();
        let drops = Drops::new();
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        hold.hold(drops.tracked());
                    }
                });
            }
            assert_eq!(hold.shutdown(None).remaining, 0);
        });
        assert_eq!((drops.count(), hold.snapshot().held), (150, 0));
        assert_eq!(hold.snapshot().accepted, 150);
        check_adds_up(&hold.snapshot());
    }
}

//! `RejectionHold`: refused things are held for a time, within bounds, by one thread at most.

#[path = "../common/mod.rs"]
mod common;

mod holds;

// The stories.
#[cfg(unix)]
mod accepting;
mod bounds;
mod destructors;
mod ending;
#[cfg(target_os = "linux")]
mod figures;
#[cfg(unix)]
mod fork;
mod thread;

use std::panic::{RefUnwindSafe, UnwindSafe};

use weirpool::hold::RejectionHold;

use holds::for_ever;

#[test]
fn held_connections_hold_no_admission_slot() {
    let pool = weirpool::Pool::new(1, 1).unwrap();
    let hold = for_ever().build().unwrap();
    for _ in 0..50 {
        hold.hold(pool.try_reserve().map(drop));
    }
    assert_eq!((pool.in_flight(), hold.snapshot().held), (0, 50));
    assert!(pool.try_reserve().is_ok());
}

#[test]
fn handles_are_what_they_should_be() {
    fn check<T: Clone + Send + Sync + UnwindSafe + RefUnwindSafe + std::fmt::Debug>(_: &T) {}
    struct NotSync(#[allow(dead_code)] std::cell::Cell<u8>);
    let hold = RejectionHold::<NotSync>::new().unwrap();
    check(&hold);
    hold.hold(NotSync(std::cell::Cell::new(0)));
    assert!(format!("{hold:?}").contains("held: 1"));
    assert!(format!("{:?}", RejectionHold::<()>::builder()).contains("max_items: 1024"));
}

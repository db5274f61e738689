//! A process that forks with a hold in it: the child's holds nothing, and the parent's goes on.

use std::cell::{Ref, RefCell};

use weirpool::hold::HoldSnapshot;

use crate::common::forking::{in_a_child, step};
use crate::common::{Drops, watchdog};
use crate::holds::for_ever;

#[test]
fn pool_used_after_fork() {
    let _watchdog = watchdog();
    let drops = Drops::new();
    let hold = for_ever().build().unwrap();
    hold.hold(drops.tracked());
    let (before, own) = (drops.count(), RefCell::new(Some(hold)));
    let hold = || Ref::map(own.borrow(), |hold| hold.as_ref().unwrap());
    in_a_child(vec![
        step("hold", || {
            hold().hold(drops.tracked());
            drops.count() == before + 1
        }),
        step("release", || hold().release_due() == 0),
        step("shutdown", || hold().shutdown(None).released == 0),
        step("look", || hold().snapshot() == HoldSnapshot::default()),
        step("drop", || {
            drop(own.take());
            drops.count() == before + 1
        }),
    ]);
    assert_eq!((hold().shutdown(None).released, drops.count()), (1, 1));
}

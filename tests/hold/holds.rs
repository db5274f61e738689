//! Holds for the tests, and what must add up in each.

use std::time::Duration;

use weirpool::hold::{HoldBuilder, HoldSnapshot, RejectionHold};
use weirpool::test::ManualClock;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// A hold of 10 s on a manual clock, driven by `release_due` alone.
pub(crate) fn by_hand<T: Send + 'static>() -> (HoldBuilder<T>, ManualClock) {
    let clock = ManualClock::new();
    let builder = RejectionHold::builder().hold_time(10 * SECOND).clock(clock.clone());
    (builder.without_thread(), clock)
}

/// A hold whose items go only by the bound or at the end, with a thread.
pub(crate) fn for_ever<T: Send + 'static>() -> HoldBuilder<T> {
    RejectionHold::builder().hold_time(Duration::MAX)
}

/// Fails unless all that was given to the hold is accounted for.
#[track_caller]
pub(crate) fn check_adds_up(now: &HoldSnapshot) {
    let released = now.released_by_time
        + now.released_by_bound
        + now.released_by_shutdown
        + now.released_without_thread;
    assert_eq!(now.accepted, now.held as u64 + released, "{now:?}");
}

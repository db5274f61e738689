//! A scope returns when its last job has ended, and not before.
#![cfg(loom)]

use loom_tests::{AtLeast, explore, finish, pool};
use weirpool::loom::cell::UnsafeCell;

/// Borrowed by the job; loom reports a use that the scope's return doesn't come after.
struct Borrowed(UnsafeCell<u32>);

// SAFETY: that is what the model is to show.
unsafe impl Sync for Borrowed {}

#[test]
fn the_scopes_end_against_the_last_job() {
    explore("scope: last job", Some(2), AtLeast(1_000), &[], |_| {
        let pool = pool(1, 1);
        let borrowed = Borrowed(UnsafeCell::new(0));
        let borrow = &borrowed;
        pool.scope(|scope| {
            // SAFETY: loom checks it.
            let body = move || borrow.0.with_mut(|value| unsafe { *value += 1 });
            drop(scope.try_submit(body).unwrap());
        });
        // SAFETY: loom checks it.
        borrowed.0.with_mut(|value| unsafe { *value += 1 });
        assert_eq!(pool.in_flight(), 0, "the job has ended, so its slot is back");
        finish(pool, 1);
    });
}

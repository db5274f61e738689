//! Workers that are one too many for the CPU that there is: they leave the work to the others, and none
//! of it is lost. That they lose patience after a while plays no part, since time stands still.
#![cfg(loom)]

use std::sync::Arc;

use loom_tests::{AtLeast, Signal, explore, finish, resting_pool, unexplored};
use weirpool::protocols::set_active_level;

/// Both workers sleep. Who fell asleep last is woken for a job, and is the one that is too many.
#[test]
fn who_stands_by_passes_the_wake_up_on() {
    for (name, jobs, preemptions) in
        [("stand by: one job", 1, Some(2)), ("stand by: two jobs", 2, Some(1))]
    {
        explore(name, preemptions, AtLeast(1_000), &[], move |_| {
            let pool = resting_pool(2, 2);
            set_active_level(&pool, 1.0);
            let handles: Vec<_> = (0..jobs).map(|_| pool.try_submit(|| ()).unwrap()).collect();
            for handle in handles {
                handle.join().unwrap();
            }
            finish(pool, jobs);
        });
    }
}

/// One worker is inside a body that waits for a queued job, and the other stands by: once the pool is
/// closed, that one takes it.
#[test]
fn closing_puts_who_stands_by_to_work() {
    explore("stand by: close", Some(2), AtLeast(1_000), &[], |_| {
        let pool = resting_pool(2, 2);
        let signal = Arc::new(Signal::default());
        let waiting = unexplored(|| {
            set_active_level(&pool, 1.0);
            let signal = Arc::clone(&signal);
            pool.try_submit(move || signal.wait()).unwrap()
        });
        let queued = pool.try_submit(move || signal.give()).unwrap();
        pool.close();
        waiting.join().unwrap();
        queued.join().unwrap();
        finish(pool, 2);
    });
}

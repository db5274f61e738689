//! A critical job takes the slot of a queued one: no slot is made, none is lost.
#![cfg(loom)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use loom_tests::{AtLeast, explore};
use weirpool::loom::thread;
use weirpool::{JobError, Pool, Priority, ShedReason, Shutdown};

/// Counts the closures alive: never more than there are slots.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>, capacity: usize) -> Self {
        assert!(count.fetch_add(1, SeqCst) < capacity, "more closures than slots");
        Self(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// The victim is taken by the worker, or cancelled, at the moment it is displaced.
#[test]
fn displacement_against_dequeue_and_cancel() {
    let must_see = ["displaced", "cancelled", "ran", "critical ran", "critical refused"];
    explore("displacement: dequeue, cancel", Some(1), AtLeast(500), &must_see, |seen| {
        let pool = Pool::new(1, 1).unwrap();
        let victim = pool.job().priority(Priority::Low).try_submit(|| 1).unwrap();
        let canceller = victim.canceller();
        let cancelling = thread::spawn(move || canceller.cancel());
        match pool.job().priority(Priority::Critical).try_submit(|| 2) {
            Ok(critical) => {
                assert_eq!(critical.join().unwrap(), 2);
                seen.note("critical ran");
            }
            Err(_) => seen.note("critical refused"),
        }
        let cancelled = cancelling.join().unwrap();
        match victim.join() {
            Ok(1) => seen.note("ran"),
            Err(JobError::Cancelled) => {
                assert!(cancelled);
                seen.note("cancelled");
            }
            Err(JobError::Shed(ShedReason::Displaced)) => seen.note("displaced"),
            other => panic!("{other:?}"),
        }
        let report = pool.shutdown(Shutdown::Drain, None);
        assert_eq!(report.still_running, 0);
        assert_eq!(pool.in_flight(), 0);
    });
}

/// With the worker out of the way: two critical jobs for one victim. The slots are two, whoever
/// gets them.
#[test]
fn two_critical_jobs_and_one_victim() {
    explore("displacement: two critical", Some(1), AtLeast(500), &[], |_| {
        let alive = Arc::new(AtomicUsize::new(0));
        let pool = Pool::new(1, 2).unwrap();
        let low = {
            let guard = Alive::new(&alive, 2);
            pool.job().priority(Priority::Low).try_submit(move || drop(guard)).unwrap()
        };
        let submit = |pool: &Pool| {
            pool.job().priority(Priority::Critical).try_submit(|| ()).map(drop).is_ok()
        };
        let other = {
            let pool = pool.clone();
            thread::spawn(move || submit(&pool))
        };
        let mine = submit(&pool);
        let theirs = other.join().unwrap();
        assert!(mine || theirs, "there was a slot free all along");
        drop(low);
        pool.shutdown(Shutdown::Drain, None);
        assert_eq!((pool.in_flight(), alive.load(SeqCst)), (0, 0));
    });
}

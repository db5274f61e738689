//! A critical job takes the slot of a queued one: no slot is made, none is lost.
#![cfg(loom)]

use std::sync::Arc;

use loom_tests::{AtLeast, Ghost, Payload, against, explore, finish, pool, resting_pool};
use weirpool::{JobError, Pool, Priority, Reason, ShedReason};

/// The victim is taken by the worker, or cancelled, at the moment it is displaced.
#[test]
fn displacement_against_dequeue_and_cancel() {
    let must_see = ["displaced", "cancelled", "ran", "critical ran", "critical refused"];
    explore("displacement: dequeue, cancel", Some(1), AtLeast(1_000), &must_see, |seen| {
        let pool = pool(1, 1);
        let payload = Arc::new(Payload::default());
        let permit = pool.job().priority(Priority::Low).try_reserve().unwrap();
        let captured = payload.capture();
        let victim = permit.submit(move || captured.touch()).unwrap();
        let canceller = victim.canceller();
        let (critical, cancelled) = against(
            || {
                let payload = Arc::clone(&payload);
                let body = move || {
                    assert_eq!(payload.captures(), 0, "the victim is gone");
                    payload.touch();
                };
                let critical = pool.job().priority(Priority::Critical).try_submit(body);
                critical.map(|critical| critical.join().unwrap()).map_err(|no| no.reason())
            },
            move || canceller.cancel(),
        );
        match victim.join() {
            Ok(()) => seen.note("ran"),
            Err(JobError::Cancelled) => {
                assert!(cancelled);
                seen.note("cancelled");
            }
            Err(JobError::Shed(ShedReason::Displaced)) => {
                assert!(critical.is_ok() && !cancelled);
                seen.note("displaced");
            }
            Err(other) => panic!("{other}"),
        }
        match critical {
            Ok(()) => seen.note("critical ran"),
            Err(reason) => {
                assert_eq!(reason, Reason::Full);
                seen.note("critical refused");
            }
        }
        finish(pool, 1 + u64::from(critical.is_ok()));
    });
}

/// Two critical jobs, one slot free and one with a victim in it: both get in as long as the victim
/// hasn't started.
#[test]
fn two_critical_jobs_and_one_victim() {
    let must_see = ["both", "one"];
    explore("displacement: two critical", Some(1), AtLeast(1_000), &must_see, |seen| {
        let pool = resting_pool(1, 2);
        let ran = Arc::new(Ghost::default());
        let victim = {
            let ran = Arc::clone(&ran);
            pool.job().priority(Priority::Low).try_submit(move || ran.add()).unwrap()
        };
        let submit = |pool: &Pool| {
            u64::from(pool.job().priority(Priority::Critical).try_spawn(|| ()).is_ok())
        };
        let own = pool.clone();
        let (mine, theirs) = against(|| submit(&pool), move || submit(&own));
        let critical = mine + theirs;
        assert!(critical >= 1, "a slot was free all along");
        seen.note(if critical == 2 { "both" } else { "one" });
        finish(pool, 1 + critical);
        match victim.join() {
            Ok(_) => assert_eq!(ran.get(), 1),
            Err(JobError::Shed(ShedReason::Displaced)) => assert_eq!((ran.get(), critical), (0, 2)),
            Err(other) => panic!("{other}"),
        }
    });
}

//! Who waits for a slot gets one, or passes it on, or is let go.
#![cfg(loom)]

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use loom_tests::{AtLeast, against, explore};
use weirpool::loom::thread;
use weirpool::protocols::{Claim, Ledger, job};
use weirpool::{Partition, Priority};

const PLAIN: fn() -> Claim = || Claim::new(Priority::Normal, None, 0);

/// A slot is returned while somebody goes to wait for it. A wake-up that is lost leaves the waiter
/// blocked for ever, which loom reports.
#[test]
fn return_against_wait() {
    explore("waiters: return, wait", None, AtLeast(20), &[], |_| {
        let ledger = Ledger::new(1, 0);
        let held = ledger.take(false).expect("room");
        let waiter = {
            let ledger = ledger.clone();
            thread::spawn(move || drop(ledger.wait(PLAIN()).expect("not closed")))
        };
        drop(held);
        waiter.join().unwrap();
        assert_eq!(ledger.in_flight(), 0);
    });
}

/// Two wait; the one in front gives up at any moment, also when it has been granted the slot.
#[test]
fn a_grant_is_passed_on_by_whoever_gives_up() {
    explore("waiters: give up", Some(3), AtLeast(500), &[], |_| {
        let ledger = Ledger::new(1, 0);
        let held = ledger.take(false).expect("room");
        let fickle = {
            let ledger = ledger.clone();
            thread::spawn(move || ledger.wait_briefly(PLAIN()))
        };
        let patient = {
            let ledger = ledger.clone();
            thread::spawn(move || drop(ledger.wait(PLAIN()).expect("not closed")))
        };
        drop(held);
        fickle.join().unwrap();
        patient.join().unwrap();
        assert_eq!(ledger.in_flight(), 0, "a grant was lost");
    });
}

/// The pool is closed while one goes to wait and a slot is returned.
#[test]
fn closing_lets_every_waiter_go() {
    let must_see = ["served", "let go"];
    explore("waiters: close", Some(3), AtLeast(500), &must_see, |seen| {
        let ledger = Ledger::new(1, 0);
        let held = ledger.take(false).expect("room");
        let waiter = {
            let ledger = ledger.clone();
            thread::spawn(move || ledger.wait(PLAIN()).is_some())
        };
        let returning = thread::spawn(move || drop(held));
        ledger.close();
        let served = waiter.join().unwrap();
        returning.join().unwrap();
        seen.note(if served { "served" } else { "let go" });
        assert_eq!(ledger.in_flight(), 0);
    });
}

/// The waiter lacks what isn't in the ledger's word: a partition's maximum, or bytes.
#[test]
fn a_return_beside_the_word_wakes_too() {
    for (name, claim) in [
        ("waiters: partition", Claim::new(Priority::Normal, Some(0), 0)),
        ("waiters: bytes", Claim::new(Priority::Normal, None, 10)),
    ] {
        explore(name, Some(3), AtLeast(50), &[], move |_| {
            let ledger = Ledger::divided(4, 0, &[Partition::new().max(1)], Some(10));
            let held = ledger.take_as(claim).expect("room");
            let waiter = {
                let ledger = ledger.clone();
                thread::spawn(move || drop(ledger.wait(claim).expect("not closed")))
            };
            drop(held);
            waiter.join().unwrap();
            assert_eq!((ledger.in_flight(), ledger.bytes()), (0, 0));
        });
    }
}

/// A large job that sees bytes, takes a slot and then finds the bytes gone gives the slot back: to the
/// waiter that found it taken.
#[test]
fn a_rollback_wakes_who_waits() {
    let must_see = ["bytes for the first", "bytes for the second"];
    explore("waiters: rollback", Some(2), AtLeast(1_000), &must_see, |seen| {
        let ledger = Ledger::divided(2, 0, &[], Some(10));
        let large = {
            let ledger = ledger.clone();
            move || ledger.take_as(Claim::new(Priority::Normal, None, 10)).ok()
        };
        let first = thread::spawn(large.clone());
        let waiter = {
            let ledger = ledger.clone();
            thread::spawn(move || drop(ledger.wait(PLAIN()).expect("not closed")))
        };
        let second = large();
        let first = first.join().unwrap();
        // Who has the bytes keeps them meanwhile: the other's slot is all that comes back.
        waiter.join().unwrap();
        assert!(first.is_some() != second.is_some(), "both of them have the bytes, or neither has");
        let whose = if first.is_some() { "bytes for the first" } else { "bytes for the second" };
        seen.note(whose);
        drop((first, second));
        assert_eq!((ledger.in_flight(), ledger.bytes()), (0, 0));
    });
}

/// Two partitions with a share each, three threads, capacity two: whatever is taken and returned in
/// whichever order, the pool is never over its capacity, and a share is never refused to its owner.
#[test]
fn partitions_stay_within_the_capacity() {
    let must_see = ["above the share", "refused above the share"];
    explore("partitions: capacity", Some(2), AtLeast(1_000), &must_see, |seen| {
        let shares = [Partition::new().reserved(1), Partition::new()];
        let ledger = Ledger::divided(2, 0, &shares, None);
        // loom does not look at it: what is inside at once, counted by those inside.
        let inside = std::sync::Arc::new(AtomicUsize::new(0));
        let run = {
            let (ledger, inside) = (ledger.clone(), std::sync::Arc::clone(&inside));
            move |partition: u16| {
                let Ok(slot) = ledger.take_as(Claim::new(Priority::Normal, Some(partition), 0))
                else {
                    return false;
                };
                assert!(inside.fetch_add(1, Relaxed) < 2, "over the capacity");
                assert!(ledger.in_flight() <= 2, "over the capacity");
                inside.fetch_sub(1, Relaxed);
                drop(slot);
                true
            }
        };
        let (first, second) = (run.clone(), run.clone());
        let first = thread::spawn(move || first(0));
        let second = thread::spawn(move || second(0));
        let common = run(1);
        let (first, second) = (first.join().unwrap(), second.join().unwrap());
        assert!(first || second, "the share was refused to its owner");
        seen.note(if first && second { "above the share" } else { "refused above the share" });
        let _ = common;
        assert_eq!(ledger.in_flight(), 0);
        // All is back: the common part is whole again.
        let rest = ledger.take(false);
        assert!(rest.is_ok() && ledger.take(false).is_err(), "the common part is off");
    });
}

/// A bound is raised while somebody goes to wait for that: nothing else will ever serve it.
#[test]
fn a_raise_against_wait() {
    raise_against_wait("waiters: limit", Ledger::set_limit);
    raise_against_wait("waiters: capacity", Ledger::set_capacity);
}

fn raise_against_wait(name: &str, set_bound: fn(&Ledger, usize)) {
    explore(name, None, AtLeast(50), &[], move |_| {
        let ledger = Ledger::new(3, 0);
        set_bound(&ledger, 1);
        let held = ledger.take(false).expect("room");
        let theirs = ledger.clone();
        against(|| drop(ledger.wait(PLAIN()).expect("not closed")), move || set_bound(&theirs, 2));
        drop(held);
        assert_eq!(ledger.in_flight(), 0);
    });
}

/// Two jobs are queued, and somebody goes to wait until fewer are while a worker runs them. Whatever
/// the first return finds, the last finds an empty queue: nothing else will ever serve the waiter.
#[test]
fn the_last_return_serves_who_waits_for_a_shorter_queue() {
    explore("waiters: queue", None, AtLeast(50), &[], |_| {
        let (ledger, lanes) = Ledger::with_lanes(4, 1);
        let slots = [(); 2].map(|()| {
            let (entry, handle) = job(|| ());
            drop(handle);
            lanes.push(entry);
            ledger.take(false).expect("room")
        });
        against(
            || drop(ledger.wait(PLAIN().for_a_short_queue()).expect("not closed")),
            move || {
                for slot in slots {
                    let entry = lanes.take().expect("two are queued");
                    assert!(entry.run(|| drop(slot)));
                }
            },
        );
        assert_eq!(ledger.in_flight(), 0);
    });
}

/// Two wait for a shorter queue. What one is granted holds the other back until it comes back, used or
/// not.
#[test]
fn a_grant_that_holds_the_next_back_comes_back() {
    explore("waiters: queue, give up", Some(3), AtLeast(500), &[], |_| {
        let (ledger, lanes) = Ledger::with_lanes(4, 1);
        let (entry, handle) = job(|| ());
        drop(handle);
        lanes.push(entry);
        let slot = ledger.take(false).expect("room");
        let claim = PLAIN().for_a_short_queue();
        let fickle = {
            let ledger = ledger.clone();
            thread::spawn(move || ledger.wait_briefly(claim))
        };
        let patient = {
            let ledger = ledger.clone();
            thread::spawn(move || drop(ledger.wait(claim).expect("not closed")))
        };
        let entry = lanes.take().expect("it is queued");
        assert!(entry.run(|| drop(slot)));
        fickle.join().unwrap();
        patient.join().unwrap();
        assert_eq!(ledger.in_flight(), 0, "a grant was lost");
    });
}

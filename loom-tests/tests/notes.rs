//! Returns of slots that are only noted: nobody may be told anything else for it.
#![cfg(loom)]

use std::sync::Arc;

use loom_tests::{AtLeast, Payload, Seen, against, explore};
use weirpool::Priority;
use weirpool::loom::sync::atomic::{AtomicUsize, Ordering};
use weirpool::loom::thread;
use weirpool::protocols::{Claim, Ledger, Slot};

/// A ledger of one slot, or of more, whose workers note their returns.
fn noting(capacity: usize, workers: usize) -> Ledger {
    let ledger = Ledger::noting(capacity, workers);
    // The first return goes to the word, and finds that it could have been noted.
    take(&ledger).end_by(0);
    ledger
}

fn take(ledger: &Ledger) -> Slot {
    ledger.take(false).expect("room")
}

/// How many jobs have resolved. Whoever sees that one has must find its slot free.
#[derive(Clone, Default)]
struct Resolved(Arc<AtomicUsize>);

impl Resolved {
    fn resolve(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

/// Whoever takes the only slot sees what its last job has left, and is not refused if that job has
/// resolved.
fn take_after(ledger: &Ledger, resolved: &Resolved, jobs: usize, payload: &Payload, seen: &Seen) {
    let must_get = resolved.count() == jobs;
    match ledger.take(false) {
        Ok(slot) => {
            payload.touch();
            seen.note("taken");
            drop(slot);
        }
        Err(closed) => {
            assert!(!closed && !must_get, "a false refusal: the only job had resolved");
            seen.note("refused");
        }
    }
}

/// A job ends and resolves, another thread submits, a third looks how many are in flight.
#[test]
fn a_resolved_jobs_slot_is_free() {
    explore("notes: take", Some(3), AtLeast(1_000), &["taken", "refused"], |seen| {
        let (ledger, resolved) = (noting(1, 1), Resolved::default());
        let payload = Arc::new(Payload::default());
        let slot = take(&ledger);
        let worker = {
            let (resolved, payload) = (resolved.clone(), Arc::clone(&payload));
            thread::spawn(move || {
                payload.touch();
                slot.end_by(0);
                resolved.resolve();
            })
        };
        let observer = {
            let ledger = ledger.clone();
            thread::spawn(move || {
                assert!(ledger.in_flight() <= 1, "more in flight than there are slots");
            })
        };
        take_after(&ledger, &resolved, 1, &payload, seen);
        worker.join().unwrap();
        observer.join().unwrap();
        assert_eq!(ledger.in_flight(), 0);
    });
}

/// Another thread takes in what is noted meanwhile, since it asks how many are in flight.
#[test]
fn a_resolved_jobs_slot_is_free_while_another_looks() {
    let looks = |ledger: Ledger| assert!(ledger.in_flight() <= 2);
    beside_another("notes: look", 2, &["taken", "refused"], looks, take_after_one);
}

/// Another thread takes it in for good, since it is about to be refused itself.
#[test]
fn a_resolved_jobs_slot_is_free_while_another_is_refused() {
    beside_another("notes: refusal", 2, &["taken", "refused"], is_refused, take_after_one);
}

/// Whoever knows that a job has resolved doesn't find it in flight.
#[test]
fn a_resolved_job_is_not_in_flight_while_another_is_refused() {
    beside_another(
        "notes: in flight",
        3,
        &["gone", "not yet"],
        is_refused,
        |ledger, resolved, seen| {
            let must_be_gone = resolved.count() == 1;
            let in_flight = ledger.in_flight();
            assert!(in_flight == 1 || in_flight == 2 && !must_be_gone, "{in_flight} in flight");
            seen.note(if must_be_gone { "gone" } else { "not yet" });
        },
    );
}

fn is_refused(ledger: Ledger) {
    assert!(!ledger.reserve_many(3));
}

fn take_after_one(ledger: &Ledger, resolved: &Resolved, seen: &Seen) {
    take_after(ledger, resolved, 1, &Payload::default(), seen);
}

/// Two slots are taken; the job of one ends and resolves, `other` does something, and so does `mine`.
fn beside_another(
    name: &str,
    preemptions: usize,
    must_see: &[&'static str],
    other: fn(Ledger),
    mine: fn(&Ledger, &Resolved, &Seen),
) {
    explore(name, Some(preemptions), AtLeast(1_000), must_see, move |seen| {
        let (ledger, resolved) = (noting(2, 1), Resolved::default());
        let (slot, held) = (take(&ledger), take(&ledger));
        let worker = {
            let resolved = resolved.clone();
            thread::spawn(move || {
                slot.end_by(0);
                resolved.resolve();
            })
        };
        let other = {
            let ledger = ledger.clone();
            thread::spawn(move || other(ledger))
        };
        mine(&ledger, &resolved, seen);
        worker.join().unwrap();
        other.join().unwrap();
        drop(held);
        assert_eq!(ledger.in_flight(), 0);
    });
}

/// There is one job at a time for two slots, so another one is always let in, although what is noted
/// makes them look full.
#[test]
fn one_of_two_slots_is_always_free() {
    explore("notes: one of two", None, AtLeast(500), &[], |_| {
        let ledger = Ledger::noting(2, 1);
        let worker = {
            let (ledger, first) = (ledger.clone(), take(&ledger));
            move || {
                first.end_by(0);
                take(&ledger).end_by(0);
                take(&ledger)
            }
        };
        let (mine, last) = against(|| take(&ledger), worker);
        drop(mine);
        last.end_by(0);
        assert_eq!(ledger.in_flight(), 0);
    });
}

/// Returns begin to be noted while somebody is about to be refused.
#[test]
fn noting_begins_beside_a_refusal() {
    explore("notes: begin", Some(3), AtLeast(1_000), &["taken", "refused"], |seen| {
        let (ledger, resolved) = (Ledger::noting(1, 1), Resolved::default());
        let payload = Arc::new(Payload::default());
        let first = take(&ledger);
        let worker = {
            let (ledger, resolved) = (ledger.clone(), resolved.clone());
            let payload = Arc::clone(&payload);
            thread::spawn(move || {
                payload.touch();
                first.end_by(0);
                if let Ok(second) = ledger.take(false) {
                    payload.touch();
                    second.end_by(0);
                }
                resolved.resolve();
            })
        };
        take_after(&ledger, &resolved, 1, &payload, seen);
        worker.join().unwrap();
        assert_eq!(ledger.in_flight(), 0);
    });
}

/// A worker takes its own notes in while another thread submits.
#[test]
fn a_worker_takes_in_its_own() {
    explore("notes: own", Some(3), AtLeast(1_000), &["taken", "refused"], |seen| {
        let (ledger, resolved) = (noting(2, 1), Resolved::default());
        let payload = Arc::new(Payload::default());
        let (first, second) = (take(&ledger), take(&ledger));
        let worker = {
            let resolved = resolved.clone();
            thread::spawn(move || {
                first.end_by(0);
                resolved.resolve();
                second.end_by(0);
            })
        };
        take_after(&ledger, &resolved, 1, &payload, seen);
        worker.join().unwrap();
        assert_eq!(ledger.in_flight(), 0);
    });
}

/// Somebody listens for the last job's end, which is noted at the same time.
#[test]
fn the_last_noted_end_wakes_who_waits_for_it() {
    explore("notes: settled", Some(2), AtLeast(100), &[], |_| {
        let ledger = noting(2, 2);
        let (one, other) = (take(&ledger), take(&ledger));
        let worker = thread::spawn(move || one.end_by(0));
        let peer = thread::spawn(move || other.end_by(1));
        // A ring that is missed leaves this thread blocked for ever, which loom reports.
        ledger.wait_settled();
        assert_eq!(ledger.in_flight(), 0);
        worker.join().unwrap();
        peer.join().unwrap();
    });
}

/// Returns begin to be noted while somebody comes to listen for the last job's end.
#[test]
fn noting_does_not_begin_once_somebody_listens() {
    explore("notes: begin, settled", Some(3), AtLeast(100), &[], |_| {
        let ledger = Ledger::noting(8, 1);
        let (first, last) = (take(&ledger), take(&ledger));
        against(
            || ledger.wait_settled(),
            move || {
                first.end_by(0);
                last.end_by(0);
            },
        );
        assert_eq!(ledger.in_flight(), 0);
    });
}

/// Somebody waits for the slot whose return is noted at the same time.
#[test]
fn a_waiter_gets_a_noted_slot() {
    explore("notes: wait", Some(3), AtLeast(100), &[], |_| {
        let ledger = noting(1, 1);
        let slot = take(&ledger);
        let waiter = || {
            let claim = Claim::new(Priority::Normal, None, 0);
            drop(ledger.wait(claim).expect("not closed"));
        };
        against(waiter, move || slot.end_by(0));
        assert_eq!(ledger.in_flight(), 0);
    });
}

/// The pool is closed while returns are noted: what is left is counted without those.
#[test]
fn closing_counts_no_noted_job() {
    let must_see = ["none left", "some left"];
    explore("notes: close", None, AtLeast(100), &must_see, |seen| {
        let (ledger, resolved) = (noting(2, 1), Resolved::default());
        let (slot, held) = (take(&ledger), take(&ledger));
        let ends = {
            let resolved = resolved.clone();
            move || {
                slot.end_by(0);
                resolved.resolve();
            }
        };
        let close = || {
            let resolved = resolved.count();
            let left = ledger.close().expect("the only call that closes");
            assert!(left == 1 || left == 2 && resolved == 0, "{left} left, {resolved} resolved");
            seen.note(if left == 1 { "none left" } else { "some left" });
        };
        against(close, ends);
        assert_eq!(ledger.in_flight(), 1);
        held.end_by(0);
        ledger.wait_settled();
        assert_eq!(ledger.in_flight(), 0);
    });
}

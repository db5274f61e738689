//! The ledger alone: who gets a slot, and that each comes back once.
#![cfg(loom)]

use loom_tests::{AtLeast, Payload, explore};
use std::sync::Arc;
use weirpool::loom::thread;
use weirpool::protocols::Ledger;

/// One slot, three threads that take it, use it and return it.
#[test]
fn a_slot_has_one_owner_and_its_return_is_seen_by_the_next() {
    explore("ledger: one owner", None, AtLeast(1_000), &["taken once", "taken by all"], |seen| {
        let ledger = Ledger::new(1, 0);
        let payload = Arc::new(Payload::default());
        let take = |ledger: Ledger, payload: Arc<Payload>| {
            let Ok(slot) = ledger.take(false) else { return 0 };
            assert!(ledger.in_flight() <= 1);
            payload.touch();
            drop(slot);
            1
        };
        let others: Vec<_> = (0..2)
            .map(|_| {
                let (ledger, payload) = (ledger.clone(), Arc::clone(&payload));
                thread::spawn(move || take(ledger, payload))
            })
            .collect();
        let mine = take(ledger.clone(), Arc::clone(&payload));
        let taken = mine + others.into_iter().map(|other| other.join().unwrap()).sum::<usize>();
        assert!(taken >= 1, "a false refusal: nobody held the slot");
        match taken {
            1 => seen.note("taken once"),
            3 => seen.note("taken by all"),
            _ => {}
        }
        assert_eq!(ledger.in_flight(), 0);
    });
}

/// Two slots, one kept for critical work.
#[test]
fn the_reserve_is_never_given_to_others() {
    explore("ledger: reserve", None, AtLeast(10), &["critical got in last"], |seen| {
        let ledger = Ledger::new(2, 1);
        let normal = {
            let ledger = ledger.clone();
            thread::spawn(move || ledger.take(false).ok())
        };
        let critical = {
            let ledger = ledger.clone();
            thread::spawn(move || ledger.take(true).ok())
        };
        let (normal, critical) = (normal.join().unwrap(), critical.join().unwrap());
        assert!(critical.is_some(), "the reserve was taken by other work");
        if normal.is_some() {
            seen.note("critical got in last");
            assert_eq!(ledger.in_flight(), 2);
        }
        assert!(ledger.take(false).is_err());
        drop((normal, critical));
        assert_eq!(ledger.in_flight(), 0);
    });
}

/// Closing against a submit, a permit's use and a permit's drop.
#[test]
fn closing_counts_every_job_and_voids_every_permit() {
    let must_see = ["slot before close", "slot after close", "redeemed", "voided"];
    explore("ledger: close", None, AtLeast(1_000), &must_see, |seen| {
        let ledger = Ledger::new(3, 0);
        assert!(ledger.reserve());
        assert!(ledger.reserve());
        let submitter = {
            let ledger = ledger.clone();
            thread::spawn(move || ledger.take(false).ok())
        };
        let owner = {
            let ledger = ledger.clone();
            thread::spawn(move || {
                ledger.cancel_permit();
                ledger.redeem()
            })
        };
        let left = ledger.close().expect("the only call that closes");
        let (submitted, redeemed) = (submitter.join().unwrap(), owner.join().unwrap());
        seen.note(if submitted.is_some() { "slot before close" } else { "slot after close" });
        seen.note(if redeemed.is_some() { "redeemed" } else { "voided" });
        let jobs = usize::from(submitted.is_some()) + usize::from(redeemed.is_some());
        assert_eq!(left, jobs, "the jobs left at the closing");
        assert_eq!(ledger.in_flight(), jobs, "no permit holds a slot of a closed pool");
        assert!(ledger.take(false).is_err_and(|closed| closed));
        drop((submitted, redeemed));
        assert_eq!(ledger.in_flight(), 0);
    });
}

/// Somebody waits for the end of the last job while two end.
#[test]
fn the_last_jobs_end_wakes_who_waits_for_it() {
    explore("ledger: settled", Some(3), AtLeast(1_000), &[], |_| {
        let ledger = Ledger::new(2, 0);
        let enders: Vec<_> = (0..2)
            .map(|_| {
                let slot = ledger.take(false).ok().expect("room");
                thread::spawn(move || drop(slot))
            })
            .collect();
        // A ring that is missed leaves this thread blocked for ever, which loom reports.
        ledger.wait_settled();
        assert_eq!(ledger.in_flight(), 0);
        for ender in enders {
            ender.join().unwrap();
        }
    });
}

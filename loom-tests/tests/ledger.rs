//! The ledger alone: who gets a slot, and that each comes back once.
#![cfg(loom)]

use loom_tests::{AtLeast, Ghost, Payload, against, explore};
use std::sync::Arc;
use weirpool::loom::thread;
use weirpool::protocols::{Claim, Ledger, Slot};
use weirpool::{Partition, Priority};

/// One slot, three threads that take it, use it and return it.
#[test]
fn a_slot_has_one_owner_and_its_return_is_seen_by_the_next() {
    explore("ledger: one owner", None, AtLeast(1_000), &["taken once", "taken by all"], |seen| {
        let ledger = Ledger::new(1, 0);
        let payload = Arc::new(Payload::default());
        let take = |ledger: Ledger, payload: Arc<Payload>| {
            let Ok(slot) = ledger.take(false) else { return 0 };
            payload.touch();
            // Only now, since it would make visible by itself what the taking must.
            assert!(ledger.in_flight() <= 1);
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

/// Slots for all, but bytes for one, or room for one in the partition: whoever gets in has it alone,
/// and sees what its last owner did, which the word of the slots alone would not bring about.
#[test]
fn bytes_and_partitions_have_one_owner() {
    for (name, claim) in [
        ("ledger: bytes", Claim::new(Priority::Normal, None, 10)),
        ("ledger: partition", Claim::new(Priority::Normal, Some(0), 0)),
    ] {
        explore(name, Some(3), AtLeast(100), &["one got in", "both got in"], move |seen| {
            let ledger = Ledger::divided(2, 0, &[Partition::new().max(1)], Some(10));
            let payload = Arc::new(Payload::default());
            let take = move |ledger: Ledger, payload: Arc<Payload>| {
                let slot = ledger.take_as(claim).ok();
                if slot.is_some() {
                    payload.touch();
                }
                usize::from(slot.is_some())
            };
            let (theirs, payloads) = (ledger.clone(), Arc::clone(&payload));
            let (mine, theirs) =
                against(|| take(ledger.clone(), payload), move || take(theirs, payloads));
            seen.note(if mine + theirs == 2 { "both got in" } else { "one got in" });
            assert!(mine + theirs >= 1, "a false refusal: nobody held any");
            assert_eq!((ledger.in_flight(), ledger.bytes()), (0, 0));
        });
    }
}

/// Two slots, one kept for critical work: two others get one of them at most.
#[test]
fn the_reserve_is_never_given_to_others() {
    let must_see = ["others got one", "others came too late"];
    explore("ledger: reserve", None, AtLeast(100), &must_see, |seen| {
        let ledger = Ledger::new(2, 1);
        let others = {
            let ledger = ledger.clone();
            move || [(); 2].map(|()| ledger.take(false).ok())
        };
        let critical = || [(); 2].map(|()| ledger.take(true).ok());
        let (critical, others) = against(critical, others);
        let count = |slots: &[Option<Slot>]| slots.iter().flatten().count();
        assert!(count(&critical) >= 1, "the reserve was taken by other work");
        assert_eq!(count(&critical) + count(&others), 2, "a false refusal");
        seen.note(if count(&others) == 1 { "others got one" } else { "others came too late" });
        drop((critical, others));
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

/// Somebody waits for the end of the last job while it ends, and another one comes and ends.
#[test]
fn the_last_jobs_end_wakes_who_waits_for_it() {
    explore("ledger: settled", None, AtLeast(100), &[], |_| {
        let ledger = Ledger::new(1, 0);
        let slot = ledger.take(false).expect("room");
        let theirs = ledger.clone();
        against(
            // A ring that is missed leaves this thread blocked for ever, which loom reports.
            || ledger.wait_settled(),
            move || {
                drop(slot);
                drop(theirs.take(false).expect("room"));
            },
        );
        assert_eq!(ledger.in_flight(), 0);
    });
}

/// Two jobs end at once: one of them is the last.
#[test]
fn one_of_two_ends_is_the_last() {
    explore("ledger: two ends", Some(3), AtLeast(1_000), &[], |_| {
        let ledger = Ledger::new(2, 0);
        let enders = [(); 2].map(|()| {
            let slot = ledger.take(false).expect("room");
            thread::spawn(move || drop(slot))
        });
        ledger.wait_settled();
        assert_eq!(ledger.in_flight(), 0);
        for ender in enders {
            ender.join().unwrap();
        }
    });
}

/// Three want a slot of a pool whose adaptive limit rises from one to two meanwhile; there would be room
/// for all.
#[test]
fn the_adaptive_limit_is_never_passed() {
    let must_see = ["refused", "all let in"];
    explore("ledger: limit", Some(3), AtLeast(1_000), &must_see, |seen| {
        let ledger = Ledger::new(4, 0);
        ledger.set_limit(1);
        let inside = Arc::new(Ghost::default());
        let take = |ledger: &Ledger, inside: &Ghost| {
            let Ok(slot) = ledger.take(false) else { return 0 };
            assert!(inside.add() < 2, "above the limit");
            inside.sub();
            drop(slot);
            1
        };
        let others: Vec<_> = (0..2)
            .map(|_| {
                let (ledger, inside) = (ledger.clone(), Arc::clone(&inside));
                thread::spawn(move || take(&ledger, &inside))
            })
            .collect();
        ledger.set_limit(2);
        let mine = take(&ledger, &inside);
        let taken = mine + others.into_iter().map(|other| other.join().unwrap()).sum::<usize>();
        seen.note(if taken == 3 { "all let in" } else { "refused" });
        assert!(taken >= 1, "a false refusal: nobody was in flight");
        assert_eq!(ledger.in_flight(), 0);
    });
}

/// A job of a partition, chosen to give way while that stands above its share, passes its slot on while
/// the partition's other one ends. Meanwhile somebody takes whatever can be had.
#[test]
fn a_slot_passed_on_is_committed_at_every_instant() {
    let must_see = ["passed on", "returned"];
    explore("ledger: displacement", Some(3), AtLeast(1_000), &must_see, |seen| {
        let of_tenant = Claim::new(Priority::Normal, Some(0), 0);
        let outside = Claim::new(Priority::Critical, None, 0);
        let ledger = Ledger::divided(2, 0, &[Partition::new().reserved(1)], None);
        let victim = ledger.take_as(of_tenant).expect("room");
        let other = ledger.take_as(of_tenant).expect("room");
        let ender = thread::spawn(move || drop(other));
        let taker = {
            let ledger = ledger.clone();
            thread::spawn(move || {
                let taken = [of_tenant, outside].map(|claim| ledger.take_as(claim).ok());
                assert!(ledger.in_flight() <= 2, "above the capacity");
                drop(taken);
            })
        };
        let passed_on = victim.pass_on(outside);
        seen.note(if passed_on.is_some() { "passed on" } else { "returned" });
        ender.join().unwrap();
        taker.join().unwrap();
        drop(passed_on);
        assert_eq!(ledger.in_flight(), 0);
        // All is back: the share, and the common part.
        let all = [of_tenant, outside].map(|claim| ledger.take_as(claim).is_ok());
        assert_eq!(all, [true, true], "the common part is off");
    });
}

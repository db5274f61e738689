//! Jobs that submit jobs, and what a sleeping worker must be woken for.
#![cfg(loom)]

use loom_tests::{AtLeast, Signal, explore, finish, pool, resting_pool};
use std::sync::Arc;

/// The worker that runs the calling body.
fn worker() -> usize {
    weirpool::context().expect("inside a body").worker_index()
}

/// The only worker joins its two children in place: the older first, whose entry can't be taken
/// out of the deque, then the newer.
#[test]
fn one_worker_joins_in_place() {
    explore("nested: one worker", Some(2), AtLeast(100), &[], |_| {
        let pool = pool(1, 3);
        let own = pool.clone();
        let parent = pool.try_submit(move || {
            let [older, newer] = [1, 2].map(|n| own.try_submit(move || n).unwrap());
            older.join().unwrap() + newer.join().unwrap()
        });
        assert_eq!(parent.unwrap().join().unwrap(), 3);
        finish(pool, 3);
    });
}

/// A parent joins its child, which a second worker may steal.
#[test]
fn a_child_is_joined_in_place_or_stolen() {
    let must_see = ["in place", "stolen"];
    explore("nested: join, steal", Some(3), AtLeast(100), &must_see, |seen| {
        let pool = resting_pool(2, 2);
        let done = Arc::new(Signal::default());
        let (own, seen, dones) = (pool.clone(), seen.clone(), Arc::clone(&done));
        let parent = move || {
            let parents_worker = worker();
            let child = own.try_submit(worker).unwrap();
            let in_place = child.join().unwrap() == parents_worker;
            seen.note(if in_place { "in place" } else { "stolen" });
            dones.give();
        };
        assert!(pool.try_spawn(parent).is_ok());
        done.wait();
        finish(pool, 2);
    });
}

/// A parent waits for its child, but not by a join: a second worker must have been woken for it.
#[test]
fn a_peer_is_woken_for_a_child() {
    explore("nested: woken peer", Some(3), AtLeast(100), &[], |_| {
        let pool = resting_pool(2, 2);
        let done = Arc::new(Signal::default());
        let (own, dones) = (pool.clone(), Arc::clone(&done));
        let parent = move || {
            let ran = Arc::new(Signal::default());
            let rans = Arc::clone(&ran);
            assert!(own.try_spawn(move || rans.give()).is_ok());
            ran.wait();
            dones.give();
        };
        assert!(pool.try_spawn(parent).is_ok());
        done.wait();
        finish(pool, 2);
    });
}

/// Two jobs, the first of which waits for the second, but not by a join: a second worker must be
/// there for it, although whoever takes the first may have been the only one that searched.
#[test]
fn a_peer_is_woken_for_the_second_of_two() {
    explore("nested: two jobs", Some(3), AtLeast(100), &[], |_| {
        let pool = resting_pool(2, 2);
        let [ran, done] = [(), ()].map(|()| Arc::new(Signal::default()));
        let (rans, dones) = (Arc::clone(&ran), Arc::clone(&done));
        let first = move || {
            ran.wait();
            dones.give();
        };
        assert!(pool.try_spawn(first).is_ok());
        assert!(pool.try_spawn(move || rans.give()).is_ok());
        done.wait();
        finish(pool, 2);
    });
}

/// Two children, the older of which waits for the newer, but not by a join, while their parent
/// joins the older: with it stolen and the parent blocked, a third worker must be there.
#[test]
fn a_peer_is_woken_before_a_join_blocks() {
    let must_see = ["in place", "stolen"];
    explore("nested: blocking join", Some(1), AtLeast(100), &must_see, |seen| {
        let pool = resting_pool(3, 3);
        let done = Arc::new(Signal::default());
        let (own, seen, dones) = (pool.clone(), seen.clone(), Arc::clone(&done));
        let parent = move || {
            let parents_worker = worker();
            let ran = Arc::new(Signal::default());
            let rans = Arc::clone(&ran);
            let older = own.try_submit(move || {
                ran.wait();
                worker()
            });
            assert!(own.try_spawn(move || rans.give()).is_ok());
            let in_place = older.unwrap().join().unwrap() == parents_worker;
            seen.note(if in_place { "in place" } else { "stolen" });
            dones.give();
        };
        assert!(pool.try_spawn(parent).is_ok());
        done.wait();
        finish(pool, 3);
    });
}

/// A parent joins the older of two children and then waits for the newer, but not by a join.
/// Taking the older out of the deque must not hide the newer from a worker that goes to sleep.
#[test]
fn a_join_in_place_strands_no_sibling() {
    explore("nested: sibling", Some(2), AtLeast(100), &[], |_| {
        let pool = resting_pool(2, 3);
        let done = Arc::new(Signal::default());
        let (own, dones) = (pool.clone(), Arc::clone(&done));
        let parent = move || {
            let ran = Arc::new(Signal::default());
            let rans = Arc::clone(&ran);
            let older = own.try_submit(|| ()).unwrap();
            assert!(own.try_spawn(move || rans.give()).is_ok());
            older.join().unwrap();
            ran.wait();
            dones.give();
        };
        assert!(pool.try_spawn(parent).is_ok());
        done.wait();
        finish(pool, 3);
    });
}

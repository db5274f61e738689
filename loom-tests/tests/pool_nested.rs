//! Jobs that submit jobs, and what a sleeping worker must be woken for.
#![cfg(loom)]

use loom_tests::{AtLeast, Ghost, Signal, explore, finish, pool, resting_pool};
use std::sync::Arc;
use weirpool::loom::thread;

/// The worker that runs the calling body.
fn worker() -> usize {
    weirpool::context().expect("inside a body").worker_index()
}

/// Runs a parent in a pool whose workers rest, until it says that it is done, and then ends the pool.
fn family(
    workers: usize,
    capacity: usize,
    accepted: u64,
    parent: impl FnOnce(weirpool::Pool, Arc<Signal>) + Send + 'static,
) {
    let pool = resting_pool(workers, capacity);
    let done = Arc::new(Signal::default());
    let (own, dones) = (pool.clone(), Arc::clone(&done));
    assert!(pool.try_spawn(move || parent(own, dones)).is_ok());
    done.wait();
    finish(pool, accepted);
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
        family(2, 2, 2, move |own, dones| {
            let ran = Arc::new(Signal::default());
            let rans = Arc::clone(&ran);
            assert!(own.try_spawn(move || rans.give()).is_ok());
            ran.wait();
            dones.give();
        });
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
        family(2, 3, 3, move |own, dones| {
            let ran = Arc::new(Signal::default());
            let rans = Arc::clone(&ran);
            let older = own.try_submit(|| ()).unwrap();
            assert!(own.try_spawn(move || rans.give()).is_ok());
            older.join().unwrap();
            ran.wait();
            dones.give();
        });
    });
}

/// A parent joins a child that the other worker runs, while that child pushes a grandchild and joins it.
#[test]
fn a_grandchild_is_run_by_whoever_waits_for_it() {
    let must_see = ["by its parent", "by its grandparent"];
    explore("nested: help", Some(1), AtLeast(500), &must_see, |seen| {
        let pool = resting_pool(2, 3);
        let done = Arc::new(Signal::default());
        let (own, seen, dones) = (pool.clone(), seen.clone(), Arc::clone(&done));
        let parent = move || {
            let started = Arc::new(Signal::default());
            let (inner, starteds) = (own.clone(), Arc::clone(&started));
            let child = own.try_submit(move || {
                starteds.give();
                let grandchild = inner.try_submit(worker).unwrap();
                (worker(), grandchild.join().unwrap())
            });
            started.wait();
            let (childs, grandchilds) = child.unwrap().join().unwrap();
            assert_ne!(childs, worker(), "this body has waited for it");
            let by_parent = grandchilds == childs;
            seen.note(if by_parent { "by its parent" } else { "by its grandparent" });
            dones.give();
        };
        assert!(pool.try_spawn(parent).is_ok());
        done.wait();
        finish(pool, 3);
    });
}

/// A parent joins a child that the other worker runs, and that waits for a grandchild by other means than
/// a join: nobody is there for it but the parent's worker.
#[test]
fn a_join_runs_what_its_job_waits_for() {
    explore("nested: help needed", Some(1), AtLeast(100), &[], |_| {
        family(2, 3, 3, move |own, dones| {
            let [pushed, ran] = [(), ()].map(|()| Arc::new(Signal::default()));
            let (inner, pusheds) = (own.clone(), Arc::clone(&pushed));
            let child = own.try_submit(move || {
                let rans = Arc::clone(&ran);
                let grandchild = inner.try_submit(move || {
                    rans.give();
                    worker()
                });
                pusheds.give();
                ran.wait();
                grandchild.unwrap().join().unwrap()
            });
            pushed.wait();
            assert_eq!(child.unwrap().join().unwrap(), worker());
            dones.give();
        });
    });
}

/// The same with a grandchild that nobody waits for, and that the parent's worker must not run on top of
/// the parent: that is what it waits for.
#[test]
fn a_join_runs_no_detached_job() {
    explore("nested: no help for the detached", Some(2), AtLeast(500), &[], |_| {
        family(2, 3, 3, move |own, dones| {
            let [pushed, returned] = [(), ()].map(|()| Arc::new(Signal::default()));
            let (inner, pusheds, returneds) =
                (own.clone(), Arc::clone(&pushed), Arc::clone(&returned));
            let child = own.try_submit(move || {
                let grandchild = move || {
                    returneds.wait();
                    dones.give();
                };
                assert!(inner.try_spawn(grandchild).is_ok());
                pusheds.give();
            });
            pushed.wait();
            child.unwrap().join().unwrap();
            returned.give();
        });
    });
}

/// A detached grandchild that the child waits for by other means than a join. The parent's worker may take it
/// out of the child's deque, but mustn't run it: a third worker must be there for it.
#[test]
fn a_peer_is_woken_for_an_adopted_job() {
    explore("nested: adoption", Some(1), AtLeast(500), &[], |_| {
        family(3, 3, 3, move |own, dones| {
            let [pushed, ran] = [(), ()].map(|()| Arc::new(Signal::default()));
            let (inner, pusheds) = (own.clone(), Arc::clone(&pushed));
            let child = own.try_submit(move || {
                let rans = Arc::clone(&ran);
                assert!(inner.try_spawn(move || rans.give()).is_ok());
                pusheds.give();
                ran.wait();
            });
            pushed.wait();
            child.unwrap().join().unwrap();
            dones.give();
        });
    });
}

/// A parent joins a child, which pushes a grandchild and ends; the grandchild, which the other worker may run
/// next, pushes one more. Nobody below the parent waits for that, so it must not run on top of it.
#[test]
fn a_join_runs_nothing_that_comes_after_its_job() {
    let must_see = ["grandchild beside", "grandchild on top"];
    explore("nested: help too late", Some(2), AtLeast(500), &must_see, |seen| {
        let pool = resting_pool(2, 4);
        let done = Arc::new(Signal::default());
        let (own, seen, dones) = (pool.clone(), seen.clone(), Arc::clone(&done));
        // Which workers wait in the parent's join.
        let joining: Arc<[Ghost; 2]> = Arc::default();
        let parent = move || {
            let pushed = Arc::new(Signal::default());
            let (inner, pusheds, joinings) =
                (own.clone(), Arc::clone(&pushed), Arc::clone(&joining));
            let child = own.try_submit(move || {
                let innermost = inner.clone();
                let grandchild = move || {
                    let is_on_top = joinings[worker()].get() == 1;
                    seen.note(if is_on_top { "grandchild on top" } else { "grandchild beside" });
                    let ran = Arc::new(Signal::default());
                    let rans = Arc::clone(&ran);
                    let last = innermost.try_submit(move || {
                        assert_eq!(joinings[worker()].get(), 0, "on top of a stranger");
                        rans.give();
                    });
                    ran.wait();
                    last.unwrap().join().unwrap();
                    dones.give();
                };
                let grandchild = inner.try_submit(grandchild).unwrap();
                pusheds.give();
                thread::yield_now();
                grandchild
            });
            pushed.wait();
            joining[worker()].add();
            let grandchild = child.unwrap().join().unwrap();
            joining[worker()].sub();
            drop(grandchild);
        };
        assert!(pool.try_spawn(parent).is_ok());
        done.wait();
        finish(pool, 4);
    });
}

//! A process that forks with a pool in it: the child is told so at once, the parent sees nothing.
#![cfg(unix)]

mod common;

use std::cell::Cell;
use std::time::Duration;

use common::forking::{in_a_child, step};
use common::{Elsewhere, Gate, Rendezvous, elsewhere, hold, quiet_panic, resolve};
use weirpool::{JobError, JobHandle, Pool, Reason, Shutdown};

fn is_discarded<T>(outcome: Result<T, JobError>) -> bool {
    matches!(outcome, Err(JobError::Discarded))
}

#[test]
fn a_pool_used_after_fork_says_so_at_once() {
    for priority in [weirpool::Priority::Normal, weirpool::Priority::Critical] {
        let pool = Pool::new(3, 8).unwrap();
        hold(&pool, 3).free();
        let permits = [pool.try_reserve().unwrap(), pool.try_reserve().unwrap()];
        let permits = Cell::new(Some(permits));
        let spec = pool.job().priority(priority);
        in_a_child(vec![
            step("submit", || {
                let refused = spec.try_submit(|| 5).map(drop).unwrap_err();
                refused.reason() == Reason::Forked && refused.run_here() == 5
            }),
            step("spawn", || spec.try_spawn(|| ()).unwrap_err().reason() == Reason::Forked),
            step("reserve", || {
                spec.try_reserve().map(drop).unwrap_err().reason() == Reason::Forked
            }),
            step("use a permit made before", || {
                let [used, dropped] = permits.take().unwrap();
                drop(dropped);
                let refused = used.submit(|| 6).map(drop).unwrap_err();
                refused.reason() == Reason::Forked && refused.run_here() == 6
            }),
        ]);
        drop(permits);
        assert_eq!(pool.in_flight(), 0);
        hold(&pool, 3).free();
    }
}

#[test]
fn joins_in_the_child_give_discarded() {
    let pool = Pool::new(1, 8).unwrap();
    let held = hold(&pool, 1);
    let jobs: [JobHandle<u32>; 3] = [1, 2, 3].map(|i| pool.try_submit(move || i).unwrap());
    let (jobs, running) = (Cell::new(Some(jobs)), Cell::new(Some(held)));
    in_a_child(vec![
        step("join a queued job", || {
            let [joined, timed, dropped] = jobs.take().unwrap();
            drop(dropped);
            let in_time = timed.join_timeout(Duration::from_secs(3600)).expect("at once");
            is_discarded(joined.join()) && is_discarded(in_time)
        }),
        step("join a running job", || {
            let mut held = running.take().unwrap();
            let all = std::mem::take(&mut held.jobs).into_iter();
            // Not dropped in here: the gate's lock may be held for ever by a thread of the parent.
            running.set(Some(held));
            all.map(JobHandle::join).all(is_discarded)
        }),
    ]);
    running.take().unwrap().free();
    for (i, job) in (1..).zip(jobs.take().unwrap()) {
        assert_eq!(resolve(job).unwrap(), i, "in the parent");
    }
}

#[test]
fn shutdown_and_drop_in_the_child_return_at_once() {
    for how in [Shutdown::Drain, Shutdown::Discard] {
        let pool = Pool::new(3, 16).unwrap();
        let held = hold(&pool, 3);
        let queued = pool.try_submit(|| 8).unwrap();
        let owned = Cell::new(Some((pool.clone(), queued)));
        in_a_child(vec![
            step("shutdown", || {
                pool.shutdown(how, None);
                true
            }),
            step("shutdown with a bound", || {
                pool.shutdown(how, Some(Duration::from_secs(3600)));
                true
            }),
            step("close", || {
                pool.close();
                true
            }),
            step("look", || {
                let _ = (pool.in_flight(), pool.capacity(), pool.workers(), pool.is_closed());
                true
            }),
            step("drop", || {
                drop(owned.take());
                true
            }),
        ]);
        assert!(!pool.is_closed(), "the parent's is open");
        held.free();
        let (own, queued) = owned.take().unwrap();
        assert_eq!(resolve(queued).unwrap(), 8);
        drop(own);
        assert_eq!(resolve(pool.try_submit(|| 9).unwrap()).unwrap(), 9);
    }
}

#[test]
fn dropping_the_last_handle_in_the_child_returns_at_once() {
    let pool = Pool::new(2, 16).unwrap();
    let held = hold(&pool, 2);
    let queued = pool.try_submit(|| 8).unwrap();
    let owned = Cell::new(Some(pool));
    in_a_child(vec![step("drop", || {
        drop(owned.take());
        true
    })]);
    held.free();
    assert_eq!(resolve(queued).unwrap(), 8);
    drop(owned.take());
}

#[test]
fn a_body_that_forks_is_told_in_the_child_too() {
    let pool = Pool::new(1, 8).unwrap();
    let own = pool.clone();
    let forks = pool.try_submit(move || {
        let job = Cell::new(Some(own.try_submit(|| 3).unwrap()));
        in_a_child(vec![
            step("submit", || own.try_spawn(|| ()).unwrap_err().reason() == Reason::Forked),
            step("join", || is_discarded(job.take().unwrap().join())),
            step("shutdown", || {
                own.shutdown(Shutdown::Drain, None);
                true
            }),
        ]);
        job.take().unwrap().join().unwrap()
    });
    assert_eq!(resolve(forks.unwrap()).unwrap(), 3, "the parent's joins it in place");
}

#[test]
fn a_fork_under_load_finds_no_lock_held() {
    let pool = Pool::new(2, 32).unwrap();
    let (stop, busy) = (Gate::new(), Rendezvous::new(4));
    let submitters: Vec<_> = (0..3)
        .map(|i| {
            let (pool, stop, busy) = (pool.clone(), stop.clone(), busy.clone());
            elsewhere(move || {
                busy.meet();
                while !stop.is_open() {
                    match pool.try_submit(move || {
                        if i == 0 {
                            quiet_panic()
                        }
                    }) {
                        Ok(job) if i == 1 => {
                            job.cancel();
                        }
                        Ok(job) => drop(job.join()),
                        Err(refused) => assert_eq!(refused.reason(), Reason::Full),
                    }
                }
            })
        })
        .collect();
    busy.meet();
    for _ in 0..common::rounds_in(40, 200) {
        let job = Cell::new(pool.try_submit(|| ()).ok());
        in_a_child(vec![
            step("submit", || pool.try_spawn(|| ()).unwrap_err().reason() == Reason::Forked),
            step("cancel and drop", || {
                job.take().is_none_or(|job| !job.cancel() || job.is_finished())
            }),
            step("shutdown", || {
                pool.shutdown(Shutdown::Drain, None);
                true
            }),
        ]);
    }
    stop.open();
    submitters.into_iter().for_each(Elsewhere::wait);
    elsewhere({
        let pool = pool.clone();
        move || pool.wait_idle()
    })
    .wait();
    assert_eq!(pool.in_flight(), 0);
}

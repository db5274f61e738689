//! Waiting for a shorter queue: who waits is let in one by one and in order, as the queue drains,
//! is cancelled or runs empty; he is not shed afterwards; and what no waiting cures is said at
//! once.

use std::sync::mpsc;
use std::time::Duration;

use weirpool::{JobSpec, Partition, Pool, Priority, QueueDelay, Reason};

use crate::common::lockstep::Lockstep;
use crate::common::{
    Gate, assert_adds_up, assert_all_slots_free, counting_waker, elsewhere, eventually, hold, poll,
    recv, resolve, watchdog,
};
use crate::pools::{
    MS, SECOND, TARGET, fill, graded, is_delayed, one_per_tick, pool_with, taught, taught_with,
};

#[test]
fn who_waits_for_a_shorter_queue_is_let_in_as_it_drains_one_by_one_in_order() {
    let _watchdog = watchdog();
    let mut busy = one_per_tick(graded(), 1);
    assert_eq!(fill_with_bodies(&mut busy), Reason::QueueDelay);
    let (waker, _) = counting_waker();
    let mut waiting: Vec<_> = (0..50).map(|_| busy.pool.submit(busy.body())).collect();
    for submit in &mut waiting {
        assert!(poll(submit, &waker).is_pending(), "the queue is too long for it");
    }
    let bound = busy.pool.queued();
    let mut jobs = Vec::new();
    for tick in 0..60 {
        // Whoever comes now comes after them, also where there is room for one.
        for priority in [Priority::Low, Priority::Normal] {
            let refused = busy.pool.job().priority(priority).try_spawn(|| ());
            if jobs.len() < 50 {
                assert_eq!(refused.unwrap_err().reason(), Reason::QueueDelay);
            }
        }
        if tick == 5 {
            busy.offer(|pool| pool.job().priority(Priority::High)).expect("it may overtake");
        }
        busy.tick();
        while let Some(first) = waiting.first_mut() {
            match poll(first, &waker) {
                std::task::Poll::Ready(answer) => jobs.push(answer.unwrap()),
                std::task::Poll::Pending => break,
            }
            drop(waiting.remove(0));
        }
        assert!(waiting.iter_mut().all(|submit| poll(submit, &waker).is_pending()), "in order");
        busy.settle();
        let queued = busy.pool.queued();
        assert!(queued <= bound + 1, "{queued} wait where {bound} may");
        assert!(jobs.len() <= tick + 1, "one at most for each that ended");
    }
    assert!(jobs.len() >= 50, "all were let in, {} of them", jobs.len());
    busy.finish();
    for job in jobs {
        resolve(job).expect("who has waited for his slot is not shed");
    }
    assert_adds_up(&busy.pool);
}

/// Fills the queue with bodies until one is refused.
fn fill_with_bodies(lockstep: &mut Lockstep) -> Reason {
    loop {
        if let Err(refused) = lockstep.offer(Pool::job) {
            return refused.reason();
        }
    }
}

#[test]
fn who_waits_for_a_shorter_queue_is_let_in_when_the_pool_runs_out_of_work() {
    let _watchdog = watchdog();
    let (pool, _clock) = taught(graded());
    let held = hold(&pool, 1);
    assert_eq!(fill(pool.job()), (20, Reason::QueueDelay));
    let own = pool.clone();
    let blocked = elsewhere(move || own.submit_blocking(|| 3).unwrap().join().unwrap());
    let own = pool.clone();
    let in_time = elsewhere(move || own.submit_timeout(|| 4, 30 * SECOND).unwrap().join().unwrap());
    let (waker, wakes) = counting_waker();
    let mut submit = pool.submit(|| 5);
    assert!(poll(&mut submit, &waker).is_pending());
    held.free();
    eventually("it is woken", || wakes.get() > 0);
    let std::task::Poll::Ready(answer) = poll(&mut submit, &waker) else { panic!("woken in vain") };
    assert_eq!(resolve(answer.unwrap()).unwrap(), 5);
    assert_eq!((blocked.wait(), in_time.wait()), (3, 4));
    pool.wait_idle();
    assert_all_slots_free(&pool);
}

#[test]
fn who_waits_for_a_shorter_queue_is_let_in_when_the_queued_are_cancelled() {
    let (pool, _clock) = taught(graded());
    let held = hold(&pool, 1);
    let queued: Vec<_> = (0..20).map(|_| pool.try_submit(|| ()).unwrap()).collect();
    let (waker, wakes) = counting_waker();
    let mut waiting = [(); 2].map(|()| pool.submit(|| ()));
    assert!(waiting.iter_mut().all(|submit| poll(submit, &waker).is_pending()));
    assert!(queued[7].cancel());
    assert_eq!(wakes.get(), 1, "one has gone");
    let [first, mut second] = waiting;
    // A grant that nobody uses goes to the next.
    drop(first);
    assert_eq!(wakes.get(), 2);
    let std::task::Poll::Ready(Ok(job)) = poll(&mut second, &waker) else { panic!("its turn") };
    held.free();
    resolve(job).unwrap();
    pool.wait_idle();
    assert_all_slots_free(&pool);
}

#[test]
fn a_wait_for_a_shorter_queue_ends_with_that_reason_or_with_the_pool() {
    let (pool, _clock) = taught(graded());
    let held = hold(&pool, 1);
    assert_eq!(fill(pool.job()), (20, Reason::QueueDelay));
    let late = pool.submit_timeout(|| (), Duration::ZERO).unwrap_err();
    assert_eq!(late.reason(), Reason::QueueDelay, "what it has waited on");
    let (waker, wakes) = counting_waker();
    let mut submit = pool.submit(|| ());
    assert!(poll(&mut submit, &waker).is_pending());
    pool.close();
    assert_eq!(wakes.get(), 1);
    let std::task::Poll::Ready(Err(refused)) = poll(&mut submit, &waker) else { panic!("closed") };
    assert_eq!(refused.reason(), Reason::Closed);
    held.free();
}

#[test]
fn what_waiting_does_not_cure_is_refused_at_once_also_behind_a_long_queue() {
    let (other, _) = pool_with(graded(), |builder| builder.partition("a", Partition::new()));
    let (pool, _clock) = taught_with(graded(), |builder| builder.max_bytes(100));
    let held = hold(&pool, 1);
    assert_eq!(fill(pool.job()), (20, Reason::QueueDelay));
    let refused = |job: JobSpec<'_>| job.submit_timeout(|| (), SECOND).unwrap_err().reason();
    assert_eq!(refused(pool.job().bytes(101)), Reason::Bytes);
    assert_eq!(refused(pool.job().partition(other.partition("a").unwrap())), Reason::Partition);
    held.free();
}

#[test]
fn who_has_waited_for_a_slot_is_not_shed_and_who_has_not_is() {
    for law in [QueueDelay::cutoff(TARGET), graded()] {
        let (pool, clock) = taught_with(law, |builder| builder.capacity(3));
        let held = hold(&pool, 1);
        let queued = [0, 1].map(|_| pool.try_submit(|| ()).unwrap());
        let (waker, _) = counting_waker();
        let mut submit = pool.submit(|| 7);
        assert!(poll(&mut submit, &waker).is_pending());
        assert!(queued[0].cancel());
        let std::task::Poll::Ready(Ok(waited)) = poll(&mut submit, &waker) else { panic!("free") };
        assert!(queued[1].cancel());
        // It has not had to wait for its slot.
        let mut at_once = pool.submit(|| ());
        let std::task::Poll::Ready(Ok(at_once)) = poll(&mut at_once, &waker) else {
            panic!("free")
        };
        clock.advance(900 * MS);
        held.free();
        assert_eq!(resolve(waited).unwrap(), 7, "{law:?}");
        assert!(is_delayed(&resolve(at_once)), "{law:?}");
        assert_adds_up(&pool);
    }
}

#[test]
fn on_a_worker_the_blocking_forms_do_not_wait_for_a_shorter_queue() {
    let _watchdog = watchdog();
    let (pool, _clock) = taught(graded());
    let (own, gate) = (pool.clone(), Gate::new());
    let (ready, running) = mpsc::channel();
    let wait = gate.clone();
    let parent = pool.try_submit(move || {
        ready.send(()).unwrap();
        wait.wait();
        own.submit_blocking(|| 1).unwrap().join().unwrap()
    });
    recv(&running);
    assert_eq!(fill(pool.job()), (20, Reason::QueueDelay));
    gate.open();
    assert_eq!(resolve(parent.unwrap()).unwrap(), 1, "it is exempt");
}

//! What must be true of a pool in which nothing is left.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use weirpool::{JobHandle, JobSpec, Permit};

use crate::PATIENCE;
use crate::ghosts::Ghosts;
use crate::ground::{Ground, Holding};

/// All of it; nobody else is at the pool.
pub(crate) fn check(ground: &Ground, workers: usize, all: &Ghosts) {
    ground.pool.wait_idle();
    check_counts(ground, all);
    check_fills_up(ground, all);
    meet(ground, workers.min(ground.bounds.capacity), all);
    ground.pool.wait_idle();
    check_counts(ground, all);
}

/// Compares what the pool says with the ghost counters.
fn check_counts(ground: &Ground, all: &Ghosts) {
    let seen = ground.pool.snapshot();
    let get = |count: &AtomicU64| count.load(SeqCst);
    let equal = |what, is: u64, expected: u64| {
        all.check(is == expected, format_args!("{what}: {is}, expected {expected}"));
    };
    let (accepted, refused, at_rest) = (get(&all.accepted), get(&all.refused), get(&all.at_rest));
    equal("closures dropped", get(&all.dropped), get(&all.made));
    let answered = accepted + refused + get(&all.given_up);
    equal("closures accepted, refused or given up", answered, get(&all.made));
    equal("accepted", seen.accepted, accepted + at_rest);
    equal("rejected", seen.rejected.total(), refused + get(&all.reserves_refused));
    let bodies = get(&all.started) - get(&all.run_here) + at_rest;
    equal("completed or panicked", seen.completed + seen.panicked, bodies);
    equal("cancelled", seen.cancelled, get(&all.cancels_won));
    let ended = seen.completed + seen.panicked + seen.cancelled + seen.discarded;
    equal("ended", ended + seen.shed.total(), seen.accepted);
    equal("in flight", ground.pool.in_flight() as u64, 0);
    equal("reserved, queued or running", (seen.reserved + seen.queued + seen.running) as u64, 0);
    equal("bytes", seen.bytes, 0);
    all.check_books_at_rest();
}

/// Every bound can be reached again, and none can be passed.
fn check_fills_up(ground: &Ground, all: &Ghosts) {
    let bounds = &ground.bounds;
    let fill = |what: &str, spec: JobSpec<'_>, slots: usize| -> Vec<Permit> {
        let permits = spec.try_reserve_many(slots);
        let one_more = permits.as_ref().map(|_| spec.try_reserve().map(drop));
        all.reserves_refused.fetch_add(1, SeqCst);
        let exact = matches!(one_more, Ok(Err(_)));
        all.check(exact, format_args!("{what} can't be filled to exactly {slots}: {one_more:?}"));
        permits.unwrap_or_default()
    };
    let spec = |partition| ground.spec(Holding { partition, bytes: 0 });
    for (which, share) in bounds.shares.iter().enumerate() {
        let slots = share.max.min(share.reserved + bounds.common());
        drop(fill(&format!("partition {which} alone"), spec(Some(which)), slots));
    }
    let mut filled = fill("the common part", spec(None), bounds.common());
    for (which, share) in bounds.shares.iter().enumerate() {
        filled.extend(fill(&format!("share {which}"), spec(Some(which)), share.reserved));
    }
    let (in_flight, capacity) = (ground.pool.in_flight(), bounds.capacity);
    all.check(in_flight == capacity, format_args!("{in_flight} permits of {capacity}"));
    drop(filled);
    if bounds.max_bytes > 0 {
        let heavy = ground.pool.job().bytes(bounds.max_bytes).try_reserve();
        let one_more = ground.pool.job().bytes(1).try_reserve();
        all.reserves_refused.fetch_add(1, SeqCst);
        let exact = heavy.is_ok() && one_more.is_err();
        all.check(exact, format_args!("not all bytes are there: {heavy:?}, {one_more:?}"));
    }
}

/// All workers in a body at the same time, or a violation: none of them was lost.
fn meet(ground: &Ground, workers: usize, all: &Ghosts) {
    let (arrived, everybody) = (Arc::new(Mutex::new(0)), Arc::new(Condvar::new()));
    let bodies = (0..workers).map(|_| {
        let (arrived, everybody) = (Arc::clone(&arrived), Arc::clone(&everybody));
        let body = move || {
            let mut count: MutexGuard<'_, usize> = arrived.lock().expect("nobody panics in here");
            *count += 1;
            everybody.notify_all();
            let missing = |count: &mut usize| *count < workers;
            let waited = everybody.wait_timeout_while(count, PATIENCE, missing);
            waited.expect("nobody panics in here").1.timed_out()
        };
        all.at_rest.fetch_add(1, SeqCst);
        ground.pool.try_submit(body)
    });
    for body in bodies.collect::<Vec<_>>() {
        match body.map(JobHandle::join) {
            Ok(Ok(false)) => {}
            Ok(Ok(true)) => all.violation("a worker was lost: not all of them met"),
            Ok(Err(error)) => all.violation(format_args!("a last job ended as {error}")),
            Err(refused) => all.violation(format_args!("a last job was {refused:?}")),
        }
    }
}

//! Handlers on the pool, for clients that may hang up.

use std::sync::mpsc;
use std::task::Waker;

use tower_service::Service;
use weirpool::service::{Offload, Offloaded, RequestClass, ServiceError, offload};
use weirpool::{JobError, Pool, Priority, Reason, Shutdown};

use crate::common::{
    Count, Drops, Gate, assert_adds_up, assert_all_slots_free, block_on, eventually, occupy, poll,
    quiet_panic, recv,
};
use crate::fakes::{call, is_ready};

#[test]
fn a_client_that_hangs_up_cancels_its_queued_job() {
    let pool = Pool::new(1, 3).unwrap();
    let busy = occupy(&pool);
    let ran = Count::new();
    let captures = Drops::new();
    let mut service = Offload::new(pool.clone(), {
        let ran = ran.clone();
        move |_: crate::common::Tracked| ran.add()
    });
    // Before its first poll, and after one.
    let unpolled = call(&mut service, captures.tracked());
    let mut polled = call(&mut service, captures.tracked());
    assert!(poll(&mut polled, Waker::noop()).is_pending());
    assert_eq!(pool.in_flight(), 3);
    drop((unpolled, polled));
    assert_eq!((pool.in_flight(), captures.count()), (1, 2));
    assert_eq!(pool.snapshot().cancelled, 2);
    busy.free();
    assert_eq!(ran.get(), 0);
    assert_all_slots_free(&pool);
}

#[test]
fn a_running_job_is_asked_to_stop_and_keeps_its_slot() {
    let pool = Pool::new(1, 1).unwrap();
    let (started, starts) = mpsc::channel();
    let saw = Gate::new();
    let future = offload(pool.job(), {
        let saw = saw.clone();
        move || {
            started.send(()).unwrap();
            eventually("the body is asked to stop", weirpool::is_cancelled);
            saw.wait();
        }
    });
    recv(&starts);
    drop(future);
    assert_eq!(pool.try_reserve().unwrap_err().reason(), Reason::Full);
    saw.open();
    eventually("the body ends", || pool.in_flight() == 0);
    assert_all_slots_free(&pool);
}

#[test]
fn what_was_not_served_is_one_kind_of_error() {
    let pool = Pool::new(1, 2).unwrap();
    let mut service = Offload::new(pool.clone(), |fail: bool| {
        if fail {
            quiet_panic();
        }
        7
    });
    assert!(matches!(block_on(service.call(false)), Ok(7)));
    match block_on(service.call(true)) {
        Err(ServiceError::Unfinished(JobError::Panicked(_))) => {}
        other => panic!("{other:?}"),
    }
    let busy = occupy(&pool);
    let queued = service.call(false);
    match block_on(service.call(false)) {
        Err(ServiceError::Refused(refusal)) => assert_eq!(refusal.reason(), Reason::Full),
        other => panic!("{other:?}"),
    }
    // It is ready all the same: it reserves nothing, and makes nobody wait.
    assert!(is_ready::<bool, _>(&mut service));
    busy.open();
    pool.shutdown(Shutdown::Discard, None);
    match block_on(queued) {
        Ok(7) | Err(ServiceError::Unfinished(JobError::Discarded)) => {}
        other => panic!("{other:?}"),
    }
    assert_adds_up(&pool);
}

#[test]
fn a_responder_leaves_no_errors() {
    let pool = Pool::new(1, 1).unwrap();
    let mut service = Offload::new(pool.clone(), |n: u32| n + 1)
        .respond(|error: ServiceError| error.refusal().map_or(500, |_| 503));
    let Ok(answer) = block_on(service.call(1));
    assert_eq!(answer, 2);
    let permit = pool.try_reserve().unwrap();
    let Ok(answer) = block_on(service.clone().call(1));
    assert_eq!(answer, 503);
    drop(permit);
}

#[test]
fn jobs_are_submitted_as_their_requests_are_classified() {
    let pool = Pool::builder().workers(1).capacity(2).critical_reserve(1).batch().build().unwrap();
    let mut service = Offload::new(pool.clone(), |_: Priority| {
        weirpool::context().expect("on the pool").priority()
    })
    .classify(|priority: &Priority| RequestClass::new().priority(*priority));
    let permit = pool.try_reserve().unwrap();
    assert!(block_on(service.call(Priority::High)).is_err());
    assert_eq!(block_on(service.call(Priority::Critical)).unwrap(), Priority::Critical);
    drop(permit);
}

#[test]
fn a_slot_reserved_before_the_body_was_read_is_the_jobs() {
    let pool = Pool::new(1, 1).unwrap();
    let permit = pool.try_reserve().unwrap();
    assert_eq!(block_on(Offloaded::from(permit.submit(|| 5))).unwrap(), 5);
    let waited = block_on(async { Offloaded::from(pool.submit(|| 6).await).await });
    assert_eq!(waited.unwrap(), 6);
    let void = pool.try_reserve().unwrap();
    pool.close();
    let error = block_on(Offloaded::from(void.submit(|| 7))).unwrap_err();
    assert_eq!(error.refusal().map(|refusal| refusal.reason()), Some(Reason::Closed));
}

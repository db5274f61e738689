//! Whose slot it is, from when until when.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use tower_layer::Layer;
use tower_service::Service;
use weirpool::service::{AdmissionLayer, BoxError, RequestClass, RequestSlot, ServiceError};
use weirpool::{Partition, Pool, Priority, Reason, Refusal};

use crate::common::{
    Peak, assert_all_slots_free, block_on, counting_waker, occupy, poll, quiet_panic, rounds,
};
use crate::fakes::{Call, FromFn, Own, Probe, call, is_ready, slots};

fn reason(error: &BoxError) -> Option<Reason> {
    Some(ServiceError::find(&**error)?.refusal()?.reason())
}

/// The answer of a call that needn't wait.
fn now<T>(mut future: std::pin::Pin<Box<impl Future<Output = T>>>) -> T {
    match poll(&mut future, Waker::noop()) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("it has no answer yet"),
    }
}

#[test]
fn readiness_is_no_reservation_and_no_unready_call_gets_through() {
    let pool = slots(2);
    let probe = Probe::new();
    let service = AdmissionLayer::new(pool.clone()).layer(probe.clone());

    // 64 clones become ready together; two are let in, and the others are told at once.
    let clones: Vec<_> = (0..64)
        .map(|_| {
            let mut service = service.clone();
            thread::spawn(move || call(&mut service, ()))
        })
        .collect();
    let mut futures: Vec<_> = clones.into_iter().map(|clone| clone.join().unwrap()).collect();
    assert_eq!((probe.shared.highest(), probe.shared.calls.get(), pool.in_flight()), (2, 2, 2));
    let mut refused = 0;
    futures.retain_mut(|future| match poll(future, Waker::noop()) {
        Poll::Ready(answer) => {
            refused += 1;
            assert_eq!(reason(&answer.unwrap_err()), Some(Reason::Full));
            false
        }
        Poll::Pending => true,
    });
    assert_eq!((refused, futures.len()), (62, 2));
    drop(futures);
    assert_all_slots_free(&pool);

    // Ready, and dropped; ready, and kept; ready ten times: none of these holds anything.
    let mut dropped = service.clone();
    assert!(is_ready::<(), _>(&mut dropped));
    drop(dropped);
    let mut kept = service.clone();
    assert!((0..10).all(|_| is_ready::<(), _>(&mut kept)));
    assert_eq!(pool.in_flight(), 0);
    let one = kept.call(());
    assert_eq!(pool.in_flight(), 1);
    drop(one);
    assert_all_slots_free(&pool);
}

#[test]
fn while_full_nobody_is_woken_but_by_the_answer() {
    let pool = slots(1);
    let probe = Probe::new();
    let mut service = AdmissionLayer::new(pool.clone()).layer(probe.clone());
    let mut first = call(&mut service, ());
    let (waker, wakes) = counting_waker();
    assert!(poll(&mut first, &waker).is_pending());
    for _ in 0..100 {
        assert!(now(call(&mut service, ())).is_err());
    }
    assert_eq!(wakes.get(), 0);
    probe.shared.tell(Ok(1));
    assert_eq!(wakes.get(), 1);
    assert_eq!(now(first).unwrap(), 1);
    assert_all_slots_free(&pool);
}

#[test]
fn a_refused_call_leaves_the_inner_service_ready() {
    let pool = slots(1);
    let probe = Probe::new();
    let mut service = AdmissionLayer::new(pool.clone()).layer(probe.clone());
    let permit = pool.try_reserve().unwrap();
    assert!(is_ready::<(), _>(&mut service));
    drop(service.call(()));
    drop(permit);
    // The probe would panic if its readiness had been used up.
    drop(service.call(()));
    assert_eq!(probe.shared.calls.get(), 1);
}

#[test]
fn a_future_dropped_before_its_first_poll_returns_its_slot() {
    let pool = slots(1);
    let probe = Probe::new();
    let layer = AdmissionLayer::new(pool.clone());
    let mut service = layer.layer(probe.clone());
    for _ in 0..rounds(1000) {
        let future = call(&mut service, ());
        assert_eq!(pool.in_flight(), 1);
        drop(future);
        assert_eq!((pool.in_flight(), probe.shared.inside()), (0, 0));
    }
    assert_all_slots_free(&pool);
}

#[test]
fn the_slot_returns_after_the_inner_future_is_gone() {
    struct Watch(Pool);
    impl Drop for Watch {
        fn drop(&mut self) {
            assert_eq!(self.0.in_flight(), 1, "the slot came back too early");
        }
    }
    let pool = slots(1);
    let layer = AdmissionLayer::new(pool.clone());
    let mut service = layer.layer(FromFn(|ends: bool| {
        let watch = Watch(pool.clone());
        async move {
            let _watch = &watch;
            if ends { Ok::<(), Own>(()) } else { std::future::pending().await }
        }
    }));
    now(call(&mut service, true)).unwrap();
    assert_eq!(pool.in_flight(), 0);
    let mut pending = call(&mut service, false);
    assert!(poll(&mut pending, Waker::noop()).is_pending());
    drop(pending);
    assert_all_slots_free(&pool);
}

#[test]
fn a_completed_future_that_is_kept_alive_holds_nothing() {
    let pool = slots(1);
    let probe = Probe::new();
    let mut service = AdmissionLayer::new(pool.clone()).layer(probe.clone());
    for answer in [Ok(7), Err(Own(7))] {
        let mut kept = call(&mut service, ());
        probe.shared.tell(answer);
        assert!(poll(&mut kept, Waker::noop()).is_ready());
        assert_eq!((pool.in_flight(), probe.shared.inside()), (0, 0));
        drop(call(&mut service, ()));
        drop(kept);
        assert_all_slots_free(&pool);
    }
}

#[test]
fn the_limit_is_shared_by_services_clones_and_connections() {
    let pool = slots(5);
    let probe = Probe::new();
    let layer = AdmissionLayer::new(pool.clone());
    let mut inside = Vec::new();
    let mut refused = 0;
    // Two services by one layer and one by its clone, each cloned, each made anew per connection.
    for layer in [&layer, &layer, &layer.clone()] {
        for _connection in 0..10 {
            let service = layer.layer(probe.clone());
            for _ in 0..2 {
                let mut future = call(&mut service.clone(), ());
                match poll(&mut future, Waker::noop()) {
                    Poll::Pending => inside.push(future),
                    Poll::Ready(answer) => {
                        assert_eq!(reason(&answer.unwrap_err()), Some(Reason::Full));
                        refused += 1;
                    }
                }
            }
        }
    }
    assert_eq!((inside.len(), refused, probe.shared.highest()), (5, 55, 5));
    assert_eq!((layer.counts().started, layer.counts().refused), (5, 55));
    // Per service: a pool each.
    let other = AdmissionLayer::new(slots(5));
    assert!(poll(&mut call(&mut other.layer(probe.clone()), ()), Waker::noop()).is_pending());
}

#[test]
fn the_gauge_is_lowered_when_futures_are_dropped() {
    let pool = slots(1000);
    let probe = Probe::new();
    let layer = AdmissionLayer::new(pool.clone());
    let mut service = layer.layer(probe.clone());
    let mut futures: Vec<_> = (0..1000).map(|_| call(&mut service, ())).collect();
    assert_eq!(pool.in_flight(), 1000);
    assert!(now(call(&mut service, ())).is_err());
    // A third dropped, half of these before the first poll; a third answered; a third failed.
    for mut future in futures.drain(..167) {
        assert!(poll(&mut future, Waker::noop()).is_pending());
    }
    drop(futures.drain(..167));
    for (at, future) in futures.into_iter().enumerate() {
        probe.shared.tell(if at % 2 == 0 { Ok(1) } else { Err(Own(1)) });
        assert_eq!(now(future).is_ok(), at % 2 == 0);
    }
    let counts = layer.counts();
    assert_eq!((counts.started, counts.refused), (1000, 1));
    assert_eq!((counts.finished, counts.failed, counts.cancelled), (333, 333, 334));
    assert_all_slots_free(&pool);
}

#[test]
fn a_panic_before_the_call_has_begun_loses_no_slot() {
    let pool = slots(1);
    let panics = |f: &mut dyn FnMut()| {
        assert!(catch_unwind(AssertUnwindSafe(f)).is_err(), "the caller must see the panic");
        assert_all_slots_free(&pool);
    };
    let layer = AdmissionLayer::new(pool.clone());

    let classified = layer.clone().classify(|(): &()| -> RequestClass { quiet_panic() });
    panics(&mut || drop(call(&mut classified.layer(Probe::new()), ())));

    let lent = layer.clone().hand_over(|(): &mut (), _slot| quiet_panic());
    panics(&mut || drop(call(&mut lent.layer(Probe::new()), ())));

    let mut in_call =
        layer.layer(FromFn(|()| -> std::future::Ready<Result<(), Own>> { quiet_panic() }));
    panics(&mut || drop(call(&mut in_call, ())));

    let mut in_poll =
        layer.layer(FromFn(|()| async { if true { quiet_panic() } else { Ok::<(), Own>(()) } }));
    panics(&mut || drop(block_on(in_poll.call(()))));

    let answering = layer.respond(|(): &(), _refusal: Refusal| -> u32 { quiet_panic() });
    let permit = pool.try_reserve().unwrap();
    let refused = catch_unwind(AssertUnwindSafe(|| {
        drop(call(&mut answering.layer(Probe::new()), ()));
    }));
    assert!(refused.is_err());
    drop(permit);
    assert_all_slots_free(&pool);
}

#[test]
fn a_thousand_reset_streams_leave_no_slot_in_use() {
    let pool = slots(100);
    let probe = Probe::new();
    let layer = AdmissionLayer::new(pool.clone());
    let mut service = layer.layer(probe.clone());
    for _ in 0..10 {
        let mut streams: Vec<_> = (0..100).map(|_| call(&mut service, ())).collect();
        for stream in &mut streams[..50] {
            assert!(poll(stream, Waker::noop()).is_pending());
        }
        assert_eq!(pool.in_flight(), 100);
        assert!(now(call(&mut service, ())).is_err());
    }
    assert_eq!((probe.shared.calls.get(), layer.counts().cancelled), (1000, 1000));
    assert_all_slots_free(&pool);
}

#[test]
fn the_inner_services_errors_pass_unchanged() {
    let pool = slots(1);
    let probe = Probe::new();
    let layer = AdmissionLayer::new(pool.clone());
    probe.shared.tell(Err(Own(401)));
    let error = now(call(&mut layer.layer(probe.clone()), ())).unwrap_err();
    assert_eq!(error.downcast_ref::<Own>(), Some(&Own(401)));
    assert!(ServiceError::find(&*error).is_none());

    // With a responder the type is the inner service's own.
    let mut answering = layer.respond(|(): &(), _refusal: Refusal| 503).layer(probe.clone());
    probe.shared.tell(Err(Own(500)));
    assert_eq!(now(call(&mut answering, ())), Err(Own(500)));
    let permit = pool.try_reserve().unwrap();
    assert_eq!(now(call(&mut answering, ())), Ok(503));
    drop(permit);
}

#[test]
fn readiness_and_its_errors_are_the_inner_services() {
    struct NeverReady;
    impl Service<()> for NeverReady {
        type Response = u32;
        type Error = Own;
        type Future = Call;
        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Own>> {
            Poll::Pending
        }
        fn call(&mut self, (): ()) -> Call {
            unreachable!("never ready")
        }
    }
    struct Broken;
    impl Service<()> for Broken {
        type Response = u32;
        type Error = Own;
        type Future = Call;
        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Own>> {
            Poll::Ready(Err(Own(9)))
        }
        fn call(&mut self, (): ()) -> Call {
            unreachable!("never ready")
        }
    }
    let layer = AdmissionLayer::new(slots(1));
    assert!(!is_ready(&mut layer.layer(NeverReady)));
    let mut broken = layer.layer(Broken);
    match broken.poll_ready(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Err(error)) => assert_eq!(error.downcast_ref::<Own>(), Some(&Own(9))),
        other => panic!("{other:?}"),
    }
    assert_eq!(layer.pool().in_flight(), 0);
}

#[test]
fn requests_are_treated_as_they_are_classified() {
    let pool = Pool::builder()
        .workers(1)
        .capacity(4)
        .critical_reserve(1)
        .partition("tenant", Partition::new().max(1))
        .max_bytes(100)
        .batch()
        .build()
        .unwrap();
    let tenant = pool.partition("tenant").unwrap();
    let layer = AdmissionLayer::new(pool.clone()).classify(move |path: &&str| match *path {
        "/health" => RequestClass::new().priority(Priority::Critical),
        "/tenant" => RequestClass::new().partition(tenant),
        "/upload" => RequestClass::new().bytes(101),
        "/late" => RequestClass::new().timeout(Duration::ZERO),
        _ => RequestClass::new().timeout(None),
    });
    let mut service = layer.layer(Probe::new());
    let mut inside = Vec::new();
    let mut go = |path| {
        let mut future = call(&mut service, path);
        match poll(&mut future, Waker::noop()) {
            Poll::Pending => {
                inside.push(future);
                None
            }
            Poll::Ready(answer) => reason(&answer.unwrap_err()),
        }
    };
    assert_eq!(go("/tenant"), None);
    assert_eq!(go("/tenant"), Some(Reason::Partition));
    assert_eq!(go("/upload"), Some(Reason::Bytes));
    assert_eq!(go("/late"), Some(Reason::Deadline));
    assert_eq!((go("/"), go("/")), (None, None));
    assert_eq!(go("/"), Some(Reason::Full));
    assert_eq!(go("/health"), None);
    drop(inside);
    assert_eq!(pool.in_flight(), 0);
    pool.close();
    assert_eq!(reason(&now(call(&mut service, "/")).unwrap_err()), Some(Reason::Closed));
}

#[test]
fn requests_inside_are_not_waited_for_by_a_closing_pool() {
    let pool = slots(2);
    let probe = Probe::new();
    let mut service = AdmissionLayer::new(pool.clone()).layer(probe.clone());
    let inside = call(&mut service, ());
    pool.wait_idle();
    let report = pool.shutdown(weirpool::Shutdown::Drain, None);
    assert_eq!((report.still_running, pool.in_flight()), (0, 0));
    probe.shared.tell(Ok(3));
    assert_eq!(now(inside).unwrap(), 3);
    assert_eq!(pool.in_flight(), 0);
}

#[test]
fn a_handler_may_use_its_requests_slot_for_its_job() {
    let pool = slots(1);
    let layer = AdmissionLayer::new(pool.clone())
        .hand_over(|request: &mut Option<RequestSlot>, slot| *request = Some(slot));

    // Taken: one slot for both, which is the job's from then on.
    let busy = {
        let pool = pool.clone();
        let mut service = layer.layer(FromFn(move |request: Option<RequestSlot>| {
            let pool = pool.clone();
            async move {
                let slot = request.expect("handed over");
                let permit = slot.take().expect("this request's own");
                assert!(slot.take().is_none(), "there is one slot only");
                assert_eq!(pool.in_flight(), 1);
                Ok::<_, Own>(permit.submit(|| 42).unwrap())
            }
        }));
        now(call(&mut service, None)).unwrap()
    };
    assert_eq!(busy.join().unwrap(), 42);
    assert_all_slots_free(&pool);

    // Not taken, but kept: it returns when the request ends.
    let mut keeper = layer.layer(FromFn(|request: Option<RequestSlot>| async move {
        Ok::<_, Own>(request.expect("handed over"))
    }));
    let kept = now(call(&mut keeper, None)).unwrap();
    assert_all_slots_free(&pool);
    assert!(kept.take().is_none());

    // Dropped before the first poll: the same.
    drop(call(&mut keeper, None));
    assert_all_slots_free(&pool);
    let counts = layer.counts();
    assert_eq!((counts.started, counts.finished, counts.cancelled), (3, 2, 1));
}

#[test]
fn on_a_runtime_with_aborted_tasks_the_limit_holds_and_every_slot_comes_back() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    let pool = slots(5);
    let inside = Arc::new(Peak::default());
    let layer = AdmissionLayer::new(pool.clone());
    let service = layer.layer(FromFn({
        let inside = Arc::clone(&inside);
        move |turns: usize| {
            let inside = Arc::clone(&inside);
            async move {
                let _here = inside.enter();
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
                if turns % 7 == 0 { Err(Own(0)) } else { Ok(turns) }
            }
        }
    }));
    let requests = rounds(20_000);
    runtime.block_on(async {
        let tasks: Vec<_> = (0..requests)
            .map(|at| {
                let mut service = service.clone();
                let task = runtime.spawn(async move { service.call(at % 20).await });
                if at % 3 == 0 {
                    task.abort();
                }
                task
            })
            .collect();
        for task in tasks {
            drop(task.await);
        }
    });
    drop(runtime);
    assert!((1..=5).contains(&inside.highest()), "{} inside", inside.highest());
    let counts = layer.counts();
    assert_eq!(counts.started, counts.finished + counts.failed + counts.cancelled);
    assert!(counts.started > 0 && counts.started + counts.refused <= requests as u64);
    assert_all_slots_free(&pool);
}

#[test]
fn layers_and_services_are_shared_freely() {
    fn shared<T: Clone + Send + Sync + std::fmt::Debug + 'static>(_: &T) {}
    let layer = AdmissionLayer::new(slots(1));
    shared(&layer);
    shared(&layer.clone().classify(|(): &()| RequestClass::new()));
    let answering = layer.respond(|(): &(), _refusal: Refusal| 503_u32);
    shared(&answering);
    let service = answering.layer(FromFn(|()| async { Ok::<_, Own>(200_u32) }));
    let mut boxed = Arc::new(service.clone());
    let future = Arc::get_mut(&mut boxed).unwrap().call(());
    fn sent<T: Send + 'static>(_: &T) {}
    sent(&future);
    assert_eq!(block_on(future), Ok(200));
}

#[test]
fn a_pool_whose_workers_are_busy_admits_requests_by_its_slots_alone() {
    let pool = slots(3);
    let busy = occupy(&pool);
    let mut service = AdmissionLayer::new(pool.clone()).layer(Probe::new());
    let (one, two) = (call(&mut service, ()), call(&mut service, ()));
    assert!(now(call(&mut service, ())).is_err());
    drop((one, two));
    busy.free();
    assert_all_slots_free(&pool);
}

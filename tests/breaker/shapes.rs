//! Types, panics, futures, fallbacks, calls within calls.

use std::cell::Cell;
use std::error::Error;
use std::fmt::{Debug, Display};
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use weirpool::Clock;
use weirpool::breaker::{
    Builder, CallAsync, CallError, CallPermit, CircuitBreaker, Counts, Open, Snapshot, State,
    Transition, Verdict,
};

use super::common::clocks::JumpyClock;
use super::common::{Drops, block_on, on_drop, poll, quiet_panic};
use super::script::{Blaming, End, FACES, Face, Fault, begin, blaming, call, check};

const COOL_DOWN: Duration = Duration::from_secs(10);

fn one_trial() -> Builder {
    CircuitBreaker::builder().min_volume(1).probes(1)
}

/// A breaker that has failed once and has cooled down since: the next call is a probe.
fn cooled_down() -> (Blaming, JumpyClock) {
    let clock = JumpyClock::new();
    let breaker = blaming(one_trial().clock(clock.clone()));
    call(&breaker, Face::Plain, End::Fails).unwrap();
    clock.advance(COOL_DOWN);
    (breaker, clock)
}

/// For a call that goes through another breaker: that one's refusals say nothing about this one's dependency.
pub(crate) fn refusals_are_ignored<T, E>(result: &Result<T, CallError<E>>) -> Verdict {
    match result {
        Ok(_) => Verdict::Success,
        Err(CallError::Open(_)) => Verdict::Ignore,
        Err(CallError::Failed(_)) => Verdict::Failure,
    }
}

#[test]
fn what_the_types_promise() {
    fn handle<T: Clone + Send + Sync + UnwindSafe + RefUnwindSafe + Unpin + Debug + 'static>() {}
    handle::<CircuitBreaker>();
    handle::<Blaming>();
    fn error<T: Error + Clone + PartialEq + Send + Sync + UnwindSafe + 'static>() {}
    error::<Open>();
    error::<CallError<std::num::ParseIntError>>();
    fn plain<T: Copy + Debug + PartialEq + Send + Sync + 'static>() {}
    plain::<State>();
    plain::<Counts>();
    plain::<Snapshot>();
    plain::<Transition>();
    plain::<Verdict>();
    plain::<Open>();
    fn permit<T: Send + Sync + UnwindSafe + RefUnwindSafe + Debug + 'static>() {}
    permit::<CallPermit>();
    fn sendable<T: Send + Sync + UnwindSafe + Unpin + 'static>(_: &T) {}
    sendable(&CircuitBreaker::new().call_async(std::future::ready(Ok::<_, ()>(()))));
    fn any_error<E>(error: CallError<E>) -> impl Display {
        error
    }
    assert_eq!(any_error(CallError::Failed(Cell::new(1))).to_string(), "the guarded call failed");

    // A call that borrows, and a future that is not `Send`.
    let breaker = CircuitBreaker::new();
    let (text, local) = ("7".to_owned(), Rc::new(7));
    assert_eq!(breaker.call(|| text.parse::<u8>()), Ok(7));
    let future: CallAsync<_> = breaker.call_async(async { Ok::<_, ()>(*local) });
    assert_eq!(block_on(future), Ok(7));
}

#[test]
fn errors_pass_unchanged_and_can_be_found() {
    let breaker = CircuitBreaker::new();
    let failed: Box<dyn Error + Send + Sync> =
        breaker.call(|| "x".parse::<u8>()).unwrap_err().into();
    let source = failed.source().expect("the call's own error");
    assert!(source.is::<std::num::ParseIntError>());
    breaker.force_open();
    let refused = breaker.call(|| "x".parse::<u8>()).unwrap_err();
    assert_eq!((refused.is_open(), refused.open().unwrap().state()), (true, State::ForcedOpen));
    let refused: Box<dyn Error + Send + Sync> = refused.into();
    assert_eq!(refused.to_string(), "call refused: the circuit breaker is forced open");
    let found = refused.downcast_ref::<CallError<std::num::ParseIntError>>();
    assert!(found.is_some_and(CallError::is_open));
    fn question_mark(breaker: &CircuitBreaker) -> Result<(), CallError<()>> {
        breaker.try_acquire()?.success();
        Ok(())
    }
    assert!(question_mark(&breaker).unwrap_err().is_open());
}

#[test]
fn clones_and_other_classifiers_share_the_state() {
    let breaker = one_trial().build().unwrap();
    let judged = breaker.with_classifier(|_: &Result<(), ()>| Verdict::Failure);
    assert_eq!(judged.clone().call(|| Ok(())), Ok(()));
    assert_eq!((breaker.state(), judged.state()), (State::Open, State::Open));
    assert!(breaker.clone().try_acquire().is_err());
}

/// One variant left without a panic guard: whichever face, whichever state, a panic is a failure and costs no place.
#[test]
fn one_variant_left_without_a_panic_guard() {
    check("closed", || CircuitBreaker::builder().min_volume(3), "2*P 2/2/0 closed P open");
    check("half-open", one_trial, "P open +10s P open R:10s +10s S closed");
    check(
        "half-open, with others inside",
        || one_trial().probes(3),
        "F +10s a= b= P open a.S b.P open",
    );
    check("forced closed", one_trial, "force-closed 3*P 3/3/0");
}

#[test]
fn a_panic_goes_on_to_the_caller_unchanged() {
    let breaker = CircuitBreaker::new();
    let payload = catch_unwind(|| {
        let _ = breaker.call(|| -> Result<(), ()> { std::panic::resume_unwind(Box::new(17_u8)) });
    });
    assert_eq!(payload.unwrap_err().downcast_ref(), Some(&17_u8));
    let mut future = Box::pin(breaker.call_async(async {
        std::panic::resume_unwind(Box::new(18_u8));
        #[allow(unreachable_code)]
        Ok::<(), ()>(())
    }));
    let payload = catch_unwind(AssertUnwindSafe(|| poll(&mut future, Waker::noop()).is_ready()));
    assert_eq!(payload.unwrap_err().downcast_ref(), Some(&18_u8));
    assert_eq!(breaker.snapshot().counts.failures, 2);
}

/// Which thread a permit is dropped on by a panic doesn't matter; a panic that was there before is not the call's.
#[test]
fn permits_dropped_on_unwinding() {
    let breaker = CircuitBreaker::new();
    let permit = breaker.try_acquire().unwrap();
    let elsewhere = thread::spawn(move || {
        let _permit = permit;
        quiet_panic()
    });
    assert!(elsewhere.join().is_err());
    assert_eq!(breaker.snapshot().counts.failures, 1);

    let unwound = catch_unwind(|| {
        let _in_a_destructor = on_drop(|| {
            drop(breaker.try_acquire().unwrap());
            breaker.try_acquire().unwrap().success();
            assert_eq!(breaker.call(|| Ok::<_, ()>(())), Ok(()));
        });
        quiet_panic()
    });
    assert!(unwound.is_err());
    let counts = breaker.snapshot().counts;
    assert_eq!((counts.calls, counts.failures), (3, 1), "two successes, and one given up");

    // A verdict given before the panic stays.
    let unwound = catch_unwind(|| {
        breaker.try_acquire().unwrap().ignore();
        quiet_panic()
    });
    assert!(unwound.is_err());
    assert_eq!(breaker.snapshot().counts.calls, 3);
}

/// A future that is dropped by somebody else's panic is given up, as by any other drop.
#[test]
fn a_future_dropped_by_a_panic_of_its_executor_is_given_up() {
    let (breaker, _clock) = cooled_down();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _inside = begin(&breaker, Face::Future).unwrap();
        quiet_panic()
    }));
    assert!(unwound.is_err());
    assert_eq!((breaker.state(), breaker.snapshot().probes_inside), (State::HalfOpen, 0));
}

#[test]
fn a_permit_that_is_forgotten_loses_its_place_after_the_lease() {
    let (breaker, clock) = cooled_down();
    std::mem::forget(breaker.try_acquire().unwrap());
    assert!(breaker.try_acquire().is_err());
    clock.advance(COOL_DOWN);
    breaker.try_acquire().unwrap().success();
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn a_call_may_end_on_another_thread() {
    let (breaker, _clock) = cooled_down();
    let permit = breaker.try_acquire().unwrap();
    thread::spawn(move || permit.success()).join().unwrap();
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn async_futures_dropped_before_the_first_poll_and_between_polls() {
    let (breaker, _clock) = cooled_down();
    let drops = Drops::new();
    let forever = || {
        let held = drops.tracked();
        breaker.call_async(async move {
            let _held = held;
            std::future::pending().await
        })
    };
    drop(forever());
    assert_eq!((drops.count(), breaker.state()), (1, State::Open));
    for round in 2..10 {
        let mut inside = Box::pin(forever());
        for _ in 0..3 {
            assert!(poll(&mut inside, Waker::noop()).is_pending());
        }
        assert_eq!(breaker.snapshot().probes_inside, 1);
        let mut refused = Box::pin(forever());
        match poll(&mut refused, Waker::noop()) {
            Poll::Ready(Err(CallError::Open(open))) => assert_eq!(open.state(), State::HalfOpen),
            other => panic!("{other:?}"),
        }
        assert_eq!(drops.count(), 2 * round - 2, "the refused one is dropped at once");
        drop(inside);
        assert_eq!(drops.count(), 2 * round - 1);
        assert_eq!((breaker.state(), breaker.snapshot().probes_inside), (State::HalfOpen, 0));
    }
}

/// The call's own things go before its place is free, and when it has ended, not when its future is dropped.
#[test]
fn the_inner_future_is_dropped_first() {
    let (breaker, _clock) = cooled_down();
    let probes_at_drop = Rc::new(Cell::new(None));
    let look = |breaker: &Blaming| {
        let (breaker, probes) = (breaker.clone(), Rc::clone(&probes_at_drop));
        on_drop(move || probes.set(Some(breaker.snapshot().probes_inside)))
    };
    let held = look(&breaker);
    let mut inside = Box::pin(breaker.call_async(async move {
        let _held = held;
        std::future::pending().await
    }));
    assert!(poll(&mut inside, Waker::noop()).is_pending());
    drop(inside);
    assert_eq!(probes_at_drop.take(), Some(1), "given up: the place is freed last");

    let held = look(&breaker);
    let mut ended = Box::pin(breaker.call_async(std::future::poll_fn(move |_| {
        let _held = &held;
        Poll::Ready(Ok(()))
    })));
    assert!(poll(&mut ended, Waker::noop()).is_ready());
    assert!(probes_at_drop.take().is_some(), "ended: nothing of the call is kept");
    assert_eq!(breaker.state(), State::Closed);
    let again = catch_unwind(AssertUnwindSafe(|| poll(&mut ended, Waker::noop()).is_ready()));
    assert!(again.is_err(), "polled after it had ended");
    assert_eq!(breaker.snapshot().counts.calls, 0, "which is no call");
}

#[test]
fn a_future_polled_again_after_its_panic_is_no_second_failure() {
    let breaker = CircuitBreaker::new();
    let mut future = Box::pin(
        breaker.call_async(std::future::poll_fn(|_| -> Poll<Result<(), ()>> { quiet_panic() })),
    );
    for _ in 0..3 {
        let polled = catch_unwind(AssertUnwindSafe(|| poll(&mut future, Waker::noop()).is_ready()));
        assert!(polled.is_err());
    }
    drop(future);
    assert_eq!(breaker.snapshot().counts.calls, 1);
}

#[test]
fn a_guarded_future_runs_on_any_runtime() {
    let breaker = CircuitBreaker::new();
    async fn answer() -> Result<u8, ()> {
        tokio::task::yield_now().await;
        Ok(7)
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let spawned = runtime.spawn(breaker.call_async(answer()));
    assert_eq!(runtime.block_on(spawned).unwrap(), Ok(7));
    assert_eq!(pollster::block_on(breaker.call_async(async { answer().await })), Ok(7));
    assert_eq!(futures_lite::future::block_on(breaker.call_async(answer())), Ok(7));
    assert_eq!(breaker.snapshot().counts.calls, 3);
}

#[test]
fn calls_within_calls() {
    let breaker = CircuitBreaker::new();
    let both = breaker.call(|| breaker.call(|| Ok::<_, ()>(1)));
    assert_eq!(both, Ok(1));
    assert_eq!(breaker.snapshot().counts.calls, 2);

    // While half-open the inner one is refused, since the outer one is the probe.
    let (breaker, _clock) = cooled_down();
    let outer = breaker.with_classifier(refusals_are_ignored);
    let both = outer.call(|| breaker.call(|| Ok(())));
    assert!(matches!(both, Err(CallError::Failed(CallError::Open(_)))), "{both:?}");
    assert_eq!((breaker.state(), breaker.snapshot().probes_inside), (State::HalfOpen, 0));

    // The inner one opens it: the outer one comes too late to matter.
    let breaker = one_trial().build().unwrap();
    let both = breaker.call(|| Ok::<_, ()>(breaker.call(|| Err::<(), _>(()))));
    assert_eq!(both, Ok(Err(CallError::Failed(()))));
    assert_eq!((breaker.state(), breaker.snapshot().late), (State::Open, 1));
}

#[test]
fn the_fallback_is_for_refusals_alone() {
    let breaker = one_trial().build().unwrap();
    assert_eq!(breaker.call_or(0, || "7".parse::<u8>().map_err(drop)), Ok(7));
    let mut asked = 0;
    let mut answer = |text: &str| {
        let fallback = |open: Open| {
            asked += 1;
            assert_eq!(open.state(), State::Open);
            0
        };
        breaker.call_or_else(fallback, || text.parse::<u8>().map_err(drop))
    };
    assert_eq!(answer("x"), Err(()), "a failure stays an error");
    assert_eq!(answer("7"), Ok(0), "and has opened the breaker");
    assert_eq!(asked, 1);
    let later = block_on(breaker.call_async(async { Ok::<_, ()>(7) }));
    assert_eq!(later.or_else(|error| error.fallback(|_| 0)), Ok(0));
    assert_eq!(breaker.snapshot().refused, 2);
}

#[test]
fn a_fallback_that_panics_leaves_nothing_behind() {
    let (breaker, _clock) = cooled_down();
    let probe = breaker.try_acquire().unwrap();
    let unwound = catch_unwind(|| breaker.call_or_else(|_| quiet_panic(), || Ok::<(), Fault>(())));
    assert!(unwound.is_err());
    assert_eq!((breaker.state(), breaker.snapshot().probes_inside), (State::HalfOpen, 1));
    probe.success();
    assert_eq!(breaker.state(), State::Closed);
}

/// A classifier that panics has no opinion: the result is judged by what it is, and reaches the caller.
#[test]
fn a_classifier_that_panics_loses_no_probe() {
    let clock = JumpyClock::new();
    let breaker = one_trial().clock(clock.clone()).build().unwrap();
    let broken = breaker.with_classifier(|_: &Result<u8, u8>| -> Verdict { quiet_panic() });
    assert_eq!(broken.call(|| Err(1)), Err(CallError::Failed(1)));
    assert_eq!(breaker.state(), State::Open);
    clock.advance(COOL_DOWN);
    assert_eq!(block_on(broken.call_async(async { Err(2) })), Err(CallError::Failed(2)));
    assert_eq!(breaker.state(), State::Open);
    clock.advance(COOL_DOWN);
    assert_eq!(broken.call(|| Ok(3)), Ok(3));
    assert_eq!((breaker.state(), breaker.snapshot().contained_panics), (State::Closed, 3));
}

#[test]
fn a_classifier_may_use_the_breaker() {
    let breaker = CircuitBreaker::new();
    let inner = breaker.clone();
    let judged = breaker.with_classifier(move |_: &Result<(), ()>| {
        inner.try_acquire().unwrap().failure();
        inner.force_open();
        Verdict::Success
    });
    assert_eq!(judged.call(|| Ok(())), Ok(()));
    assert_eq!((breaker.state(), breaker.snapshot().late), (State::ForcedOpen, 1));
}

#[test]
fn a_classifier_with_a_bad_destructor_reaches_nobody() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            quiet_panic();
        }
    }
    let bomb = Bomb;
    let breaker = CircuitBreaker::new();
    let judged = breaker.with_classifier(move |_: &Result<(), ()>| {
        let _bomb = &bomb;
        Verdict::Success
    });
    assert_eq!(judged.call(|| Ok(())), Ok(()));
    drop(judged);
    assert_eq!(breaker.snapshot().counts.calls, 1);
}

#[test]
fn a_builder_shows_what_it_was_given() {
    let builder = CircuitBreaker::builder()
        .slow_calls(Duration::from_millis(7), 0.25)
        .cool_down(Duration::from_secs(11))
        .cool_down_growth(2.0, Duration::from_secs(13))
        .probe_lease(Duration::from_secs(17));
    let shown = format!("{builder:?}");
    for setting in ["(7ms, 0.25)", "11s", "(2.0, 13s)", "17s"] {
        assert!(shown.contains(setting), "{setting}: {shown}");
    }
}

#[test]
fn a_clock_that_panics_costs_nothing() {
    struct Broken(Cell<bool>);
    // SAFETY: used by one thread.
    unsafe impl Sync for Broken {}
    impl Clock for Broken {
        fn now(&self) -> Instant {
            if self.0.replace(true) { quiet_panic() } else { Instant::now() }
        }
    }
    for broken_from_the_start in [false, true] {
        let clock = Broken(Cell::new(broken_from_the_start));
        let breaker = one_trial().slow_calls(COOL_DOWN, 1.0).clock(clock).build().unwrap();
        assert_eq!(breaker.call(|| Ok::<_, ()>(())), Ok(()));
        let _ = breaker.call(|| Err::<(), _>(()));
        assert_eq!(breaker.state(), State::Open);
        assert!(breaker.try_acquire().is_err());
    }
}

/// Every face refuses alike.
#[test]
fn a_refused_call_is_not_made() {
    let breaker = blaming(CircuitBreaker::builder());
    breaker.force_open();
    for face in FACES {
        assert!(call(&breaker, face, End::Panics).is_err(), "{face:?}");
    }
    let called = Cell::new(false);
    let _ = breaker.call(|| {
        called.set(true);
        Ok(())
    });
    let mut future = Box::pin(breaker.call_async(async {
        called.set(true);
        Ok(())
    }));
    assert!(poll(&mut future, Waker::noop()).is_ready());
    assert!(!called.get());
    assert_eq!(breaker.snapshot().refused, 5);
}

//! The circuit breaker: never more probes inside than allowed, none lost, nothing changed by what is late, every change told.
#![cfg(loom)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use loom_tests::{AtLeast, Ghost, against, explore};
use weirpool::breaker::{Builder, CallPermit, CircuitBreaker, State, Transition};
use weirpool::loom::thread;
use weirpool::test::ManualClock;

/// The default cool-down, and the default lease.
const TEN_SECONDS: Duration = Duration::from_secs(10);

/// Time moves only where the model's first thread is alone.
fn builder(probes: usize, clock: &ManualClock) -> Builder {
    CircuitBreaker::builder().min_volume(1).probes(probes).clock(clock.clone())
}

/// A breaker whose cool-down is over: the next call is a probe.
fn cooled_down(probes: usize) -> (CircuitBreaker, ManualClock) {
    let clock = ManualClock::new();
    let breaker = builder(probes, &clock).build().unwrap();
    breaker.try_acquire().unwrap().failure();
    clock.advance(TEN_SECONDS);
    (breaker, clock)
}

/// Three ask for the two places at once, and leave without a verdict: the first of them also makes
/// the change to half-open.
#[test]
fn never_more_probes_inside_than_allowed_and_none_is_lost() {
    let must_see = ["let in", "refused"];
    explore("breaker: probes", Some(3), AtLeast(500), &must_see, |seen| {
        let (breaker, _clock) = cooled_down(2);
        let inside = Arc::new(Ghost::default());
        let visit = {
            let (breaker, inside, seen) = (breaker.clone(), Arc::clone(&inside), seen.clone());
            move |end: fn(CallPermit)| {
                let Ok(permit) = breaker.try_acquire() else {
                    seen.note("refused");
                    return;
                };
                seen.note("let in");
                assert!(inside.add() < 2, "more probes inside than allowed");
                inside.sub();
                end(permit);
            }
        };
        let (second, third) = (visit.clone(), visit.clone());
        let second = thread::spawn(move || second(drop));
        let third = thread::spawn(move || third(CallPermit::ignore));
        visit(drop);
        second.join().unwrap();
        third.join().unwrap();
        assert_eq!((breaker.state(), breaker.snapshot().probes_inside), (State::HalfOpen, 0));
        let all = [breaker.try_acquire(), breaker.try_acquire()];
        assert!(all.iter().all(Result::is_ok), "a place was lost");
        assert!(breaker.try_acquire().is_err(), "a place was made");
    });
}

/// The lease of a probe is over: its end, and another's taking of the place.
#[test]
fn the_late_end_of_a_reclaimed_probe_frees_nobodys_place() {
    explore("breaker: lease", None, AtLeast(8), &[], |_| {
        let (breaker, clock) = cooled_down(1);
        let old = breaker.try_acquire().unwrap();
        clock.advance(TEN_SECONDS);
        let (new, ()) = against(|| breaker.try_acquire(), move || old.success());
        let new = new.expect("the place of a probe whose lease is over");
        assert!(breaker.try_acquire().is_err(), "two inside");
        assert_eq!((breaker.state(), breaker.snapshot().late), (State::HalfOpen, 1));
        new.success();
        assert_eq!(breaker.state(), State::Closed);
    });
}

/// Three calls of the closed breaker fail: two at once, and one while a probe closes it again.
#[test]
fn a_late_result_changes_nothing() {
    let must_see = ["the late one first", "the probe first"];
    explore("breaker: late results", None, AtLeast(1_000), &must_see, |seen| {
        let clock = ManualClock::new();
        let breaker = builder(1, &clock).build().unwrap();
        let [first, second, third] = std::array::from_fn(|_| breaker.try_acquire().unwrap());
        // Of two failures at once one opens it; the other belongs to the past.
        let ((), ()) = against(|| first.failure(), move || second.failure());
        let now = breaker.snapshot();
        assert_eq!((now.state, now.generation, now.late), (State::Open, 1, 1));
        clock.advance(TEN_SECONDS);
        let recover = || {
            let probe = breaker.try_acquire().expect("the cool-down is over");
            let late = breaker.snapshot().late;
            seen.note(if late == 2 { "the late one first" } else { "the probe first" });
            probe.success();
        };
        let ((), ()) = against(recover, move || third.failure());
        let now = breaker.snapshot();
        assert_eq!((now.state, now.counts.calls, now.late), (State::Closed, 0, 2));
    });
}

/// A call asks while another one's failure opens the breaker. Whatever it is told, what it ends with is recorded in the
/// state that it asked in, or not at all.
#[test]
fn asking_against_opening() {
    let must_see = ["let in", "refused"];
    explore("breaker: opening", None, AtLeast(4), &must_see, |seen| {
        let breaker = builder(1, &ManualClock::new()).build().unwrap();
        let failing = breaker.try_acquire().unwrap();
        let (asked, ()) = against(|| breaker.try_acquire(), move || failing.failure());
        match asked {
            Err(open) => {
                seen.note("refused");
                assert_eq!((open.state(), open.retry_after()), (State::Open, Some(TEN_SECONDS)));
            }
            Ok(permit) => {
                seen.note("let in");
                permit.success();
                assert_eq!(breaker.snapshot().late, 1);
            }
        }
        assert_eq!((breaker.state(), breaker.snapshot().counts.calls), (State::Open, 1));
        assert!(breaker.try_acquire().is_err());
    });
}

/// Two change the state. What calls look at is the state that there is, and the observer has been told of all changes, in
/// their order and one at a time, when both have returned.
#[test]
fn every_change_is_seen_and_told() {
    let must_see = ["closed", "forced closed"];
    explore("breaker: changes", None, AtLeast(50), &must_see, |seen| {
        let told: Arc<Mutex<Vec<Transition>>> = Arc::default();
        let telling = Arc::new(Ghost::default());
        let breaker = builder(1, &ManualClock::new())
            .on_transition({
                let told = Arc::clone(&told);
                move |change| {
                    assert_eq!(telling.add(), 0, "two changes told at once");
                    told.lock().unwrap().push(*change);
                    telling.sub();
                }
            })
            .build()
            .unwrap();
        let other = breaker.clone();
        let force_and_end = || {
            breaker.force_open();
            breaker.automatic();
        };
        let ((), ()) = against(force_and_end, move || other.force_closed());
        let now = breaker.snapshot();
        assert_eq!(breaker.state(), now.state, "calls see another state than there is");
        seen.note(if now.state == State::Closed { "closed" } else { "forced closed" });
        let told = told.lock().unwrap();
        let generations: Vec<_> = told.iter().map(|change| change.generation).collect();
        assert_eq!((generations, now.generation), (vec![1, 2, 3], 3));
        let links =
            [(told[0].to, told[1].from), (told[1].to, told[2].from), (told[2].to, now.state)];
        assert!(links.iter().all(|(left, entered)| left == entered), "{told:?}");
        assert_eq!(now.contained_panics, 0, "an assertion of the observer's");
    });
}

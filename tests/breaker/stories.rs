//! What is recorded, when the state changes, who is let in.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use weirpool::BuildError;
use weirpool::breaker::{Builder, CallPermit, CircuitBreaker, State};

use super::common::clocks::JumpyClock;
use super::common::rounds_in;
use super::script::{End, Face, begin, blaming, call, check};

const SECOND: Duration = Duration::from_secs(1);

fn one_trial() -> Builder {
    CircuitBreaker::builder().min_volume(1).probes(1)
}

fn three_trials() -> Builder {
    CircuitBreaker::builder().min_volume(10).probes(3)
}

#[test]
fn half_open_trial_permit_lost_by_cancel_ignored_error_panic_or_a_never_ending_call() {
    let cases = [
        ("(a) given up", "F open +10s a= half-open R a.C half-open +10s b= half-open b.S closed"),
        ("(c) ignored", "F open +10s a= a.I half-open +10s b= half-open b.S closed"),
        ("(c) ignored, one after the other", "F +10s 50*I half-open S closed"),
        ("(d) panics", "F open +10s P open +9999ms R:1ms +1ms S closed"),
        (
            "(e) never ends",
            "F +10s a= +9999ms R:1ms +1ms b= half-open R a.S half-open R b.S closed",
        ),
        ("(e) and fails late", "F +10s a= +10s b= a.F half-open b.S closed a= a.S 1/0/0"),
        ("(e) and is given up late", "F +10s a= +10s b= a.C half-open R b.C half-open S closed"),
        ("(e) and nobody came meanwhile", "F +10s a= +10s a.S half-open a= a.S closed"),
        ("(e) and ends when it is closed again", "F +10s a= +10s S closed a.F closed 0/0/0"),
    ];
    for (case, script) in cases {
        check(case, one_trial, script);
    }
}

#[test]
fn a_trial_dropped_before_its_first_poll_was_none() {
    let clock = JumpyClock::new();
    let breaker = blaming(one_trial().clock(clock.clone()));
    call(&breaker, Face::Plain, End::Fails).unwrap();
    clock.advance(10 * SECOND);
    // The breaker is asked at the first poll, so the unpolled one doesn't even make it half-open.
    drop(breaker.call_async(async { Ok(()) }));
    assert_eq!(breaker.state(), State::Open);
    begin(&breaker, Face::Future).unwrap().end(End::IsGivenUp);
    assert_eq!(breaker.state(), State::HalfOpen);
    let unpolled = breaker.call_async(async { Ok(()) });
    let probe = begin(&breaker, Face::Future).unwrap();
    drop(unpolled);
    assert!(begin(&breaker, Face::Future).is_err(), "the unpolled one has freed another's place");
    probe.end(End::Succeeds);
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn half_open_stampede_or_only_one_success_needed_or_volume_threshold_blocks_re_open() {
    for round in ["S, F", "S, S, S"] {
        let clock = JumpyClock::new();
        let breaker = three_trials().clock(clock.clone()).build().unwrap();
        for _ in 0..10 {
            breaker.try_acquire().unwrap().failure();
        }
        assert_eq!(breaker.state(), State::Open);
        clock.advance(10 * SECOND);
        let start = Barrier::new(100);
        let answers: Vec<_> = thread::scope(|s| {
            let ask = || {
                start.wait();
                breaker.try_acquire()
            };
            let askers: Vec<_> = (0..100).map(|_| s.spawn(ask)).collect();
            askers.into_iter().map(|asker| asker.join().unwrap()).collect()
        });
        let mut probes: Vec<_> = answers.into_iter().flatten().collect();
        assert_eq!((probes.len(), breaker.snapshot().refused), (3, 97));
        assert_eq!(breaker.snapshot().probes_inside, 3);
        probes.pop().unwrap().success();
        assert_eq!(breaker.state(), State::HalfOpen, "one success is not enough");
        assert!(breaker.try_acquire().is_err(), "those inside can close it: no need for more");
        if round == "S, F" {
            probes.pop().unwrap().failure();
            assert_eq!(breaker.state(), State::Open, "at once, whatever the volume");
            assert_eq!(breaker.snapshot().next_probe_in, Some(10 * SECOND));
            probes.pop().unwrap().success();
            assert_eq!(breaker.state(), State::Open);
        } else {
            probes.into_iter().for_each(CallPermit::success);
            assert_eq!((breaker.state(), breaker.snapshot().counts.calls), (State::Closed, 0));
        }
    }
    let script = "10*F open +10s S half-open F open 5*R +9s R:1s +1s S S half-open S closed 0/0/0";
    check("one after the other", three_trials, script);
    check(
        "a place comes back while others are inside",
        three_trials,
        "10*F +10s a= b= c= R b.C b= R",
    );
}

#[test]
fn ignored_errors_own_rejections_and_cancellations_in_the_statistics() {
    let ten = || CircuitBreaker::builder().min_volume(10);
    let cases = [
        ("4 F, 5 ignored, 3 given up, 1 S", "4*F 5*I 3*C S closed 5/4/0"),
        ("in another order", "3*C F 5*I 2*F S F closed 5/4/0"),
        ("refusals don't count while it is open", "10*F open 10/10/0 100*R 10/10/0 open"),
        (
            "nor while it is half-open",
            "10*F +10s a= b= c= 100*R half-open a.S b.S c.S closed 0/0/0",
        ),
        ("nor while it is forced open", "4*F force-open 100*R:never automatic 0/0/0 9*F closed"),
        ("nor do ignored calls trip it later", "9*F 100*I 100*C closed 9/9/0 F open"),
    ];
    for (case, script) in cases {
        check(case, ten, script);
    }
    // Refused by another breaker on the way, and ignored for it.
    let (front, behind) = (blaming(ten()), CircuitBreaker::new());
    behind.force_open();
    let front = front.with_classifier(super::shapes::refusals_are_ignored);
    for _ in 0..100 {
        let _ = front.call(|| behind.call(|| Ok::<_, ()>(())));
    }
    assert_eq!(front.snapshot().counts.calls, 0);
}

#[test]
fn no_state_where_the_classifier_is_not_asked() {
    let asked = Arc::new(AtomicUsize::new(0));
    let clock = JumpyClock::new();
    let breaker = one_trial().clock(clock.clone()).build().unwrap().with_classifier({
        let asked = Arc::clone(&asked);
        move |outcome: &super::script::Outcome| {
            asked.fetch_add(1, SeqCst);
            super::script::blame(outcome)
        }
    });
    let expect = |state, times| {
        assert_eq!((breaker.state(), asked.swap(0, SeqCst)), (state, times));
    };
    let mine = || Err(super::script::Fault::Mine);
    let its = || Err(super::script::Fault::Its);
    let _ = breaker.call(mine);
    expect(State::Closed, 1);
    let _ = breaker.call(its);
    expect(State::Open, 1);
    let _ = breaker.call(its);
    expect(State::Open, 0); // not called, so there is nothing to ask about
    clock.advance(10 * SECOND);
    let _ = breaker.call(mine);
    expect(State::HalfOpen, 1);
    breaker.force_closed();
    let _ = breaker.call(mine);
    expect(State::ForcedClosed, 1);
    // A result that comes too late is judged, too; it changes nothing.
    let late = breaker.call(|| {
        breaker.force_open();
        its()
    });
    assert!(late.is_err());
    expect(State::ForcedOpen, 1);
    assert_eq!(breaker.snapshot().late, 1);
}

#[test]
fn slow_call_rate() {
    let slow = || CircuitBreaker::builder().min_volume(4).probes(1).slow_calls(SECOND, 0.5);
    let cases = [
        (
            "2 of 4 with >=",
            "a= +999ms a.S 1/0/0 a= +1s a.S a= +1s a.S 3/0/2 closed a= +100ms a.S 4/0/2 open",
        ),
        ("1 of 4", "a= +999ms a.S a= +1s a.S a= +999ms a.S a= +100ms a.S 4/0/1 closed"),
        ("given up when they were slow", "a= b= c= d= +10s a.C b.C c.C 3/0/3 closed d.C open"),
        ("given up before", "a= b= c= d= +999ms a.C b.C c.C d.C 0/0/0 closed"),
        ("a slow failure is one call", "a= +1s a.F 1/1/1 a= +1s a.P 2/2/2 closed"),
        ("a slow ignored call is none", "a= +1s a.I 0/0/0"),
        ("a slow probe fails", "4*F open +10s a= +1s a.S open R:10s"),
        ("a probe given up when it was slow fails", "4*F +10s a= +1s a.C open R:10s"),
        (
            "a probe given up before gives its place back",
            "4*F +10s a= +999ms a.C half-open S closed",
        ),
    ];
    for (case, script) in cases {
        check(case, slow, script);
    }
    check("off by default", one_trial, "a= +10d a.S closed 1/0/0 a= +10d a.C closed");
}

#[test]
fn zero_read_as_unlimited_here_as_no_permits_there() {
    fn builder() -> Builder {
        CircuitBreaker::builder()
    }
    type Build = fn() -> Result<CircuitBreaker, BuildError>;
    let huge = usize::MAX.to_string();
    let cases: [(&str, &str, Build); 23] = [
        ("window", "0", || builder().window(Duration::ZERO).build()),
        ("window", "9ns", || builder().window(Duration::from_nanos(9)).build()),
        ("buckets", "0", || builder().buckets(0).build()),
        ("buckets", "1001", || builder().buckets(1001).build()),
        ("buckets", &huge, || builder().buckets(usize::MAX).build()),
        ("min_volume", "0", || builder().min_volume(0).build()),
        ("failure_rate", "0", || builder().failure_rate(0.0).build()),
        ("failure_rate", "-0", || builder().failure_rate(-0.0).build()),
        ("failure_rate", "NaN", || builder().failure_rate(f64::NAN).build()),
        ("failure_rate", "1.01", || builder().failure_rate(1.01).build()),
        ("failure_rate", "inf", || builder().failure_rate(f64::INFINITY).build()),
        ("failure_rate", "-0.5", || builder().failure_rate(-0.5).build()),
        ("slow_calls", "0ns", || builder().slow_calls(Duration::ZERO, 0.5).build()),
        ("slow_calls", "NaN", || builder().slow_calls(SECOND, f64::NAN).build()),
        ("slow_calls", "0.0", || builder().slow_calls(SECOND, 0.0).build()),
        ("cool_down", "0", || builder().cool_down(Duration::ZERO).build()),
        ("cool_down_growth", "0.9", || builder().cool_down_growth(0.9, 60 * SECOND).build()),
        ("cool_down_growth", "NaN", || builder().cool_down_growth(f64::NAN, 60 * SECOND).build()),
        ("cool_down_growth", "inf", || {
            builder().cool_down_growth(f64::INFINITY, 60 * SECOND).build()
        }),
        ("cool_down_growth", "9s", || builder().cool_down_growth(2.0, 9 * SECOND).build()),
        ("probes", "0", || builder().probes(0).build()),
        ("probes", &huge, || builder().probes(usize::MAX).build()),
        ("probe_lease", "0", || builder().probe_lease(Duration::ZERO).build()),
    ];
    for (named, shown, build) in cases {
        let error = build().expect_err(named);
        let text = error.to_string();
        assert!(text.contains(named) && text.contains(shown), "{named} = {shown}: {text}");
        match error {
            BuildError::Invalid { setting, value, .. } => {
                assert!(setting == named && value.contains(shown), "{setting} = {value}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_ends_of_each_setting_work() {
    let least = || {
        CircuitBreaker::builder()
            .window(Duration::from_nanos(1))
            .buckets(1)
            .min_volume(1)
            .failure_rate(f64::MIN_POSITIVE)
            .slow_calls(Duration::from_nanos(1), f64::MIN_POSITIVE)
            .cool_down(Duration::from_nanos(1))
            .cool_down_growth(1.0, Duration::from_nanos(1))
            .probes(1)
            .probe_lease(Duration::from_nanos(1))
    };
    check("least", least, "S 1/0/0 +1ns 0/0/0 F open R:1ns +1ns a= +1ns a.S half-open S closed");
    let most = || {
        CircuitBreaker::builder()
            .window(Duration::MAX)
            .buckets(1_000)
            .min_volume(2)
            .failure_rate(1.0)
            .slow_calls(Duration::MAX, 1.0)
            .cool_down(Duration::MAX)
            .cool_down_growth(f64::MAX, Duration::MAX)
            .probes(1_000)
            .probe_lease(Duration::MAX)
    };
    check("most", most, "S 10*F closed 11/10/0 +365d 11/10/0 -9000d S 12/10/0 closed");
    check("most", most, "F closed F open R +10000d R -10000d R open");
    let patient = || most().cool_down(SECOND).cool_down_growth(f64::MAX, Duration::MAX);
    check("a cool-down that grows beyond all bounds", patient, "2*F +1s F open +9999d R -9999d R");
    check("all probes", patient, "2*F +1s 999*S half-open S closed");
}

/// The rate is one division: what is a round figure on paper is equal to that figure.
#[test]
fn a_rate_that_is_reached_exactly_opens() {
    for tenths in 1..=10_u32 {
        let tenth = || {
            let rate = f64::from(tenths) / 10.0;
            CircuitBreaker::builder().min_volume(30).failure_rate(rate)
        };
        let (failures, successes) = (3 * tenths, 30 - 3 * tenths);
        check("just reached", tenth, &format!("{successes}*S closed {failures}*F open"));
        let (failures, successes) = (failures - 1, successes + 1);
        check("just below", tenth, &format!("{successes}*S {failures}*F closed"));
    }
}

#[test]
fn a_success_that_completes_the_volume_opens_too() {
    check("the volume", CircuitBreaker::builder, "19*F closed S open 20/19/0");
    check("the default volume and rate", CircuitBreaker::builder, "10*S 9*F closed F open");
}

#[test]
fn the_window_slides() {
    let cases = [
        ("a call slides out with its bucket", "+500ms 19*F +9499ms 19/19/0 +1ms 0/0/0 F closed"),
        ("bucket by bucket", "10*S +5s 10*F open 20/10/0 +5s 10/10/0 open +5s 0/0/0"),
        ("old calls don't open it", "19*F +10s 19*F closed +10s 19*F closed 19/19/0"),
        ("idle for a year", "19*F +365d 0/0/0 19*F 19/19/0 closed F open"),
    ];
    for (case, script) in cases {
        check(case, CircuitBreaker::builder, script);
    }
}

#[test]
fn idle_for_a_year() {
    check("while open", one_trial, "F open +365d open 0/0/0 a= half-open a.S closed");
    check("while half-open", one_trial, "F +10s a= +365d half-open a.S half-open S closed");
    check("while forced open", one_trial, "force-open +365d R:never automatic F open");
}

#[test]
fn clock_jumps_both_ways() {
    let cases = [
        // Back, behind the time of building, too: costs no more than the time since the last look.
        ("open", "F open -1h R:10s +9999ms R:1ms +1ms S closed"),
        ("open for a while", "F +4s -50d R:10s +10s S closed"),
        ("open for a while that was seen", "F +4s 1/1/0 -50d R:6s +6s S closed"),
        ("back and ahead again is an hour gone by", "F open -1h R +1h S closed"),
        ("a lease", "F +10s a= -1h R:10s +10s b= a.S half-open b.S closed"),
        ("a call under way", "a= -1h a.S closed 1/0/0"),
        ("slightly back", "F +5s -1s R:6s +6s S closed"),
        // Ahead: an hour is an hour.
        ("ahead while open", "F +9999ms R +1h S closed"),
        ("ahead with a probe inside", "F +10s a= +1h a.F half-open S closed"),
    ];
    for (case, script) in cases {
        check(case, one_trial, script);
    }
    let twenty = CircuitBreaker::builder;
    check("the window, back", twenty, "19*F -1h 19/19/0 +9s 19/19/0 +1s 0/0/0");
    check("the window, back and on", twenty, "10*F -50d 9*F 19/19/0 closed F open");
    check("back many times", twenty, "5*F -2s 5*F -2s 5*F -2s 4*F 19/19/0 F open -2s R:10s");
    let slow = || one_trial().slow_calls(SECOND, 1.0);
    check("back within a call is no time", slow, "a= -1h a.S closed 1/0/0");
    check("ahead within a call makes it slow", slow, "a= +1h a.S open 1/0/1");
}

#[test]
fn a_late_result_of_an_earlier_state_changes_nothing() {
    let cases = [
        ("begun closed, ends open", "a= b= F open a.S open b.F open 1/1/0 R:10s"),
        (
            "begun closed, ends half-open",
            "a= b= F +10s c= half-open a.F half-open b.S half-open R c.S closed",
        ),
        ("begun closed, ends re-opened", "a= b= F +10s F open +5s a.F b.S open R:5s"),
        ("begun closed, ends closed again", "a= b= F +10s S closed 0/0/0 a.F b.S closed 0/0/0"),
        ("a probe of an earlier half-open", "F +10s a= +10s F +10s b= a.S half-open R b.S closed"),
        ("given up late", "a= F +10s b= a.C half-open R b.S closed"),
        ("panics late", "a= F +10s b= a.P half-open R b.S closed"),
        ("begun forced closed", "force-closed a= automatic a.F closed 0/0/0"),
        ("ends forced closed", "a= force-closed a.F 0/0/0 automatic F open"),
        ("ends forced open", "a= force-open a.F automatic 0/0/0 closed"),
        ("a probe ends forced", "F +10s a= force-closed a.F force-open force-closed 0/0/0"),
    ];
    for (case, script) in cases {
        check(case, one_trial, script);
    }
}

#[test]
fn late_results_are_counted() {
    let clock = JumpyClock::new();
    let breaker = blaming(one_trial().clock(clock.clone()));
    let late: Vec<_> = (0..5).map(|_| begin(&breaker, Face::Permit).unwrap()).collect();
    call(&breaker, Face::Plain, End::Fails).unwrap();
    late.into_iter().for_each(|call| call.end(End::Succeeds));
    assert_eq!(breaker.snapshot().late, 5);
    clock.advance(10 * SECOND);
    let expired = begin(&breaker, Face::Permit).unwrap();
    clock.advance(10 * SECOND);
    assert_eq!(breaker.snapshot().probes_inside, 0, "its lease is over");
    expired.end(End::Fails);
    assert_eq!((breaker.snapshot().late, breaker.state()), (6, State::HalfOpen));
}

#[test]
fn the_cool_down_grows_and_closing_brings_it_back() {
    let growing = || one_trial().cool_down_growth(2.0, 35 * SECOND);
    let script = "F R:10s +10s F R:20s +20s P R:35s +35s F R:35s +35s S closed F R:10s";
    check("grows by failed probes, up to its bound", growing, script);
    check("stays without growth", one_trial, "F R:10s +10s F R:10s +10s F R:10s");
    check(
        "the operator brings it back, too",
        growing,
        "F +10s F R:20s force-closed automatic F R:10s",
    );
    check("ignored probes don't grow it", growing, "F +10s I C half-open F R:20s");
}

#[test]
fn forced_states_hold_until_told_otherwise() {
    let cases = [
        ("forced open", "force-open forced-open R:never +1h R:never automatic closed S"),
        (
            "forced closed",
            "force-closed 100*F forced-closed 100/100/0 automatic closed 0/0/0 F open",
        ),
        ("forced while open", "F open force-closed S F S automatic closed"),
        (
            "forced while half-open",
            "F +10s a= force-open R:never automatic closed a.F closed 0/0/0",
        ),
        ("one into the other", "force-open force-closed S force-open R automatic S"),
        ("twice", "force-closed F force-closed 1/1/0 automatic automatic closed"),
        ("nothing forced", "automatic closed S 1/0/0 automatic 1/0/0 F open automatic open R"),
    ];
    for (case, script) in cases {
        check(case, one_trial, script);
    }
}

#[test]
fn a_snapshot_tells_the_time_until_the_next_probe() {
    let clock = JumpyClock::new();
    let breaker = blaming(one_trial().cool_down_growth(3.0, 60 * SECOND).clock(clock.clone()));
    let see = || {
        let now = breaker.snapshot();
        (now.state, now.next_probe_in, now.cool_down)
    };
    assert_eq!(see(), (State::Closed, None, 10 * SECOND));
    call(&breaker, Face::Plain, End::Fails).unwrap();
    assert_eq!(see(), (State::Open, Some(10 * SECOND), 10 * SECOND));
    clock.advance(4 * SECOND);
    assert_eq!(see(), (State::Open, Some(6 * SECOND), 10 * SECOND));
    clock.advance(7 * SECOND);
    assert_eq!(see(), (State::Open, Some(Duration::ZERO), 10 * SECOND), "a look changes nothing");
    let probe = begin(&breaker, Face::Permit).unwrap();
    assert_eq!(see(), (State::HalfOpen, Some(10 * SECOND), 30 * SECOND));
    assert_eq!(breaker.snapshot().probes_inside, 1);
    clock.advance(10 * SECOND);
    assert_eq!(see(), (State::HalfOpen, Some(Duration::ZERO), 30 * SECOND));
    drop(probe);
    breaker.force_open();
    assert_eq!(see(), (State::ForcedOpen, None, 30 * SECOND));
}

#[test]
fn millions_of_calls_in_one_bucket() {
    let breaker = CircuitBreaker::builder().clock(JumpyClock::new()).build().unwrap();
    let calls = rounds_in(100_000, 3_000_000) as u64;
    for number in 0..2 * calls {
        let _ = breaker.call(|| if number % 4 == 3 { Err(()) } else { Ok(()) });
    }
    let now = breaker.snapshot();
    assert_eq!((now.counts.calls, now.counts.failures), (2 * calls, calls / 2));
    assert_eq!((now.counts.failure_rate(), now.state), (Some(0.25), State::Closed));
}

/// However many come and whatever they do, there are never more probes inside than allowed, and no
/// place is lost.
#[test]
fn probes_stay_bounded_among_threads() {
    let clock = JumpyClock::new();
    let breaker = one_trial().probes(3).min_volume(1).clock(clock.clone()).build().unwrap();
    breaker.try_acquire().unwrap().failure();
    clock.advance(10 * SECOND);
    let (inside, highest) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for round in 0..rounds_in(5_000, 100_000) {
                    let Ok(permit) = breaker.try_acquire() else { continue };
                    highest.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
                    inside.fetch_sub(1, SeqCst);
                    if round % 2 == 0 { permit.ignore() } else { drop(permit) }
                }
            });
        }
    });
    assert!((1..=3).contains(&highest.load(SeqCst)), "{highest:?}");
    assert_eq!(breaker.snapshot().probes_inside, 0);
    let all: Vec<_> = (0..3).map(|_| breaker.try_acquire().expect("a place was lost")).collect();
    assert!(breaker.try_acquire().is_err(), "a place was made");
    all.into_iter().for_each(CallPermit::success);
    assert_eq!(breaker.state(), State::Closed);
}

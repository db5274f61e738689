//! `Pacer`: nothing is held back before the server pushes back; then requests wait for their turn,
//! and retries for their wait, their budget and their attempts.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use weirpool::client::{
    AdaptiveThrottle, Backoff, Decision, GiveUp, Hint, NoRetry, Pacer, Retry, RetryBudget,
};

use crate::{MS, ODD, SECOND};

fn is_sent(decision: &Decision<'_>) -> bool {
    matches!(decision, Decision::Send)
}

/// A pacer that was made to hold a rate: it sent 100 a second, and one was refused.
fn limited(pacer: Pacer, begin: Instant) -> (Pacer, Instant) {
    let mut now = begin;
    for call in 0..=110 {
        assert!(is_sent(&pacer.ask(0, now)));
        if call == 0 {
            let _ = pacer.refused(0, Hint::None, now);
        }
        now += 10 * MS;
    }
    let rate = pacer.rate(now).unwrap();
    assert!((90.0..110.0).contains(&rate), "{rate}");
    (pacer, now)
}

#[test]
fn nothing_is_held_back_before_the_server_pushes_back() {
    let now = Instant::now();
    let pacer = Pacer::new();
    for _ in 0..10_000 {
        assert!(is_sent(&pacer.ask(0, now)));
        pacer.reported(0.5, now);
        pacer.accepted(now);
    }
    assert_eq!(pacer.rate(now), None);
}

#[test]
fn a_full_server_without_refusals_pushes_back_too() {
    let begin = Instant::now();
    let pacer = Pacer::new();
    let mut now = begin;
    for _ in 0..300 {
        if is_sent(&pacer.ask(0, now)) {
            pacer.reported(1.0, now);
            pacer.accepted(now);
        }
        now += 10 * MS;
    }
    let rate = pacer.rate(now).unwrap();
    assert!(rate < 80.0, "{rate}");
}

#[test]
fn each_refusal_lowers_the_rate_and_an_idle_limit_does_not_rise() {
    let (pacer, now) = limited(Pacer::new(), Instant::now());
    let before = pacer.rate(now).unwrap();
    for _ in 0..5 {
        let _ = pacer.refused(2, Hint::None, now);
        pacer.accepted(now);
    }
    let after = pacer.rate(now).unwrap();
    assert!((before - 6.0..before - 4.0).contains(&after), "{before} → {after}");
    // Nobody asks for more than there is: hours of success prove nothing about more.
    let later = now + 3600 * SECOND;
    for call in 0..10_000 {
        let at = later + call * 100 * MS;
        assert!(is_sent(&pacer.ask(0, at)));
        pacer.accepted(at);
    }
    assert_eq!(pacer.rate(later + 1000 * SECOND).unwrap(), after);
}

#[test]
fn requests_wait_for_their_turn_or_are_given_up_at_once() {
    let (pacer, now) = limited(Pacer::new().max_wait(50 * MS), Instant::now());
    let mut turns = Vec::new();
    let why = loop {
        match pacer.ask(0, now) {
            Decision::Send => {}
            Decision::Wait(turn) => turns.push(turn),
            Decision::GiveUp(why) => break why,
        }
    };
    assert_eq!(why, GiveUp::Rate);
    let waits: Vec<_> = turns.iter().map(|turn| turn.wait(now)).collect();
    assert!(waits.is_sorted() && waits.len() >= 3 && waits.iter().all(|w| *w <= 50 * MS));
    // Those who leave the line leave their places to others.
    let places = turns.len();
    turns.clear();
    let again = (0..100).filter(|_| match pacer.ask(0, now) {
        Decision::Send => true,
        Decision::Wait(turn) => {
            turn.send(now);
            true
        }
        Decision::GiveUp(_) => false,
    });
    assert_eq!(again.count(), places);
}

#[test]
fn a_retry_waits_as_long_as_the_server_asks() {
    let now = Instant::now();
    let pacer = Pacer::new().seed(1);
    let hint = Hint::After(5 * SECOND);
    let Retry::After(wait) = pacer.refused(0, hint, now) else { panic!("the first is free") };
    assert!((5 * SECOND..=5 * SECOND + 100 * MS).contains(&wait), "{wait:?}");
    assert!(is_sent(&pacer.ask(0, now)), "and nobody else waits for it");
    let forbidden = pacer.refused(0, Hint::DoNotRetry, now);
    assert_eq!(forbidden, Retry::No(NoRetry::Forbidden));
}

#[test]
fn retries_end_with_the_attempts_and_with_the_budget() {
    let now = Instant::now();
    let pacer = Pacer::new().max_attempts(2);
    assert_eq!(pacer.refused(1, Hint::None, now), Retry::No(NoRetry::Attempts));
    for _ in 0..100 {
        assert!(is_sent(&pacer.ask(0, now)));
    }
    let retries =
        (0..100).filter(|_| matches!(pacer.refused(0, Hint::None, now), Retry::After(_))).count();
    assert_eq!(retries, 11, "a tenth of 100, and the one in ten seconds");
    assert_eq!(pacer.refused(0, Hint::None, now), Retry::No(NoRetry::Budget));
    // Retries are no requests: they earn nothing.
    assert!(is_sent(&pacer.ask(1, now)));
    assert_eq!(pacer.refused(0, Hint::None, now), Retry::No(NoRetry::Budget));
}

#[test]
fn in_an_outage_retry_after_holds_everything() {
    let (pacer, now) = limited(Pacer::new(), Instant::now());
    for _ in 0..20 {
        let _ = pacer.refused(2, Hint::After(10 * SECOND), now);
    }
    assert!(matches!(pacer.ask(0, now), Decision::GiveUp(GiveUp::Paused)));
    assert!(matches!(pacer.ask(0, now + 9 * SECOND), Decision::GiveUp(GiveUp::Paused)));
    assert!(is_sent(&pacer.ask(0, now + 13 * SECOND)));
    // An accepted request ends it early.
    for _ in 0..20 {
        let _ = pacer.refused(2, Hint::After(Duration::MAX), now + 13 * SECOND);
    }
    pacer.accepted(now + 14 * SECOND);
    assert!(!matches!(pacer.ask(0, now + 14 * SECOND), Decision::GiveUp(GiveUp::Paused)));
}

#[test]
fn a_pause_is_bounded_whatever_the_server_asks() {
    let (pacer, now) = limited(Pacer::new(), Instant::now());
    for _ in 0..20 {
        let _ = pacer.refused(2, Hint::After(Duration::MAX), now);
    }
    assert!(is_sent(&pacer.ask(0, now + 76 * SECOND)));
}

#[test]
fn a_throttle_is_asked_too() {
    let now = Instant::now();
    let pacer = Pacer::new().throttle(AdaptiveThrottle::new()).seed(3);
    for _ in 0..1000 {
        let _ = pacer.refused(2, Hint::None, now);
    }
    let throttled =
        (0..100).filter(|_| matches!(pacer.ask(0, now), Decision::GiveUp(GiveUp::Throttled)));
    assert!(throttled.count() > 90);
}

#[test]
fn what_is_cancelled_counts_for_nothing() {
    let (pacer, now) = limited(Pacer::new(), Instant::now());
    let before = pacer.rate(now);
    assert!(is_sent(&pacer.ask(0, now)), "and never heard of again");
    assert_eq!(pacer.rate(now + SECOND), before);
}

#[test]
fn one_pacer_serves_many_threads() {
    let pacer = Arc::new(Pacer::new());
    let begin = Instant::now();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for call in 0..20_000 {
                    let now = begin + call * MS / 4;
                    match pacer.ask(0, now) {
                        Decision::Send if call % 3 == 0 => {
                            let _ = pacer.refused(0, Hint::None, now);
                        }
                        Decision::Send => pacer.accepted(now),
                        Decision::Wait(turn) => turn.send(now),
                        Decision::GiveUp(_) => {}
                    }
                }
            });
        }
    });
    let rate = pacer.rate(begin + 5 * SECOND).unwrap();
    assert!((0.5..100_000.0).contains(&rate), "{rate}");
}

#[test]
fn no_number_and_no_clock_is_too_odd() {
    let begin = Instant::now() + SECOND * (1 << 20);
    for odd in ODD {
        let pacer = Pacer::new()
            .min_rate(odd)
            .max_wait(Duration::MAX)
            .max_attempts(0)
            .retry_budget(RetryBudget::new().ratio(odd))
            .backoff(Backoff::new(Duration::MAX, Duration::MAX).factor(odd))
            .throttle(AdaptiveThrottle::new().k(odd));
        let mut now = begin;
        for step in 0..2000_u32 {
            now = match step % 500 {
                100 => begin + SECOND * (1 << 30),
                200 => begin - SECOND * (1 << 19),
                _ => now + 7 * MS,
            };
            pacer.reported(odd, now);
            if let Decision::Wait(turn) = pacer.ask(step % 2, now) {
                turn.send(now);
            }
            pacer.accepted(now);
            let _ = pacer.refused(u32::MAX, Hint::After(Duration::MAX), now);
            if let Some(rate) = pacer.rate(now) {
                assert!(rate.is_finite() && rate > 0.0, "{rate}");
            }
        }
    }
}

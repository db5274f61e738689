//! `AdaptiveThrottle`: the chance to refuse by the formula, over a window that moves by buckets,
//! exact among threads, and never 1.

use std::thread;
use std::time::{Duration, Instant};

use weirpool::client::AdaptiveThrottle;

use crate::{ODD, SECOND};

fn after(requests: u32, accepts: u32, now: Instant) -> AdaptiveThrottle {
    let throttle = AdaptiveThrottle::new();
    fill(&throttle, requests, accepts, now);
    throttle
}

fn fill(throttle: &AdaptiveThrottle, requests: u32, accepts: u32, now: Instant) {
    for request in 0..requests {
        if request < accepts { throttle.accepted(now) } else { throttle.refused(now) }
    }
}

#[test]
fn formula_bookkeeping_and_cold_start() {
    let now = Instant::now();
    for (requests, accepts, probability) in [
        (100, 40, 20.0 / 101.0), // 0.198
        (100, 60, 0.0),
        (0, 0, 0.0),
        (1, 0, 0.0),
        (9, 0, 0.0),
        (10, 0, 10.0 / 11.0),
        (100, 0, 100.0 / 101.0), // 0.990
    ] {
        let throttle = after(requests, accepts, now);
        assert_eq!(throttle.probability(now), probability, "{requests}, {accepts}");
        assert_eq!(throttle.probability(now + 120 * SECOND), 0.0);
    }
    let bare = AdaptiveThrottle::new().min_requests(0);
    assert_eq!(bare.probability(now), 0.0);
    bare.refused(now);
    assert_eq!(bare.probability(now), 0.5);
}

#[test]
fn a_local_refusal_is_a_request_and_a_cancelled_call_nothing() {
    let now = Instant::now();
    let throttle = after(100, 40, now);
    assert!(throttle.admit(0.9, now), "and then it is cancelled");
    assert_eq!(throttle.probability(now), 20.0 / 101.0);
    assert!(!throttle.admit(0.1, now));
    assert_eq!(throttle.probability(now), 21.0 / 102.0);
}

#[test]
fn the_probability_is_never_1() {
    let now = Instant::now();
    let throttle = after(100, 0, now);
    for _ in 0..200_000 {
        assert!(throttle.admit(1.0, now));
        throttle.admit(0.0, now);
    }
    let probability = throttle.probability(now);
    assert!((0.99999..1.0).contains(&probability), "{probability}");
}

#[test]
fn calls_leave_the_window_one_bucket_after_the_other() {
    let begin = Instant::now();
    let throttle = after(100, 0, begin);
    fill(&throttle, 100, 100, begin + 60 * SECOND);
    assert_eq!(throttle.probability(begin + 119 * SECOND), 0.0);
    fill(&throttle, 300, 0, begin + 119 * SECOND);
    assert_eq!(throttle.probability(begin + 119 * SECOND), 300.0 / 501.0);
    assert_eq!(throttle.probability(begin + 120 * SECOND), 200.0 / 401.0);
    assert_eq!(throttle.probability(begin + 180 * SECOND), 300.0 / 301.0);
}

#[test]
fn a_setting_changes_only_what_it_names() {
    let now = Instant::now();
    let throttle = AdaptiveThrottle::new().min_requests(5).window(10 * SECOND).k(4.0);
    fill(&throttle, 5, 1, now);
    assert_eq!(throttle.probability(now), 1.0 / 6.0);
    assert_eq!(throttle.probability(now + 10 * SECOND), 0.0);
}

#[test]
fn threads_lose_no_call() {
    let now = Instant::now();
    let throttle = AdaptiveThrottle::new();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| fill(&throttle, 10_000, 1_000, now));
        }
    });
    assert_eq!(throttle.probability(now), 32_000.0 / 40_001.0);
}

#[test]
fn no_number_is_too_odd() {
    let now = Instant::now() + 1000 * SECOND;
    for odd in ODD {
        for window in [Duration::ZERO, Duration::MAX] {
            let throttle = AdaptiveThrottle::new().k(odd).window(window).min_requests(1);
            fill(&throttle, 10, 1, now);
            for at in [now, now - 500 * SECOND, now + SECOND * (1 << 30)] {
                throttle.admit(odd, at);
                throttle.accepted(at);
                assert!((0.0..1.0).contains(&throttle.probability(at)));
            }
        }
    }
}

//! `TokenBucket`: no more than the burst and the rate in any stretch of time, places in line that
//! cost nothing when they are given up, and no harm from clocks, threads or odd numbers.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use weirpool::Clock;
use weirpool::client::{BucketError, TokenBucket};
use weirpool::test::ManualClock;

use crate::{MS, ODD, SECOND};

fn is_empty<T>(outcome: Result<T, BucketError>) -> bool {
    matches!(outcome, Err(BucketError::Empty { .. }))
}

fn is_too_large<T>(outcome: Result<T, BucketError>) -> bool {
    matches!(outcome, Err(BucketError::TooLarge { .. }))
}

#[test]
fn at_rate_0_the_burst_is_all_there_ever_is() {
    let clock = ManualClock::new();
    let bucket = TokenBucket::new(0.0, 1);
    let mut admitted = 0;
    for _ in 0..1000 {
        admitted += u32::from(bucket.try_take(1, clock.now()).is_ok());
        clock.advance(SECOND * 36 / 10);
    }
    assert_eq!(admitted, 1);
    let never = bucket.try_take(1, clock.now());
    assert!(matches!(never, Err(BucketError::Empty { wait: None, .. })));
    assert!(is_empty(bucket.reserve(1, clock.now())), "and nobody waits for what never comes");
}

#[test]
fn a_request_that_is_refused_costs_nothing() {
    let now = Instant::now();
    let bucket = TokenBucket::new(0.0, 10);
    bucket.try_take(6, now).unwrap();
    assert!(is_too_large(bucket.try_take(20, now)));
    assert!(is_empty(bucket.try_take(5, now)));
    assert!(is_empty(bucket.reserve(5, now)));
    assert!(is_too_large(bucket.reserve(20, now)));
    bucket.try_take(4, now).unwrap();
}

#[test]
fn a_reservation_that_is_cancelled_costs_nothing() {
    let now = Instant::now();
    let bucket = TokenBucket::new(10.0, 20);
    bucket.try_take(15, now).unwrap();
    let place = bucket.reserve(10, now).unwrap();
    assert_eq!(place.wait(now), 500 * MS);
    place.cancel();
    bucket.try_take(5, now).unwrap();
    assert!(is_empty(bucket.try_take(1, now)));
}

#[test]
fn more_than_the_bucket_holds_is_refused_at_once() {
    let now = Instant::now();
    let bucket = TokenBucket::new(1e6, 3);
    let error = bucket.reserve(4, now).unwrap_err();
    assert_eq!(error.to_string(), "4 tokens asked of a bucket that holds at most 3");
    let nothing = TokenBucket::new(1e6, 0);
    assert!(is_too_large(nothing.try_take(1, now + SECOND)));
    nothing.try_take(0, now).unwrap();
}

#[test]
fn cancelling_late_gives_back_no_more_than_there_would_have_been() {
    let begin = Instant::now();
    let bucket = TokenBucket::new(10.0, 20);
    let place = bucket.reserve(10, begin).unwrap();
    let later = begin + 10 * SECOND;
    bucket.try_take(10, later).unwrap();
    place.cancel();
    // Without the reservation: 20 there, 10 taken.
    assert_eq!(bucket.available(later), 10.0);
}

#[test]
fn a_place_costs_nothing_when_its_owner_gives_up_and_those_behind_keep_theirs() {
    let now = Instant::now();
    let bucket = TokenBucket::new(1.0, 1);
    bucket.try_take(1, now).unwrap();
    let first = bucket.reserve(1, now).unwrap();
    let second = bucket.reserve(1, now).unwrap();
    assert_eq!((first.wait(now), second.wait(now)), (SECOND, 2 * SECOND));
    drop(first);
    let third = bucket.reserve(1, now).unwrap();
    assert_eq!((second.wait(now), third.wait(now)), (2 * SECOND, 2 * SECOND));
    second.spend(now + 2 * SECOND);
    drop(third);
    assert_eq!(bucket.available(now + 2 * SECOND), 0.0);
}

#[test]
fn a_wait_that_is_too_long_is_told_and_costs_nothing() {
    let now = Instant::now();
    let bucket = TokenBucket::new(2.0, 4);
    bucket.try_take(4, now).unwrap();
    let error = bucket.reserve_within(3, SECOND, now).unwrap_err();
    assert!(matches!(error, BucketError::Empty { wait: Some(wait), .. } if wait == SECOND * 3 / 2));
    assert_eq!(bucket.available(now), 0.0);
    assert_eq!(bucket.reserve_within(2, SECOND, now).unwrap().wait(now), SECOND);
}

#[test]
fn a_setter_changes_only_what_it_names() {
    let now = Instant::now();
    let bucket = TokenBucket::new(10.0, 20);
    bucket.try_take(20, now).unwrap();
    bucket.set_rate(1.0, now + SECOND);
    assert_eq!((bucket.available(now + SECOND), bucket.burst()), (10.0, 20));
    assert_eq!(bucket.available(now + 2 * SECOND), 11.0);
    bucket.set_burst(5, now + 2 * SECOND);
    assert_eq!((bucket.available(now + 2 * SECOND), bucket.rate_per_s()), (5.0, 1.0));
    bucket.set_burst(50, now + 2 * SECOND);
    assert_eq!(bucket.available(now + 2 * SECOND), 5.0);
}

#[test]
fn fractions_are_refilled_however_often_one_looks() {
    let clock = ManualClock::new();
    let bucket = TokenBucket::new(0.5, 1);
    bucket.try_take(1, clock.now()).unwrap();
    for _ in 0..1999 {
        clock.advance(MS);
        assert!(is_empty(bucket.try_take(1, clock.now())));
    }
    clock.advance(MS);
    bucket.try_take(1, clock.now()).unwrap();
}

#[test]
fn a_clock_that_is_set_back_gives_no_tokens_and_takes_none_for_good() {
    let begin = Instant::now() + 10_000 * SECOND;
    let bucket = TokenBucket::new(1.0, 10);
    bucket.try_take(10, begin).unwrap();
    let back = begin - 5_000 * SECOND;
    assert!(is_empty(bucket.try_take(1, back)));
    bucket.set_rate(1.0, back);
    bucket.try_take(1, back + SECOND).unwrap();
    assert!(is_empty(bucket.try_take(1, back + SECOND)));
    // A little back, as between threads, is no time at all.
    assert!(is_empty(bucket.try_take(1, back + SECOND - MS)));
    assert!(is_empty(bucket.try_take(1, back + SECOND)));
}

#[test]
fn a_clock_that_is_set_back_does_not_stop_the_refill_of_an_empty_bucket() {
    let begin = Instant::now() + 10_000 * SECOND;
    let bucket = TokenBucket::new(1.0, 10);
    bucket.try_take(10, begin).unwrap();
    let back = begin - 5_000 * SECOND;
    // Nothing is taken at the new time, only asked for.
    assert!(is_empty(bucket.try_take(1, back)));
    bucket.try_take(1, back + SECOND).unwrap();
    // The same for those who ask for a place in line, and for those who only look.
    let again = back - 1_000 * SECOND;
    assert!(is_empty(bucket.reserve_within(1, Duration::ZERO, again)));
    bucket.reserve_within(1, Duration::ZERO, again + SECOND).unwrap().spend(again + SECOND);
    let last = again - 1_000 * SECOND;
    assert_eq!(bucket.available(last), 0.0);
    assert_eq!(bucket.available(last + 2 * SECOND), 2.0);
}

#[test]
fn nobody_waits_for_tokens_that_come_after_the_end_of_the_count() {
    let now = Instant::now();
    let bucket = TokenBucket::new(1e-9, 1_000); // a token in 32 years
    bucket.try_take(1_000, now).unwrap();
    let years = 365 * 86_400 * SECOND;
    assert!(bucket.reserve(10, now).unwrap().wait(now) > 300 * years);
    let never = bucket.reserve(100, now).map(|place| place.wait(now));
    assert!(matches!(never, Err(BucketError::Empty { wait: None, .. })), "{never:?}");
}

#[test]
fn threads_take_each_token_once() {
    let now = Instant::now();
    let bucket = TokenBucket::new(0.0, 100_000);
    let taken = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for round in 0..25_000 {
                    let got = match round % 3 {
                        0 => bucket.reserve(1, now).map(|place| place.spend(now)).is_ok(),
                        1 => {
                            drop(bucket.reserve(1, now));
                            false
                        }
                        _ => bucket.try_take(1, now).is_ok(),
                    };
                    taken.fetch_add(u64::from(got), SeqCst);
                }
            });
        }
    });
    assert_eq!(taken.load(SeqCst) as f64 + bucket.available(now), 100_000.0);
}

#[test]
fn no_number_is_too_odd() {
    let now = Instant::now();
    for rate in ODD {
        for burst in [0, 1, u64::MAX] {
            let bucket = TokenBucket::new(rate, burst);
            for at in [now, now + SECOND * (1 << 30), now, now + MS] {
                let _ = bucket.try_take(burst, at);
                let _ = bucket.reserve(burst, at).map(|place| place.spend(at));
                let _ = bucket.reserve(1, at).map(|place| place.cancel());
                bucket.set_rate(rate, at);
                bucket.set_burst(burst, at);
                assert!(bucket.available(at).is_finite());
            }
        }
    }
}

proptest! {
    /// In any stretch no more than burst + rate × time, and what is asked after the wait that was
    /// told is there.
    #[test]
    fn the_rate_holds_in_every_stretch(
        rate in 0.1..1000.0,
        burst in 1..50_u64,
        asks in proptest::collection::vec((0..50_000_000_u64, 1..10_u64), 1..200),
    ) {
        let mut now = Instant::now();
        let bucket = TokenBucket::new(rate, burst);
        let mut taken: Vec<(Instant, u64)> = Vec::new();
        for (gap_ns, tokens) in asks {
            now += Duration::from_nanos(gap_ns);
            match bucket.try_take(tokens, now) {
                Ok(()) => taken.push((now, tokens)),
                Err(BucketError::Empty { wait: Some(wait), .. }) => {
                    now += wait;
                    prop_assert!(bucket.try_take(tokens, now).is_ok());
                    taken.push((now, tokens));
                }
                Err(_) => prop_assert!(tokens > burst),
            }
        }
        for (first, (from, _)) in taken.iter().enumerate() {
            let mut sum = 0;
            for (to, tokens) in &taken[first..] {
                sum += tokens;
                let most = burst as f64 + rate * (*to - *from).as_secs_f64();
                prop_assert!(sum as f64 <= most + 1e-6, "{sum} > {most}");
            }
        }
    }
}

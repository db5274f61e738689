//! The client's limiters, one by one. Time is a `ManualClock`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use proptest::prelude::*;
use weirpool::Clock;
use weirpool::client::{
    AdaptiveThrottle, Backoff, BucketError, Decision, GiveUp, Hint, NoRetry, Pacer, Retry,
    RetryAfter, RetryBudget, TokenBucket,
};
use weirpool::test::ManualClock;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

const ODD: [f64; 9] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    -1.0,
    0.0,
    1.0,
];

fn is_empty<T>(outcome: Result<T, BucketError>) -> bool {
    matches!(outcome, Err(BucketError::Empty { .. }))
}

fn is_too_large<T>(outcome: Result<T, BucketError>) -> bool {
    matches!(outcome, Err(BucketError::TooLarge { .. }))
}

mod token_bucket {
    use super::*;

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
        assert!(
            matches!(error, BucketError::Empty { wait: Some(wait), .. } if wait == SECOND * 3 / 2)
        );
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
}

mod adaptive_throttle {
    use super::*;

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
}

mod retry_budget {
    use super::*;

    #[test]
    fn a_clock_that_is_set_back_does_not_stop_the_reserve() {
        let begin = Instant::now() + 10_000 * SECOND;
        let budget = RetryBudget::new().min_per_second(1.0).ttl(SECOND);
        assert!(budget.withdraw(begin));
        let back = begin - 5_000 * SECOND;
        assert!(!budget.withdraw(back));
        assert!(budget.withdraw(back + SECOND));
    }

    #[test]
    fn races_lose_and_make_nothing() {
        let now = Instant::now();
        let budget = RetryBudget::new().ratio(1.0).min_per_second(0.0);
        budget.deposit(now);
        let failed = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..100_000 {
                        budget.deposit(now);
                        failed.fetch_add(u64::from(!budget.withdraw(now)), SeqCst);
                    }
                });
            }
        });
        assert_eq!((budget.balance(now), failed.load(SeqCst)), (1.0, 0));
    }

    #[test]
    fn races_for_fractions_are_exact_too() {
        let now = Instant::now();
        let budget = RetryBudget::new(); // a fifth each, and a reserve of 100
        let paid = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..100_000 {
                        budget.deposit(now);
                        paid.fetch_add(u64::from(budget.withdraw(now)), SeqCst);
                    }
                });
            }
        });
        // 800,000 / 5 + 100
        assert_eq!(paid.load(SeqCst) as f64 + budget.balance(now), 160_100.0);
        assert!(budget.balance(now) < 1.0);
    }

    #[test]
    fn a_rate_alone_gives_its_tokens_in_its_time() {
        let clock = ManualClock::new();
        let budget = RetryBudget::new().ratio(0.0).min_per_second(5.0);
        while budget.withdraw(clock.now()) {}
        clock.advance(SECOND);
        assert_eq!(budget.balance(clock.now()), 5.0);
        clock.advance(9 * SECOND);
        assert_eq!(budget.balance(clock.now()), 50.0);
        clock.advance(3600 * SECOND);
        assert_eq!(budget.balance(clock.now()), 50.0);
        let retries = (0..100).filter(|_| budget.withdraw(clock.now())).count();
        assert_eq!(retries, 50);
    }

    #[test]
    fn a_setting_changes_only_what_it_names() {
        let now = Instant::now();
        let balance = |budget: RetryBudget| {
            for _ in 0..10 {
                budget.deposit(now);
            }
            budget.balance(now)
        };
        assert_eq!(balance(RetryBudget::new()), 102.0);
        assert_eq!(balance(RetryBudget::new().ratio(0.5)), 105.0);
        assert_eq!(balance(RetryBudget::new().min_per_second(1.0)), 12.0);
        assert_eq!(balance(RetryBudget::new().ttl(SECOND)), 12.0);
        assert_eq!(balance(RetryBudget::new().ratio(0.5).ttl(SECOND).min_per_second(3.0)), 8.0);
        assert_eq!(balance(RetryBudget::new().min_per_second(3.0).ttl(SECOND).ratio(0.5)), 8.0);
    }

    #[test]
    fn deposits_are_lost_after_their_time() {
        let begin = Instant::now();
        let budget = RetryBudget::new().min_per_second(0.0);
        for at in [begin, begin + 5 * SECOND] {
            for _ in 0..10 {
                budget.deposit(at);
            }
        }
        assert_eq!(budget.balance(begin + 9 * SECOND), 4.0);
        assert!(budget.withdraw(begin + 9 * SECOND), "paid by the oldest");
        assert_eq!(budget.balance(begin + 9 * SECOND), 3.0);
        assert_eq!(budget.balance(begin + 10 * SECOND), 2.0);
        assert_eq!(budget.balance(begin + 15 * SECOND), 0.0);
        assert!(!budget.withdraw(begin + 15 * SECOND));
    }

    #[test]
    fn a_slow_reserve_still_holds_a_whole_retry() {
        let clock = ManualClock::new();
        let budget = RetryBudget::new().ratio(0.0).min_per_second(0.01);
        assert!(budget.withdraw(clock.now()));
        clock.advance(99 * SECOND);
        assert!(!budget.withdraw(clock.now()));
        clock.advance(SECOND);
        assert!(budget.withdraw(clock.now()));
        let none = RetryBudget::new().ratio(0.0).min_per_second(0.0);
        assert!(!none.withdraw(clock.now()));
    }

    #[test]
    fn no_number_is_too_odd() {
        let now = Instant::now() + 1000 * SECOND;
        for odd in ODD {
            for ttl in [Duration::ZERO, Duration::MAX] {
                let budget = RetryBudget::new().ratio(odd).min_per_second(odd).ttl(ttl);
                for at in [now, now - 500 * SECOND, now + SECOND * (1 << 30)] {
                    budget.deposit(at);
                    let _ = budget.withdraw(at);
                    let balance = budget.balance(at);
                    assert!(balance.is_finite() && balance >= 0.0, "{balance}");
                }
            }
        }
    }
}

mod backoff {
    use super::*;

    #[test]
    fn it_grows_to_its_cap_and_no_further() {
        let backoff = Backoff::new(100 * MS, 10 * SECOND);
        let ceilings: Vec<_> = (0..9).map(|n| backoff.ceiling(n).as_millis()).collect();
        assert_eq!(ceilings, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        for attempt in [64, 1024, u32::MAX] {
            assert_eq!(backoff.ceiling(attempt), 10 * SECOND);
        }
    }

    #[test]
    fn jitter_is_full_and_even() {
        let backoff = Backoff::new(100 * MS, 10 * SECOND);
        assert_eq!(backoff.delay(2, 0.0), Duration::ZERO);
        assert_eq!(backoff.delay(2, 0.25), 100 * MS);
        assert_eq!(backoff.delay(2, 1.0), 400 * MS);
        let flat = Backoff::new(SECOND, SECOND);
        let mean = flat.delays(1).take(10_000).sum::<Duration>() / 10_000;
        assert!((480 * MS..520 * MS).contains(&mean), "{mean:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_waits() {
        let waits = |seed| Backoff::default().delays(seed).take(20).collect::<Vec<_>>();
        assert_eq!(waits(1), waits(1));
        assert_ne!(waits(1), waits(2));
    }

    #[test]
    fn no_number_is_too_odd() {
        for odd in ODD {
            for (base, max) in [
                (Duration::ZERO, Duration::MAX),
                (Duration::MAX, Duration::MAX),
                (Duration::MAX, MS),
                (MS, Duration::ZERO),
            ] {
                let backoff = Backoff::new(base, max).factor(odd);
                for attempt in [0, 1, 1000, u32::MAX] {
                    assert!(backoff.delay(attempt, odd) <= backoff.ceiling(attempt));
                    assert!(backoff.ceiling(attempt) <= max);
                }
            }
        }
    }
}

mod retry_after {
    use super::*;

    /// 2019-12-31 23:59:59: from then on a year `69` is 2069 and `70` is 1970, which is how the judge,
    /// httpdate, takes them at all times.
    const NOW_S: u64 = 1_577_836_799;

    fn at(since_1970_s: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(since_1970_s)
    }

    fn parse(value: &str) -> Option<RetryAfter> {
        RetryAfter::parse(value, at(NOW_S)).ok()
    }

    #[test]
    fn seconds_and_all_three_forms_of_a_date() {
        for value in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            " \tSun, 06 Nov 1994 08:49:37 GMT ",
        ] {
            assert_eq!(parse(value), Some(RetryAfter::At(784_111_777)), "{value}");
        }
        assert_eq!(parse("120"), Some(RetryAfter::Seconds(120)));
        assert_eq!(parse(" 0 "), Some(RetryAfter::Seconds(0)));
        assert_eq!(parse("99999999999999999999999"), Some(RetryAfter::Seconds(u64::MAX)));
        assert_eq!(parse("Sat, 30 Jun 2012 23:59:60 GMT"), Some(RetryAfter::At(1_341_100_800)));
    }

    #[test]
    fn the_century_of_a_short_year_is_at_most_50_years_ahead() {
        let year_of = |short: &str, now: &str| {
            let now = httpdate::parse_http_date(now).unwrap();
            let value = format!("Monday, {short} 12:00:00 GMT");
            let RetryAfter::At(date) = RetryAfter::parse(&value, now).unwrap() else {
                panic!("{value} is a date");
            };
            httpdate::fmt_http_date(at(date))[12..16].to_owned()
        };
        let now = "Wed, 15 Jul 2026 12:00:00 GMT";
        assert_eq!(year_of("15-Jul-26", now), "2026");
        assert_eq!(year_of("15-Jul-76", now), "2076");
        assert_eq!(year_of("16-Jul-76", now), "1976");
        assert_eq!(year_of("01-Jan-77", now), "1977");
        assert_eq!(year_of("01-Jan-00", "Fri, 31 Dec 2049 00:00:00 GMT"), "2000");
        assert_eq!(year_of("01-Jan-00", "Sat, 01 Jan 2050 12:00:00 GMT"), "2100");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (value, wrong) in [
            ("", "it is empty"),
            ("-1", "it is neither a whole number nor a date"),
            ("+1", "it is neither a whole number nor a date"),
            ("1.5", "it is neither a whole number nor a date"),
            ("soon", "the day's name is none"),
            ("Sun, 6 Nov 1994 08:49:37 GMT", "a digit is missing"),
            ("Sun, 06 Nob 1994 08:49:37 GMT", "the month's name is none"),
            ("Sun, 06 Nov 1994 08:49:37 CET", "a separator or GMT is missing"),
            ("Sun, 06 Nov 1994 08:49:37 GMT;", "something follows the date"),
            ("Sun, 06 Nov 1994 24:00:00 GMT", "there is no such time of day"),
            ("Tue, 29 Feb 2022 00:00:00 GMT", "the month has no such day"),
            ("Wed, 00 Feb 2022 00:00:00 GMT", "the month has no such day"),
            ("Wed, 31 Dec 1969 23:59:59 GMT", "the year is not from 1970 to 9999"),
        ] {
            let error = RetryAfter::parse(value, at(NOW_S)).unwrap_err().to_string();
            assert_eq!(error, format!("not a value of Retry-After: {wrong}"), "{value}");
        }
    }

    #[test]
    fn a_wait_is_written_in_whole_seconds_and_at_least_one() {
        for (wait, value) in [
            (Duration::ZERO, "1"),
            (Duration::from_nanos(1), "1"),
            (SECOND, "1"),
            (SECOND + Duration::from_nanos(1), "2"),
            (Duration::MAX, "18446744073709551615"),
        ] {
            assert_eq!(RetryAfter::after(wait).to_string(), value);
        }
    }

    #[test]
    fn a_date_becomes_a_wait() {
        let date = RetryAfter::At(1000);
        assert_eq!(date.wait(at(990)), 10 * SECOND);
        assert_eq!(date.wait(at(990) + 500 * MS), 9500 * MS);
        assert_eq!(date.wait(at(2000)), Duration::ZERO);
        assert_eq!(date.wait(UNIX_EPOCH - SECOND), 1000 * SECOND);
        assert_eq!(RetryAfter::At(u64::MAX).to_string(), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(RetryAfter::from(at(7) + MS), RetryAfter::At(8));
        assert_eq!(RetryAfter::from(UNIX_EPOCH - SECOND), RetryAfter::At(0));
    }

    /// The two other forms of the date that httpdate writes.
    fn other_forms(imf: &str) -> [String; 2] {
        let words: Vec<&str> = imf.split(' ').collect();
        let [name, day, month, year, time] = words[..5] else { panic!("{imf}") };
        let short = name.trim_end_matches(',');
        let long = match short {
            "Tue" => "Tuesday".to_owned(),
            "Wed" => "Wednesday".to_owned(),
            "Thu" => "Thursday".to_owned(),
            "Sat" => "Saturday".to_owned(),
            other => format!("{other}day"),
        };
        let day_without_zero = day.strip_prefix('0').map_or(day.to_owned(), |d| format!(" {d}"));
        [
            format!("{long}, {day}-{month}-{} {time} GMT", &year[2..]),
            format!("{short} {month} {day_without_zero} {time} {year}"),
        ]
    }

    proptest! {
        #[test]
        fn dates_are_written_and_read_as_httpdate_does(second in 0..253_402_300_800_u64) {
            let written = httpdate::fmt_http_date(at(second));
            let ours = RetryAfter::At(second);
            prop_assert_eq!(ours.to_string(), written.clone());
            prop_assert_eq!(parse(&written), Some(ours));
            let [rfc850, asctime] = other_forms(&written);
            prop_assert_eq!(parse(&asctime), Some(ours));
            let judged = httpdate::parse_http_date(&rfc850);
            if let (Some(RetryAfter::At(short)), Ok(judged)) = (parse(&rfc850), judged) {
                prop_assert_eq!(at(short), judged);
            }
            if second < NOW_S {
                prop_assert_eq!(parse(&rfc850), Some(ours));
            }
        }

        #[test]
        fn no_input_is_too_odd(
            value in prop_oneof![
                "\\PC*", "[0-9]{0,30}", "(Sun|Monday|Tue),? [ -~]{0,30}",
                "Sun, [0-9]{2} Nov [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT",
                "Sunday, [0-9]{2}-Feb-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT",
            ],
            now in any::<u64>(),
        ) {
            let now = at(now % (1 << 40));
            if let Ok(read) = RetryAfter::parse(&value, now) {
                read.wait(now);
                prop_assert_eq!(RetryAfter::parse(&read.to_string(), now), Ok(read));
            } else if let Ok(date) = httpdate::parse_http_date(&value) {
                // Reading less than httpdate is allowed where it looks away.
                prop_assert!(date < UNIX_EPOCH, "{}", value);
            }
        }
    }
}

mod pacer {
    use super::*;

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
        let retries = (0..100)
            .filter(|_| matches!(pacer.refused(0, Hint::None, now), Retry::After(_)))
            .count();
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
}

#[test]
fn what_is_shared_can_be_shared() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<TokenBucket>();
    shared::<AdaptiveThrottle>();
    shared::<RetryBudget>();
    shared::<Backoff>();
    shared::<RetryAfter>();
    shared::<Pacer>();
}

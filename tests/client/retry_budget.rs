//! `RetryBudget`: retries are paid by requests of late and by a reserve; threads lose and make
//! nothing; each setting changes only what it names.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use weirpool::Clock;
use weirpool::client::RetryBudget;
use weirpool::test::ManualClock;

use crate::{ODD, SECOND};

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

//! `Backoff`: waits that grow to their cap, with full and even jitter that a seed repeats.

use std::time::Duration;

use weirpool::client::Backoff;

use crate::{MS, ODD, SECOND};

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

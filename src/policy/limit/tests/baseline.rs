//! What may move the baseline, and how fast.

use super::*;

/// Two minutes of a full pool, so that everything has settled.
fn settled(algorithm: Algorithm) -> Feed {
    let mut feed = Feed::new(algorithm, 1, 20);
    feed.ceiling = 40;
    feed.jobs(12_000, 10);
    assert_eq!(feed.base_ms(), 10.0);
    feed
}

#[test]
fn one_lucky_job_or_window_does_not_spoil_it() {
    for algorithm in ALL {
        let mut feed = settled(algorithm);
        feed.jobs(1, 0);
        feed.jobs(100, 10);
        assert_eq!(feed.base_ms(), 10.0, "{algorithm:?}");
        feed.jobs(10, 1);
        feed.jobs(100, 10);
        assert!(feed.base_ms() > 7.5, "{algorithm:?}: {}", feed.base_ms());
    }
}

#[test]
fn an_incident_of_ten_seconds_spoils_it_by_no_more_than_half() {
    for algorithm in ALL {
        let mut feed = settled(algorithm);
        feed.jobs(1_000, 1_000);
        assert!((10.0..=15.0).contains(&feed.base_ms()), "{algorithm:?}: {}", feed.base_ms());
        feed.jobs(300, 10);
        assert!((10.0..=12.0).contains(&feed.base_ms()), "{algorithm:?}: {}", feed.base_ms());
    }
}

#[test]
fn jobs_that_truly_became_slower_are_learnt_in_bounded_time() {
    for algorithm in ALL {
        for (slower, seconds) in [(2, 50), (10, 95)] {
            let mut feed = settled(algorithm);
            feed.jobs(seconds * 100, slower * 10);
            let learnt = feed.base_ms() / (slower * 10) as f64;
            assert!((0.9..=1.0).contains(&learnt), "{algorithm:?} {slower}: {learnt}");

            feed.jobs(300, 10);
            assert!(feed.base_ms() < 12.0, "{algorithm:?} recovered: {}", feed.base_ms());
        }
    }
}

#[test]
fn a_shift_in_the_mix_of_classes_is_not_congestion() {
    for algorithm in ALL {
        let mut feed = Feed::new(algorithm, 1, 20);
        feed.ceiling = 100;
        let mut phase = |dear_in_ten: u64| {
            let mut lowest = usize::MAX;
            for job in 0..6_000 {
                let dear = job % 10 < dear_in_ten;
                feed.class = u8::from(dear);
                feed.job(5, if dear { 20 } else { 1 }, feed.limit());
                lowest = lowest.min(feed.found());
            }
            lowest
        };
        assert!(phase(1) >= 20, "{algorithm:?}");
        assert_eq!(phase(9), 100, "{algorithm:?}");
        assert_eq!(phase(1), 100, "{algorithm:?}");
    }
}

#[test]
fn a_pool_that_goes_idle_in_a_probe_is_not_left_with_its_limit() {
    for algorithm in ALL {
        let mut feed = settled(algorithm);
        while !feed.is_probing() {
            feed.jobs(1, 10);
        }
        assert!(feed.limit() < 40);
        feed.now_ns += 60 * S;
        assert_eq!(feed.job(0, 10, 1), 40, "{algorithm:?}");
    }
}

#[test]
fn a_pool_that_never_gets_quiet_gives_its_probes_up() {
    for algorithm in ALL {
        let mut feed = settled(algorithm);
        let mut probing = 0;
        for _ in 0..30_000 {
            feed.job(4, 10, 40); // critical work doesn't ask for the limit
            probing += usize::from(feed.is_probing());
        }
        assert!(probing < 1_500, "{algorithm:?}: {probing} of 30 000 jobs");
        assert_eq!(feed.base_ms(), 10.0);
    }
}

#[test]
fn a_worker_alone_needs_no_probe_to_know_what_its_jobs_take() {
    for algorithm in ALL {
        let mut feed = Feed::new(algorithm, 1, 20);
        feed.limiter = Limiter::new(algorithm, 1, 1, 20);
        feed.ceiling = 40;
        for service_ms in [10, 20] {
            for _ in 0..5_000 {
                feed.job(service_ms, service_ms, feed.limit());
                assert!(!feed.is_probing(), "{algorithm:?}");
            }
            assert!((feed.base_ms() - service_ms as f64).abs() < 1.0, "{algorithm:?}");
            assert_eq!(feed.limit(), 40, "{algorithm:?}");
        }
    }
}

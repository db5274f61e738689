//! Field reports about limits, as tests.

use super::*;

#[test]
fn adaptive_limit_rounded_or_driven_to_0_comes_back() {
    for algorithm in ALL {
        for (floor, initial) in [(0, 2), (1, 20), (7, 8)] {
            for (good, slow_ms) in [(100, 30), (100, 1_000), (3_000, 30), (3_000, 100_000)] {
                let mut feed = Feed::new(algorithm, floor, initial);
                feed.ceiling = 200;
                feed.jobs(good, 10);
                feed.jobs(1, slow_ms);
                for _ in 0..1_000 {
                    assert!(feed.jobs(1, slow_ms) >= floor.max(1), "{algorithm:?}");
                }
                let after_storm = feed.limit();
                let raised = feed.jobs(20, 10);
                let case = (algorithm, floor, initial, good, slow_ms);
                let is_raised = raised > after_storm || raised == feed.ceiling;
                assert!(is_raised, "{case:?}: {after_storm}, then {raised}");
            }
        }
    }
}

// The probes of every second or so must not get in the way, whenever they come.
#[test]
fn a_storm_that_ends_at_any_time_is_followed_by_a_raise() {
    for algorithm in ALL {
        for storm in 900..1_020 {
            let mut feed = Feed::new(algorithm, 1, 20);
            feed.jobs(40, 10);
            let after_storm = feed.jobs(storm, 100);
            let raised = feed.jobs(20, 10);
            assert!(raised > after_storm, "{algorithm:?}, {storm}: {after_storm}, then {raised}");
        }
    }
}

#[test]
fn an_overloaded_limit_falls_to_the_floor_and_no_further() {
    for algorithm in ALL {
        let mut feed = Feed::new(algorithm, 7, 40);
        feed.ceiling = 60;
        feed.jobs(2_000, 10);
        for _ in 0..20 {
            // Ever slower, so that the baseline can't follow.
            let slower_ms = feed.base_ms() as u64 * 20;
            feed.jobs(500, slower_ms);
        }
        let lowest = if algorithm == Algorithm::Gradient { 8 } else { 7 };
        assert_eq!(feed.found(), lowest, "{algorithm:?}");
    }
}

#[test]
fn what_counts_as_a_sample_slow_jobs_do_and_nothing_else() {
    for algorithm in ALL {
        let mut feed = Feed::new(algorithm, 1, 50);
        feed.jobs(500, 10);
        let before = feed.found();
        feed.jobs(100, 1_000);
        assert!(feed.found() < before, "{algorithm:?}: 100 jobs of a second");
        assert!((10.0..=15.0).contains(&feed.base_ms()), "{}", feed.base_ms());

        // Refused and cancelled jobs aren't fed; a batch without jobs is nothing.
        let (before, base_ms) = (feed.found(), feed.base_ms());
        for _ in 0..100 {
            feed.now_ns += 10 * MS;
            let nothing = Batch { class: 0, jobs: 0, service_ns: MS, in_flight: 100 };
            feed.limiter.add(feed.now_ns, nothing, feed.ceiling, true);
        }
        assert_eq!((feed.found(), feed.base_ms()), (before, base_ms));
    }
}

#[test]
fn limit_grows_without_being_used() {
    for algorithm in ALL {
        let mut feed = Feed::new(algorithm, 1, 20);
        for _ in 0..10_000 {
            assert_eq!(feed.job(10, 10, 1), 20, "{algorithm:?}");
        }
        feed.now_ns += 3_600 * S;
        assert_eq!(feed.limit(), 20, "an idle hour");
        for _ in 0..5 {
            assert_eq!(feed.job(10, 10, 20), 20, "five jobs in a window");
        }
        feed.now_ns += 2 * S;
        for _ in 0..9 {
            assert_eq!(feed.job(20, 10, 20), 20, "what was left of the window is gone");
        }
        assert!(feed.job(20, 10, 20) > 20, "ten jobs, with half of it in use");
    }
}

#[test]
fn ten_of_twenty_is_in_use_and_nine_is_not() {
    for algorithm in ALL {
        for (in_flight, grows) in [(9, false), (10, true)] {
            let mut feed = Feed::new(algorithm, 1, 20);
            for _ in 0..60 {
                feed.job(10, 10, in_flight);
            }
            assert_eq!(feed.found() > 20, grows, "{algorithm:?} {in_flight}");
        }
    }
}

#[test]
fn a_pause_of_the_whole_process_is_one_odd_window() {
    for algorithm in ALL {
        let mut feed = Feed::new(algorithm, 1, 50);
        feed.ceiling = 100;
        feed.jobs(12_000, 10);
        let before = feed.found();
        assert_eq!(before, 100);
        let slow_ms = 3_600 * 1_000;
        feed.job(slow_ms, slow_ms, before);
        for _ in 0..9 {
            feed.job(0, slow_ms, before);
        }
        assert!((80..=100).contains(&feed.found()), "{algorithm:?}: {}", feed.found());
        assert_eq!(feed.base_ms(), 10.0);
        feed.jobs(250, 10);
        assert_eq!(feed.found(), before, "{algorithm:?}");
    }
}

#[test]
fn while_another_gate_refuses_it_may_fall_but_not_rise() {
    for algorithm in ALL {
        let mut feed = Feed::new(algorithm, 1, 50);
        feed.may_raise = false;
        feed.jobs(500, 10);
        assert_eq!(feed.found(), 50, "{algorithm:?}");
        feed.jobs(50, 1_000);
        assert!(feed.found() < 50, "{algorithm:?}");
    }
}

#[test]
fn the_capacity_is_the_ceiling_whenever_it_changes() {
    for algorithm in ALL {
        let mut feed = Feed::new(algorithm, 5, 50);
        feed.ceiling = 60;
        feed.jobs(2_000, 10);
        assert_eq!(feed.found(), 60, "{algorithm:?}");
        feed.ceiling = 3;
        assert_eq!(feed.limit(), 3, "the capacity is below the floor");
        assert!(feed.jobs(100, 10) <= 3);
        feed.ceiling = 0;
        assert_eq!(feed.limit(), 1);
        feed.ceiling = 30;
        feed.jobs(1_000, 10);
        assert_eq!(feed.found(), 30, "{algorithm:?}");
    }
}

#[test]
fn odd_times_and_figures_are_harmless() {
    const ODD: [u64; 8] = [0, 1, 9, 10 * MS, 3_600 * S, 1 << 53, u64::MAX - 1, u64::MAX];
    for algorithm in ALL {
        let mut rng = fastrand::Rng::with_seed(11);
        let mut limiter = Limiter::new(algorithm, rng.usize(..), 3, usize::MAX);
        let mut now_ns = 0;
        for _ in 0..10_000 {
            now_ns = match rng.u8(..4) {
                0 => ODD[rng.usize(..ODD.len())],
                1 => rng.u64(..),
                _ => u64::saturating_add(now_ns, rng.u64(..200 * MS)),
            };
            let batch = Batch {
                class: rng.u8(..),
                jobs: ODD[rng.usize(..ODD.len())],
                service_ns: ODD[rng.usize(..ODD.len())],
                in_flight: ODD[rng.usize(..ODD.len())] as usize,
            };
            let ceiling = ODD[rng.usize(..ODD.len())] as usize;
            let limit = limiter.add(now_ns, batch, ceiling, rng.bool());
            assert!(limit >= ceiling.clamp(1, 3) && limit <= ceiling.max(1));
            assert!(limiter.limit.is_finite() && limiter.ratio.is_finite());
        }
        // ... and it still works.
        let mut feed = Feed::new(algorithm, 3, 1);
        feed.limiter = limiter;
        feed.now_ns = 0;
        feed.ceiling = 20;
        feed.jobs(10_000, 10);
        feed.ceiling = 100;
        feed.jobs(3_000, 10);
        assert!(feed.found() > 20, "{algorithm:?}: {}", feed.found());
    }
}

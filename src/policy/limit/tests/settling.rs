//! The textbook plant: 4 servers of 10 ms, and a pool that is always full. A job takes
//! 10 ms x max(1, in flight / 4).

use super::plant::{Plant, Seen};
use super::*;

fn four_servers(algorithm: Algorithm, initial: usize) -> Plant<impl FnMut() -> u64> {
    let workers = 1_000;
    Plant::new(Limiter::new(algorithm, workers, 1, initial), workers, 4, || 10 * MS)
}

#[track_caller]
fn check(algorithm: Algorithm, seen: &Seen, most: usize) {
    assert!(seen.least >= 4 && seen.most <= most, "{algorithm:?}: {seen:?}");
    assert!(seen.probing < 0.05, "{algorithm:?}: {seen:?}");
}

#[test]
fn the_limit_settles_near_the_servers_and_stays_there() {
    for algorithm in [Algorithm::Vegas, Algorithm::Gradient] {
        let mut plant = four_servers(algorithm, 4);
        plant.run(2_000);
        check(algorithm, &plant.run(100_000), 4 + 6);
    }
    for algorithm in [Algorithm::Aimd, Algorithm::Bdp] {
        let mut plant = four_servers(algorithm, 4);
        plant.run(2_000);
        check(algorithm, &plant.run(20_000), 4 + 6);
    }
}

// The first thing that is measured is congestion, 5 or 16 times the baseline.
#[test]
fn a_start_in_the_middle_of_congestion_is_put_right() {
    for algorithm in ALL {
        let mut plant = four_servers(algorithm, 20);
        plant.run(60 * 400);
        check(algorithm, &plant.run(4_000), 4 + 7);

        // As many more jobs wait as run, so that lowering the limit shows no effect at first.
        let limiter = Limiter::new(algorithm, 64, 1, 128);
        let mut plant = Plant::new(limiter, 64, 4, || 10 * MS);
        plant.run(120 * 400);
        check(algorithm, &plant.run(4_000), 4 + 7);
    }
}

#[test]
fn congestion_among_noisy_jobs_is_seen_too() {
    for algorithm in ALL {
        let mut rng = fastrand::Rng::with_seed(5);
        let limiter = Limiter::new(algorithm, 64, 1, 128);
        let exponential = move || (-rng.f64().max(1e-12).ln() * 1e7) as u64;
        let mut plant = Plant::new(limiter, 64, 4, exponential);
        plant.run(24_000);
        check(algorithm, &plant.run(8_000), 32);
    }
}

//! Jobs of very different length, and nothing in their way: noise must not be taken for congestion.

use super::plant::Plant;
use super::*;

const WORKERS: usize = 8;

fn exponential_ms(rng: &mut fastrand::Rng) -> f64 {
    -rng.f64().max(1e-12).ln()
}

fn bimodal_ms(rng: &mut fastrand::Rng) -> f64 {
    if rng.u8(..10) == 0 { 20.0 } else { 1.0 }
}

fn lognormal_ms(rng: &mut fastrand::Rng) -> f64 {
    let normal = (2.0 * exponential_ms(rng)).sqrt() * (std::f64::consts::TAU * rng.f64()).cos();
    (1.5 * normal).exp()
}

type Draw = fn(&mut fastrand::Rng) -> f64;
const DRAWS: [(&str, Draw); 3] =
    [("exponential", exponential_ms), ("bimodal", bimodal_ms), ("lognormal", lognormal_ms)];

/// Less than twice the workers would leave some of them idle.
#[test]
fn without_congestion_the_limit_keeps_the_workers_busy() {
    for algorithm in ALL {
        for (name, draw) in DRAWS {
            for factor in [1.0, 10.0] {
                let mut rng = fastrand::Rng::with_seed(1);
                let service = move || (draw(&mut rng) * factor * MS as f64) as u64;
                let limiter = Limiter::new(algorithm, WORKERS, 1, 20);
                let mut plant = Plant::new(limiter, WORKERS, WORKERS, service);
                plant.bound = 2 * WORKERS;
                plant.run(3_000);
                let seen = plant.run(9_000);
                assert!(seen.below < 0.02, "{algorithm:?} {name} x {factor}: {seen:?}");
                assert!(seen.most > 20, "{algorithm:?} {name} x {factor}: {seen:?}");
            }
        }
    }
}

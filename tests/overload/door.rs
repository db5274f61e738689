//! The door: good answers, waits, and what a better-looking rule would do.

use crate::load::{Arrivals, Service, Stream};
use crate::sim::{DEFAULT, Door, Sim, is_good, is_turned_away};

fn run(door: Door, workers: usize, arrivals: Arrivals, service: Service, end_ms: f64) -> Sim {
    Sim::new(door, workers).play(Stream::new(arrivals, service, workers, 1), end_ms)
}

#[test]
fn explore() {
    for workers in [2, 8] {
        for service in Service::ALL {
            for load in [1.2, 2.0, 5.0, 10.0] {
                let sim = run(DEFAULT, workers, Arrivals::Poisson(load), service, 20_000.0);
                println!(
                    "{workers} {service:?} {load}: good {:.3} p99 wait {:.1} max {:.1} shed {:.4} longest {}",
                    sim.good_share(4_000.0, 20_000.0, service.mean_ns()),
                    sim.wait_ms(4_000.0, 0.99),
                    sim.wait_ms(4_000.0, 1.0),
                    sim.share(1_000.0, |fate| fate == crate::sim::Fate::Shed),
                    sim.longest_queue,
                );
            }
            for arrivals in [Arrivals::Poisson(0.9), Arrivals::Bursts(0.9)] {
                let sim = run(DEFAULT, workers, arrivals, service, 60_000.0);
                let good = sim.share(2_000.0, is_good);
                let away = sim.share(2_000.0, is_turned_away);
                let mean_ms = service.mean_ns() / 1e6;
                let (mut best, mut best_at) = (0.0, 0.0);
                for patience_ms in
                    [3.0, 5.0, 7.0, 10.0, 12.0, 14.0, 16.0, 18.0, 20.0, 22.0, 25.0, 30.0, 60.0]
                {
                    let jobs = (patience_ms * workers as f64 / mean_ms) as usize;
                    let stat = run(Door::Static(jobs), workers, arrivals, service, 60_000.0);
                    let share = stat.share(2_000.0, is_good);
                    if share > best {
                        (best, best_at) = (share, patience_ms);
                    }
                }
                println!(
                    "   {workers} {service:?} {arrivals:?}: good {good:.4} away {away:.4}; best static {best:.4} at {best_at} ms, lag {:.2} points",
                    (best - good) * 100.0
                );
            }
        }
    }
}

#[test]
fn explore_static() {
    for (workers, service) in [
        (2, Service::Bimodal),
        (2, Service::ThreeClasses),
        (2, Service::Pareto),
        (2, Service::Exponential),
        (8, Service::ThreeClasses),
    ] {
        for load in [1.0, 1.2, 2.0] {
            for patience_ms in [3.0, 5.0, 7.0, 10.0, 12.0, 14.0, 16.0, 20.0] {
                let jobs = (patience_ms * workers as f64 / service.mean_ns() * 1e6) as usize;
                let mut goods = vec![];
                for seed in 1..4 {
                    let sim = Sim::new(Door::Static(jobs), workers).play(
                        Stream::new(Arrivals::Poisson(load), service, workers, seed),
                        20_000.0,
                    );
                    goods.push(sim.good_share(4_000.0, 20_000.0, service.mean_ns()));
                }
                println!("{workers} {service:?} {load} {patience_ms}: good {goods:.3?}");
            }
        }
    }
}

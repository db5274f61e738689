//! The simulator itself, against what queueing theory knows exactly: with Poisson arrivals,
//! exponential jobs and a fixed bound, the shares refused and the mean number queued are Erlang's.

use crate::check::check;
use crate::load::{Arrivals, Callers, Priority, Service, together};
use crate::outcome::Fate;
use crate::sim::{Door, Settings};

/// The probabilities of so many jobs in flight, with `workers` and at most `queue` waiting.
fn states(workers: usize, queue: usize, load: f64) -> Vec<f64> {
    let mut weights = vec![1.0];
    for jobs in 1..=workers + queue {
        let leave = jobs.min(workers) as f64 / workers as f64;
        weights.push(weights[jobs - 1] * load / leave);
    }
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

#[test]
fn the_simulator_agrees_with_erlang() {
    const END_MS: u64 = 60_000;
    let mut rows = Vec::new();
    for (workers, queue) in [(1, 3), (2, 10), (8, 40)] {
        for load in [0.7, 1.0, 1.5] {
            let sent = Callers::new(Arrivals::Poisson(load), Service::Exponential);
            let sent = sent.send(workers, 1, END_MS);
            let out = Settings::with(Door::Static(queue), workers).play(&sent);
            let all = out.between(0, END_MS);
            let states = states(workers, queue, load);
            let refused = states[workers + queue];
            let refused_by_theory = all.share(|fate| fate == Fate::Refused) - refused;
            // Little's law: those who wait, over those who come in a millisecond.
            let queued: f64 =
                (0..).zip(&states[workers..]).map(|(jobs, p)| f64::from(jobs) * p).sum();
            let wait_ms = queued / (load * workers as f64 * (1.0 - refused));
            rows.push((
                format!("{workers} workers, {queue} queued, {load} x"),
                [
                    (refused, 0.0..=1.0),
                    (refused_by_theory, -0.01..=0.01),
                    (wait_ms, 0.0..=10.0),
                    (all.mean_wait_ms() / wait_ms, 0.95..=1.05),
                ],
            ));
        }
    }
    check("Erlang's formulas", ["refused", "off by", "mean wait ms", "ratio"], rows);
}

#[test]
fn a_run_replays_exactly() {
    let callers = |load, priority| {
        Callers::new(Arrivals::Bursts(load), Service::Lognormal).priority(priority)
    };
    let kinds = [callers(1.5, Priority::Low), callers(0.4, Priority::Critical)];
    let play = |seed| Settings::new(4).play(&together(&kinds, 4, seed, 3_000)).records;
    assert_eq!(play(7), play(7));
    assert_ne!(play(7), play(8));
}

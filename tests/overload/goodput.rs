//! Beyond capacity nearly all of it goes into answers in time, and who was accepted hasn't waited
//! for long.

use crate::check::{at_least, at_most, check, mean_of};
use crate::load::{Arrivals, Callers, Service};
use crate::outcome::{Fate, IN_TIME_MS};
use crate::sim::{Door, Settings};

const SEEDS: u64 = 3;

/// By then the slow average of the offered load knows that 1.2 is above 1.08; a flood is known at once.
fn settled_ms(load: f64) -> u64 {
    if load < 1.5 { 4_000 } else { 1_000 }
}

/// So many milliseconds of work, however many workers share it.
const WORK_MS: u64 = 32_000;

/// The share of the capacity that must become answers in time.
///
/// What bounds the two exceptions, with two workers just above the capacity: while both run a long
/// job, the whole queue of two targets waits beyond the cut of two, and then they run dry. No fixed
/// bound reaches 0.93 for three classes either, see the comparison below; and a longer queue would
/// only be shed.
fn least(workers: usize, service: Service, load: f64) -> f64 {
    match (workers, service) {
        (2, Service::Bimodal) if load < 2.0 => 0.945,
        (2, Service::ThreeClasses) if load < 2.0 => 0.88,
        (_, Service::Exponential | Service::Bimodal) => 0.95,
        _ => 0.93,
    }
}

/// Share of the capacity that went into answers in time, the wait that 99 % have not exceeded, the
/// longest, and the share that was shed; means over the seeds.
fn play(door: Door, workers: usize, service: Service, load: f64) -> [f64; 4] {
    let from_ms = settled_ms(load);
    let end_ms = from_ms + WORK_MS / workers as u64;
    mean_of(SEEDS, |seed| {
        let sent = Callers::new(Arrivals::Poisson(load), service).send(workers, seed, end_ms);
        let out = Settings::with(door, workers).play(&sent);
        let settled = out.between(from_ms, end_ms);
        [
            out.good_share(from_ms, end_ms, IN_TIME_MS),
            settled.wait_ms(0.99),
            settled.wait_ms(1.0),
            settled.share(Fate::is_shed),
        ]
    })
}

fn goodput(workers: usize) {
    let mut rows = Vec::new();
    for service in Service::MIXES {
        for load in [1.2, 2.0, 5.0, 10.0] {
            let [good, p99, longest, shed] = play(Door::Graded, workers, service, load);
            // The cut: two targets, and up to four while the average of the load dips to the
            // capacity. Two workers with jobs so uneven see it do that.
            let uneven = matches!(service, Service::Pareto | Service::ThreeClasses);
            let dips = workers == 2 && uneven && load == 1.2;
            let figures = [
                at_least(good, least(workers, service, load)),
                at_most(p99, if dips { 12.5 } else { 10.0 }),
                at_most(longest, 20.0),
                at_most(shed, 0.12),
            ];
            rows.push((format!("{workers} workers, {service:?}, {load} x"), figures));
        }
    }
    check("Beyond capacity", ["good", "p99 wait ms", "max wait ms", "shed"], rows);
}

#[test]
fn two_workers_beyond_capacity_spend_it_on_answers_in_time() {
    goodput(2);
}

#[test]
fn eight_workers_beyond_capacity_spend_it_on_answers_in_time() {
    goodput(8);
}

/// Where the door stays below 93 %, fixed bounds don't do much better, and let their callers wait for
/// more than twice as long.
#[test]
fn just_above_capacity_two_workers_with_odd_jobs_are_hard_for_any_bound() {
    let mut rows = Vec::new();
    for service in [Service::Bimodal, Service::ThreeClasses] {
        let [good, p99, ..] = play(Door::Graded, 2, service, 1.2);
        let (mut best, mut best_p99) = (0.0, 0.0);
        for wait_ms in [6.0, 8.0, 10.0, 12.0, 14.0] {
            let jobs = 2.0 * wait_ms / service.mean_ms();
            let [good, p99, ..] = play(Door::Static(jobs as usize), 2, service, 1.2);
            if good > best {
                (best, best_p99) = (good, p99);
            }
        }
        rows.push((
            format!("2 workers, {service:?}, 1.2 x"),
            [
                at_most((best - good) * 100.0, 2.0),
                at_most(best, 0.97),
                at_least(best_p99 / p99, 2.0),
            ],
        ));
    }
    check("Against the best static bound", ["lag, points", "its good", "p99 wait, ratio"], rows);
}

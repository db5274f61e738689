//! What is odd: a process that stood still, sparse traffic, long jobs, one worker and sixty-four, and
//! pools that have seen hardly anything.

use crate::check::{at_least, at_most, check, exactly};
use crate::load::{Arrival, Arrivals, Callers, MS, Priority, Service};
use crate::outcome::{Fate, Outcome};
use crate::sim::{Settings, Sim};

/// The clock goes on, nothing else does. What runs meanwhile is measured with the pause, so jobs look
/// long and the load high for the next few thousand: with eight workers nobody notices, with two a
/// few are refused for some seconds. Pauses below a second aren't told from busy workers; they shed
/// the little that was queued.
#[test]
fn a_pause_of_the_whole_process_is_no_overload() {
    let mut rows = Vec::new();
    for workers in [2, 8] {
        for pause_ms in [100, 2_000, 60_000, 3_600_000] {
            for backlog_ms in [0, 20] {
                let resumed_ms = PAUSED_MS + pause_ms;
                let out = play_with_pause(workers, pause_ms, backlog_ms);
                let shed = out.of(|_| true).count(Fate::is_shed);
                let first = out.between(resumed_ms, resumed_ms + 1_000);
                let next = out.between(resumed_ms + 1_000, resumed_ms + 10_000);
                let few = workers == 2;
                let queued = 5.0 * workers as f64;
                rows.push((
                    format!("{workers} workers, {pause_ms} ms, backlog of {backlog_ms} ms"),
                    [
                        (shed as f64, if pause_ms < 1_000 { 1.0..=queued } else { 0.0..=0.0 }),
                        at_most(first.share(Fate::is_turned_away), if few { 0.05 } else { 0.0 }),
                        at_most(next.share(Fate::is_turned_away), if few { 0.02 } else { 0.0 }),
                    ],
                ));
            }
        }
    }
    check("A pause at 0.5 x", ["shed", "away, first s", "away, next 9 s"], rows);
}

const PAUSED_MS: u64 = 3_000;

/// Callers stand still, too, but those of the first milliseconds afterwards come at once.
fn play_with_pause(workers: usize, pause_ms: u64, backlog_ms: u64) -> Outcome {
    let callers = Callers::new(Arrivals::Poisson(0.5), Service::Exponential);
    let mut before = callers.send(workers, 1, PAUSED_MS + 10_000);
    let resumed_ns = (PAUSED_MS + pause_ms) * MS;
    let mut after = before.split_off(before.partition_point(|job| job.at_ns < PAUSED_MS * MS));
    // So that some are queued when it begins.
    let job = Arrival { at_ns: PAUSED_MS * MS - 1, service_ns: MS, priority: Priority::Normal };
    before.extend(vec![job; 4 * workers]);
    for job in &mut after {
        job.at_ns += pause_ms * MS;
        if job.at_ns < resumed_ns + backlog_ms * MS {
            job.at_ns = resumed_ns;
        }
    }
    let mut sim = Sim::new(Settings::new(workers));
    sim.offer(&before);
    sim.freeze(PAUSED_MS * MS, resumed_ns);
    sim.offer(&after);
    sim.finish()
}

/// `count` jobs, one each `gap_ms`.
fn row_of(count: u64, service_ms: u64, gap_ms: u64) -> Vec<Arrival> {
    let job = |number| Arrival {
        at_ns: number * gap_ms * MS,
        service_ns: service_ms * MS,
        priority: Priority::Low,
    };
    (0..count).map(job).collect()
}

#[test]
fn sparse_jobs_are_always_served() {
    let mut rows = Vec::new();
    for workers in [1, 8] {
        for service_ms in [1, 100, 5_000] {
            for pause_ms in [1, 50, 1_500, 60_000] {
                let sent = row_of(500, service_ms, service_ms + pause_ms);
                let out = Settings::new(workers).play(&sent);
                let all = out.of(|_| true);
                rows.push((
                    format!("{workers} workers, {service_ms} ms, then {pause_ms} ms of nothing"),
                    [exactly(all.count(Fate::is_done), 500), at_most(all.wait_ms(1.0), 0.0)],
                ));
            }
        }
    }
    check("Sparse jobs", ["done", "max wait ms"], rows);
}

/// The target is never below one service time, and the times over which the load is averaged follow
/// it: jobs of two seconds fare as those of twenty milliseconds. At 0.5 x and two workers the patience
/// of four targets is eight jobs, and of exponential ones a few in a thousand find so many.
#[test]
fn long_jobs_have_a_longer_target() {
    let mut rows = Vec::new();
    for workers in [2, 8] {
        for service_ms in [20, 100, 2_000] {
            for service in [Service::Fixed, Service::Exponential] {
                for load in [0.5, 2.0] {
                    // Averages over long jobs take their time.
                    let (from_ms, end_ms) = (400 * service_ms, 2_400 * service_ms);
                    let callers = Callers::new(Arrivals::Poisson(load), service)
                        .with_jobs_times(service_ms as f64);
                    let out = Settings::new(workers).play(&callers.send(workers, 1, end_ms));
                    let settled = out.between(from_ms, end_ms);
                    let good = out.good_share(from_ms, end_ms, 5 * service_ms);
                    let away = settled.share(Fate::is_turned_away);
                    let waits = settled.wait_ms(0.99) / service_ms as f64;
                    let calm = load < 1.0;
                    let most_away = match (calm, workers, service) {
                        (true, 2, Service::Exponential) => 0.003,
                        (true, ..) => 0.0,
                        (false, ..) => 0.55,
                    };
                    rows.push((
                        format!("{workers} workers, {service:?}, {service_ms} ms, {load} x"),
                        [
                            at_least(good, if calm { 0.9 * load } else { 0.9 }),
                            at_most(away, most_away),
                            // The cut is two mean service times, and the mean moves a little.
                            at_most(waits, if calm { 4.0 } else { 2.1 }),
                        ],
                    ));
                }
            }
        }
    }
    check("Long jobs", ["good", "turned away", "p99 wait, jobs"], rows);
}

#[test]
fn one_worker_and_sixty_four() {
    let mut rows = Vec::new();
    for workers in [1, 64] {
        for load in [0.5, 0.9, 1.2, 2.5, 10.0] {
            let end_ms = 4_000 + 64_000 / workers as u64;
            let callers = Callers::new(Arrivals::Poisson(load), Service::Exponential);
            let out = Settings::new(workers).play(&callers.send(workers, 1, end_ms));
            let settled = out.between(4_000, end_ms);
            rows.push((
                format!("{workers} workers, {load} x"),
                [
                    at_least(out.good_share(4_000, end_ms, 25), 0.9 * load.min(1.0)),
                    at_most(settled.wait_ms(0.99), if load < 1.0 { 20.0 } else { 10.0 }),
                    at_most(settled.share(Fate::is_turned_away), (1.0 - 0.93 / load).max(0.02)),
                ],
            ));
        }
    }
    check("One worker and sixty-four", ["good", "p99 wait ms", "turned away"], rows);
}

#[test]
fn with_fewer_than_fifty_jobs_only_the_capacity_refuses() {
    let mut rows = Vec::new();
    for workers in [1, 8] {
        for service_ms in [1, 1_000] {
            let at_once = row_of(49, service_ms, 0);
            let done =
                |settings: Settings| settings.play(&at_once).of(|_| true).count(Fate::is_done);
            let settings = Settings::new(workers);
            rows.push((
                format!("{workers} workers, 49 jobs of {service_ms} ms"),
                [
                    exactly(done(settings), 49),
                    exactly(done(Settings { capacity: 10, ..settings }), 10),
                ],
            ));
        }
    }
    check("Hardly anything seen", ["done", "of 10 slots"], rows);
}

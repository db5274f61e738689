//! Jobs of microseconds, of which hundreds of thousands end in the time in which the door makes one plan, on
//! threads that lose their cores now and then.

use crate::check::{at_least, at_most, check, exactly};
use crate::load::{Arrival, Arrivals, Callers, MS, Priority, Service};
use crate::outcome::Fate;
use crate::sim::{Settings, Sim};

const WORKERS: usize = 4;
const END_MS: u64 = 200;
/// In milliseconds: jobs of two microseconds.
const TINY: f64 = 0.002;

/// Only the door refuses.
fn roomy() -> Settings {
    Settings { capacity: 1 << 20, ..Settings::new(WORKERS) }
}

fn tiny(load: f64) -> Callers {
    Callers::new(Arrivals::Poisson(load), Service::Exponential).with_jobs_times(TINY)
}

/// More threads than cores: now and then a worker is stopped in the middle of a job, for a slice of
/// the scheduler or some. Callers send thousands of jobs at once, worked off in two milliseconds, and the
/// next when they have all answers; so that where they miss one, nothing else is to be done meanwhile.
#[test]
fn a_worker_that_loses_its_core_closes_no_door() {
    const AT_ONCE: usize = 4_096;
    const ROUNDS: u64 = 80;
    let mut rows = Vec::new();
    for lost_ms in [3, 12, 18, 50] {
        let mut sim = Sim::new(roomy());
        let mut now_ns = 0;
        for round in 1..=ROUNDS {
            let job = Arrival { at_ns: now_ns, service_ns: 2_000, priority: Priority::Normal };
            sim.offer(&vec![job; AT_ONCE]);
            if round % 8 == 0 {
                sim.lose_core(now_ns + MS, lost_ms * MS);
                now_ns += lost_ms * MS;
            }
            now_ns += 5 * MS / 2;
        }
        let out = sim.finish();
        let strict = out.plans.iter().filter(|(_, plan)| plan.bound_ns < 20 * MS).count();
        rows.push((
            format!("for {lost_ms} ms"),
            [
                exactly(out.of(|_| true).count(Fate::is_done), AT_ONCE * ROUNDS as usize),
                exactly(strict, 0),
            ],
        ));
    }
    check("Tiny jobs, a worker without a core", ["done", "strict plans"], rows);
}

/// All of them, as where the quota of a control group is used up. What comes meanwhile is served in time
/// afterwards, but for the last of it where the workers had hardly done anything else in that window.
#[test]
fn a_standstill_of_some_milliseconds_closes_no_door() {
    const STOOD_MS: u64 = 15;
    let mut rows = Vec::new();
    for from_us in [60_000, 62_500, 65_000, 67_500] {
        let from_ns = from_us * 1_000;
        let mut before = tiny(0.5).send(WORKERS, 1, END_MS);
        let after = before.split_off(before.partition_point(|job| job.at_ns < from_ns));
        let mut sim = Sim::new(roomy());
        sim.offer(&before);
        sim.freeze(from_ns, from_ns + STOOD_MS * MS);
        sim.offer(&after);
        let away = sim.finish().of(|_| true).share(Fate::is_turned_away);
        rows.push((format!("from {from_us} us on"), [at_most(away, 0.001)]));
    }
    check("Tiny jobs, a standstill of 15 ms", ["turned away"], rows);
}

#[test]
fn a_flood_of_tiny_jobs_is_held_off() {
    let mut rows = Vec::new();
    for load in [1.5, 2.5] {
        let out = roomy().play(&tiny(load).send(WORKERS, 1, 2 * END_MS));
        let late = out.between(END_MS, 2 * END_MS);
        let good = out.good_share(0, 2 * END_MS, 25);
        rows.push((format!("{load} x"), [at_least(good, 0.99), at_most(late.wait_ms(1.0), 20.0)]));
    }
    check("A flood of tiny jobs", ["good", "max wait, later"], rows);
}

/// A change of kind, in the middle of a flood. The door learns it from as few jobs as ever; until then the
/// cut keeps waits short.
#[test]
fn jobs_become_five_hundred_times_as_long_in_the_middle_of_a_flood() {
    let mut rows = Vec::new();
    for service in [Service::Fixed, Service::Exponential, Service::Bimodal] {
        let mut sent = tiny(2.0).send(WORKERS, 1, 100);
        let long = Callers::new(Arrivals::Poisson(2.0), service).send(WORKERS, 1, 3_000);
        sent.extend(long.iter().map(|job| Arrival { at_ns: job.at_ns + 100 * MS, ..*job }));
        let out = roomy().play(&sent);
        for (phase, from_ms, to_ms) in [("first second", 120, 1_100), ("later", 1_100, 3_100)] {
            let chosen = out.between(from_ms, to_ms);
            rows.push((
                format!("{service:?}, {phase}"),
                [
                    at_least(out.good_share(from_ms, to_ms, 25), 0.95),
                    at_most(chosen.wait_ms(0.99), if phase == "later" { 10.0 } else { 20.0 }),
                    at_most(chosen.wait_ms(1.0), 20.0),
                ],
            ));
        }
    }
    check("From 2 us to 1 ms at 2 x", ["good", "p99 wait ms", "max wait ms"], rows);
}

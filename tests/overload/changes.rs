//! Load that changes: a step is noticed before anybody has waited for long, a flood leaves nothing
//! behind, tides come and go, and jobs may become ten times as long in the middle of it.

use std::collections::BTreeMap;

use crate::check::{at_least, at_most, check, exactly, mean_of};
use crate::load::{Arrival, Arrivals, Callers, MS, Priority, Service};
use crate::outcome::{Fate, IN_TIME_MS};
use crate::sim::{Settings, Sim, TARGET_NS};

const SEEDS: u64 = 3;
const FOUR_TARGETS_NS: u64 = 4 * TARGET_NS;

#[test]
fn a_step_from_half_to_two_and_a_half_is_noticed_before_anybody_waits_long() {
    const STEP_MS: u64 = 3_000;
    const END_MS: u64 = 4_500;
    let mut rows = Vec::new();
    for workers in [2, 8] {
        for service in [Service::Fixed].into_iter().chain(Service::MIXES) {
            let step = Arrivals::Steps(&[(0.5, STEP_MS), (2.5, END_MS)]);
            let (mut armed, mut waited) = (0.0_f64, 0.0_f64);
            for seed in 1..=10 {
                let out = Settings::new(workers)
                    .play(&Callers::new(step, service).send(workers, seed, END_MS));
                let armed_at_ms = out.armed_at_ms(STEP_MS, FOUR_TARGETS_NS).expect("never armed");
                armed = armed.max((armed_at_ms - STEP_MS) as f64);
                waited = waited.max(out.between(STEP_MS, END_MS).wait_ms(1.0));
            }
            rows.push((
                format!("{workers} workers, {service:?}"),
                [at_most(armed, 149.0), at_most(waited, 25.0)],
            ));
        }
    }
    check("A step from 0.5 x to 2.5 x, worst of 10", ["armed after ms", "max wait ms"], rows);
}

#[test]
fn after_a_flood_the_next_job_is_accepted_at_once() {
    const FLOOD_MS: u64 = 5_000;
    let mut rows = Vec::new();
    for workers in [1, 2, 8] {
        for silence_ms in [20, 2_000, 60_000, 3_600_000] {
            let flood = Callers::new(Arrivals::Poisson(10.0), Service::Exponential);
            let mut sent = flood.send(workers, 1, FLOOD_MS);
            let at_ns = (FLOOD_MS + silence_ms) * MS;
            sent.push(Arrival { at_ns, service_ns: MS, priority: Priority::Normal });
            let out = Settings::new(workers).play(&sent);
            let last = out.of(|arrival| arrival.at_ns == at_ns);
            rows.push((
                format!("{workers} workers, silent for {silence_ms} ms"),
                [exactly(last.count(Fate::is_done), 1), at_most(last.wait_ms(1.0), 0.0)],
            ));
        }
    }
    check("A flood, silence, one job", ["accepted", "wait ms"], rows);
}

#[test]
fn after_a_flood_ordinary_load_is_served_at_once() {
    const FLOOD_MS: u64 = 5_000;
    const END_MS: u64 = FLOOD_MS + 6_000;
    let mut rows = Vec::new();
    for workers in [2, 8] {
        for (load, steps) in
            [(0.5, &[(10.0, FLOOD_MS), (0.5, END_MS)]), (0.8, &[(10.0, FLOOD_MS), (0.8, END_MS)])]
        {
            let sent = Callers::new(Arrivals::Steps(steps), Service::Exponential);
            let out = Settings::new(workers).play(&sent.send(workers, 1, END_MS));
            let first = out.between(FLOOD_MS + 10, FLOOD_MS + 1_000).share(Fate::is_in_time);
            let rest = out.between(FLOOD_MS + 1_000, END_MS).share(Fate::is_in_time);
            let open = out.plans.iter().filter(|(_, plan)| plan.bound_ns == FOUR_TARGETS_NS);
            let patient_ms = open.map(|(at_ns, _)| at_ns / MS).find(|&at_ms| at_ms > FLOOD_MS + 10);
            let patient_ms = patient_ms.map_or(f64::NAN, |at_ms| (at_ms - FLOOD_MS) as f64);
            rows.push((
                format!("{workers} workers, {load} x after 10 x"),
                [at_least(first, 0.98), at_least(rest, 0.99), at_most(patient_ms, 4_000.0)],
            ));
        }
    }
    check("After a flood", ["first second", "afterwards", "patient, ms"], rows);
}

#[test]
fn tides_come_and_go() {
    const FROM_MS: u64 = 10_000;
    const END_MS: u64 = 40_000;
    let mut rows = Vec::new();
    for workers in [2, 8] {
        for period_ms in [500, 2_000, 10_000] {
            let tide = Arrivals::Tide { from: 0.3, to: 2.1, period_ms };
            let [good, p99, longest] = mean_of(SEEDS, |seed| {
                let sent = Callers::new(tide, Service::Exponential).send(workers, seed, END_MS);
                let out = Settings::new(workers).play(&sent);
                let all = out.between(FROM_MS, END_MS);
                let good = out.good_share(FROM_MS, END_MS, IN_TIME_MS);
                [good / possible_in_tide(0.3, 2.1), all.wait_ms(0.99), all.wait_ms(1.0)]
            });
            rows.push((
                format!("{workers} workers, in {period_ms} ms"),
                [at_least(good, 0.95), at_most(p99, 20.0), at_most(longest, 20.0)],
            ));
        }
    }
    check("Tides from 0.3 x to 2.1 x", ["of possible", "p99 wait ms", "max wait ms"], rows);
}

/// What is offered below the capacity, and all of the capacity above it.
fn possible_in_tide(from: f64, to: f64) -> f64 {
    let turns = (0..1_000).map(|turn| f64::from(turn) / 1_000.0 * std::f64::consts::TAU);
    let done = turns.map(|turn| (from + (to - from) * (1.0 - turn.cos()) / 2.0).min(1.0));
    done.sum::<f64>() / 1_000.0
}

#[test]
fn floods_that_come_and_go_each_second() {
    const END_MS: u64 = 20_000;
    let mut rows = Vec::new();
    for workers in [2, 8] {
        let in_turn = Arrivals::InTurn { first: 0.5, second: 2.5, each_ms: 1_000 };
        let sent = Callers::new(in_turn, Service::Exponential).send(workers, 1, END_MS);
        let out = Settings::new(workers).play(&sent);
        let good = |from_ms| out.good_share(from_ms, from_ms + 1_000, IN_TIME_MS);
        let worst_flood = (0..10).map(|round| good(round * 2_000 + 1_000)).fold(1.0, f64::min);
        let all = out.between(0, END_MS);
        // The first moments of a calm second still find the queue of the flood.
        let calm = all.of(|job| (20 * MS..1_000 * MS).contains(&(job.at_ns % (2_000 * MS))));
        rows.push((
            format!("{workers} workers"),
            [
                at_least(calm.share(Fate::is_in_time), 0.999),
                at_least(worst_flood, 0.95),
                at_most(all.wait_ms(1.0), 25.0),
            ],
        ));
    }
    let columns = ["calm, in time", "worst flood", "max wait ms"];
    check("A second of 0.5 x and one of 2.5 x in turn", columns, rows);
}

/// For a moment the mean service time is that of before. With longer jobs the door lets too many in,
/// and the cut sheds them: nobody waits for long. With shorter ones it is strict.
#[test]
fn jobs_become_ten_times_as_long_and_short_again_in_the_middle_of_a_flood() {
    const LONG_MS: (u64, u64) = (6_000, 12_000);
    const END_MS: u64 = 18_000;
    let mut rows = Vec::new();
    for workers in [2, 8] {
        for service in [Service::Fixed, Service::Exponential, Service::Lognormal] {
            let mut sent = Callers::new(Arrivals::Poisson(2.5), service).send(workers, 1, END_MS);
            let long = |job: &&mut Arrival| (LONG_MS.0..LONG_MS.1).contains(&(job.at_ns / MS));
            sent.iter_mut().filter(long).for_each(|job| job.service_ns *= 10);
            let out = Settings::new(workers).play(&sent);
            for (phase, from_ms, to_ms, target_ms) in [
                ("before", 4_000, LONG_MS.0, 5),
                ("first second, long", LONG_MS.0, LONG_MS.0 + 1_000, 10),
                ("long", LONG_MS.0 + 1_000, LONG_MS.1, 10),
                ("first second, short", LONG_MS.1, LONG_MS.1 + 1_000, 5),
                ("after", LONG_MS.1 + 1_000, END_MS, 5),
            ] {
                let good = out.good_share(from_ms, to_ms, 5 * target_ms);
                let chosen = out.between(from_ms, to_ms);
                let shed = chosen.count(Fate::is_shed) as f64;
                let shed = shed / chosen.count(Fate::is_accepted) as f64;
                rows.push((
                    format!("{workers} workers, {service:?}, {phase}"),
                    [
                        at_least(good, 0.95),
                        at_most(chosen.wait_ms(0.99), 2.0 * target_ms as f64),
                        at_most(shed, if target_ms == 5 { 0.02 } else { 0.5 }),
                    ],
                ));
            }
        }
    }
    let columns = ["good", "p99 wait ms", "of these shed"];
    check("Jobs ten times as long for six seconds", columns, rows);
}

/// Everybody who is refused tries again 100 ms later, three times at most: what is offered in the spike
/// grows by that, but it must not keep the pool in overload afterwards.
#[test]
fn the_retries_of_a_spike_pass_with_it() {
    const SPIKE_MS: (u64, u64) = (3_000, 5_000);
    const END_MS: u64 = 10_000;
    const TRIES: u32 = 4;
    let mut rows = Vec::new();
    for workers in [2, 8] {
        let steps = Arrivals::Steps(&[(0.8, SPIKE_MS.0), (3.0, SPIKE_MS.1), (0.8, END_MS)]);
        let first = Callers::new(steps, Service::Exponential).send(workers, 1, END_MS);
        let mut sim = Sim::new(Settings::new(workers));
        // By the time and the number of the job, so that no two are the same.
        let mut to_come: BTreeMap<(u64, usize), (Arrival, u32)> =
            (0..).zip(first).map(|(number, job)| ((job.at_ns, number), (job, TRIES))).collect();
        while let Some(((at_ns, number), (job, tries))) = to_come.pop_first() {
            if !sim.offer_one(job) && tries > 1 {
                let later = Arrival { at_ns: at_ns + 100 * MS, ..job };
                to_come.insert((later.at_ns, number), (later, tries - 1));
            }
        }
        let out = sim.finish();
        let during = out.good_share(SPIKE_MS.0 + 200, SPIKE_MS.1, IN_TIME_MS);
        let next = out.between(SPIKE_MS.1 + 1_000, END_MS).share(Fate::is_in_time);
        rows.push((format!("{workers} workers"), [at_least(during, 0.95), at_least(next, 0.99)]));
    }
    check("A spike of 3 x with retries", ["good in it", "in time after"], rows);
}

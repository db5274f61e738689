//! What waits in a lane below a flood is served once per ageing bound, and what comes meanwhile is
//! refused at once.

use crate::check::{at_least, at_most, check, exactly};
use crate::load::{Arrival, Arrivals, Callers, MS, Priority, Service, together};
use crate::outcome::{Fate, IN_TIME_MS, Outcome, Record};
use crate::policy::delay::Law;
use crate::sim::{Door, Settings};

use Priority::{High, Normal};

const FROM_MS: u64 = 2_000;
const END_MS: u64 = 20_000;

fn poisson(load: f64, priority: Priority) -> Callers {
    Callers::new(Arrivals::Poisson(load), Service::Exponential).priority(priority)
}

/// `count` jobs of a millisecond that come at one moment.
fn crowd(count: usize, at_ms: u64, priority: Priority) -> Vec<Arrival> {
    vec![Arrival { at_ns: at_ms * MS, service_ns: MS, priority }; count]
}

/// The longest time for which a lane had work and none of it was taken.
fn longest_neglect_ms(out: &Outcome, priority: Priority) -> f64 {
    let (mut longest_ns, mut taken_ns) = (0, 0);
    for record in out.records.iter().filter(|record| record.arrival.priority == priority) {
        let (Fate::Done { waited_ns, .. } | Fate::Shed { waited_ns }) = record.fate else {
            continue;
        };
        let since_ns = record.arrival.at_ns.max(taken_ns);
        taken_ns = record.arrival.at_ns + waited_ns;
        longest_ns = longest_ns.max(taken_ns - since_ns);
    }
    longest_ns as f64 / MS as f64
}

#[test]
fn a_lane_below_a_backlog_is_served_once_per_ageing_bound_and_no_more() {
    let mut rows = Vec::new();
    for workers in [1, 2, 8] {
        for bound_ms in [3, 200, 1_000] {
            let mut sent = crowd(4_000 * workers, 0, High);
            sent.extend(crowd(1_000 * workers, 0, Normal));
            let settings = Settings {
                capacity: 5_000 * workers,
                ageing_bound_ns: bound_ms * MS,
                ..Settings::with(Door::Open(Law::Off), workers)
            };
            let out = settings.play(&sent);
            let in_four_seconds = |record: &&Record| {
                let Fate::Done { latency_ns, .. } = record.fate else { return false };
                record.arrival.priority == Normal && latency_ns <= 4_000 * MS
            };
            let served = out.records.iter().filter(in_four_seconds).count();
            // The last bound ends with the fourth second; and never more than one pick in eight.
            let expected = (4_000 / bound_ms as usize - 1).min(500 * workers) as f64;
            rows.push((
                format!("{workers} workers, bound of {bound_ms} ms"),
                [
                    (served as f64, expected - 1.0..=expected + 1.0),
                    at_most(longest_neglect_ms(&out, Normal), bound_ms as f64 + 8.0),
                    exactly(out.between(0, END_MS).count(Fate::is_done), sent.len()),
                ],
            ));
        }
    }
    check("Four seconds of High, Normal below", ["served in 4 s", "neglect ms", "done"], rows);
}

/// Jobs that were accepted before a flood of High work began. After an ageing bound their lane is due,
/// and by then each has waited longer than the law allows: those that nobody needs to be run are shed,
/// and the last one is. Would the law judge that one, too, ageing would only ever shed.
#[test]
fn of_jobs_left_behind_by_a_flood_of_high_work_the_last_is_run_after_an_ageing_bound() {
    const LEFT: usize = 5;
    let mut rows = Vec::new();
    for workers in [2, 8] {
        for judges_the_due in [false, true] {
            let mut sent = poisson(0.3, High).send(workers, 1, FROM_MS);
            sent.extend(crowd(workers, FROM_MS, High));
            sent.extend(crowd(LEFT, FROM_MS, Normal));
            let mut flood = poisson(10.0, High).send(workers, 2, 8_000);
            flood.iter_mut().for_each(|job| job.at_ns += FROM_MS * MS);
            sent.extend(flood);
            let out = Settings { judges_the_due, ..Settings::new(workers) }.play(&sent);
            let left = out.between(0, END_MS).of_class(Normal);
            let run = usize::from(!judges_the_due);
            let name = if judges_the_due { "judged" } else { "spared" };
            rows.push((
                format!("{workers} workers, those that are due are {name}"),
                [
                    exactly(left.count(Fate::is_accepted), LEFT),
                    exactly(left.count(Fate::is_done), run),
                    at_most(longest_neglect_ms(&out, Normal), 1_010.0),
                ],
            ));
        }
    }
    check("Five Normal jobs below High at 10 x", ["accepted", "run", "neglect ms"], rows);
}

/// What comes during the flood is refused, not accepted and left: the door counts what waits above.
#[test]
fn beside_a_flood_of_high_work_normal_work_is_refused_at_once() {
    let mut rows = Vec::new();
    for workers in [2, 8] {
        for high in [1.5, 2.5, 10.0] {
            let kinds = [poisson(high, High), poisson(0.5, Normal)];
            let out = Settings::new(workers).play(&together(&kinds, workers, 1, END_MS));
            let normal = out.between(FROM_MS, END_MS).of_class(Normal);
            rows.push((
                format!("{workers} workers, High {high} x, Normal .5 x"),
                [
                    at_least(out.good_share(FROM_MS, END_MS, IN_TIME_MS), 0.97),
                    at_least(normal.share(|fate| fate == Fate::Refused), 0.9),
                    at_most(normal.share(Fate::is_shed), 0.05),
                    at_most(normal.share(Fate::is_done), 0.05),
                    at_most(longest_neglect_ms(&out, Normal), 1_020.0),
                ],
            ));
        }
    }
    let columns = ["good", "Normal refused", "shed", "done", "neglect ms"];
    check("A flood of High", columns, rows);
}

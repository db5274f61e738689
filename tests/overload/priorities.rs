//! The classes side by side: Critical gets in through any flood below it, and Low pays first.

use crate::check::{at_least, at_most, check, exactly};
use crate::load::{Arrivals, Callers, Priority, Service, together};
use crate::outcome::{Fate, IN_TIME_MS, Outcome};
use crate::policy::delay::Law;
use crate::sim::{Door, Settings};

use Priority::{Critical, High, Low, Normal};

const FROM_MS: u64 = 2_000;
const END_MS: u64 = 12_000;

fn poisson(load: f64, priority: Priority) -> Callers {
    Callers::new(Arrivals::Poisson(load), Service::Exponential).priority(priority)
}

/// The share of this class whose fate was of this kind.
fn share(out: &Outcome, priority: Priority, which: impl Fn(Fate) -> bool) -> f64 {
    out.between(FROM_MS, END_MS).of_class(priority).share(which)
}

#[test]
fn critical_work_gets_in_through_a_flood_of_low_work() {
    let mut rows = Vec::new();
    for workers in [2, 8] {
        let sent = together(&[poisson(0.3, Critical), poisson(12.0, Low)], workers, 1, END_MS);
        let defaults = Settings::new(workers);
        let unguarded = Settings::with(Door::Open(Law::Off), workers);
        let small = 8 * workers;
        // Behind 64 slots per worker and no door, Low work is served, and always too late.
        for (name, settings, low_in_time) in [
            ("graded door", defaults, 0.055..=1.0),
            ("only the capacity", unguarded, 0.0..=0.001),
            ("graded, few slots", Settings { capacity: small, ..defaults }, 0.055..=1.0),
            ("only few slots", Settings { capacity: small, ..unguarded }, 0.055..=1.0),
            (
                "only few slots, and a reserve",
                Settings { capacity: small, critical_reserve: 4, ..unguarded },
                0.055..=1.0,
            ),
        ] {
            let out = settings.play(&sent);
            let critical = out.between(FROM_MS, END_MS).of_class(Critical);
            rows.push((
                format!("{workers} workers, {name}"),
                [
                    at_least(critical.share(Fate::is_done), 0.999),
                    at_most(critical.wait_ms(0.99), 5.0),
                    at_least(share(&out, Low, Fate::is_done), 0.055),
                    (share(&out, Low, Fate::is_in_time), low_in_time),
                    at_most(share(&out, Low, |fate| fate == Fate::Displaced), 0.03),
                ],
            ));
        }
    }
    let columns = ["Critical done", "p99 wait ms", "Low done", "in time", "displaced"];
    check("Critical at 0.3 x, Low at 12 x", columns, rows);
}

#[test]
fn low_work_pays_before_normal_work() {
    let mut rows = Vec::new();
    for workers in [2, 8] {
        for (name, kinds) in [
            ("Low 1 x, Normal 1 x", [poisson(1.0, Low), poisson(1.0, Normal)]),
            ("Low 3 x, Normal .5 x", [poisson(3.0, Low), poisson(0.5, Normal)]),
            ("Low 12 x, Normal .5 x", [poisson(12.0, Low), poisson(0.5, Normal)]),
        ] {
            let out = Settings::new(workers).play(&together(&kinds, workers, 1, END_MS));
            let normal = out.between(FROM_MS, END_MS).of_class(Normal);
            let low_away = share(&out, Low, Fate::is_turned_away);
            rows.push((
                format!("{workers} workers, {name}"),
                [
                    at_least(normal.share(Fate::is_in_time), 0.9),
                    at_most(normal.wait_ms(0.99), 10.0),
                    at_least(low_away, 0.8),
                    at_least(out.good_share(FROM_MS, END_MS, IN_TIME_MS), 0.98),
                ],
            ));
        }
    }
    let columns = ["Normal in time", "p99 wait ms", "Low away", "good"];
    check("Low beside Normal", columns, rows);
}

#[test]
fn what_high_work_leaves_goes_to_normal_work() {
    let mut rows = Vec::new();
    for workers in [2, 8] {
        for high in [0.5, 0.9] {
            let kinds = [poisson(high, High), poisson(0.7, Normal)];
            let out = Settings::new(workers).play(&together(&kinds, workers, 1, END_MS));
            let left = (1.0 - high) / 0.7;
            rows.push((
                format!("{workers} workers, High {high} x, Normal .7 x"),
                [
                    at_least(share(&out, High, Fate::is_in_time), 0.96),
                    at_least(share(&out, Normal, Fate::is_in_time) / left, 0.9),
                    // The door predicts the wait from the queue as it is, not from the High work
                    // that will overtake, so much of this class is shed, not refused.
                    at_most(share(&out, Normal, Fate::is_shed), 0.5),
                    at_least(out.good_share(FROM_MS, END_MS, IN_TIME_MS), 0.97),
                ],
            ));
        }
    }
    check("Normal beside High", ["High in time", "Normal, of rest", "Normal shed", "good"], rows);
}

/// The door knows one load, that of all classes: in a flood of Low work it is strict with the bursts of
/// Normal work, too, though these would have been served.
#[test]
fn a_flood_of_low_work_costs_bursts_of_normal_work_a_little() {
    let mut rows = Vec::new();
    for workers in [2, 8] {
        let bursts = Callers::new(Arrivals::Bursts(0.9), Service::Exponential);
        let in_time = |kinds: &[Callers]| {
            let out = Settings::new(workers).play(&together(kinds, workers, 1, END_MS));
            share(&out, Normal, Fate::is_in_time)
        };
        let alone = in_time(&[bursts]);
        let beside = in_time(&[bursts, poisson(3.0, Low)]);
        let figures = [at_least(alone, 0.8), at_most((alone - beside) * 100.0, 7.0)];
        rows.push((format!("{workers} workers"), figures));
    }
    check("Bursts of Normal at 0.9 x beside Low at 3 x", ["alone", "points lost"], rows);
}

/// Nothing but the capacity stands before Critical work: who calls everything critical has a bounded
/// queue, and no protection.
#[test]
fn a_flood_of_critical_work_meets_the_capacity_and_nothing_else() {
    let mut rows = Vec::new();
    for workers in [2, 8] {
        let sent = together(&[poisson(1.5, Critical), poisson(0.5, High)], workers, 1, END_MS);
        let out = Settings::new(workers).play(&sent);
        let critical = out.between(FROM_MS, END_MS).of_class(Critical);
        rows.push((
            format!("{workers} workers"),
            [
                at_least(critical.share(Fate::is_done), 0.65),
                exactly(critical.count(Fate::is_shed), 0),
                at_most(critical.longest_queue(), 63.0 * workers as f64),
                at_most(critical.wait_ms(0.99), 80.0),
            ],
        ));
    }
    check("Critical at 1.5 x", ["done", "shed", "longest queue", "p99 wait ms"], rows);
}

//! Which rule holds a flood: all of them in the same one, 2.5 x on eight workers, exponential jobs of
//! a millisecond, 64 slots per worker unless it says otherwise.
//!
//! The graded door is the default because of this table. The laws of CoDel are there to be chosen.
//! RFC 8289's was made for senders who slow down when something is lost: of a flood whose callers
//! don't it sheds a few in a hundred, and nobody is answered in time. The interval rule keeps the
//! goodput, with waits of two targets, and sheds after acceptance what the door refuses before.
//!
//! A door that is armed by the interval's minimum is a limit cycle: it empties the queue, so it is
//! disarmed, so the queue fills. Nothing in the crate offers it. It is played here so that nobody
//! brings it back.

use std::ops::RangeInclusive;

use crate::check::{at_least, check};
use crate::load::{Arrival, Arrivals, Callers, MS, Service};
use crate::outcome::{IN_TIME_MS, Outcome};
use crate::policy::delay::Law;
use crate::sim::{Door, INTERVAL_NS, Settings, TARGET_NS};

const WORKERS: usize = 8;
const FROM_MS: u64 = 2_000;

const RFC8289: Law = Law::Rfc8289 { target_ns: TARGET_NS, interval_ns: INTERVAL_NS };
const INTERVAL: Law = Law::Interval { target_ns: TARGET_NS, interval_ns: INTERVAL_NS };
const CUTOFF: Law = Law::Cutoff { max_ns: 20 * MS };

fn flood(seed: u64, end_ms: u64) -> Vec<Arrival> {
    Callers::new(Arrivals::Poisson(2.5), Service::Exponential).send(WORKERS, seed, end_ms)
}

/// What is measured of each rule. The longest queue is that of the first moments, too, when only the
/// capacity refuses; what is shed is a share of all arrivals.
const COLUMNS: [&str; 5] = ["good", "p50 ms", "p99 ms", "longest queue", "shed"];

struct Rule {
    name: &'static str,
    door: Door,
    slots: usize,
    /// By the columns.
    expected: [RangeInclusive<f64>; 5],
}

const RULES: [Rule; 10] = [
    Rule {
        name: "bounded only",
        door: Door::Open(Law::Off),
        slots: 512,
        expected: [0.0..=0.01, 60.0..=68.0, 68.0..=76.0, 504.0..=504.0, 0.0..=0.0],
    },
    Rule {
        name: "RFC 8289",
        door: Door::Open(RFC8289),
        slots: 512,
        expected: [0.0..=0.01, 50.0..=65.0, 60.0..=75.0, 504.0..=504.0, 0.01..=0.1],
    },
    Rule {
        name: "RFC 8289, 4096 slots",
        door: Door::Open(RFC8289),
        slots: 4096,
        expected: [0.0..=0.01, 400.0..=520.0, 450.0..=560.0, 4088.0..=4088.0, 0.01..=0.1],
    },
    Rule {
        name: "cut-off of 20 ms",
        door: Door::Open(CUTOFF),
        slots: 512,
        expected: [0.97..=1.0, 19.0..=22.0, 22.0..=27.0, 400.0..=504.0, 0.58..=0.62],
    },
    Rule {
        name: "interval rule",
        door: Door::Open(INTERVAL),
        slots: 512,
        expected: [0.98..=1.0, 9.0..=12.0, 12.0..=18.0, 504.0..=504.0, 0.58..=0.62],
    },
    Rule {
        name: "interval rule, 4096 slots",
        door: Door::Open(INTERVAL),
        slots: 4096,
        expected: [0.98..=1.0, 9.0..=12.0, 12.0..=18.0, 505.0..=4088.0, 0.58..=0.62],
    },
    Rule {
        name: "door, armed by the interval's minimum",
        door: Door::ArmedByInterval,
        slots: 512,
        expected: [0.3..=0.65, 15.0..=45.0, 60.0..=76.0, 504.0..=504.0, 0.01..=0.2],
    },
    Rule {
        name: "door, always at one target",
        door: Door::Static(40),
        slots: 512,
        expected: [0.98..=1.0, 5.0..=6.5, 8.0..=11.0, 40.0..=40.0, 0.0..=0.0],
    },
    Rule {
        name: "graded door",
        door: Door::Graded,
        slots: 512,
        expected: [0.98..=1.0, 5.0..=6.5, 8.0..=11.0, 40.0..=300.0, 0.0..=0.001],
    },
    Rule {
        name: "graded door, 4096 slots",
        door: Door::Graded,
        slots: 4096,
        expected: [0.98..=1.0, 5.0..=6.5, 8.0..=11.0, 40.0..=300.0, 0.0..=0.001],
    },
];

#[test]
fn the_rules_in_the_same_flood() {
    const END_MS: u64 = 22_000;
    let sent = flood(1, END_MS);
    let rows = RULES.map(|rule| {
        let settings = Settings { capacity: rule.slots, ..Settings::with(rule.door, WORKERS) };
        let out = settings.play(&sent);
        let settled = out.between(FROM_MS, END_MS);
        let measured = [
            out.good_share(FROM_MS, END_MS, IN_TIME_MS),
            settled.latency_ms(0.5),
            settled.latency_ms(0.99),
            out.between(0, END_MS).longest_queue(),
            settled.share(|fate| fate.is_shed()),
        ];
        let mut expected = rule.expected.into_iter();
        let figures = measured.map(|value| (value, expected.next().expect("one for each column")));
        (rule.name.to_owned(), figures)
    });
    check("2.5 x", COLUMNS, rows);
}

/// The share of the windows whose answers in time, as a share of the capacity, are of this kind.
fn share_of_windows(out: &Outcome, end_ms: u64, window_ms: u64, which: fn(f64) -> bool) -> f64 {
    let windows = out.good_by_window(FROM_MS, end_ms, window_ms);
    windows.iter().filter(|&&good| which(good)).count() as f64 / windows.len() as f64
}

#[test]
fn the_graded_door_does_not_oscillate() {
    const END_MS: u64 = 32_000;
    let rows = (1..=3).map(|seed| {
        let out = Settings::new(WORKERS).play(&flood(seed, END_MS));
        let windows = out.good_by_window(FROM_MS, END_MS, 250);
        let worst = windows.iter().copied().fold(f64::INFINITY, f64::min);
        (format!("seed {seed}, {} windows", windows.len()), [at_least(worst, 0.9)])
    });
    check("The worst quarter of a second at 2.5 x, graded", ["good"], rows);
}

#[test]
fn a_door_armed_by_the_interval_does_oscillate() {
    const END_MS: u64 = 22_000;
    let rows = (1..=3).map(|seed| {
        let out = Settings::with(Door::ArmedByInterval, WORKERS).play(&flood(seed, END_MS));
        let share = |window_ms, which| share_of_windows(&out, END_MS, window_ms, which);
        let figures = [
            at_least(share(250, |good| good < 0.5), 0.3),
            at_least(share(25, |good| good < 0.1), 0.25),
            at_least(share(25, |good| good > 0.8), 0.25),
        ];
        (format!("seed {seed}"), figures)
    });
    let columns = ["250 ms, < .5", "25 ms, < .1", "25 ms, > .8"];
    check("How many windows are how good at 2.5 x, armed by the interval", columns, rows);
}

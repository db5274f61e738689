//! What the benches share.

#![allow(dead_code)] // each bench uses its own part of this folder

pub(crate) mod counting;
pub(crate) mod cpu;
pub(crate) mod figures;
pub(crate) mod options;
pub(crate) mod work;

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// What the machine was doing, for whoever reads the figures later.
pub(crate) fn conditions() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_else(|_| "unknown".to_owned());
    let load: Vec<_> = load.split_whitespace().take(3).collect();
    let (cores, obtained) = (num_cpus::get(), obtained_cores());
    format!("{cores} cores, of which {obtained:.1} were to be had; load average {}", load.join(" "))
}

/// How many cores this process gets when it wants all. With little more than one, threads run in turn
/// and not beside each other: then nothing travels between cores, and what that costs is not seen.
fn obtained_cores() -> f64 {
    const TRY: Duration = Duration::from_millis(100);
    let before = cpu::process();
    let started = Instant::now();
    thread::scope(|scope| {
        for _ in 0..num_cpus::get() {
            scope.spawn(|| while started.elapsed() < TRY {});
        }
    });
    (cpu::process() - before).as_secs_f64() / started.elapsed().as_secs_f64()
}

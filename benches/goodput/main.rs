//! How much of the capacity is left while the pool refuses, at 1 to 10 times the capacity.
//!
//! `cargo bench --bench goodput [-- --quick]`
//!
//! What is spent on refusing is not there for jobs. With a refusal that costs the share `r` of a job,
//! and `k` times the capacity offered, `a + (k - a) r = 1` gives the part of the capacity that is kept,
//!
//! ```text
//! a = (1 - k r) / (1 - r)
//! ```
//!
//! which this compares with what happens. Both sides are measured in CPU time: *kept* is the jobs done
//! per second of CPU, beside those of a closed loop without refusals just before; so other work on the
//! machine takes nothing from either. `r` is what the source of the jobs spent on one of them, its own
//! time-keeping included.

#[path = "../support/mod.rs"]
mod support;

mod load;

use std::time::Duration;

use load::{Outcome, closed_loop, open_loop};
use support::figures::median;
use support::options::{Given, Options};
use support::work::Work;

const TIMES: [f64; 6] = [1.0, 2.0, 3.0, 5.0, 7.0, 10.0];

struct Plan {
    workers: usize,
    length: Duration,
    rounds: usize,
    jobs_us: Vec<u64>,
}

fn main() {
    let plan = plan();
    println!(
        "{} workers, {} rounds of {:?}; medians; {}\n",
        plan.workers,
        plan.rounds,
        plan.length,
        support::conditions()
    );
    println!(
        "{:>8}{:>7}{:>10}{:>12}{:>10}{:>9}{:>9}{:>9}{:>11}",
        "job us", "asked", "k of CPU", "offered/s", "done/s", "r %", "kept", "formula", "in time %"
    );
    for &job_us in &plan.jobs_us {
        one_size(&plan, job_us);
    }
}

/// One load in one round, as shares of what there is.
struct Line {
    k: f64,
    offered_per_second: f64,
    done_per_second: f64,
    r: f64,
    kept: f64,
    formula: f64,
    in_time: f64,
}

fn one_size(plan: &Plan, job_us: u64) {
    let work = Work::of_ns(job_us * 1_000);
    let mut lines: Vec<Vec<Line>> = TIMES.iter().map(|_| Vec::new()).collect();
    for _ in 0..plan.rounds {
        for (times, lines) in TIMES.iter().zip(&mut lines) {
            let whole = closed_loop(plan.workers, work, plan.length);
            let load = times * whole.per_second();
            lines.push(line(&whole, &open_loop(plan.workers, work, load, plan.length)));
        }
    }
    for (times, lines) in TIMES.iter().zip(&lines) {
        let of =
            |figure: fn(&Line) -> f64| median(&mut lines.iter().map(figure).collect::<Vec<_>>());
        println!(
            "{job_us:>8}{times:>7}{:>10.2}{:>12.0}{:>10.0}{:>9.3}{:>9.3}{:>9.3}{:>11.1}",
            of(|line| line.k),
            of(|line| line.offered_per_second),
            of(|line| line.done_per_second),
            of(|line| line.r * 100.0),
            of(|line| line.kept),
            of(|line| line.formula),
            of(|line| line.in_time * 100.0),
        );
    }
}

fn line(whole: &Outcome, loaded: &Outcome) -> Line {
    let capacity = whole.per_cpu_second();
    // What was offered beside what this much CPU can do: the asked multiple, if the machine gave the
    // process as much CPU as before.
    let k = loaded.offered as f64 / (capacity * loaded.cpu.as_secs_f64());
    let r = loaded.source_seconds() * capacity;
    Line {
        k,
        offered_per_second: loaded.offered as f64 / loaded.wall.as_secs_f64(),
        done_per_second: loaded.per_second(),
        r,
        kept: loaded.per_cpu_second() / capacity,
        // Below the capacity nothing has to be refused.
        formula: (1.0 - k.max(1.0) * r) / (1.0 - r),
        in_time: loaded.in_time as f64 / loaded.completed as f64,
    }
}

fn plan() -> Plan {
    let mut plan = Plan {
        workers: num_cpus::get(),
        length: Duration::from_millis(500),
        rounds: 3,
        jobs_us: vec![10, 100, 1_000],
    };
    let mut options = Options::of_this_process();
    while let Some(given) = options.next() {
        let Given::Option(name) = given else {
            println!(
                "The capacity that is left.  --quick, --rounds N (3), --workers N, --jobs-us LIST"
            );
            std::process::exit(0);
        };
        match name.as_str() {
            "quick" => (plan.length, plan.rounds) = (Duration::from_millis(150), 1),
            "rounds" => plan.rounds = options.value(),
            "workers" => plan.workers = options.value(),
            "jobs-us" => plan.jobs_us = options.list(),
            unknown => options.reject(unknown),
        }
    }
    assert!(plan.rounds > 0 && plan.workers > 0, "at least one round and one worker");
    plan
}

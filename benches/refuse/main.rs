//! What a refusal costs: for each reason, with one to eight threads that are refused at a time, and
//! with an empty, a half-full and a full queue. It must be flat in both, and allocate nothing.
//!
//! `cargo bench --bench refuse [-- --quick]`
//!
//! The figure is CPU time of the refused threads, by their own clocks: with more threads than cores
//! wall time would only tell how the system shares them out.

#[path = "../support/mod.rs"]
mod support;

mod states;

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;

use states::{CAPACITY, REASONS, Refusing};
use support::counting::{Counting, allocations};
use support::cpu;
use support::figures::{median, ns, quantile};
use support::options::{Given, Options};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const THREADS: [usize; 4] = [1, 2, 4, 8];
const QUEUED: [usize; 3] = [0, CAPACITY / 2, CAPACITY];

struct Plan {
    refusals: u64,
    rounds: usize,
}

fn main() {
    let plan = plan();
    println!("{}", support::conditions());
    println!(
        "ns of CPU per refusal, the best of {} rounds of {} on each thread (median)\n",
        plan.rounds, plan.refusals
    );
    print!("{:<12}{:>8}", "reason", "queued");
    for threads in THREADS {
        print!("{:>18}", format!("{threads} threads"));
    }
    println!("{:>14}{:>13}", "most : least", "allocations");
    for reason in REASONS {
        for queued in QUEUED {
            line(&plan, &Refusing::new(reason, queued));
        }
    }
}

fn line(plan: &Plan, refusing: &Refusing) {
    print!("{:<12}{:>8}", format!("{:?}", refusing.reason), refusing.queued());
    let (mut best, mut allocated) = (Vec::new(), 0);
    for threads in THREADS {
        let mut rounds: Vec<f64> = (0..plan.rounds)
            .map(|_| {
                let (cpu_ns, allocations) = round(plan, refusing, threads);
                allocated += allocations;
                cpu_ns
            })
            .collect();
        best.push(quantile(&mut rounds, 0.0));
        print!("{:>10} ({:>5})", ns(best[best.len() - 1]), ns(median(&mut rounds)));
    }
    let spread = quantile(&mut best, 1.0) / quantile(&mut best, 0.0);
    println!("{spread:>14.2}{allocated:>13}");
    assert_eq!(allocated, 0, "a refusal allocated memory");
}

/// CPU time per refusal, and all allocations.
fn round(plan: &Plan, refusing: &Refusing, threads: usize) -> (f64, u64) {
    let barrier = Barrier::new(threads);
    let refused = || {
        barrier.wait();
        let (allocated, started) = (allocations(), cpu::thread());
        for _ in 0..plan.refusals {
            assert_eq!(black_box(refusing.refuse()), Some(refusing.reason));
        }
        let cpu_ns = (cpu::thread() - started).as_nanos() as f64;
        (cpu_ns / plan.refusals as f64, allocations() - allocated)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(refused)).collect();
        let each: Vec<_> =
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        let cpu_ns = each.iter().map(|(cpu_ns, _)| cpu_ns).sum::<f64>() / each.len() as f64;
        (cpu_ns, each.iter().map(|(_, allocated)| allocated).sum())
    })
}

fn plan() -> Plan {
    let mut plan = Plan { refusals: 50_000, rounds: 7 };
    let mut options = Options::of_this_process();
    while let Some(given) = options.next() {
        match given {
            Given::Option(name) if name == "quick" => plan = Plan { refusals: 5_000, rounds: 3 },
            Given::Option(name) if name == "rounds" => plan.rounds = options.value(),
            Given::Option(name) => options.reject(&name),
            Given::Help => {
                println!("What a refusal costs.  --quick, --rounds N (7)");
                std::process::exit(0);
            }
        }
    }
    assert!(plan.rounds > 0, "at least one round");
    plan
}

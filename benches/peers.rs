//! What one job costs, beside the pools people have today, in one process and in turn.
//!
//! `cargo bench --bench peers [-- --rounds N] [--jobs N] [--workers N]`
//!
//! The contestants run one after the other, A B C A B C ..., since a shared machine changes its
//! speed from one second to the next: only the ratios inside one run are worth anything. Each
//! figure is the median over the rounds, with the smallest and the largest beside it.

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use weirpool::Pool;

/// How much is measured.
struct Plan {
    rounds: usize,
    jobs: usize,
    workers: usize,
}

/// One contestant in one discipline; returns nanoseconds.
struct Entry<'a> {
    shape: &'static str,
    pool: &'static str,
    run: Box<dyn FnMut() -> f64 + 'a>,
    results: Vec<f64>,
}

fn main() {
    let plan = plan();
    let weirpool = weirpool(&plan);
    let rayon = rayon::ThreadPoolBuilder::new().num_threads(plan.workers).build().unwrap();
    let full = Pool::new(1, 1).unwrap();
    let _taken = full.try_reserve().unwrap();

    let mut entries = vec![
        entry("detached", "weirpool", || detached(&plan, |job| weirpool.try_spawn(job).unwrap())),
        entry("detached", "rayon spawn", || detached(&plan, |job| rayon.spawn(job))),
        entry("joined", "weirpool", || joined_weirpool(&plan, &weirpool)),
        entry("joined", "rayon spawn + channel", || joined_rayon(&plan, &rayon)),
        entry("round trip p50", "weirpool", || round_trip(&plan, 0.5, || join_one(&weirpool))),
        entry("round trip p50", "rayon install", || {
            round_trip(&plan, 0.5, || rayon.install(|| black_box(())))
        }),
        entry("round trip p99", "weirpool", || round_trip(&plan, 0.99, || join_one(&weirpool))),
        entry("round trip p99", "rayon install", || {
            round_trip(&plan, 0.99, || rayon.install(|| black_box(())))
        }),
        entry("refusal", "weirpool (full)", || refusals(&plan, &full)),
    ];
    for round in 0..=plan.rounds {
        for entry in &mut entries {
            let ns = (entry.run)();
            // The first round warms the machine up.
            if round > 0 {
                entry.results.push(ns);
            }
        }
    }
    print!("{}", table(&plan, &mut entries));
}

fn entry<'a>(shape: &'static str, pool: &'static str, run: impl FnMut() -> f64 + 'a) -> Entry<'a> {
    Entry { shape, pool, run: Box::new(run), results: Vec::new() }
}

/// The default builder, with room for all jobs of a round.
fn weirpool(plan: &Plan) -> Pool {
    Pool::builder().workers(plan.workers).capacity(plan.jobs).build().unwrap()
}

// ── Disciplines ─────────────────────────────────────────────────────────────────────────────────

/// One outside producer, nothing returned; the time until the last job has run.
fn detached(plan: &Plan, mut spawn: impl FnMut(Box<dyn FnOnce() + Send>)) -> f64 {
    let left = Arc::new(AtomicUsize::new(plan.jobs));
    let (done, all_done) = mpsc::channel();
    let started = Instant::now();
    for _ in 0..plan.jobs {
        let (left, done) = (Arc::clone(&left), done.clone());
        // Boxed for both, so that neither is charged for the other's type erasure.
        spawn(Box::new(move || {
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                done.send(()).unwrap();
            }
        }));
    }
    all_done.recv().unwrap();
    per_job(plan, started)
}

/// One outside producer, every result asked for.
fn joined_weirpool(plan: &Plan, pool: &Pool) -> f64 {
    let started = Instant::now();
    let handles: Vec<_> =
        (0..plan.jobs).map(|number| pool.try_submit(move || number).unwrap()).collect();
    for handle in handles {
        black_box(handle.join().unwrap());
    }
    per_job(plan, started)
}

/// The usual way to a result with rayon's `spawn`: a one-shot channel per job.
fn joined_rayon(plan: &Plan, pool: &rayon::ThreadPool) -> f64 {
    let started = Instant::now();
    let receivers: Vec<_> = (0..plan.jobs)
        .map(|number| {
            let (sender, receiver) = oneshot::channel();
            pool.spawn(move || sender.send(number).unwrap());
            receiver
        })
        .collect();
    for receiver in receivers {
        black_box(receiver.recv().unwrap());
    }
    per_job(plan, started)
}

fn join_one(pool: &Pool) {
    pool.try_submit(|| black_box(())).unwrap().join().unwrap();
}

/// One job at a time: the given quantile of the time from submit to result.
fn round_trip(plan: &Plan, quantile: f64, mut one: impl FnMut()) -> f64 {
    let mut times: Vec<_> = (0..plan.jobs / 20)
        .map(|_| {
            let started = Instant::now();
            one();
            started.elapsed().as_nanos() as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[(quantile * (times.len() - 1) as f64) as usize]
}

fn refusals(plan: &Plan, full: &Pool) -> f64 {
    let started = Instant::now();
    for _ in 0..plan.jobs {
        assert!(black_box(full.try_spawn(|| ())).is_err());
    }
    per_job(plan, started)
}

fn per_job(plan: &Plan, started: Instant) -> f64 {
    started.elapsed().as_nanos() as f64 / plan.jobs as f64
}

// ── Reporting ───────────────────────────────────────────────────────────────────────────────────

fn table(plan: &Plan, entries: &mut [Entry<'_>]) -> String {
    let mut text = format!(
        "{} rounds of {} empty jobs, {} workers; nanoseconds, median (smallest .. largest)\n\n",
        plan.rounds, plan.jobs, plan.workers
    );
    for entry in entries {
        entry.results.sort_by(f64::total_cmp);
        let (first, last) = (entry.results[0], entry.results[entry.results.len() - 1]);
        let median = entry.results[entry.results.len() / 2];
        writeln!(
            text,
            "{:<16} {:<24} {median:>10.1}   ({first:.1} .. {last:.1})",
            entry.shape, entry.pool
        )
        .unwrap();
    }
    text
}

/// Reads the options; unknown ones (cargo passes `--bench`) are left alone.
fn plan() -> Plan {
    let mut plan = Plan { rounds: 9, jobs: 200_000, workers: 2 };
    let arguments: Vec<_> = std::env::args().collect();
    for pair in arguments.windows(2) {
        let target = match pair[0].as_str() {
            "--rounds" => &mut plan.rounds,
            "--jobs" => &mut plan.jobs,
            "--workers" => &mut plan.workers,
            _ => continue,
        };
        *target =
            pair[1].parse().unwrap_or_else(|error| panic!("{} {}: {error}", pair[0], pair[1]));
        assert!(*target > 0, "{} must be above zero", pair[0]);
    }
    plan
}

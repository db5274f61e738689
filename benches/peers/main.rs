//! What a job costs, beside the pools people have today.
//!
//! `cargo bench --bench peers [-- --quick | --help]`; `benches/README.md` says what the shapes are and
//! how to read the figures.
//!
//! The contestants run one after the other, A B C A B C ..., in one process, since a shared machine
//! changes its speed from one second to the next: only the ratios inside one run are worth anything.
//! Each number of workers has a process of its own, because one of the pools takes its size from the
//! environment, and so that no more threads exist than have to.

#[path = "../support/mod.rs"]
mod support;

mod entries;
mod peer;
mod plan;
mod pools;
mod records;
mod shapes;
mod table;
mod tally;
mod tree;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use entries::{Entry, SHAPES};
use plan::Plan;
use records::{NotRun, Record, Series};
use support::cpu;

fn main() -> Result<(), Box<dyn Error>> {
    let plan = Plan::of_this_process();
    if plan.only_lists {
        list(&plan);
        return Ok(());
    }
    match &plan.records {
        Some(file) => fs::write(file, serde_json::to_vec(&measure(&plan))?)?,
        None => measure_all(&plan)?,
    }
    Ok(())
}

fn list(plan: &Plan) {
    let entries = entries::entries(plan, 1);
    let mut pools: Vec<_> = entries.iter().map(|entry| entry.pool).collect();
    pools.sort_unstable();
    pools.dedup();
    println!("shapes: {}\npools: {}", SHAPES.concat().join(", "), pools.join(", "));
}

// ── The parent ──────────────────────────────────────────────────────────────────────────────────

/// One child for each number of workers; then the table and the file.
fn measure_all(plan: &Plan) -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    let folder = folder()?;
    let mut records: Vec<Record> = Vec::new();
    for &workers in &plan.workers {
        let part = folder.join(format!("peers-{workers}.json"));
        let status = Command::new(std::env::current_exe()?)
            .args(std::env::args_os().skip(1))
            .args(["--workers", &workers.to_string(), "--records"])
            .arg(&part)
            .env("BLOCKING_MAX_THREADS", workers.to_string())
            .status()?;
        if !status.success() {
            return Err(format!("the run with {workers} workers ended with {status}").into());
        }
        records.extend(serde_json::from_slice::<Vec<Record>>(&fs::read(&part)?)?);
        fs::remove_file(part)?;
    }
    let file = folder.join("peers.json");
    fs::write(&file, serde_json::to_vec_pretty(&records)?)?;
    println!("{}", table::summary(&records, &plan.workers));
    let seconds = started.elapsed().as_secs();
    println!("{}; {seconds} s; written to {}", support::conditions(), file.display());
    Ok(())
}

/// `target/bench`.
fn folder() -> Result<PathBuf, Box<dyn Error>> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().ok_or("no target folder")?;
    let folder = target.join("bench");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

// ── The child ───────────────────────────────────────────────────────────────────────────────────

fn measure(plan: &Plan) -> Vec<Record> {
    let workers = plan.workers[0];
    let mut entries = entries::entries(plan, workers);
    println!("── {workers} workers, {} rounds; {}\n", plan.rounds, support::conditions());
    let mut all = Vec::new();
    for shape in SHAPES {
        let shape: Vec<_> = entries.iter_mut().filter(|entry| entry.shapes == *shape).collect();
        if shape.is_empty() {
            continue;
        }
        let series = rounds(shape, plan.rounds);
        // The round trips have three figures, each a shape to the reader.
        let mut names: Vec<_> = series.iter().map(|series| series.shape).collect();
        names.dedup();
        names.sort_unstable();
        names.dedup();
        for name in names.into_iter().filter(|name| plan.wants_shape(name)) {
            let of_name: Vec<_> = series.iter().filter(|series| series.shape == name).collect();
            let records = records::records(&of_name, workers);
            println!("{}", table::of_shape(&records));
            all.extend(records);
        }
    }
    all
}

/// Runs a shape with all pools in turn, round after round, each round beginning with another.
fn rounds(mut entries: Vec<&mut Entry>, rounds: usize) -> Vec<Series> {
    let mut series: Vec<Vec<Series>> = entries.iter().map(|entry| empty_series(entry)).collect();
    for round in 0..=rounds {
        for turn in 0..entries.len() {
            let index = (round + turn) % entries.len();
            let entry = &mut *entries[index];
            let before = not_run(entry);
            let cpu = cpu::process();
            let measured = (entry.run)();
            let cpu_ns = (cpu::process() - cpu).as_nanos() as f64;
            // The first round warms the machine up.
            if round == 0 {
                continue;
            }
            let after = not_run(entry);
            for (series, ns) in series[index].iter_mut().zip(measured.ns) {
                series.ns.push(ns);
                series.cpu_ns.push(cpu_ns / measured.jobs as f64);
                series.jobs += measured.jobs;
                series.not_run.add(before, after);
            }
        }
    }
    series.into_iter().flatten().collect()
}

fn empty_series(entry: &Entry) -> Vec<Series> {
    let of = |shape: &&'static str| Series {
        shape,
        pool: entry.pool,
        role: entry.role,
        ns: Vec::new(),
        cpu_ns: Vec::new(),
        jobs: 0,
        not_run: NotRun::default(),
    };
    entry.shapes.iter().map(of).collect()
}

/// What our pool has refused and shed so far.
fn not_run(entry: &Entry) -> NotRun {
    let Some(now) = entry.ours.map(weirpool::Pool::snapshot) else { return NotRun::default() };
    NotRun {
        refused: now.rejected.total(),
        refused_by_the_gate: now.rejected.get(weirpool::Reason::Cpu),
        shed: now.shed.total(),
    }
}

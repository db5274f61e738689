//! Overload, seen from the outside: weirpool and the pools people have today get the same real
//! work at 0.8, 2.5 and 10 times what the machine can do, and a table shows what became of it.
//!
//! `cargo run --release --example overload` measures with the files of this checkout;
//! `-- --help` explains every option and every column.

mod args;
mod input;
mod load;
mod memory;
mod pools;
mod progress;
mod report;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use args::{Args, Command};
use input::Work;
use load::Load;
use pools::Kind;
use progress::Progress;
use report::{Report, Row};

/// Offered loads, as multiples of the capacity.
const MULTIPLES: [f64; 3] = [0.8, 2.5, 10.0];

/// The load under which the capacity is measured. Well above 1, because the first guess may be
/// far too low on a machine that was busy during the calibration.
const SATURATING: f64 = 3.0;

type AnyError = Box<dyn Error + Send + Sync>;

/// Why the measuring ends before its last row.
enum Stop {
    Interrupted,
    Failed(AnyError),
}

impl<E: Into<AnyError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Stop::Failed(error.into())
    }
}

fn main() -> ExitCode {
    match args::parse() {
        Ok(Command::Help) => {
            report::print(args::HELP);
            ExitCode::SUCCESS
        }
        Ok(Command::Measure(args)) => measure(&args),
        Err(error) => {
            eprintln!("overload: {error}\nTry `--help` for the arguments.");
            ExitCode::from(2)
        }
    }
}

/// Measures, then shows and writes whatever rows were finished, however the measuring ended.
fn measure(args: &Args) -> ExitCode {
    let mut rows = Vec::new();
    let mut end = measure_into(&mut rows, args);
    // A failure before the first row leaves the file of an earlier measurement alone.
    let worth_writing = !rows.is_empty() || matches!(end, Err(Stop::Interrupted));
    if let Some(file) = args.json.as_ref().filter(|_| worth_writing) {
        if let Err(error) = report::write_json(file, &rows) {
            end = Err(error.into());
        }
    }
    match end {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Interrupted) => {
            eprintln!("overload: interrupted; {} of {} rows were finished", rows.len(), cells());
            ExitCode::from(130)
        }
        Err(Stop::Failed(error)) => {
            eprintln!("overload: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure_into(rows: &mut Vec<Row>, args: &Args) -> Result<(), Stop> {
    if let Some(file) = &args.json {
        report::check_writable(file)?;
    }
    load::stop_on_ctrl_c()?;
    let mut progress = Progress::new();

    progress.phase(&format!("reading {}", args.folder.display()));
    let mut work = Work::read(&args.folder)?;
    progress.phase("calibrating a job to 1 ms");
    let job_time = work.calibrate();
    let work = Arc::new(work);
    let capacity = capacity(&work, job_time, args, &mut progress)?;

    let report = Report::new(&work, job_time, args, capacity, slots(capacity, args.workers));
    progress.clear();
    report::print(&report.heading());
    let end = measure_cells(rows, &work, args, capacity, &mut progress);
    progress.clear();
    report::print(&report.body(rows));
    end
}

/// One row for each load and pool. The pools of one load get the very same arrivals.
fn measure_cells(
    rows: &mut Vec<Row>,
    work: &Arc<Work>,
    args: &Args,
    capacity: f64,
    progress: &mut Progress,
) -> Result<(), Stop> {
    let slots = slots(capacity, args.workers);
    for multiple in MULTIPLES {
        let load = Load::poisson(capacity * multiple, args.period, args.seed);
        for kind in Kind::ALL {
            let place = format!("[{}/{}]", rows.len() + 1, cells());
            progress.phase(&format!("{place} {multiple}x on {}", kind.name()));
            let pool = kind.build(args.workers, slots)?;
            let outcome = load::run(pool.as_ref(), args.workers, work, &load, progress)?;
            rows.push(Row::new(kind.name(), multiple, outcome));
        }
    }
    Ok(())
}

/// Jobs per second with all workers busy: what the better of the peers finishes while far more is
/// offered than the machine can do. It is measured exactly as the rows are, the load generator's
/// own need for the processor included, so that 1x means the same thing in both.
fn capacity(
    work: &Arc<Work>,
    job_time: Duration,
    args: &Args,
    progress: &mut Progress,
) -> Result<f64, Stop> {
    let guess = args.workers as f64 / job_time.as_secs_f64();
    let period = args.period.min(Duration::from_secs(2));
    let load = Load::poisson(guess * SATURATING, period, args.seed);
    let mut best = 0.0_f64;
    for kind in Kind::PEERS {
        progress.phase(&format!("measuring the capacity on {}", kind.name()));
        let pool = kind.build(args.workers, 1)?;
        let outcome = load::run(pool.as_ref(), args.workers, work, &load, progress)?;
        best = best.max(outcome.finished_per_s());
    }
    if best > 0.0 {
        Ok(best)
    } else {
        Err("no job was finished while the capacity was measured; try more --seconds".into())
    }
}

/// How many jobs weirpool may hold: as many as the machine finishes in half of the time in which an
/// answer is worth something. The other half is for the odd long job and for noise.
fn slots(capacity: f64, workers: usize) -> usize {
    let in_half_the_time = capacity * load::IN_TIME.as_secs_f64() / 2.0;
    (in_half_the_time as usize).max(workers + 1)
}

fn cells() -> usize {
    MULTIPLES.len() * Kind::ALL.len()
}

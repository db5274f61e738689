//! The command line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lexopt::prelude::*;

use crate::AnyError;

pub(crate) const HELP: &str = "\
What happens to a thread pool when more work arrives than the machine can do?

Usage: cargo run --release --example overload -- [OPTIONS] [FOLDER]

The files of FOLDER (default: this checkout; `target`, `.git` and links are skipped, and after
64 MiB it has enough) are cut into pieces; a job compresses one piece (DEFLATE) and hashes it
(SHA-256), which is calibrated to take about a millisecond on this machine. The capacity, in jobs
per second, is what the better peer finishes when it is flooded in the same way, so that the load
generator's own need for the processor is already in it. Then 0.8, 2.5 and 10 times the capacity
is offered to weirpool, to rayon (ThreadPool::spawn) and to tokio (spawn_blocking, with as many
threads at most), each with one thread per core. weirpool gets as many slots as the machine finishes
in half of the 25 ms in which an answer is worth something; the others have no such setting.

The load is an open loop: Poisson arrivals on a schedule that is fixed beforehand and the same for
each pool. Nothing waits for an answer. A generator that is late sends what is due at once, and all
times count from the scheduled arrival.

Options:
  --seconds S   how long each load is offered to each pool, 0.05 to 60 (default 4)
  --quick       the same as --seconds 0.3: a trial, whose figures are worth little
  --workers N   threads of each pool (default: the cores that this process may use)
  --seed N      seed of the arrivals (default 1)
  --json FILE   write the rows to FILE, too
  -h, --help    print this text

Columns:
  accepted      jobs that the pool took at the door; the peers take all
  refused       jobs that it refused there
  shed          jobs that it accepted and then dropped before they started
  in time       jobs finished within 25 ms of their arrival
  p50, p99, max milliseconds from arrival to answer, of the accepted jobs that were not shed.
                100 ms after the last arrival, jobs that have not started are given up: they
                count with their age at that moment, so these figures flatter a long queue
  queue         the most jobs that waited at one time
  memory        how far resident memory grew. The pieces are shared by all jobs, so this is the
                pool's own; a request that owns its body would add that
  refusal       median time of a refused call, one reading of the clock (about 25 ns) included

The JSON is an array of {pool, load, offered, accepted, refused, shed, good_per_s, p50_ms, p99_ms,
max_ms, queue_peak, rss_growth_bytes, refusal_ns}; what could not be measured is null.

Ctrl-C ends the run: the finished rows are shown and written, and the exit code is 130. Bad
arguments end it with 2, any other failure with 1.
";

pub(crate) enum Command {
    Help,
    Measure(Args),
}

pub(crate) struct Args {
    pub(crate) folder: PathBuf,
    pub(crate) period: Duration,
    pub(crate) workers: usize,
    pub(crate) seed: u64,
    pub(crate) json: Option<PathBuf>,
}

pub(crate) fn parse() -> Result<Command, AnyError> {
    let mut folder = None;
    let mut args = Args {
        folder: default_folder(),
        period: Duration::from_secs(4),
        workers: std::thread::available_parallelism().map_or(1, usize::from),
        seed: 1,
        json: None,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(Command::Help),
            Long("seconds") => args.period = parser.value()?.parse_with(period)?,
            Long("quick") => args.period = Duration::from_millis(300),
            Long("workers") => args.workers = parser.value()?.parse_with(workers)?,
            Long("seed") => args.seed = parser.value()?.parse_with(seed)?,
            Long("json") => args.json = Some(parser.value()?.into()),
            Value(path) if folder.is_none() => folder = Some(PathBuf::from(path)),
            unexpected => return Err(unexpected.unexpected().into()),
        }
    }
    args.folder = folder.unwrap_or(args.folder);
    Ok(Command::Measure(args))
}

/// The checkout that this was built from or, where that has gone, the current folder.
fn default_folder() -> PathBuf {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR"));
    if checkout.is_dir() { checkout } else { Path::new(".") }.to_owned()
}

fn period(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "--seconds needs a number".to_owned())?;
    if (0.05..=60.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("--seconds needs a number from 0.05 to 60".to_owned())
    }
}

fn workers(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(workers @ 1..=1024) => Ok(workers),
        _ => Err("--workers needs a whole number from 1 to 1024".to_owned()),
    }
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "--seed needs a whole number, 0 or more".to_owned())
}

//! An open-loop load generator for the service: requests are sent when they are due, whatever has
//! become of those before them, and every time counts from when a request was due.

mod connection;
mod options;
mod plan;
mod report;
mod run;
mod tally;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use connection::Target;
use options::{Command, Load, Options};
use plan::Plan;

/// Before anything is measured: code and memory are touched, the pool learns its service times.
const WARM_UP: Duration = Duration::from_secs(1);
/// Callers that ask again as soon as they have an answer; the best of these is the capacity.
const CALLERS: [usize; 3] = [2, 4, 6];

fn main() -> ExitCode {
    match options::parse() {
        Ok(Command::Help) => {
            print!("{}", options::HELP);
            ExitCode::SUCCESS
        }
        Ok(Command::Run(options)) => match measure(&options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("weirpool-load: {error}");
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            eprintln!("weirpool-load: {error}\nTry `--help`.");
            ExitCode::from(2)
        }
    }
}

fn measure(options: &Options) -> Result<(), Box<dyn Error>> {
    // One thread: on a small machine the generator should take little from the server.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(measure_on(options));
    runtime.shutdown_background();
    result
}

async fn measure_on(options: &Options) -> Result<(), Box<dyn Error>> {
    let target = Target::resolve(&options.server).await?;
    let capacity = match (options.capacity, &options.load) {
        (Some(capacity), _) => Some(capacity),
        (None, Load::Times(_)) | (None, Load::Capacity) => Some(capacity(&target, options).await?),
        (None, Load::Rate(_)) => None,
    };
    let rate = match options.load {
        Load::Rate(rate) => rate,
        Load::Times(times) => times * capacity.unwrap_or_default(),
        Load::Capacity => {
            println!("{:.1}", capacity.unwrap_or_default());
            return Ok(());
        }
    };
    let plan = Plan::new(rate, options.duration, &options.mix, options.seed);
    let tally = run::open_loop(&target, plan, options).await;
    report::print(&tally, rate, capacity, options);
    Ok(())
}

/// What the server does when a few callers ask as fast as they get answers.
async fn capacity(target: &Target, options: &Options) -> Result<f64, Box<dyn Error>> {
    run::closed_loop(target, options, CALLERS[0], WARM_UP).await;
    let mut best: f64 = 0.0;
    for callers in CALLERS {
        let per_second = run::closed_loop(target, options, callers, options.capacity_time).await;
        eprintln!("{callers} callers, one request after the other: {per_second:.0} good/s");
        best = best.max(per_second);
    }
    if best > 0.0 { Ok(best) } else { Err("no request was answered with 200".into()) }
}

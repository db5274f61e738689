//! Overload, seen from the outside: the policies of weirpool and the pools people have today get
//! the same real work at 0.8 to 10 times what the machine can do. A table, a page and a picture
//! show what became of it.
//!
//! `cargo run --release --example overload` measures with the files of this checkout;
//! `-- --help` explains every option and every column.

mod args;
mod arrivals;
mod cell;
mod chart;
mod clocks;
mod flood;
mod generator;
mod input;
mod interrupt;
mod markdown;
mod measure;
mod memory;
mod numbers;
mod outcome;
mod page;
mod picture;
mod pools;
mod poster;
mod progress;
mod quantile;
mod report;
mod row;
mod run;
mod samples;
mod slices;
mod table;
mod words;

use std::error::Error;
use std::process::ExitCode;

use args::{Args, Command};
use measure::{Results, row_count};
use report::Files;

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
        Ok(Command::Measure(args)) => exit_code(&args),
        Err(error) => {
            eprintln!("overload: {error}\nTry `--help` for the arguments.");
            ExitCode::from(2)
        }
    }
}

fn exit_code(args: &Args) -> ExitCode {
    let mut results = Results::default();
    match measure_and_write(&mut results, args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Interrupted) => {
            let (finished, all) = (results.rows.len(), row_count(args));
            eprintln!("overload: interrupted; {finished} of {all} rows were finished");
            ExitCode::from(130)
        }
        Err(Stop::Failed(error)) => {
            eprintln!("overload: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures, then shows and writes whatever rows were finished, however the measuring ended.
fn measure_and_write(results: &mut Results, args: &Args) -> Result<(), Stop> {
    let files = Files::check(args)?;
    interrupt::stop_on_ctrl_c()?;
    let end = measure::measure(results, args);
    report::print_body(args, results);
    // A failure before the first row leaves the files of an earlier measurement alone.
    if !results.rows.is_empty() || matches!(end, Err(Stop::Interrupted)) {
        files.write(args, results)?;
    }
    end
}

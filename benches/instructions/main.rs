//! How many instructions a job costs, counted under callgrind, beside the table in
//! `benches/instructions.json`: it fails if one has grown by more than a tenth.
//!
//! `cargo bench --bench instructions [-- --write | --help]`
//!
//! Instructions are no nanoseconds: cache lines that travel between cores, which are most of what a
//! pool costs, don't show. But the count is the same whatever else the machine does, so that a change
//! of one hundredth can be seen where wall time wavers by a third.

#[path = "../support/mod.rs"]
mod support;

mod callgrind;
mod cases;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::process::{Command, ExitCode};

use cases::{CASES, Case, WAVE};
use serde::{Deserialize, Serialize};
use support::options::{Given, Options};

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.json");
/// The part by which a count may grow.
const TOLERANCE: f64 = 0.10;
/// Jobs of the two runs whose difference is taken.
const JOBS: (usize, usize) = (2 * WAVE, 18 * WAVE);

const HELP: &str = "\
Counts instructions per job under callgrind and compares them with benches/instructions.json.

  --write      writes the table instead
  --require    fails if valgrind is missing, instead of saying that nothing was checked
  --cases LIST some of the cases
  --repeat N   runs each N times, the fewest instructions count (3)
";

/// What is committed.
#[derive(Serialize, Deserialize)]
struct Table {
    /// Another compiler, target or library may count differently for no fault of the pool.
    rustc: String,
    valgrind: String,
    per_job: BTreeMap<String, f64>,
}

struct Plan {
    write: bool,
    require: bool,
    cases: Option<Vec<String>>,
    repeat: usize,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let plan = plan();
    assert!(plan.repeat > 0, "at least once");
    let Some(valgrind) = callgrind::version() else {
        println!("SKIPPED: valgrind is not installed, so NO instruction count was checked");
        return Ok(if plan.require { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    };
    let counted = count(&plan)?;
    if plan.write {
        let table = Table { rustc: rustc()?, valgrind, per_job: counted };
        fs::write(TABLE, serde_json::to_string_pretty(&table)? + "\n")?;
        println!("written to {TABLE}");
        return Ok(ExitCode::SUCCESS);
    }
    compare(&counted, &serde_json::from_slice(&fs::read(TABLE)?)?, &valgrind)
}

fn count(plan: &Plan) -> Result<BTreeMap<String, f64>, Box<dyn Error>> {
    let mut counted = BTreeMap::new();
    let is_wanted = |case: &&Case| match &plan.cases {
        None => true,
        Some(wanted) => wanted.iter().any(|name| name == case.name),
    };
    for case in CASES.iter().filter(is_wanted) {
        let per_job = callgrind::per_job(case.name, JOBS, plan.repeat)?;
        counted.insert(case.name.to_owned(), (per_job * 10.0).round() / 10.0);
    }
    Ok(counted)
}

fn compare(
    counted: &BTreeMap<String, f64>,
    table: &Table,
    valgrind: &str,
) -> Result<ExitCode, Box<dyn Error>> {
    let mut grown = 0;
    println!("{:<34}{:>9}{:>9}{:>9}", "instructions per job", "table", "now", "change");
    for (name, now) in counted {
        let Some(before) = table.per_job.get(name) else {
            println!("{name:<34}{:>9}{now:>9.1}   not in the table: --write adds it", "-");
            grown += 1;
            continue;
        };
        let change = now / before - 1.0;
        let verdict = if change > TOLERANCE {
            grown += 1;
            "  GROWN"
        } else {
            ""
        };
        println!("{name:<34}{before:>9.1}{now:>9.1}{:>+8.1}%{verdict}", change * 100.0);
    }
    let rustc = rustc()?;
    if (&*rustc, valgrind) != (&*table.rustc, &*table.valgrind) {
        println!(
            "the table is by {} and {}, this by {rustc} and {valgrind}",
            table.rustc, table.valgrind
        );
    }
    if grown > 0 {
        println!(
            "{grown} of {} counts grew by more than {:.0} % or are new; if that is meant: --write",
            counted.len(),
            TOLERANCE * 100.0
        );
        return Ok(ExitCode::FAILURE);
    }
    println!(
        "all {} counts checked, none grew by more than {:.0} %",
        counted.len(),
        TOLERANCE * 100.0
    );
    Ok(ExitCode::SUCCESS)
}

fn rustc() -> Result<String, Box<dyn Error>> {
    let output = Command::new("rustc").arg("--version").output()?;
    let version = String::from_utf8(output.stdout)?;
    // The release alone: "rustc 1.95.0".
    Ok(version.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
}

/// Reads the options; as the program under callgrind, it runs its case instead, and returns no more.
fn plan() -> Plan {
    let mut plan = Plan { write: false, require: false, cases: None, repeat: 3 };
    let (mut run, mut jobs) = (None::<String>, 0);
    let mut options = Options::of_this_process();
    while let Some(given) = options.next() {
        let Given::Option(name) = given else {
            print!("{HELP}");
            std::process::exit(0);
        };
        match name.as_str() {
            "write" => plan.write = true,
            "require" => plan.require = true,
            "cases" => plan.cases = Some(options.list()),
            "repeat" => plan.repeat = options.value(),
            "run" => run = Some(options.value()),
            "jobs" => jobs = options.value(),
            unknown => options.reject(unknown),
        }
    }
    if let Some(name) = run {
        let case = CASES.iter().find(|case| case.name == name).expect("it is one of the cases");
        (case.run)(jobs);
        std::process::exit(0);
    }
    plan
}

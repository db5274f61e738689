//! Runs a case under callgrind and reads the total.

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

type Answer<T> = Result<T, Box<dyn Error>>;

/// valgrind's version; none if it isn't installed.
pub(crate) fn version() -> Option<String> {
    let output = Command::new("valgrind").arg("--version").output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| version.trim().to_owned())
}

/// Instructions per job: the difference of two runs by that of their jobs, so that what comes before
/// and after is not counted. Of some runs of each, those with the fewest: what disturbs (a thread that
/// looked once more before it went to sleep, a lock that was taken) only adds.
pub(crate) fn per_job(case: &str, jobs: (usize, usize), repeat: usize) -> Answer<f64> {
    let fewest = |jobs| -> Answer<f64> {
        let totals: Answer<Vec<u64>> = (0..repeat).map(|_| total(case, jobs)).collect();
        Ok(totals?.into_iter().min().ok_or("no run")? as f64)
    };
    Ok((fewest(jobs.1)? - fewest(jobs.0)?) / (jobs.1 - jobs.0) as f64)
}

/// Instructions of all threads of one run.
fn total(case: &str, jobs: usize) -> Answer<u64> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join(format!("callgrind-{}-{case}-{jobs}", std::process::id()));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(env::current_exe()?)
        .args(["--run", case, "--jobs", &jobs.to_string()])
        .stdout(Stdio::null())
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{case} under valgrind ended with {}: {said}", output.status).into());
    }
    let profile = fs::read_to_string(&file)?;
    fs::remove_file(&file)?;
    let totals = profile.lines().rev().find_map(|line| line.strip_prefix("totals: "));
    Ok(totals.ok_or("callgrind wrote no totals")?.trim().parse()?)
}

//! A health check that is answered however full the pool is.
//!
//! You want this for the few small jobs that must get through when nothing else does: health checks, leases, the release of
//! a lock. At a full pool a critical job takes the slot of a queued Low one, else of a Normal one; the handle of the one
//! that gave way says so. (`critical_reserve` keeps slots for such work beforehand, at the price of having fewer for the
//! rest.)
//!
//! ```text
//! cargo run --release --example critical
//! ```

use std::error::Error;
use std::hint::black_box;

use weirpool::{Pool, Priority};

/// A report that nobody needs today.
fn report(number: u64) -> u64 {
    (0..2_000_000).fold(number, |sum, step| black_box(sum ^ step))
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Pool::builder().name("backend").workers(1).capacity(6).build()?;

    let reports = pool.job().priority(Priority::Low);
    let mut accepted = Vec::new();
    let refused = loop {
        let number = accepted.len() as u64;
        match reports.try_submit(move || report(number)) {
            Ok(job) => accepted.push(job),
            Err(rejected) => break rejected,
        }
    };
    println!("after {} reports: {refused}", accepted.len());

    let check = pool.job().priority(Priority::Critical).try_submit(|| "alive")?;
    println!("health check: {}", check.join()?);

    for (number, job) in accepted.into_iter().enumerate() {
        match job.join() {
            Ok(_) => println!("report {number}: done"),
            Err(error) => println!("report {number}: {error}"),
        }
    }
    Ok(())
}

//! One pool, several tenants: none can crowd the others out.
//!
//! You want this where one pool serves customers, or kinds of work, that must not pay for each other's bursts. A share that
//! is reserved stays free for its partition whatever the rest do; a maximum caps what one may take of the common part.
//!
//! ```text
//! cargo run --release --example tenants
//! ```

use std::error::Error;
use std::hint::black_box;

use weirpool::{Partition, Pool, Reason};

fn work() {
    (0..500_000).for_each(|step| _ = black_box(step));
}

/// A burst of jobs for one tenant: how many were accepted, and why the others were not.
fn burst(pool: &Pool, tenant: &str, jobs: usize) -> (usize, Option<Reason>) {
    let partition = pool.partition(tenant).expect("configured below");
    let (mut accepted, mut reason) = (0, None);
    for _ in 0..jobs {
        match pool.job().partition(partition).try_spawn(work) {
            Ok(()) => accepted += 1,
            Err(rejected) => reason = Some(rejected.reason()),
        }
    }
    (accepted, reason)
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Pool::builder()
        .name("shared")
        .workers(2)
        .capacity(16)
        .partition("paying", Partition::new().reserved(6))
        .partition("trial", Partition::new().max(4))
        .build()?;

    for (tenant, jobs) in [("trial", 100), ("paying", 6)] {
        let (accepted, reason) = burst(&pool, tenant, jobs);
        match reason {
            None => println!("{tenant}: all of {jobs} accepted"),
            Some(reason) => println!("{tenant}: {accepted} of {jobs} accepted, then: {reason}"),
        }
    }
    println!("in flight: {} of {}", pool.in_flight(), pool.capacity());
    pool.wait_idle();
    Ok(())
}

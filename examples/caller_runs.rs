//! Caller runs: what the pool refuses, the submitting thread does itself.
//!
//! You want this where all the work must be done and the submitting thread is one that may be slowed down, such as a batch
//! job. While it works it submits nothing, which is back-pressure of the oldest kind. Not for an event loop, nor for a
//! thread that accepts connections: those must stay free to say no.
//!
//! ```text
//! cargo run --release --example caller_runs
//! ```

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weirpool::Pool;

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Pool::builder().name("batch").workers(2).capacity(4).batch().build()?;
    let total = Arc::new(AtomicU64::new(0));
    let mut done_here = 0;

    for item in 1..=200 {
        let total = Arc::clone(&total);
        let job = move || {
            let squared = (0..50_000).fold(item * item, |value, _| black_box(value));
            total.fetch_add(squared, Ordering::Relaxed);
        };
        if let Err(rejected) = pool.try_spawn(job) {
            done_here += 1;
            rejected.run_here();
        }
    }
    pool.wait_idle();

    let total = total.load(Ordering::Relaxed);
    println!("the sum of the squares from 1 to 200 is {total}");
    println!("{done_here} done by the caller, {} by the pool", pool.snapshot().completed);
    Ok(())
}

//! Back-pressure: wait for a slot instead of being refused.
//!
//! You want this where the caller has nothing better to do than to wait, and where slowing it down slows down what feeds
//! it: an import that reads records from a file, a consumer of a queue. A service that answers people rather wants
//! `try_submit`, which says no while the answer is still worth something.
//!
//! ```text
//! cargo run --release --example backpressure
//! ```

use std::error::Error;
use std::hint::black_box;

use weirpool::{Pool, Refusal};

/// What is done with a record: a checksum, a few dozen microseconds' worth.
fn checksum(record: u64) -> u64 {
    (0..50_000).fold(record, |sum, step| black_box(sum.rotate_left(5) ^ step))
}

/// Hands record after record to the pool, as fast as the pool takes them; returns the most that it ever held.
async fn import(pool: &Pool, records: impl Iterator<Item = u64>) -> Result<usize, Refusal> {
    let mut most = 0;
    for record in records {
        // Here the reader stands still while the pool is full. First come, first served.
        let job = pool.submit(move || checksum(record)).await?;
        drop(job); // Nobody asks for the result; the job goes on.
        most = most.max(pool.in_flight());
    }
    Ok(most)
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Pool::builder().name("import").workers(2).capacity(8).build()?;
    let most = pollster::block_on(import(&pool, 0..500))?;
    pool.wait_idle();
    let end = pool.snapshot();
    println!("{} records imported, none refused: {}", end.completed, end.rejected.total() == 0);
    println!("at most {most} of them were in memory at a time (the pool has {})", end.capacity);
    Ok(())
}

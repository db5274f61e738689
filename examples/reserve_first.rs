//! Take a slot before you read the body of a request.
//!
//! You want this where reading is what costs: uploads, large JSON. A permit is taken when the head has come in; if there is
//! none, the client is told so before it has sent megabytes, and the server has not held them in memory for nothing.
//! A permit that is dropped, because the client hung up, gives its slot back.
//!
//! ```text
//! cargo run --release --example reserve_first
//! ```

use std::error::Error;
use std::io::{self, Read, repeat};

use weirpool::Pool;

/// A request of which only the head has come in.
struct Request {
    name: String,
    body: Box<dyn Read>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Pool::builder().name("upload").workers(2).capacity(3).build()?;
    let requests = (1..=5).map(|number| Request {
        name: format!("upload {number}"),
        body: Box::new(repeat(number).take(1 << 20)),
    });

    // All heads come in before the first body has.
    let mut accepted = Vec::new();
    for request in requests {
        match pool.try_reserve() {
            Ok(permit) => accepted.push((permit, request)),
            Err(refusal) => println!("{}: 503, and not a byte was read ({refusal})", request.name),
        }
    }

    // The third client hangs up: its slot is free again, for whoever asks next.
    drop(accepted.pop());
    println!("{} of {} slots are in use", pool.in_flight(), pool.capacity());

    for (permit, Request { name, mut body }) in accepted {
        let mut bytes = Vec::new();
        io::copy(&mut body, &mut bytes)?;
        let sum = permit.submit(move || bytes.into_iter().map(u64::from).sum::<u64>())?;
        println!("{name}: 200, the sum of its bytes is {}", sum.join()?);
    }
    Ok(())
}

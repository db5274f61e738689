//! Under overload, a cheaper answer instead of none.
//!
//! You want this where something worse is better than an error: an estimate, a smaller picture, yesterday's result. The pool
//! does not know what that is, so it gives the closure back and you choose. The choice costs nothing while there is room.
//!
//! ```text
//! cargo run --release --example cheaper_answer
//! ```

use std::error::Error;
use std::fmt;

use weirpool::{JobError, JobHandle, Pool};

/// How many primes there are below a number.
enum Answer {
    Exact(JobHandle<usize>),
    /// By the prime number theorem, at no cost.
    Estimate(f64),
}

fn count_primes(below: usize) -> usize {
    let mut is_prime = vec![true; below];
    for number in 2..below {
        if is_prime[number] {
            (number * number..below)
                .step_by(number)
                .for_each(|multiple| is_prime[multiple] = false);
        }
    }
    is_prime.into_iter().skip(2).filter(|prime| *prime).count()
}

fn answer(pool: &Pool, below: usize) -> Answer {
    match pool.try_submit(move || count_primes(below)) {
        Ok(job) => Answer::Exact(job),
        Err(_) => Answer::Estimate(below as f64 / (below as f64).ln()),
    }
}

impl Answer {
    fn wait(self) -> Result<impl fmt::Display, JobError> {
        Ok(match self {
            Self::Exact(job) => format!("{}", job.join()?),
            Self::Estimate(count) => format!("about {count:.0}"),
        })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Pool::builder().name("primes").workers(2).capacity(4).build()?;
    let requests: Vec<usize> = (1..=8).map(|number| number * 200_000).collect();
    // All at once; nobody is turned away.
    let answers: Vec<_> = requests.iter().map(|&below| answer(&pool, below)).collect();
    for (below, answer) in requests.into_iter().zip(answers) {
        println!("primes below {below}: {}", answer.wait()?);
    }
    Ok(())
}

//! Under overload, a cheaper answer instead of none.
//!
//! You want this where something worse is better than an error: an estimate, a smaller picture,
//! yesterday's result. The pool does not know what that is, so it never chooses it: a job that is refused
//! comes back as a `Rejected`, one that was accepted and then shed resolves to `JobError::Shed`, and in
//! both cases the answer is yours. The choice costs nothing while there is room.
//!
//! ```text
//! cargo run --release --example cheaper_answer
//! ```

use std::error::Error;
use std::fmt;
use std::time::Duration;

use weirpool::{JobError, JobHandle, Pool};

/// How many primes there are below a number.
enum Answer {
    Counted(usize),
    /// By the prime number theorem, at no cost.
    Estimated(f64),
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

fn estimate(below: usize) -> Answer {
    Answer::Estimated(below as f64 / (below as f64).ln())
}

/// Asks the pool; none if it has refused.
fn ask(pool: &Pool, below: usize) -> Option<JobHandle<usize>> {
    // Whoever waits for this gives up after a second, so the pool needn't begin it later than that.
    let spec = pool.job().timeout(Duration::from_secs(1));
    spec.try_submit(move || count_primes(below)).ok()
}

/// The count if there is one, the estimate if the job was refused or shed. A failure stays a failure.
fn answer(below: usize, job: Option<JobHandle<usize>>) -> Result<Answer, JobError> {
    match job.map(JobHandle::join) {
        Some(Ok(count)) => Ok(Answer::Counted(count)),
        None | Some(Err(JobError::Shed(_))) => Ok(estimate(below)),
        Some(Err(error)) => Err(error),
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counted(count) => write!(f, "{count}"),
            Self::Estimated(count) => write!(f, "about {count:.0}"),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Pool::builder().name("primes").workers(2).capacity(4).build()?;
    let requests: Vec<usize> = (1..=8).map(|number| number * 200_000).collect();
    // All at once; nobody is turned away.
    let jobs: Vec<_> = requests.iter().map(|&below| (below, ask(&pool, below))).collect();
    for (below, job) in jobs {
        println!("primes below {below}: {}", answer(below, job)?);
    }
    Ok(())
}

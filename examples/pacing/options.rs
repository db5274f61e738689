//! The command line.

use std::time::Duration;

pub(crate) const HELP: &str = "\
What clients do to a server that can't keep up, and what they do with a Pacer.

Usage: cargo run --release --example pacing -- [OPTIONS]

A server on this machine does each request in a pool of weirpool; a request occupies a worker for a
given time, without using the processor, so that the figures are those of the server and not of this
machine. Clients ask at random times. Those without a Pacer send each request, and each refused one
again after a short wait, three times in all. First all run without, then with it.

Options:
    --seconds S    how long each half takes, 0.2 to 600 [default: 6]
    --clients N    clients, 1 to 200 [default: 20]
    --load X       requests asked for, as a multiple of the capacity [default: 2.5]
    --workers N    workers of the server [default: 4]
    --service MS   how long a request occupies one, in milliseconds [default: 10]
    --slots N      slots of the server's pool, queued and running [default: 32]
    --seed N       where the random choices begin [default: 1]
    --help         print this

Columns:
    wanted         requests asked of the clients, in the second half of the time like the rest
    sent           requests that the server got, retries included
    of cap.        the same as a multiple of the capacity
    refused        share of those that it refused
    served         requests that it did, as a share of the capacity
    retries        share of the sent requests that were retries
    p50, p99       milliseconds from the request to the answer, its wait for a turn included
    fairness       Jain's index of what the clients got: 1 is equal, 1/N is all for one
";

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) seconds: f64,
    pub(crate) clients: usize,
    pub(crate) load: f64,
    pub(crate) workers: usize,
    pub(crate) service: Duration,
    pub(crate) slots: usize,
    pub(crate) seed: u64,
}

impl Options {
    /// Requests a second that the server can do.
    pub(crate) fn capacity_per_s(&self) -> f64 {
        self.workers as f64 / self.service.as_secs_f64()
    }

    /// From the command line; `None` if help is asked for.
    pub(crate) fn parse(
        mut arguments: impl Iterator<Item = String>,
    ) -> Result<Option<Self>, String> {
        let mut options = Self {
            seconds: 6.0,
            clients: 20,
            load: 2.5,
            workers: 4,
            service: Duration::from_millis(10),
            slots: 32,
            seed: 1,
        };
        while let Some(name) = arguments.next() {
            if matches!(name.as_str(), "--help" | "-h") {
                return Ok(None);
            }
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            let number = |least: f64, most: f64| match value.parse::<f64>() {
                Ok(number) if (least..=most).contains(&number) => Ok(number),
                _ => Err(format!("{name} {value}: not a number from {least} to {most}")),
            };
            match name.as_str() {
                "--seconds" => options.seconds = number(0.2, 600.0)?,
                "--clients" => options.clients = number(1.0, 200.0)? as usize,
                "--load" => options.load = number(0.01, 100.0)?,
                "--workers" => options.workers = number(1.0, 256.0)? as usize,
                "--service" => {
                    options.service = Duration::from_secs_f64(number(1.0, 1000.0)? / 1000.0);
                }
                "--slots" => options.slots = number(1.0, 100_000.0)? as usize,
                "--seed" => options.seed = number(0.0, 1e15)? as u64,
                _ => return Err(format!("{name}: no such option")),
            }
        }
        Ok(Some(options))
    }
}

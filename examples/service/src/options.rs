//! The command line.

use std::error::Error;
use std::time::Duration;

use lexopt::prelude::*;

pub(crate) const HELP: &str = "\
A CPU-heavy HTTP service that knows its limit: weirpool between axum and the work.

Usage: cargo run --release -p weirpool-service -- [OPTIONS]

Then open http://127.0.0.1:8080/pool and let load on it:
  cargo run --release -p weirpool-service --bin weirpool-load -- --times 3

Options:
  --port P         port on 127.0.0.1 (default 8080; 0 takes a free one and prints it)
  --workers N      threads that do the work (default: the cores that this process may use)
  --target MS      the wait in the queue that is aimed at (default 5)
  --deadline MS    a job that has not started so long after its request came in is not done any
                   more (default 100)
  --read-time MS   a request's body has to be there so long after its head (default 2000)
  --unprotected    without weirpool: tokio's spawn_blocking with its defaults, up to 512 threads and
                   a queue without bound, as it is often done. Under overload that takes
                   some 4 GiB of memory: argon2 works in 512 threads at once. --workers, --target and --deadline do
                   nothing then
  --agent-port P   answer HAProxy's agent checks on this port (0 takes a free one and prints it)
  --fixed-workers  all workers take jobs at all times; by default fewer do while a quota throttles the
                   process
  --slow FACTOR    play a slow machine: each job takes so many times as long (default 1). The worker
                   sleeps meanwhile, so that it takes no CPU from others
  -h, --help       print this text

Routes:
  POST /password      user=ada&password=correct+horse: 200, or 401 if it is wrong. The check is one
                      argon2id with 4 MiB and 3 passes
  POST /thumbnail     a JPEG or PNG of at most 4 MiB as the body, or none and ?image=0, 1 or 2 for one
                      that the server made at its start: 200 with a JPEG of at most 160 x 160
  GET  /healthz       200 as long as the pool gets through a tiny critical job
  GET  /readyz        200 until the process has been asked to end
  GET  /metrics       Prometheus text
  GET  /pool          the live page; /pool/events is what feeds it

Ctrl-C or SIGTERM ends it: no new requests, accepted ones are answered within 5 s.
";

pub(crate) enum Command {
    Help,
    Serve(Options),
}

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) port: u16,
    pub(crate) workers: usize,
    pub(crate) target: Duration,
    pub(crate) deadline: Duration,
    pub(crate) read_time: Duration,
    pub(crate) is_unprotected: bool,
    pub(crate) agent_port: Option<u16>,
    pub(crate) has_fixed_workers: bool,
    pub(crate) slow_factor: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            port: 8080,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            target: Duration::from_millis(5),
            deadline: Duration::from_millis(100),
            read_time: Duration::from_secs(2),
            is_unprotected: false,
            agent_port: None,
            has_fixed_workers: false,
            slow_factor: 1.0,
        }
    }
}

pub(crate) fn parse() -> Result<Command, Box<dyn Error>> {
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(Command::Help),
            Long("port") => options.port = parser.value()?.parse()?,
            Long("workers") => options.workers = parser.value()?.parse()?,
            Long("target") => options.target = milliseconds(parser.value()?.parse()?)?,
            Long("deadline") => options.deadline = milliseconds(parser.value()?.parse()?)?,
            Long("read-time") => options.read_time = milliseconds(parser.value()?.parse()?)?,
            Long("unprotected") => options.is_unprotected = true,
            Long("agent-port") => options.agent_port = Some(parser.value()?.parse()?),
            Long("fixed-workers") => options.has_fixed_workers = true,
            Long("slow") => options.slow_factor = factor(parser.value()?.parse()?)?,
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Command::Serve(options))
}

fn milliseconds(ms: f64) -> Result<Duration, String> {
    let is_sensible = (0.001..=3_600_000.0).contains(&ms);
    let time = is_sensible.then(|| Duration::from_secs_f64(ms / 1e3));
    time.ok_or_else(|| format!("{ms} ms: must be from 0.001 to 3600000"))
}

fn factor(factor: f64) -> Result<f64, String> {
    let is_sensible = (1.0..=100_000.0).contains(&factor);
    is_sensible
        .then_some(factor)
        .ok_or_else(|| format!("--slow {factor}: must be from 1 to 100000"))
}

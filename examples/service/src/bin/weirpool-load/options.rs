//! The command line.

use std::error::Error;
use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

use lexopt::prelude::*;

pub(crate) const HELP: &str = "\
Sends load to the service in an open loop, and prints what became of it.

Usage: cargo run --release -p weirpool-service --bin weirpool-load -- [OPTIONS]

Requests are sent on a schedule (Poisson arrivals) that doesn't wait for answers, over as many
keep-alive connections as it takes, and every time counts from when the request was due: a generator
that is late sends what is due at once, and the delay counts. What isn't answered within --patience is
given up: the connection is closed, as an impatient client would. Beside the load, GET /healthz is
sent 20 times a second.

Options:
  --times X        X times the capacity, which is measured first (default 3)
  --rate R         R requests a second instead
  --capacity C     take C requests a second for the capacity instead of measuring it
  --only-capacity  print the capacity and do nothing else
  --seconds S      how long (default 10)
  --capacity-seconds S  for each of the three rounds that look for the capacity (default 2)
  --mix M          shares of the routes (default password=1,thumbnail=2)
  --upload         send a picture with each thumbnail request, 12 kB, instead of naming one
  --deadline MS    a good answer is a 200 within so long (default 100)
  --patience MS    when a caller gives up (default 1000)
  --server H:P     (default 127.0.0.1:8080)
  --name TEXT      heading of the column (default: the server)
  --tsv            lines of name, tab, value, for scripts
  --seed N         seed of the schedule (default 1)
  -h, --help       print this text

Rows:
  offered       requests that were due
  good          answered with 200 within the deadline
  late          answered with 200 after the deadline, or given up, or answered with 504
  refused       answered with 503 or 429 at the door, before any work
  dropped       answered with 503 after a wait in the queue (the service says which it was)
  errors        any other answer, or none: connections refused or broken
  accepted p50  milliseconds from when it was due to the answer, of the 200s, and of those given up
                with the time until then
  memory        resident memory of the server: at the start, most, at the end
";

pub(crate) enum Command {
    Help,
    Run(Options),
}

pub(crate) enum Load {
    Times(f64),
    Rate(f64),
    Capacity,
}

pub(crate) struct Options {
    pub(crate) load: Load,
    pub(crate) capacity: Option<f64>,
    pub(crate) duration: Duration,
    pub(crate) capacity_time: Duration,
    pub(crate) mix: Mix,
    pub(crate) is_upload: bool,
    pub(crate) deadline: Duration,
    pub(crate) patience: Duration,
    pub(crate) server: String,
    pub(crate) name: Option<String>,
    pub(crate) is_tsv: bool,
    pub(crate) seed: u64,
}

/// Shares of the routes, not necessarily adding up to 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    pub(crate) password: f64,
    pub(crate) thumbnail: f64,
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut mix = Self { password: 0.0, thumbnail: 0.0 };
        for part in text.split(',') {
            let (route, share) = part.split_once('=').ok_or(format!("{part:?}: no share"))?;
            let share = share.parse().ok().filter(|share| (0.0..=1e6).contains(share));
            let share = share.ok_or(format!("{part:?}: no share from 0 to a million"))?;
            match route {
                "password" => mix.password = share,
                "thumbnail" => mix.thumbnail = share,
                _ => return Err(format!("{route:?}: no such route")),
            }
        }
        let sum = mix.password + mix.thumbnail;
        (sum > 0.0).then_some(mix).ok_or("all shares are 0".to_owned())
    }
}

pub(crate) fn parse() -> Result<Command, Box<dyn Error>> {
    let mut options = Options {
        load: Load::Times(3.0),
        capacity: None,
        duration: Duration::from_secs(10),
        capacity_time: Duration::from_secs(2),
        mix: Mix { password: 1.0, thumbnail: 2.0 },
        is_upload: false,
        deadline: Duration::from_millis(100),
        patience: Duration::from_secs(1),
        server: "127.0.0.1:8080".to_owned(),
        name: None,
        is_tsv: false,
        seed: 1,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(Command::Help),
            Long("times") => options.load = Load::Times(number(parser.value()?, 1e3)?),
            Long("rate") => options.load = Load::Rate(number(parser.value()?, 1e6)?),
            Long("capacity") => options.capacity = Some(number(parser.value()?, 1e6)?),
            Long("only-capacity") => options.load = Load::Capacity,
            Long("seconds") => {
                options.duration = Duration::from_secs_f64(number(parser.value()?, 3600.0)?)
            }
            Long("capacity-seconds") => {
                options.capacity_time = Duration::from_secs_f64(number(parser.value()?, 60.0)?);
            }
            Long("mix") => options.mix = parser.value()?.parse()?,
            Long("upload") => options.is_upload = true,
            Long("deadline") => {
                options.deadline = Duration::from_secs_f64(number(parser.value()?, 6e4)? / 1e3)
            }
            Long("patience") => {
                options.patience = Duration::from_secs_f64(number(parser.value()?, 6e4)? / 1e3)
            }
            Long("server") => options.server = parser.value()?.string()?,
            Long("name") => options.name = Some(parser.value()?.string()?),
            Long("tsv") => options.is_tsv = true,
            Long("seed") => options.seed = parser.value()?.parse()?,
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Command::Run(options))
}

fn number(value: OsString, most: f64) -> Result<f64, Box<dyn Error>> {
    let number: f64 = value.parse()?;
    let is_sensible = (0.01..=most).contains(&number);
    is_sensible
        .then_some(number)
        .ok_or_else(|| format!("{number}: must be from 0.01 to {most}").into())
}

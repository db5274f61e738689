//! The command line.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lexopt::prelude::*;

use crate::AnyError;
use crate::pools::Kind;

pub(crate) const HELP: &str = include_str!("help.txt");

const LOADS: [f64; 5] = [0.8, 1.2, 2.5, 5.0, 10.0];

/// The load of the flood.
const FLOOD: f64 = 2.5;

pub(crate) enum Command {
    Help,
    Measure(Box<Args>),
}

pub(crate) struct Args {
    /// None: the checkout.
    pub(crate) folder: Option<PathBuf>,
    pub(crate) period: Duration,
    pub(crate) rounds: usize,
    pub(crate) workers: usize,
    /// Of those that have a bound; none: their default.
    pub(crate) slots: Option<usize>,
    pub(crate) seed: u64,
    pub(crate) kinds: Vec<Kind>,
    /// Multiples of the capacity, least first.
    pub(crate) loads: Vec<f64>,
    pub(crate) flood: bool,
    pub(crate) step: bool,
    pub(crate) out: PathBuf,
    pub(crate) svg: Option<PathBuf>,
    pub(crate) json: Option<PathBuf>,
    pub(crate) markdown: Option<PathBuf>,
}

/// What was said, before the defaults.
#[derive(Default)]
struct Said {
    folder: Option<PathBuf>,
    period: Option<Duration>,
    rounds: Option<usize>,
    workers: Option<usize>,
    slots: Option<usize>,
    seed: Option<u64>,
    kinds: Vec<Kind>,
    loads: Option<Vec<f64>>,
    flood: bool,
    no_step: bool,
    out: Option<PathBuf>,
    svg: Option<PathBuf>,
    json: Option<PathBuf>,
    markdown: Option<PathBuf>,
}

pub(crate) fn parse() -> Result<Command, AnyError> {
    let mut said = Said::default();
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(Command::Help),
            Long("only" | "policy") => said.kinds.extend(parser.value()?.parse_with(kinds)?),
            Long("loads") => said.loads = Some(parser.value()?.parse_with(loads)?),
            Long("seconds") => said.period = Some(parser.value()?.parse_with(period)?),
            Long("rounds") => said.rounds = Some(parser.value()?.parse_with(rounds)?),
            Long("quick") => said.period = Some(Duration::from_millis(300)),
            Long("workers") => said.workers = Some(parser.value()?.parse_with(workers)?),
            Long("slots") => said.slots = Some(parser.value()?.parse_with(slots)?),
            Long("seed") => said.seed = Some(parser.value()?.parse_with(seed)?),
            Long("flood") => said.flood = true,
            Long("no-step") => said.no_step = true,
            Long("out") => said.out = Some(parser.value()?.into()),
            Long("svg") => said.svg = Some(parser.value()?.into()),
            Long("json") => said.json = Some(parser.value()?.into()),
            Long("markdown") => said.markdown = Some(parser.value()?.into()),
            Value(path) if said.folder.is_none() => said.folder = Some(PathBuf::from(path)),
            unexpected => return Err(unexpected.unexpected().into()),
        }
    }
    Ok(Command::Measure(Box::new(said.with_defaults())))
}

impl Said {
    fn with_defaults(self) -> Args {
        let flood = self.flood;
        let usual_kinds: &[Kind] = if flood { &Kind::FLOODED } else { &Kind::ALL };
        let usual_loads: &[f64] = if flood { &[FLOOD] } else { &LOADS };
        let usual_period =
            if flood { Duration::from_secs(60) } else { Duration::from_millis(1200) };
        // In the order of the pools, and each once, however they were said.
        let kinds = |kind: &Kind| match self.kinds.as_slice() {
            [] => usual_kinds.contains(kind),
            said => said.contains(kind),
        };
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        Args {
            folder: self.folder,
            period: self.period.unwrap_or(usual_period),
            rounds: self.rounds.unwrap_or(1),
            workers: self.workers.unwrap_or_else(cores),
            slots: self.slots,
            seed: self.seed.unwrap_or(1),
            kinds: Kind::ALL.into_iter().filter(kinds).collect(),
            loads: self.loads.unwrap_or_else(|| usual_loads.to_vec()),
            flood,
            step: !flood && !self.no_step,
            out: self.out.unwrap_or_else(|| checkout().join("target/overload")),
            svg: self.svg,
            json: self.json,
            markdown: self.markdown,
        }
    }
}

/// The checkout that this was built from or, where that has gone, the current folder.
pub(crate) fn checkout() -> PathBuf {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR"));
    if checkout.is_dir() { checkout } else { Path::new(".") }.to_owned()
}

fn kinds(text: &str) -> Result<Vec<Kind>, String> {
    let named = |name: &str| {
        Kind::named(name.trim()).ok_or_else(|| {
            let names = Kind::ALL.map(Kind::name).join(", ");
            format!("no pool is called {name:?}; there are {names}")
        })
    };
    text.split(',').map(named).collect()
}

fn loads(text: &str) -> Result<Vec<f64>, String> {
    let load = |text: &str| match text.trim().parse() {
        Ok(load) if (0.05..=50.0).contains(&load) => Ok(load),
        _ => Err("--loads needs numbers from 0.05 to 50, by commas".to_owned()),
    };
    let mut loads: Vec<f64> = text.split(',').map(load).collect::<Result<_, _>>()?;
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    Ok(loads)
}

fn period(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "--seconds needs a number".to_owned())?;
    if (0.05..=600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("--seconds needs a number from 0.05 to 600".to_owned())
    }
}

fn rounds(text: &str) -> Result<usize, String> {
    whole(text, "--rounds", 1..=99)
}

fn workers(text: &str) -> Result<usize, String> {
    whole(text, "--workers", 1..=1024)
}

fn slots(text: &str) -> Result<usize, String> {
    whole(text, "--slots", 1..=1_000_000)
}

fn whole(text: &str, option: &str, range: RangeInclusive<usize>) -> Result<usize, String> {
    text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
        format!("{option} needs a whole number from {} to {}", range.start(), range.end())
    })
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "--seed needs a whole number, 0 or more".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_in_any_order_and_loads_sorted() {
        assert_eq!(kinds("rayon, door").unwrap(), [Kind::Rayon, Kind::Door]);
        assert!(kinds("rayon,,door").unwrap_err().starts_with("no pool is called \"\""));
        assert_eq!(loads("5,0.8, 5").unwrap(), [0.8, 5.0]);
        for bad in ["", "0", "NaN", "inf", "-1", "1;2"] {
            assert!(loads(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn help_knows_every_pool() {
        for kind in Kind::ALL {
            assert!(HELP.contains(&format!("\n  {:<12} ", kind.name())), "{}", kind.name());
        }
    }
}

//! The command line.

use fastrand::Rng;

pub(crate) const HELP: &str = "\
Puts a pool under random load and checks that nothing is lost.

Usage: cargo run --release --example stress -- [OPTIONS]

Options:
    --seconds N      how long to submit [default: 60]
    --seed N         where the random choices begin [default: random]
    --submitters N   threads that submit [default: 8]
    --workers N      workers of the pool [default: 4]
    --capacity N     slots of the pool [default: 64]
    --only-basics    one pool without partitions and bytes, of a fixed size; nobody waits for a slot
    --help           print this
";

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) seconds: u64,
    pub(crate) seed: u64,
    pub(crate) submitters: usize,
    pub(crate) workers: usize,
    pub(crate) capacity: usize,
    pub(crate) only_basics: bool,
}

impl Options {
    /// From the command line; `None` if help is asked for.
    pub(crate) fn parse(
        mut arguments: impl Iterator<Item = String>,
    ) -> Result<Option<Self>, String> {
        let mut options = Self {
            seconds: 60,
            seed: Rng::new().u64(..),
            submitters: 8,
            workers: 4,
            capacity: 64,
            only_basics: false,
        };
        while let Some(name) = arguments.next() {
            match name.as_str() {
                "--help" | "-h" => return Ok(None),
                "--only-basics" => {
                    options.only_basics = true;
                    continue;
                }
                _ => {}
            }
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            let number: u64 = value.parse().map_err(|_| format!("{name} {value}: no number"))?;
            let size = || match usize::try_from(number) {
                Ok(size) if size > 0 => Ok(size),
                _ => Err(format!("{name} {value}: not a size")),
            };
            match name.as_str() {
                "--seconds" => options.seconds = number,
                "--seed" => options.seed = number,
                "--submitters" => options.submitters = size()?,
                "--workers" => options.workers = size()?,
                "--capacity" => options.capacity = size()?,
                _ => return Err(format!("{name}: no such option")),
            }
        }
        Ok(Some(options))
    }
}

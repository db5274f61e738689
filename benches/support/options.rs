//! Options after `--`.

use std::error::Error;
use std::fmt::Display;
use std::str::FromStr;

use lexopt::ValueExt as _;

/// One option as it was given.
pub(crate) enum Given {
    Option(String),
    /// `cargo bench` passes `--bench`, and whoever asks for help wants no measurement.
    Help,
}

/// The options of this process, one after the other.
pub(crate) struct Options {
    parser: lexopt::Parser,
}

impl Options {
    pub(crate) fn of_this_process() -> Self {
        Self { parser: lexopt::Parser::from_env() }
    }

    /// The next option; ends the process with the parser's own words if there is something else.
    pub(crate) fn next(&mut self) -> Option<Given> {
        loop {
            return match or_exit(self.parser.next())? {
                lexopt::Arg::Long("bench") => continue,
                lexopt::Arg::Long("help") | lexopt::Arg::Short('h') => Some(Given::Help),
                lexopt::Arg::Long(name) => Some(Given::Option(name.to_owned())),
                other => or_exit(Err(other.unexpected())),
            };
        }
    }

    /// Ends the process because of an option that the bench doesn't know.
    pub(crate) fn reject(&self, name: &str) -> ! {
        or_exit(Err(lexopt::Arg::Long(name).unexpected()))
    }

    /// The value of the option that came last.
    pub(crate) fn value<T>(&mut self) -> T
    where
        T: FromStr,
        T::Err: Into<Box<dyn Error + Send + Sync + 'static>>,
    {
        or_exit(self.parser.value().and_then(|value| value.parse()))
    }

    /// The same for a list with commas.
    pub(crate) fn list<T: FromStr<Err: Display>>(&mut self) -> Vec<T> {
        let list: String = self.value();
        let parsed = list.split(',').map(|item| {
            item.parse().map_err(|error| lexopt::Error::from(format!("{item:?}: {error}")))
        });
        or_exit(parsed.collect())
    }
}

pub(crate) fn or_exit<T>(result: Result<T, lexopt::Error>) -> T {
    result.unwrap_or_else(|error| {
        eprintln!("{error}; --help lists the options");
        std::process::exit(2)
    })
}

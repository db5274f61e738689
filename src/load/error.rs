//! What can be wrong with a load report.

use std::error::Error;
use std::fmt;

/// As much of somebody else's text as an error repeats.
const QUOTED: usize = 64;

/// Why a text is no load report.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// It doesn't begin with `TEXT `, `JSON ` or `BIN `; this is how it begins.
    Format(String),
    /// There is nothing where a metric, a name or a value must be: this.
    Missing(&'static str),
    /// There is no metric of this name.
    Unknown(String),
    /// This metric is there twice.
    Duplicate(String),
    /// The value of this metric is no number.
    NotANumber(String),
    /// The value of this metric is NaN or infinite.
    NotFinite(String),
    /// The value of this metric is negative, which it can't be.
    Negative(String),
    /// It is not JSON, or not of the shape of a report.
    #[non_exhaustive]
    Json {
        /// At which byte of the JSON.
        at: usize,
        /// What must be there.
        expected: &'static str,
    },
    /// It is not base64, or not a message in protobuf's encoding; this says what is wrong.
    Binary(&'static str),
}

/// The beginning of `text`, for an error.
pub(super) fn quote(text: &str) -> String {
    let mut quoted: String = text.chars().take(QUOTED).collect();
    if quoted.len() < text.len() {
        quoted.push('…');
    }
    quoted
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(prefix) => write!(f, "a load report can't begin with {prefix:?}"),
            Self::Missing(what) => write!(f, "a load report without {what}"),
            Self::Unknown(name) => write!(f, "a load report has no metric {name:?}"),
            Self::Duplicate(name) => write!(f, "the metric {name:?} is reported twice"),
            Self::NotANumber(name) => write!(f, "the metric {name:?} is no number"),
            Self::NotFinite(name) => write!(f, "the metric {name:?} is not finite"),
            Self::Negative(name) => write!(f, "the metric {name:?} is negative"),
            Self::Json { at, expected } => write!(f, "byte {at} of the JSON: {expected} expected"),
            Self::Binary(wrong) => write!(f, "a binary load report: {wrong}"),
        }
    }
}

impl Error for LoadError {}

//! The header field `Retry-After`.

use std::error::Error;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::http_date::{self, LAST_S};

/// A value of the header field `Retry-After` (RFC 9110, section 10.2.3): seconds or a date.
///
/// A server sends it with 503 (overload) and 429 (the caller's own quota). All three forms of HTTP
/// dates are read; one is written. The crate `httpdate` reads and writes the same dates; here they
/// are weirpool's own because its core dependencies are fixed.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use weirpool::client::RetryAfter;
///
/// let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_770);
/// let date = RetryAfter::parse("Sun, 06 Nov 1994 08:49:37 GMT", now)?;
/// assert_eq!(date.wait(now), Duration::from_secs(7));
/// assert_eq!(RetryAfter::parse("120", now)?, RetryAfter::Seconds(120));
/// assert_eq!(RetryAfter::after(Duration::from_millis(30)).to_string(), "1");
/// # Ok::<(), weirpool::client::RetryAfterError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RetryAfter {
    /// So many seconds after the answer.
    Seconds(u64),
    /// At so many seconds after 1970-01-01 00:00:00 UTC. Written as a date, at the latest the end of
    /// the year 9999.
    At(u64),
}

impl RetryAfter {
    /// `wait` in whole seconds, rounded up, at least 1: nobody is asked to come back at once.
    pub fn after(wait: Duration) -> Self {
        let rounded_up = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
        Self::Seconds(rounded_up.max(1))
    }

    /// Reads a field value; blanks around it are ignored.
    ///
    /// `now` is the reader's wall clock. It decides the century of a date whose year has two digits
    /// (RFC 850), which is never more than 50 years ahead, and nothing else. Seconds that don't fit 64
    /// bits count as the most that do. The name of a date's day is not compared with the date.
    ///
    /// # Errors
    ///
    /// If it is neither a whole number nor a date from 1970 to 9999; the error says what is wrong.
    pub fn parse(value: &str, now: SystemTime) -> Result<Self, RetryAfterError> {
        let value = value.trim_matches([' ', '\t']);
        if value.is_empty() {
            return Err(RetryAfterError("it is empty"));
        }
        if value.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(Self::Seconds(value.parse().unwrap_or(u64::MAX)));
        }
        if value.starts_with(|first: char| !first.is_ascii_alphabetic()) {
            return Err(RetryAfterError("it is neither a whole number nor a date"));
        }
        http_date::parse(value, since_1970_s(now)).map(Self::At).map_err(RetryAfterError)
    }

    /// How long to wait from `now` on, which for seconds is the arrival of the answer. Zero for a date
    /// that has passed.
    pub fn wait(&self, now: SystemTime) -> Duration {
        match *self {
            Self::Seconds(seconds) => Duration::from_secs(seconds),
            Self::At(at) => {
                let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
                Duration::from_secs(at).saturating_sub(now)
            }
        }
    }
}

fn since_1970_s(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()).min(LAST_S)
}

impl fmt::Display for RetryAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seconds(seconds) => seconds.fmt(f),
            Self::At(at) => f.pad(&http_date::write(*at)),
        }
    }
}

impl From<SystemTime> for RetryAfter {
    /// The second in which `time` lies or, if it lies between two, the later one; 1970 for what is
    /// before it.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::At(since.as_secs().saturating_add(u64::from(since.subsec_nanos() > 0)).min(LAST_S))
    }
}

/// Why a value is no `Retry-After`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryAfterError(&'static str);

impl fmt::Display for RetryAfterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a value of Retry-After: {}", self.0)
    }
}

impl Error for RetryAfterError {}

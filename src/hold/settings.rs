//! What both kinds of hold can be told about their thread and their time, and how settings are
//! checked.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::pace::Time;
use crate::error::BuildError;
use crate::sense::clock::Clock;

/// What the standard library gives its threads.
const DEFAULT_STACK_SIZE: usize = 2 << 20;
/// The same as for a pool's workers.
const STACK_SIZES: RangeInclusive<u64> = 64 << 10..=isize::MAX as u64 / 2;

/// How a thread is made when one is needed.
pub(super) struct ThreadSpec {
    pub(super) name: String,
    pub(super) stack_size: usize,
}

/// Who takes care of what is held, and by which clock.
pub(super) struct Attendance {
    pub(super) name: String,
    pub(super) stack_size: usize,
    pub(super) threaded: bool,
    pub(super) clock: Option<Box<dyn Clock>>,
}

impl Attendance {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), stack_size: DEFAULT_STACK_SIZE, threaded: true, clock: None }
    }

    /// The way to make a thread, if there is to be one, and the time.
    pub(super) fn build(self) -> Result<(Option<ThreadSpec>, Time), BuildError> {
        in_range("stack_size", self.stack_size as u64, STACK_SIZES)?;
        // The standard library panics over such a name, at a time when nobody expects it.
        if self.name.contains('\0') {
            return Err(invalid("name", &self.name, "free of NUL bytes"));
        }
        let spec = ThreadSpec { name: self.name, stack_size: self.stack_size };
        Ok((self.threaded.then_some(spec), Time::new(self.clock)))
    }
}

pub(super) fn in_range(
    setting: &'static str,
    value: u64,
    range: RangeInclusive<u64>,
) -> Result<(), BuildError> {
    if range.contains(&value) {
        return Ok(());
    }
    let expected = format!("from {} to {}", range.start(), range.end());
    Err(invalid(setting, value, &expected))
}

/// Zero would be read as "none" by some and as "without end" by others.
pub(super) fn above_zero(setting: &'static str, value: Duration) -> Result<(), BuildError> {
    if value.is_zero() { Err(invalid(setting, value, "above zero")) } else { Ok(()) }
}

pub(super) fn invalid(setting: &'static str, value: impl fmt::Debug, expected: &str) -> BuildError {
    BuildError::Invalid { setting, value: format!("{value:?}"), expected: expected.to_owned() }
}

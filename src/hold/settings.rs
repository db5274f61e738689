//! What both kinds of hold can be told about their thread and their time.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::error::BuildError;
use crate::sense::clock::Clock;
use crate::sense::steady::Readings;

/// What the standard library gives its threads.
const DEFAULT_STACK_SIZE: usize = 2 << 20;
/// The same as for a pool's workers.
const STACK_SIZES: RangeInclusive<usize> = 64 << 10..=isize::MAX as usize / 2;

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
    pub(super) fn build(self) -> Result<(Option<ThreadSpec>, Readings), BuildError> {
        BuildError::check_range("stack_size", self.stack_size, STACK_SIZES)?;
        // The standard library panics over such a name, at a time when nobody expects it.
        if self.name.contains('\0') {
            return Err(BuildError::invalid("name", &self.name, "free of NUL bytes"));
        }
        let spec = ThreadSpec { name: self.name, stack_size: self.stack_size };
        Ok((self.threaded.then_some(spec), Readings::new(self.clock)))
    }
}

/// How late a wait may end: so many releases share one wake-up. An eighth of `time`, from 1 to 10
/// ms.
pub(super) fn grain(time: Duration) -> Duration {
    (time / 8).clamp(Duration::from_millis(1), Duration::from_millis(10))
}

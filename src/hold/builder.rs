//! The settings of a [`RejectionHold`].

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use super::keeper::Keeper;
use super::rejection::RejectionHold;
use super::ring::Ring;
use super::settings::Attendance;
use super::shelf::{Held, Shelf};
use crate::error::BuildError;
use crate::sense::clock::Clock;

const DEFAULT_HOLD_TIME: Duration = Duration::from_secs(10);
const DEFAULT_MAX_ITEMS: usize = 1024;
const DEFAULT_MAX_BYTES: u64 = 64 << 20;
/// Far above the descriptors of any process.
const MAX_ITEMS: usize = 1 << 24;

/// Builds a [`RejectionHold`], from [`RejectionHold::builder`].
///
/// Nothing is checked before [`build`](Self::build), which names the setting and the value that
/// can't be used.
///
/// ```
/// use weirpool::hold::RejectionHold;
///
/// let hold = RejectionHold::builder().max_items(100).max_bytes(1 << 20).build()?;
/// hold.hold(std::net::Ipv4Addr::LOCALHOST);
///
/// let error = RejectionHold::<()>::builder().max_items(0).build().unwrap_err();
/// assert!(error.to_string().starts_with("max_items = 0"));
/// # Ok::<(), weirpool::BuildError>(())
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct HoldBuilder<T> {
    hold_time: Duration,
    max_items: usize,
    max_bytes: u64,
    attendance: Attendance,
    items: PhantomData<fn(T)>,
}

impl<T: Send + 'static> HoldBuilder<T> {
    pub(super) fn new() -> Self {
        Self {
            hold_time: DEFAULT_HOLD_TIME,
            max_items: DEFAULT_MAX_ITEMS,
            max_bytes: DEFAULT_MAX_BYTES,
            attendance: Attendance::new("weirpool-hold"),
            items: PhantomData,
        }
    }

    /// How long each item is held, above zero. Default 10 s. What exceeds 500 years is for ever:
    /// then items go by the bound or at the end.
    pub fn hold_time(mut self, time: Duration) -> Self {
        self.hold_time = time;
        self
    }

    /// How many items are held at most, from 1 to 16 777 216. Default 1024.
    pub fn max_items(mut self, items: usize) -> Self {
        self.max_items = items;
        self
    }

    /// How many bytes are held at most, at least 1. Default 64 MiB.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// The thread's name. Default "weirpool-hold".
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.attendance.name = name.into();
        self
    }

    /// The thread's stack in bytes, at least 65 536: destructors run on it. Default 2 MiB.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.attendance.stack_size = bytes;
        self
    }

    /// The clock by which the hold time passes. Default: the system's monotonic one. Should it
    /// panic, the system's is taken instead.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.attendance.clock = Some(Box::new(clock));
        self
    }

    /// No thread is ever made: what is due is released by [`RejectionHold::release_due`] alone,
    /// which you call in a loop of your own, or in a test. The bounds hold as before.
    pub fn without_thread(mut self) -> Self {
        self.attendance.threaded = false;
        self
    }

    /// Makes the hold, without a thread as yet.
    ///
    /// # Errors
    /// [`BuildError::Invalid`] for the first setting that can't be used; [`BuildError::Spawn`] if
    /// the system has no memory for being told of forks.
    pub fn build(self) -> Result<RejectionHold<T>, BuildError> {
        BuildError::check_ns("hold_time", self.hold_time)?;
        BuildError::check_range("max_items", self.max_items, 1..=MAX_ITEMS)?;
        BuildError::check_range("max_bytes", self.max_bytes, 1..=u64::MAX)?;
        let held = Held::new(Ring::new(self.max_items, self.max_bytes));
        let shelf = Shelf::new(self.hold_time);
        Ok(RejectionHold::of(Keeper::new(shelf, held, self.attendance)?))
    }
}

impl<T> fmt::Debug for HoldBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldBuilder")
            .field("hold_time", &self.hold_time)
            .field("max_items", &self.max_items)
            .field("max_bytes", &self.max_bytes)
            .field("name", &self.attendance.name)
            .field("stack_size", &self.attendance.stack_size)
            .field("threaded", &self.attendance.threaded)
            .finish_non_exhaustive()
    }
}

//! The settings of a [`TcpRefusal`].

use std::fmt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::TcpRefusal;
use super::attend::Lingering;
use super::connection::Limits;
use super::roster::Roster;
use crate::error::BuildError;
use crate::hold::keeper::Keeper;
use crate::hold::settings::{Attendance, grain};
use crate::sense::clock::{Clock, saturating_ns};
use crate::sync::Parker;

const DEFAULT_LINGER: Duration = Duration::from_secs(10);
const DEFAULT_WRITE_TIMEOUT: Duration = Duration::from_secs(10);
const DEFAULT_LONGEST: Duration = Duration::from_secs(60);
const DEFAULT_MAX_CONNECTIONS: usize = 256;
const DEFAULT_MAX_BYTES: u64 = 16 << 20;
const DEFAULT_MAX_DRAIN: u64 = 1 << 20;
/// `poll` looks through all of them: more want another design.
const MAX_CONNECTIONS: usize = 1 << 14;

/// Builds a [`TcpRefusal`], from [`TcpRefusal::builder`].
///
/// Nothing is checked before [`build`](Self::build), which names the setting and the value that
/// can't be used.
///
/// ```
/// use std::time::Duration;
/// use weirpool::hold::TcpRefusal;
///
/// let refusal = TcpRefusal::builder().linger(Duration::from_secs(5)).max_bytes(1 << 20).build()?;
///
/// let error = TcpRefusal::builder().linger(Duration::ZERO).build().unwrap_err();
/// assert!(error.to_string().starts_with("linger = 0ns"));
/// # Ok::<(), weirpool::BuildError>(())
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct TcpRefusalBuilder {
    linger: Duration,
    write_timeout: Option<Duration>,
    longest: Option<Duration>,
    max_connections: usize,
    max_bytes: u64,
    max_drain: u64,
    attendance: Attendance,
}

impl TcpRefusalBuilder {
    pub(super) fn new() -> Self {
        Self {
            linger: DEFAULT_LINGER,
            write_timeout: None,
            longest: None,
            max_connections: DEFAULT_MAX_CONNECTIONS,
            max_bytes: DEFAULT_MAX_BYTES,
            max_drain: DEFAULT_MAX_DRAIN,
            attendance: Attendance::new("weirpool-refusal"),
        }
    }

    /// How long a connection is held after the end of its answer, above zero. Default 10 s.
    pub fn linger(mut self, time: Duration) -> Self {
        self.linger = time;
        self
    }

    /// How long an answer may make no progress, above zero. Default 10 s, or the linger time if
    /// that is longer.
    pub fn write_timeout(mut self, time: Duration) -> Self {
        self.write_timeout = Some(time);
        self
    }

    /// How long a connection is held in all, at least the linger time. Default 60 s, or the longer
    /// of the two others if that is more.
    pub fn longest(mut self, time: Duration) -> Self {
        self.longest = Some(time);
        self
    }

    /// How many connections are held at most, from 1 to 16 384. Default 256. Keep it well below the
    /// process's limit of open files.
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections;
        self
    }

    /// How many bytes of answers may wait to be written, at least 1. Default 16 MiB. When more
    /// come, the oldest connections with something to write are cut. What the system has taken
    /// doesn't count.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// How many bytes of input are read and thrown away for each connection, at least 1. Default
    /// 1 MiB.
    pub fn max_drain(mut self, bytes: u64) -> Self {
        self.max_drain = bytes;
        self
    }

    /// The thread's name. Default "weirpool-refusal".
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.attendance.name = name.into();
        self
    }

    /// The thread's stack in bytes, at least 65 536. Default 2 MiB.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.attendance.stack_size = bytes;
        self
    }

    /// The clock by which connections linger. Default: the system's monotonic one. The thread waits
    /// in real time; call [`TcpRefusal::step`] after a jump of the clock.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.attendance.clock = Some(Box::new(clock));
        self
    }

    /// No thread is ever made: [`TcpRefusal::step`] alone goes on with the connections, which you
    /// call in a loop of your own, or in a test.
    pub fn without_thread(mut self) -> Self {
        self.attendance.threaded = false;
        self
    }

    /// Makes it, without a thread as yet.
    ///
    /// # Errors
    /// [`BuildError::Invalid`] for the first setting that can't be used; [`BuildError::Spawn`] if
    /// there are no descriptors left for waking the thread, or no memory.
    pub fn build(self) -> Result<TcpRefusal, BuildError> {
        let linger_ns = BuildError::check_ns("linger", self.linger)?;
        let write_timeout = self.write_timeout.unwrap_or(DEFAULT_WRITE_TIMEOUT.max(self.linger));
        let write_timeout_ns = BuildError::check_ns("write_timeout", write_timeout)?;
        let at_least = DEFAULT_LONGEST.max(self.linger).max(write_timeout);
        let longest = self.longest.unwrap_or(at_least);
        if longest < self.linger {
            return Err(BuildError::invalid("longest", longest, "at least the linger time"));
        }
        BuildError::check_range("max_connections", self.max_connections, 1..=MAX_CONNECTIONS)?;
        BuildError::check_range("max_bytes", self.max_bytes, 1..=u64::MAX)?;
        BuildError::check_range("max_drain", self.max_drain, 1..=u64::MAX)?;
        let look = (self.linger / 8).clamp(Duration::from_millis(10), Duration::from_secs(1));
        let limits = Limits {
            linger_ns,
            write_timeout_ns,
            longest_ns: saturating_ns(longest),
            look_ns: saturating_ns(look),
            max_drain: self.max_drain,
        };
        let (bell, hearing) = bell().map_err(BuildError::Spawn)?;
        let grain = grain(self.linger);
        let lingering = Lingering { limits, grain, bell, hearing, pause: Parker::new() };
        let roster = Roster::new(self.max_connections, self.max_bytes);
        let keeper = Keeper::new(lingering, roster, self.attendance)?;
        Ok(TcpRefusal::of(keeper))
    }
}

/// Two ends that never block.
fn bell() -> std::io::Result<(UnixStream, UnixStream)> {
    let (bell, hearing) = UnixStream::pair()?;
    bell.set_nonblocking(true)?;
    hearing.set_nonblocking(true)?;
    Ok((bell, hearing))
}

impl fmt::Debug for TcpRefusalBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpRefusalBuilder")
            .field("linger", &self.linger)
            .field("write_timeout", &self.write_timeout)
            .field("longest", &self.longest)
            .field("max_connections", &self.max_connections)
            .field("max_bytes", &self.max_bytes)
            .field("max_drain", &self.max_drain)
            .field("name", &self.attendance.name)
            .field("stack_size", &self.attendance.stack_size)
            .field("threaded", &self.attendance.threaded)
            .finish_non_exhaustive()
    }
}

//! How soon to call `accept` again after an error.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use crate::error::BuildError;

const DEFAULT_FIRST: Duration = Duration::from_millis(10);
const DEFAULT_LONGEST: Duration = Duration::from_millis(200);
/// So many connections in a row that failed before they were accepted are nothing unusual.
const MAX_HICCUPS: u32 = 16;

/// What to do before the next `accept`, from [`AcceptBackoff::failed`].
///
/// ```
/// use weirpool::hold::AcceptNext;
///
/// assert_ne!(AcceptNext::Now, AcceptNext::WhenReady);
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptNext {
    /// Go on at once: the error was that of one connection.
    Now,
    /// There is no connection; wait until the listener is readable.
    WhenReady,
    /// Wait for so long: the error was the process's or the system's.
    After(Duration),
}

/// Keeps an accept loop from spinning while `accept` fails.
///
/// Without descriptors (`EMFILE`, `ENFILE`) or memory, `accept` fails at once while the listener
/// stays readable, so that the loop takes a whole core. This says how long to wait: 10 ms after the
/// first failure, twice as long after each further one, up to 200 ms. So a listener that keeps
/// failing is called fewer than 30 times in any second, and accepting goes on at most 200 ms after
/// it is possible again. Errors that belong to one connection (say, it was aborted before it was
/// accepted) cost no wait, unless there are more than 16 in a row. The rule is that of Go's
/// `net/http` server.
///
/// Plain arithmetic without thread and clock: the present comes in as an argument.
///
/// ```no_run
/// use std::net::TcpListener;
/// use std::time::Instant;
/// use weirpool::hold::{AcceptBackoff, AcceptNext};
///
/// let listener = TcpListener::bind("127.0.0.1:8080")?;
/// let mut backoff = AcceptBackoff::new();
/// loop {
///     match listener.accept() {
///         Ok((stream, _)) => {
///             backoff.succeeded();
///             drop(stream);
///         }
///         Err(error) => {
///             if let AcceptNext::After(wait) = backoff.failed(&error, Instant::now()) {
///                 eprintln!("can't accept, trying again in {wait:?}: {error}");
///                 std::thread::sleep(wait);
///             }
///         }
///     }
/// }
/// # #[allow(unreachable_code)]
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct AcceptBackoff {
    first: Duration,
    longest: Duration,
    hiccups: u32,
    waiting: Option<Wait>,
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    since: Instant,
    time: Duration,
}

impl AcceptBackoff {
    /// Waits from 10 ms to 200 ms.
    pub fn new() -> Self {
        Self { first: DEFAULT_FIRST, longest: DEFAULT_LONGEST, hiccups: 0, waiting: None }
    }

    /// Waits from `first` to `longest`.
    ///
    /// # Errors
    /// [`BuildError::Invalid`] if `first` is zero or above `longest`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use weirpool::hold::AcceptBackoff;
    ///
    /// assert!(AcceptBackoff::between(Duration::from_millis(5), Duration::from_secs(1)).is_ok());
    /// assert!(AcceptBackoff::between(Duration::ZERO, Duration::from_secs(1)).is_err());
    /// ```
    pub fn between(first: Duration, longest: Duration) -> Result<Self, BuildError> {
        BuildError::check_ns("first", first)?;
        if longest < first {
            return Err(BuildError::invalid("longest", longest, "at least the first wait"));
        }
        Ok(Self { first, longest, ..Self::new() })
    }

    /// A connection was accepted: the next failure is a first one.
    pub fn succeeded(&mut self) {
        self.hiccups = 0;
        self.waiting = None;
    }

    /// `accept` failed at `now`.
    ///
    /// A call that comes before the wait is over gets what is left of it and lengthens nothing.
    pub fn failed(&mut self, error: &io::Error, now: Instant) -> AcceptNext {
        if error.kind() == ErrorKind::WouldBlock {
            return AcceptNext::WhenReady;
        }
        let left = self.left(now);
        if !left.is_zero() {
            return AcceptNext::After(left);
        }
        if is_of_one_connection(error) && self.hiccups < MAX_HICCUPS {
            self.hiccups += 1;
            return AcceptNext::Now;
        }
        let next = |wait: Wait| wait.time.saturating_mul(2).min(self.longest);
        let time = self.waiting.map_or(self.first, next);
        self.waiting = Some(Wait { since: now, time });
        AcceptNext::After(time)
    }

    /// How much of the wait is left at `now`, for loops that look at other things meanwhile. Zero
    /// if none, and if the clock has gone back, so that nobody waits for it to catch up.
    pub fn left(&self, now: Instant) -> Duration {
        let left = self.waiting.and_then(|wait| {
            let passed = now.checked_duration_since(wait.since)?;
            Some(wait.time.saturating_sub(passed))
        });
        left.unwrap_or_default()
    }
}

impl Default for AcceptBackoff {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether the connection at hand failed and the next may be fine. Linux reports there also the
/// errors of a network that failed before the connection was taken (accept(2)).
fn is_of_one_connection(error: &io::Error) -> bool {
    let by_kind = matches!(
        error.kind(),
        ErrorKind::Interrupted
            | ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::TimedOut
            | ErrorKind::PermissionDenied
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
    );
    by_kind || is_of_the_network(error)
}

#[cfg(unix)]
fn is_of_the_network(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EPROTO | libc::ENOPROTOOPT | libc::EHOSTDOWN | libc::EOPNOTSUPP)
    )
}

#[cfg(not(unix))]
fn is_of_the_network(_: &io::Error) -> bool {
    false
}

//! What can go wrong, and how the job comes back.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::contain::{Payload, drop_payload};
use crate::sense::clock::saturating_ns;

/// Why a job was refused at the door.
///
/// When several apply, the reported one is the first of: `Closed` or `Forked`, `Deadline`, `Cpu`,
/// `QueueDelay`, `Partition`, `Bytes`, `Limit`, `Full`.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// All slots that this class of work may use are taken.
    Full,
    /// The adaptive limit is reached.
    Limit,
    /// The predicted wait is too long.
    QueueDelay,
    /// The CPU is contended.
    Cpu,
    /// The job could not start by its deadline: that has passed, or the predicted wait is longer.
    Deadline,
    /// The job's partition has no room, or is not one of this pool.
    Partition,
    /// The budget of bytes is used up.
    Bytes,
    /// The pool is closed.
    Closed,
    /// This process was forked off after the pool was built, and has none of its threads.
    Forked,
}

impl Reason {
    pub(crate) const COUNT: usize = 9;
    /// In the order of [`index`](Self::index).
    pub(crate) const ALL: [Self; Self::COUNT] = [
        Self::Full,
        Self::Limit,
        Self::QueueDelay,
        Self::Cpu,
        Self::Deadline,
        Self::Partition,
        Self::Bytes,
        Self::Closed,
        Self::Forked,
    ];

    /// Its name in figures that machines read.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Limit => "limit",
            Self::QueueDelay => "queue_delay",
            Self::Cpu => "cpu",
            Self::Deadline => "deadline",
            Self::Partition => "partition",
            Self::Bytes => "bytes",
            Self::Closed => "closed",
            Self::Forked => "forked",
        }
    }

    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// Whether trying again later can help.
    fn is_temporary(self) -> bool {
        !matches!(self, Self::Closed | Self::Forked | Self::Deadline)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the pool is full",
            Self::Limit => "the concurrency limit is reached",
            Self::QueueDelay => "the predicted wait is too long",
            Self::Cpu => "the CPU is overloaded",
            Self::Deadline => "the deadline can't be met",
            Self::Partition => "the partition is full or unknown",
            Self::Bytes => "the budget of bytes is used up",
            Self::Closed => "the pool is closed",
            Self::Forked => "the process was forked after the pool was built",
        })
    }
}

/// Why and under which load a job was refused: what is left of a [`Rejected`] without the job.
///
/// ```
/// fn refused(pool: &weirpool::Pool) -> Result<(), Box<dyn std::error::Error>> {
///     // A `Rejected` turns into a `Refusal`, so `?` works wherever errors are boxed.
///     pool.try_spawn(|| {}).map_err(weirpool::Refusal::from)?;
///     Ok(())
/// }
/// # let pool = weirpool::Pool::new(1, 1)?;
/// pool.close();
/// assert!(refused(&pool).unwrap_err().to_string().contains("closed"));
/// # Ok::<(), weirpool::BuildError>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Refusal {
    /// The first reason that applied.
    pub reason: Reason,
    /// As it was at the refusal; zero if nothing is known of service times. In one word, so that a
    /// refusal fits in two registers.
    drain_ns: f64,
}

impl Refusal {
    #[inline]
    pub(crate) fn new(reason: Reason, drain_ns: f64) -> Self {
        Self { reason, drain_ns }
    }

    /// The first reason that applied.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// When to try again: the *drain time*, in which the active workers work off what is ahead,
    /// lengthened by a random part of up to a half so that those refused together don't come back
    /// together.
    ///
    /// Computed when asked. None if trying again can't help (closed, forked, deadline) or if no
    /// job has ended yet, so that nothing is known of service times.
    pub fn retry_after(&self) -> Option<Duration> {
        if !self.reason.is_temporary() || self.drain_ns == 0.0 {
            return None;
        }
        let spread = 1.0 + 0.5 * fastrand::f64();
        Some(Duration::from_nanos((self.drain_ns * spread) as u64))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job refused: {}", self.reason)
    }
}

impl Error for Refusal {}

impl<F> From<Rejected<F>> for Refusal {
    fn from(rejected: Rejected<F>) -> Self {
        rejected.refusal
    }
}

/// A refused job, given back to its owner.
///
/// Nothing was run, queued or allocated. Give the caller a cheaper answer, try again after
/// [`retry_after`](Self::retry_after), or pay for it yourself with [`run_here`](Self::run_here).
///
/// ```
/// use weirpool::{Pool, Reason};
///
/// let pool = Pool::new(1, 1)?;
/// pool.close();
/// let rejected = pool.try_submit(|| 6 * 7).unwrap_err();
/// assert_eq!(rejected.reason(), Reason::Closed);
/// assert_eq!(rejected.run_here(), 42);
/// # Ok::<(), weirpool::BuildError>(())
/// ```
pub struct Rejected<F> {
    job: F,
    refusal: Refusal,
}

// SAFETY: a shared `Rejected` gives no access to the job: every method that reaches it takes
// `self`, and `Debug` doesn't look at it. So sharing one between threads moves at most the whole
// of it, for which `F: Send` suffices.
unsafe impl<F: Send> Sync for Rejected<F> {}

impl<F> Rejected<F> {
    pub(crate) fn new(job: F, refusal: Refusal) -> Self {
        Self { job, refusal }
    }

    /// The first reason that applied.
    pub fn reason(&self) -> Reason {
        self.refusal.reason
    }

    /// The refusal without the job: `Copy`, and an error that can go anywhere.
    pub fn refusal(&self) -> Refusal {
        self.refusal
    }

    /// When to try again, see [`Refusal::retry_after`].
    pub fn retry_after(&self) -> Option<Duration> {
        self.refusal.retry_after()
    }

    /// The job, unrun.
    pub fn into_job(self) -> F {
        self.job
    }

    /// Runs the job on the calling thread, outside the pool and its accounting.
    ///
    /// Slows the caller down to the pace of its own work, which is the oldest back-pressure. A
    /// panic of the job is the caller's.
    pub fn run_here<T>(self) -> T
    where
        F: FnOnce() -> T,
    {
        (self.job)()
    }

    /// The refusal and the job.
    pub fn into_parts(self) -> (Refusal, F) {
        (self.refusal, self.job)
    }
}

impl<F> fmt::Debug for Rejected<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected").field("refusal", &self.refusal).finish_non_exhaustive()
    }
}

impl<F> fmt::Display for Rejected<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusal.fmt(f)
    }
}

impl<F> Error for Rejected<F> {
    /// The [`Refusal`]: it can be found in a chain of errors, where the type of a job has no name.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.refusal)
    }
}

/// Why an accepted job was dropped before its body began.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShedReason {
    /// It had waited too long in the queue.
    QueueDelay,
    /// Its deadline passed while it waited.
    Deadline,
    /// A more urgent job took its slot.
    Displaced,
}

impl ShedReason {
    pub(crate) const COUNT: usize = 3;
    /// In the order of [`index`](Self::index).
    pub(crate) const ALL: [Self; Self::COUNT] = [Self::QueueDelay, Self::Deadline, Self::Displaced];

    /// Its name in figures that machines read.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::QueueDelay => "queue_delay",
            Self::Deadline => "deadline",
            Self::Displaced => "displaced",
        }
    }

    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for ShedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::QueueDelay => "it waited too long",
            Self::Deadline => "its deadline passed",
            Self::Displaced => "a more urgent job took its slot",
        })
    }
}

/// Why an accepted job has no result.
#[non_exhaustive]
#[derive(Debug)]
pub enum JobError {
    /// It was cancelled before it started.
    Cancelled,
    /// It was dropped after its acceptance and before its body began.
    Shed(ShedReason),
    /// Its body panicked.
    Panicked(Panic),
    /// It was still queued when the pool was shut down with
    /// [`Shutdown::Discard`](crate::Shutdown::Discard), or it is a parent's job in a forked child.
    Discarded,
    /// It was to be run in place by [`join`](crate::JobHandle::join) on a worker whose stack is
    /// nearly used up. The job stays queued, detached, and runs later.
    TooDeep,
}

impl JobError {
    /// Whether the body panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self, Self::Panicked(_))
    }

    /// Whether the job was shed: accepted, and dropped before its body began.
    pub fn is_shed(&self) -> bool {
        matches!(self, Self::Shed(_))
    }

    /// Whether the job was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled)
    }

    /// Whether the job was discarded by a shutdown.
    pub fn is_discarded(&self) -> bool {
        matches!(self, Self::Discarded)
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("the job was cancelled before it started"),
            Self::Shed(reason) => write!(f, "the job was shed before it started: {reason}"),
            Self::Panicked(panic) => panic.fmt(f),
            Self::Discarded => f.write_str("the job was discarded at shutdown"),
            Self::TooDeep => {
                f.write_str("the stack is too deep to run the job in place; it stays queued")
            }
        }
    }
}

impl Error for JobError {}

/// What a job's panic carried.
///
/// Opaque, so that an error holding it can be shared between threads although the payload itself
/// might not be. `Display` shows the message if the payload is a string.
pub struct Panic {
    payload: Option<Payload>,
}

// SAFETY: a shared `Panic` gives access to the payload in `Display` and `Debug` only, and there
// only to payloads that are `&'static str` or `String`, both of which are `Sync`.
unsafe impl Sync for Panic {}

impl Panic {
    pub(crate) fn new(payload: Payload) -> Self {
        Self { payload: Some(payload) }
    }

    fn message(&self) -> Option<&str> {
        let payload = self.payload.as_ref()?;
        payload
            .downcast_ref::<&'static str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
    }

    /// The payload, as [`std::panic::catch_unwind`] gives it.
    pub fn into_inner(mut self) -> Box<dyn Any + Send> {
        self.payload.take().expect("only taken by value")
    }

    /// Goes on panicking on this thread, without calling the panic hook again.
    pub fn resume(self) -> ! {
        std::panic::resume_unwind(self.into_inner())
    }
}

impl Drop for Panic {
    fn drop(&mut self) {
        // A payload is user data: its destructor must not make an error's destructor panic.
        if let Some(payload) = self.payload.take() {
            drop_payload(payload);
        }
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message() {
            Some(message) => write!(f, "the job panicked: {message}"),
            None => f.write_str("the job panicked"),
        }
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Panic").field(&self.message().unwrap_or("..")).finish()
    }
}

impl Error for Panic {}

/// Why a pool could not be built.
///
/// ```
/// let error = weirpool::Pool::builder().workers(0).build().unwrap_err();
/// assert_eq!(error.to_string(), "workers = 0: must be from 1 to 4096");
/// ```
#[non_exhaustive]
#[derive(Debug)]
pub enum BuildError {
    /// A setting has a value that can't be used.
    #[non_exhaustive]
    Invalid {
        /// The name of the builder's method, and after a dot what of it.
        setting: &'static str,
        /// The value it was given.
        value: String,
        /// What it must be.
        expected: String,
    },
    /// The system could not create a thread, or what one needs: a registration to be told of forks,
    /// or the descriptors that wake it. Threads already started have exited.
    Spawn(io::Error),
}

impl BuildError {
    pub(crate) fn invalid(setting: &'static str, value: impl fmt::Debug, expected: &str) -> Self {
        Self::Invalid { setting, value: format!("{value:?}"), expected: expected.to_owned() }
    }

    /// A setting that is a number.
    pub(crate) fn check_range<N: PartialOrd + fmt::Debug>(
        setting: &'static str,
        value: N,
        range: RangeInclusive<N>,
    ) -> Result<(), Self> {
        if range.contains(&value) {
            return Ok(());
        }
        let expected = format!("from {:?} to {:?}", range.start(), range.end());
        Err(Self::invalid(setting, value, &expected))
    }

    /// A setting that is a time, in nanoseconds: above zero; one that overflows them is for ever.
    pub(crate) fn check_ns(setting: &'static str, time: Duration) -> Result<u64, Self> {
        if time.is_zero() {
            return Err(Self::invalid(setting, time, "above zero"));
        }
        Ok(saturating_ns(time))
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { setting, value, expected } => {
                write!(f, "{setting} = {value}: must be {expected}")
            }
            Self::Spawn(_) => f.write_str("a thread, or what it needs, could not be created"),
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Spawn(error) => Some(error),
            Self::Invalid { .. } => None,
        }
    }
}

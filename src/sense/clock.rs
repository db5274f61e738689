//! Time as the pool judges it.

use std::time::{Duration, Instant};

use crate::contain::{Contained, contain, drop_payload};
use crate::sense::ticks;
use crate::sync::{system_now, system_ns};

/// Where the pool reads the time it judges by: deadlines, ageing, service time.
///
/// Waiting calls ([`join_timeout`](crate::JobHandle::join_timeout),
/// [`shutdown`](crate::Pool::shutdown) with a limit) use real time instead, since a thread can't
/// sleep on somebody else's clock. [`ManualClock`](crate::test::ManualClock) is the one for tests.
///
/// A clock may jump in both directions; nothing in the pool panics or is lost because of it. If
/// [`now`](Self::now) itself panics, the pool takes the system's monotonic time instead.
///
/// ```
/// use std::time::Instant;
///
/// struct RealTime;
///
/// impl weirpool::Clock for RealTime {
///     fn now(&self) -> Instant {
///         Instant::now()
///     }
/// }
///
/// let pool = weirpool::Pool::builder().workers(1).clock(RealTime).build()?;
/// # pool.shutdown(weirpool::Shutdown::Drain, None);
/// # Ok::<(), weirpool::BuildError>(())
/// ```
pub trait Clock: Send + Sync + 'static {
    /// The present instant.
    fn now(&self) -> Instant;
}

/// Reads a clock that is user code: its panic would cost a thread, or leave something half done.
pub(crate) fn read(clock: &dyn Clock) -> Instant {
    contain(|| clock.now()).unwrap_or_else(|payload| {
        drop_payload(payload);
        system_now()
    })
}

/// A duration in nanoseconds; beyond 584 years it stays at the end of the word.
#[inline]
pub(crate) fn saturating_ns(duration: Duration) -> u64 {
    // In words of 64 bits: this is on the way of every job.
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos().into())
}

/// A deadline that never comes.
pub(crate) const NO_DEADLINE: u64 = u64::MAX;

/// The pool's time: nanoseconds since it was built, which fit in a word until the year 2600.
///
/// Without a clock of the user's, two threads may disagree by about a microsecond, and so may
/// [`now_ns`](Self::now_ns) and an [`Instant`] read in the same moment: see [`ticks`]. Whoever
/// subtracts saturates.
pub(crate) struct Timeline {
    clock: Option<Contained<Box<dyn Clock>>>,
    epoch: Instant,
    /// The same moment as the system counts it.
    epoch_ns: u64,
}

impl Timeline {
    /// Starts at the present of `clock`, or of the system's monotonic clock.
    pub(crate) fn new(clock: Option<Box<dyn Clock>>) -> Self {
        // The first reading of a process takes longer than others: not on the way of a job.
        ticks::now_ns();
        // In this order, so that no deadline that has passed can seem to be still ahead.
        let epoch_ns = system_ns();
        let epoch = clock.as_deref().map_or_else(system_now, read);
        Self { clock: clock.map(Contained::new), epoch, epoch_ns }
    }

    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        match &self.clock {
            None => ticks::now_ns().saturating_sub(self.epoch_ns),
            Some(clock) => self.now_ns_by(&***clock),
        }
    }

    fn now_ns_by(&self, clock: &dyn Clock) -> u64 {
        // A clock at the end of its days is not past a deadline that never comes.
        self.ns_at(read(clock)).min(NO_DEADLINE - 1)
    }

    /// `instant` on this timeline; what lies before its start counts as the start.
    pub(crate) fn ns_at(&self, instant: Instant) -> u64 {
        saturating_ns(instant.saturating_duration_since(self.epoch))
    }

    /// The instant of a deadline, none if it never comes.
    pub(crate) fn instant_at(&self, ns: u64) -> Option<Instant> {
        if ns == NO_DEADLINE { None } else { self.epoch.checked_add(Duration::from_nanos(ns)) }
    }
}

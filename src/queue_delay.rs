//! What is done about the time that jobs wait.

use std::fmt;
use std::time::Duration;

use crate::error::BuildError;
use crate::policy::delay::Law;

/// What the pool does about the time that jobs wait, for [`Builder::queue_delay`].
///
/// All of them judge by the *wait*, the time from submit to start. It is aimed at a *target*, which
/// counts as no less than the mean service time: a job can't wait for less than the one before it
/// takes. What is shed resolves to [`ShedReason::QueueDelay`] without having run, and its slot is
/// back. [`Priority::Critical`] is never refused nor shed for it, work submitted from inside a body of
/// the same pool neither (it has begun already), and a job that has waited for its slot
/// ([`Pool::submit`]) is not shed. Since higher lanes are served first, it is the lowest whose jobs
/// wait too long.
///
/// | | at the door | when a worker takes a job |
/// |---|---|---|
/// | [`graded`](Self::graded) (default) | refuses by the predicted wait and the offered load | sheds the few that were predicted wrongly |
/// | [`codel`](Self::codel) | | sheds while even the smallest wait of an interval is above the target |
/// | [`rfc8289`](Self::rfc8289) | | sheds one, then ever more often, while waits stand above the target |
/// | [`cutoff`](Self::cutoff) | | sheds whatever has waited longer |
/// | [`off`](Self::off) | | |
///
/// If the machine or the process stood still for more than a second, so that nobody looked at the
/// clock, what waited through that is not judged by the first three; only a cut-off is hard. When all
/// workers have run out of work, what came before is forgotten. When a lane has not been served
/// for an ageing bound, the last of its jobs is run however long it has waited, except by a cut-off.
///
/// ```
/// use std::time::Duration;
/// use weirpool::{Pool, QueueDelay};
///
/// // Callers give up after 100 ms: a fifth of that is a good target.
/// let pool = Pool::builder()
///     .workers(2)
///     .queue_delay(QueueDelay::graded(Duration::from_millis(20)))
///     .build()?;
/// # pool.shutdown(weirpool::Shutdown::Drain, None);
/// # Ok::<(), weirpool::BuildError>(())
/// ```
///
/// [`Builder::queue_delay`]: crate::Builder::queue_delay
/// [`ShedReason::QueueDelay`]: crate::ShedReason::QueueDelay
/// [`Priority::Critical`]: crate::Priority::Critical
/// [`Pool::submit`]: crate::Pool::submit
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct QueueDelay(pub(crate) Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Off,
    Graded { target: Duration },
    Codel { target: Duration, interval: Duration },
    Rfc8289 { target: Duration, interval: Duration },
    Cutoff { max: Duration },
}

impl QueueDelay {
    /// The default target, 5 ms: that of CoDel (RFC 8289, section 4.3).
    pub const DEFAULT_TARGET: Duration = Duration::from_millis(5);
    /// The usual interval, 100 ms: that of CoDel (RFC 8289, section 4.2).
    pub const DEFAULT_INTERVAL: Duration = Duration::from_millis(100);

    /// Refuses at the door, before a job costs anything, what would wait too long: the default.
    ///
    /// The wait predicted for a new job (those queued of its class and above, times the mean service
    /// time, over the workers) is compared with a bound that depends on the load offered, refused jobs
    /// included: four targets up to the capacity, two in lasting overload, one in a flood. A pool
    /// that is merely bursty thus keeps its bursts, and one that is overloaded keeps waits near the
    /// target. Choose a target of about a fifth of the time in which an answer is worth something.
    ///
    /// Workers publish the bound as a number of jobs about every 10 ms, so that a refusal costs a
    /// comparison. Before 50 jobs have ended nothing is known, and only the capacity refuses.
    pub const fn graded(target: Duration) -> Self {
        Self(Kind::Graded { target })
    }

    /// Sheds jobs that have waited for more than two targets, while a queue *stands*: while even the
    /// smallest wait of a whole interval was above the target. The rule of folly's `Codel`.
    pub const fn codel(target: Duration, interval: Duration) -> Self {
        Self(Kind::Codel { target, interval })
    }

    /// The control law of CoDel as in RFC 8289: when waits have stood above the target for an
    /// interval, sheds one, and the next after `interval / sqrt(count)`.
    ///
    /// Made for senders who slow down when they lose something. Against callers who don't, it sheds
    /// far too little; in that case prefer one of the others.
    pub const fn rfc8289(target: Duration, interval: Duration) -> Self {
        Self(Kind::Rfc8289 { target, interval })
    }

    /// Sheds whatever has waited longer than `max`, whatever the load: simple, and late.
    pub const fn cutoff(max: Duration) -> Self {
        Self(Kind::Cutoff { max })
    }

    /// Nothing is refused or shed because of waits.
    pub const fn off() -> Self {
        Self(Kind::Off)
    }

    /// The law, if its times make sense.
    pub(crate) fn law(self) -> Result<Law, BuildError> {
        Ok(match self.0 {
            Kind::Off => Law::Off,
            Kind::Graded { target } => {
                Law::Graded { target_ns: BuildError::check_ns("queue_delay.target", target)? }
            }
            Kind::Codel { target, interval } => Law::Interval {
                target_ns: BuildError::check_ns("queue_delay.target", target)?,
                interval_ns: BuildError::check_ns("queue_delay.interval", interval)?,
            },
            Kind::Rfc8289 { target, interval } => Law::Rfc8289 {
                target_ns: BuildError::check_ns("queue_delay.target", target)?,
                interval_ns: BuildError::check_ns("queue_delay.interval", interval)?,
            },
            Kind::Cutoff { max } => {
                Law::Cutoff { max_ns: BuildError::check_ns("queue_delay.max", max)? }
            }
        })
    }
}

impl Default for QueueDelay {
    fn default() -> Self {
        Self::graded(Self::DEFAULT_TARGET)
    }
}

impl fmt::Debug for QueueDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

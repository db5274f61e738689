//! Spans of the crate [`tracing`](https://docs.rs/tracing) that go with a job to its worker, and log
//! lines about refusals that don't flood. With the feature `tracing`.
//!
//! A span is current on a thread. A job runs on another, so its log lines would be nobody's; these
//! wrappers carry the span along. They are wrappers around bodies, not a setting of the pool: the pool
//! stays as fast for jobs that are too small for a span, nothing of tracing is in its core, and what a
//! job carries is to be seen where it is submitted.
//!
//! | for | see |
//! |---|---|
//! | a job in the span that is current at its submit | [`try_submit`], [`in_current_span`] |
//! | a job in a span of its own | [`in_span`], [`job_span`] |
//! | a log line about refusals, now and then | [`RefusalLog`] |
//!
//! # What holds for a wrapped body
//!
//! - The span is current from the body's first line to its last, wherever it runs: on any worker, and
//!   in place of a join; and only there. Whether it returns or panics, it is left again.
//! - A body that was submitted outside of any span runs outside of any. If it is run in place of a join
//!   by a body inside spans, those are left meanwhile, and entered again.
//! - A job that is submitted from inside a body is wrapped like any other; its span is then the
//!   current one of that body.
//! - The span's field [`QUEUE_WAIT_US`], if the span declares one, gets the time from submit to start.
//! - The span stays open until the job has ended, or was dropped unrun.
//!
//! A body that isn't wrapped runs outside of spans, but for what a body enters that runs it in place of
//! a join.

use std::fmt;
use std::time::{Duration, Instant};

use ::tracing::field::Empty;
use ::tracing::{Span, debug_span, warn};

use crate::context::queued_for_ns;
use crate::error::{Reason, Refusal, Rejected};
use crate::handle::JobHandle;
use crate::submit::{self, JobSpec};
use crate::sync::stat::{AtomicU64, Relaxed};

/// Name of the field that gets a job's wait from submit to start, in microseconds, if its span has one.
pub const QUEUE_WAIT_US: &str = "queue_wait_us";

/// No body is in more spans than this at once.
const MOST_SPANS: usize = 64;

/// Log lines of one reason are at least so far apart.
const LEAST_INTERVAL_NS: u64 = 1_000_000;

/// As [`JobSpec::try_submit`], in the span that is current now. A refused job comes back as it was, and
/// costs no more than without.
///
/// # Errors
/// [`Rejected`] with the job if it is refused.
///
/// ```
/// use weirpool::trace;
///
/// let pool = weirpool::Pool::new(1, 4)?;
/// let _request = tracing::info_span!("request", queue_wait_us = tracing::field::Empty).entered();
/// let handle = trace::try_submit(pool.job(), || tracing::info!("in the request's span")).unwrap();
/// handle.join().unwrap();
/// # Ok::<(), weirpool::BuildError>(())
/// ```
pub fn try_submit<F, T>(job: JobSpec<'_>, f: F) -> Result<JobHandle<T>, Rejected<F>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    submit::try_submit_with(job, f, |f| in_current_span(f))
}

/// `f` in the span that is current now, for any way to submit it.
///
/// ```
/// use weirpool::trace::in_current_span;
///
/// let pool = weirpool::Pool::new(1, 4)?;
/// let _request = tracing::info_span!("request").entered();
/// pool.try_spawn(in_current_span(|| tracing::info!("in the request's span"))).unwrap();
/// # Ok::<(), weirpool::BuildError>(())
/// ```
pub fn in_current_span<F, T>(f: F) -> impl FnOnce() -> T + Send + use<F, T>
where
    F: FnOnce() -> T + Send,
{
    carrying(Span::current(), f)
}

/// `f` in `span`; or, if nobody listens to that span, in the one that is current now.
///
/// ```
/// use weirpool::trace::{in_span, job_span};
///
/// let pool = weirpool::Pool::new(1, 4)?;
/// let _request = tracing::info_span!("request").entered();
/// // A span for each job, inside the request's, with the job's wait as a field.
/// for _ in 0..2 {
///     pool.try_spawn(in_span(job_span(), || tracing::info!("one of two"))).unwrap();
/// }
/// # Ok::<(), weirpool::BuildError>(())
/// ```
pub fn in_span<F, T>(span: Span, f: F) -> impl FnOnce() -> T + Send + use<F, T>
where
    F: FnOnce() -> T + Send,
{
    carrying(if span.is_disabled() { Span::current() } else { span }, f)
}

/// A span for one job, inside the current one: `job`, of level `DEBUG` and target `weirpool`, with the
/// field [`QUEUE_WAIT_US`].
pub fn job_span() -> Span {
    debug_span!(target: "weirpool", "job", queue_wait_us = Empty)
}

fn carrying<F, T>(span: Span, f: F) -> impl FnOnce() -> T + Send + use<F, T>
where
    F: FnOnce() -> T + Send,
{
    move || {
        let _outside = span.is_disabled().then(Left::all);
        if let Some(wait_ns) = queued_for_ns() {
            span.record(QUEUE_WAIT_US, wait_ns / 1000);
        }
        let _inside = span.entered();
        f()
    }
}

/// The spans that this thread was in, left until this is dropped; innermost first.
struct Left(Vec<Span>);

impl Left {
    fn all() -> Self {
        let mut left = Self(Vec::new());
        while left.0.len() < MOST_SPANS {
            let innermost = Span::current();
            if innermost.is_disabled() {
                break;
            }
            innermost.with_subscriber(|(id, subscriber)| subscriber.exit(id));
            left.0.push(innermost);
        }
        left
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        for span in self.0.drain(..).rev() {
            span.with_subscriber(|(id, subscriber)| subscriber.enter(id));
        }
    }
}

/// Tells the log of refusals: for each [`Reason`] at most one line per interval, with how many there
/// were since the last. So logging can't become the overload.
///
/// A line is an event of level `WARN` and target `weirpool`, with the fields `pool`, `reason` and
/// `refused`. The first refusal for a reason is told at once; those after the last line of a storm are
/// not told before the next storm begins. [`Snapshot::rejected`](crate::Snapshot::rejected) counts
/// them all, always.
///
/// ```
/// use std::time::Duration;
/// use weirpool::trace::RefusalLog;
///
/// let pool = weirpool::Pool::new(1, 4)?;
/// let log = RefusalLog::new("images", Duration::from_secs(1));
/// if let Err(rejected) = pool.try_spawn(|| ()) {
///     log.note(rejected.refusal());
/// }
/// # Ok::<(), weirpool::BuildError>(())
/// ```
pub struct RefusalLog {
    pool: String,
    interval_ns: u64,
    beginning: Instant,
    reasons: [Line; Reason::COUNT],
}

#[derive(Default)]
struct Line {
    /// When the next line is due.
    due_ns: AtomicU64,
    untold: AtomicU64,
}

impl RefusalLog {
    /// A log for the pool of that name, with at least `interval` between two lines of one reason, which
    /// counts as no less than a millisecond.
    pub fn new(pool: impl Into<String>, interval: Duration) -> Self {
        let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        Self {
            pool: pool.into(),
            interval_ns: interval_ns.max(LEAST_INTERVAL_NS),
            beginning: Instant::now(),
            reasons: Default::default(),
        }
    }

    /// Notes a refusal, and tells the log if a line is due.
    pub fn note(&self, refusal: Refusal) {
        self.note_at(refusal, Instant::now());
    }

    /// The same, by a clock of your own.
    pub fn note_at(&self, refusal: Refusal, now: Instant) {
        let reason = refusal.reason();
        let since = now.saturating_duration_since(self.beginning);
        let now_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        if let Some(refused) = self.reasons[reason.index()].note(now_ns, self.interval_ns) {
            let (pool, reason) = (self.pool.as_str(), reason.key());
            warn!(target: "weirpool", pool, reason, refused, "jobs refused");
        }
    }
}

impl Line {
    /// How many to tell of, if that is due now.
    fn note(&self, now_ns: u64, interval_ns: u64) -> Option<u64> {
        self.untold.fetch_add(1, Relaxed);
        let due_ns = self.due_ns.load(Relaxed);
        // What is due later than in one interval comes from a clock that went back.
        let is_due = now_ns >= due_ns || due_ns - now_ns > interval_ns;
        let next_ns = now_ns.saturating_add(interval_ns);
        let mine =
            is_due && self.due_ns.compare_exchange(due_ns, next_ns, Relaxed, Relaxed).is_ok();
        mine.then(|| self.untold.swap(0, Relaxed))
    }
}

impl fmt::Debug for RefusalLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefusalLog")
            .field("pool", &self.pool)
            .field("interval", &Duration::from_nanos(self.interval_ns))
            .finish_non_exhaustive()
    }
}

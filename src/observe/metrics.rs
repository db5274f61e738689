//! A pool's figures for the facade of the crate [`metrics`](https://docs.rs/metrics). With the feature
//! `metrics`.
//!
//! | what | comes from | costs |
//! |---|---|---|
//! | counters and gauges | [`Exporter::record`], which you call every few seconds with a snapshot | nothing per job |
//! | histograms of waits, service times and refusals | [`Timings`], around the jobs that you want measured | some tens of nanoseconds and what the recorder takes, per job |
//!
//! Counters and gauges are *pulled*: they are read from the pool's own state when you ask, and so are
//! right in the middle of a storm, when pushing an event per refusal would be the storm's second half.
//! Which there are says the table in [`exposition`](crate::exposition); names and labels are the same.
//! The pool doesn't know that it is looked at: no hook in it, no callback that would keep it alive.
//!
//! The histograms, each with the label `pool`:
//!
//! | name | unit | what |
//! |---|---|---|
//! | `weirpool_wait_seconds` | s | from submit to start, of jobs that started |
//! | `weirpool_service_time_seconds` | s | in the body, of jobs that returned or panicked |
//! | `weirpool_refusal_seconds` | s | what it took to say no |
//!
//! Install your recorder before you make these; what happens before goes nowhere.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ::metrics::{
    Counter, Gauge, Histogram, Key, Label, Level, Metadata, SharedString, Unit as FacadeUnit,
    with_recorder,
};

use super::figures::{Kind, METRICS, Metric, Series, Unit, Value};
use super::snapshot::Snapshot;
use crate::contain::call_contained;
use crate::context::queued_for_ns;
use crate::error::Rejected;
use crate::handle::JobHandle;
use crate::schedule::Worker;
use crate::submit::{self, JobSpec};
use crate::sync::stat::Arc;
use crate::sync::system_ns;

static METADATA: Metadata<'static> =
    Metadata::new("weirpool", Level::INFO, Some("weirpool::metrics"));

/// Hands the figures of one pool to the recorder of the crate `metrics`, when you say so.
///
/// It holds no pool: it gets a [`Snapshot`] each time. Use one per pool; two for the same pool count
/// everything twice. Dropping it sets the pool's gauges to zero, since nothing can take them away.
///
/// Counters go on where they are: they grow by what was counted since the last call. A pool that was
/// built anew under the same name, with a new exporter or the old one, begins its own counts at 0, and
/// is added to the same series. Figures that aren't known yet have no gauge; one that isn't known any
/// more keeps its last value.
///
/// ```
/// use std::time::Duration;
/// use weirpool::metrics::Exporter;
///
/// let pool = weirpool::Pool::new(1, 4)?;
/// let mut exporter = Exporter::new("images");
/// // Every few seconds, or when somebody scrapes:
/// exporter.record(&pool.snapshot());
/// # Ok::<(), weirpool::BuildError>(())
/// ```
#[derive(Debug)]
pub struct Exporter {
    pool: SharedString,
    /// What was counted up to the last call, by the metric's place in the table.
    totals: BTreeMap<(usize, Series), u64>,
    levels: BTreeSet<(usize, Series)>,
    uptime: Duration,
}

impl Exporter {
    /// An exporter whose series carry the label `pool` with this name.
    pub fn new(pool: impl Into<String>) -> Self {
        Self {
            pool: SharedString::from(pool.into()),
            totals: BTreeMap::new(),
            levels: BTreeSet::new(),
            uptime: Duration::ZERO,
        }
    }

    /// Hands over the figures as they are now: some microseconds, plus what the recorder takes for
    /// some forty series.
    ///
    /// # Panics
    /// If the recorder does.
    pub fn record(&mut self, now: &Snapshot) {
        if self.is_another_pool(now) {
            self.totals.clear();
        }
        self.uptime = now.uptime;
        for (at, metric) in METRICS.iter().enumerate() {
            describe(metric);
            metric.each(now, |series, value| self.hand_over(at, series, value));
        }
    }

    /// Whether the snapshot is of a pool that was built after the last one's: time or a count has
    /// gone back.
    fn is_another_pool(&self, now: &Snapshot) -> bool {
        let mut goes_back = now.uptime < self.uptime;
        for (at, metric) in METRICS.iter().enumerate() {
            metric.each(now, |series, value| {
                if let (Value::Total(total), Some(last)) = (value, self.totals.get(&(at, series))) {
                    goes_back |= total < *last;
                }
            });
        }
        goes_back
    }

    fn hand_over(&mut self, at: usize, series: Series, value: Value) {
        match value {
            Value::Total(total) => {
                let last = self.totals.insert((at, series), total).unwrap_or(0);
                self.counter(at, series).increment(total.saturating_sub(last));
            }
            Value::Level(level) => {
                self.levels.insert((at, series));
                self.gauge(at, series).set(level);
            }
        }
    }

    fn counter(&self, at: usize, series: Series) -> Counter {
        with_recorder(|recorder| recorder.register_counter(&self.key(at, series), &METADATA))
    }

    fn gauge(&self, at: usize, series: Series) -> Gauge {
        with_recorder(|recorder| recorder.register_gauge(&self.key(at, series), &METADATA))
    }

    fn key(&self, at: usize, series: Series) -> Key {
        let metric = &METRICS[at];
        let mut labels = vec![Label::new("pool", self.pool.clone())];
        if let Some(label) = metric.label {
            labels.push(match series {
                Series::Named(name) => Label::from_static_parts(label, name),
                other => Label::new(label, other.to_string()),
            });
        }
        Key::from_parts(metric.name, labels)
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        for (at, series) in std::mem::take(&mut self.levels) {
            self.gauge(at, series).set(0.0);
        }
    }
}

fn describe(metric: &Metric) {
    let unit = match metric.unit {
        Unit::Count => FacadeUnit::Count,
        Unit::Seconds => FacadeUnit::Seconds,
        // The facade has no unit for shares.
        Unit::Ratio => FacadeUnit::Count,
        Unit::Bytes => FacadeUnit::Bytes,
    };
    with_recorder(|recorder| {
        let (name, help) = (metric.name.into(), metric.help.into());
        match metric.kind {
            Kind::Counter => recorder.describe_counter(name, Some(unit), help),
            Kind::Gauge => recorder.describe_gauge(name, Some(unit), help),
        }
    });
}

/// Histograms of waits, service times and refusals, of the jobs that go through it.
///
/// A wrapper around a body, and not a hook in the pool: who doesn't use it pays nothing, and who does
/// chooses for which jobs. Clones share their histograms; they keep no pool alive.
///
/// The times are the pool's own, by its clock; only a refusal is measured by the system's. Service time
/// includes the jobs that a body joins in place. A panic of the recorder is contained.
///
/// ```
/// use weirpool::metrics::Timings;
///
/// let pool = weirpool::Pool::new(1, 4)?;
/// let timings = Timings::new("images");
/// // As `pool.try_submit(f)`, but measured:
/// let handle = timings.try_submit(pool.job(), || 6 * 7).unwrap();
/// assert_eq!(handle.join().unwrap(), 42);
/// // With any other way to submit, wrap the body:
/// let handle = pool.submit_blocking(timings.body(|| 6 * 7)).unwrap();
/// assert_eq!(handle.join().unwrap(), 42);
/// # Ok::<(), weirpool::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Timings {
    histograms: Arc<Histograms>,
}

struct Histograms {
    wait: Histogram,
    service: Histogram,
    refusal: Histogram,
}

impl Timings {
    /// Histograms that carry the label `pool` with this name.
    pub fn new(pool: impl Into<String>) -> Self {
        let pool = SharedString::from(pool.into());
        let histogram = |name: &'static str, help: &'static str| {
            let key = Key::from_parts(name, vec![Label::new("pool", pool.clone())]);
            with_recorder(|recorder| {
                recorder.describe_histogram(name.into(), Some(FacadeUnit::Seconds), help.into());
                recorder.register_histogram(&key, &METADATA)
            })
        };
        let wait = histogram("weirpool_wait_seconds", "From submit to start.");
        let service = histogram("weirpool_service_time_seconds", "Time in the body.");
        let refusal = histogram("weirpool_refusal_seconds", "What it took to refuse a job.");
        Self { histograms: Arc::new(Histograms { wait, service, refusal }) }
    }

    /// `f`, and its wait and service time on record when it runs on a pool; as it is elsewhere.
    pub fn body<F, T>(&self, f: F) -> impl FnOnce() -> T + Send + use<F, T>
    where
        F: FnOnce() -> T + Send,
    {
        let histograms = Arc::clone(&self.histograms);
        move || {
            let _until_end = Measuring::start(histograms);
            f()
        }
    }

    /// As [`JobSpec::try_submit`], with wait and service time, or what the refusal took, on record. A
    /// refused job comes back as it was.
    ///
    /// # Errors
    /// [`Rejected`] with the job if it is refused.
    pub fn try_submit<F, T>(&self, job: JobSpec<'_>, f: F) -> Result<JobHandle<T>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let before_ns = system_ns();
        let submitted = submit::try_submit_with(job, f, |f| self.body(f));
        if submitted.is_err() {
            record_ns(&self.histograms.refusal, system_ns().saturating_sub(before_ns));
        }
        submitted
    }
}

impl std::fmt::Debug for Timings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timings").finish_non_exhaustive()
    }
}

/// A body that runs, until it returns or panics.
struct Measuring {
    histograms: Arc<Histograms>,
    started_ns: Option<u64>,
}

impl Measuring {
    fn start(histograms: Arc<Histograms>) -> Self {
        let wait_ns = queued_for_ns();
        if let Some(wait_ns) = wait_ns {
            record_ns(&histograms.wait, wait_ns);
        }
        Self { histograms, started_ns: wait_ns.and_then(|_| now_ns()) }
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        if let (Some(started_ns), Some(now_ns)) = (self.started_ns, now_ns()) {
            record_ns(&self.histograms.service, now_ns.saturating_sub(started_ns));
        }
    }
}

/// The time of the pool whose worker this is.
fn now_ns() -> Option<u64> {
    Worker::with_current(|worker| Some(worker?.core().time.now_ns()))
}

/// The recorder is somebody else's code, and this may be in the middle of a panic.
fn record_ns(histogram: &Histogram, ns: u64) {
    call_contained(|| histogram.record(Duration::from_nanos(ns)));
}

//! The figures for the facade of the crate `metrics`.

mod common;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit, with_local_recorder,
};
use weirpool::metrics::{Exporter, Timings};
use weirpool::test::ManualClock;
use weirpool::{Pool, Reason, Snapshot};

use common::{Count, assert_adds_up, eventually, fail_quietly, occupy, quiet_panic, resolve};

/// A recorder that keeps what it is told, by series.
#[derive(Clone, Default)]
struct Book(Arc<Pages>);

#[derive(Default)]
struct Pages {
    counters: Mutex<BTreeMap<String, u64>>,
    gauges: Mutex<BTreeMap<String, f64>>,
    histograms: Mutex<BTreeMap<String, Vec<f64>>>,
    units: Mutex<BTreeMap<String, Option<Unit>>>,
    panics: AtomicBool,
}

struct Line(Book, String);

impl CounterFn for Line {
    fn increment(&self, value: u64) {
        *self.0.0.counters.lock().unwrap().entry(self.1.clone()).or_default() += value;
    }
    fn absolute(&self, _: u64) {
        panic!("it can't know of other pools of that name");
    }
}

impl GaugeFn for Line {
    fn increment(&self, _: f64) {
        panic!("pushed");
    }
    fn decrement(&self, _: f64) {
        panic!("pushed");
    }
    fn set(&self, value: f64) {
        assert!(value.is_finite(), "{} = {value}", self.1);
        self.0.0.gauges.lock().unwrap().insert(self.1.clone(), value);
    }
}

impl HistogramFn for Line {
    fn record(&self, value: f64) {
        if self.0.0.panics.load(SeqCst) {
            quiet_panic();
        }
        self.0.0.histograms.lock().unwrap().entry(self.1.clone()).or_default().push(value);
    }
}

impl Book {
    fn line(&self, key: &Key) -> Arc<Line> {
        let labels: Vec<_> = key.labels().map(|l| format!("{}={}", l.key(), l.value())).collect();
        Arc::new(Line(self.clone(), format!("{}[{}]", key.name(), labels.join(","))))
    }

    fn describe(&self, name: KeyName, unit: Option<Unit>) {
        self.0.units.lock().unwrap().insert(name.as_str().to_owned(), unit);
    }

    #[track_caller]
    fn counter(&self, name: &str) -> u64 {
        self.0.counters.lock().unwrap()[name]
    }

    #[track_caller]
    fn gauge(&self, name: &str) -> f64 {
        self.0.gauges.lock().unwrap()[name]
    }

    fn histogram(&self, name: &str) -> Vec<f64> {
        self.0.histograms.lock().unwrap().get(name).cloned().unwrap_or_default()
    }
}

impl Recorder for Book {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(name, unit);
    }
    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(name, unit);
    }
    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(name, unit);
    }
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.line(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.line(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.line(key))
    }
}

fn record(book: &Book, exporter: &mut Exporter, now: &Snapshot) {
    with_local_recorder(book, || exporter.record(now));
}

#[test]
fn figures_are_pulled_and_right_in_the_storm() {
    let pool = Pool::new(2, 3).unwrap();
    let book = Book::default();
    let mut exporter = Exporter::new("a");
    let busy = occupy(&pool);
    let permit = pool.try_reserve().unwrap();
    for _ in 0..100 {
        assert_eq!(pool.try_reserve().unwrap_err().reason(), Reason::Full);
        assert!(pool.job().timeout(Duration::ZERO).try_reserve().is_err());
    }
    // Nothing was said of any of that until it is asked for.
    assert!(book.0.counters.lock().unwrap().is_empty());
    record(&book, &mut exporter, &pool.snapshot());
    assert_eq!(book.counter("weirpool_rejected_total[pool=a,reason=full]"), 100);
    assert_eq!(book.counter("weirpool_rejected_total[pool=a,reason=deadline]"), 100);
    assert_eq!(book.counter("weirpool_rejected_total[pool=a,reason=cpu]"), 0);
    assert_eq!(book.gauge("weirpool_in_flight_slots[pool=a]"), 3.0);
    assert_eq!(book.gauge("weirpool_running_jobs[pool=a]"), 2.0);
    assert_eq!(book.gauge("weirpool_limit_slots[pool=a]"), 3.0);
    // Twice the same figures count once.
    record(&book, &mut exporter, &pool.snapshot());
    assert_eq!(book.counter("weirpool_rejected_total[pool=a,reason=full]"), 100);
    assert_eq!(book.0.units.lock().unwrap()["weirpool_uptime_seconds"], Some(Unit::Seconds));
    drop(permit);
    busy.free();
}

#[test]
fn gauge_held_weakly_or_left_behind_after_shutdown() {
    let book = Book::default();
    let run = |jobs: usize, exporter: &mut Exporter| {
        let pool = Pool::new(1, 8).unwrap();
        record(&book, exporter, &pool.snapshot());
        for _ in 0..jobs {
            resolve(pool.try_submit(|| ()).unwrap()).unwrap();
        }
        record(&book, exporter, &pool.snapshot());
        pool
    };
    let completed = || book.counter("weirpool_completed_total[pool=a]");

    let mut exporter = Exporter::new("a");
    let pool = run(5, &mut exporter);
    assert_eq!(completed(), 5);
    assert_eq!(book.gauge("weirpool_capacity_slots[pool=a]"), 8.0);
    // The exporter holds no pool: this was the last handle, and the pool closes.
    let gone = pool.try_reserve().unwrap();
    drop(pool);
    drop(gone);
    with_local_recorder(&book, || drop(exporter));
    assert_eq!(book.gauge("weirpool_capacity_slots[pool=a]"), 0.0);

    // Built anew, with a new exporter, and then with that one for yet another: one series, which grows.
    let mut exporter = Exporter::new("a");
    drop(run(3, &mut exporter));
    assert_eq!(completed(), 8);
    drop(run(2, &mut exporter));
    assert_eq!(completed(), 10);
    assert_eq!(book.gauge("weirpool_capacity_slots[pool=a]"), 8.0);
    let of_capacity = |book: &Book| {
        let gauges = book.0.gauges.lock().unwrap();
        gauges.keys().filter(|series| series.starts_with("weirpool_capacity")).count()
    };
    assert_eq!(of_capacity(&book), 1);
}

#[test]
fn a_pool_closes_although_it_is_measured_and_exported() {
    let book = Book::default();
    let stopped = Count::new();
    let pool = {
        let stopped = stopped.clone();
        Pool::builder().workers(2).on_thread_stop(move || stopped.add()).build().unwrap()
    };
    let (exporter, timings) = with_local_recorder(&book, || {
        let mut exporter = Exporter::new("a");
        exporter.record(&pool.snapshot());
        (exporter, Timings::new("a"))
    });
    resolve(timings.try_submit(pool.job(), || ()).unwrap()).unwrap();
    let body = timings.body(|| ());
    drop(pool);
    eventually("the workers exit", || stopped.get() == 2);
    body();
    drop((exporter, timings));
}

#[test]
fn without_a_recorder_nothing_happens() {
    let pool = Pool::new(1, 2).unwrap();
    let mut exporter = Exporter::new("a");
    exporter.record(&pool.snapshot());
    let timings = Timings::new("a");
    resolve(timings.try_submit(pool.job(), || ()).unwrap()).unwrap();
    assert_adds_up(&pool);
}

#[test]
fn waits_service_times_and_refusals_are_measured() {
    let book = Book::default();
    let clock = ManualClock::new();
    let pool = Pool::builder().workers(1).capacity(2).clock(clock.clone()).batch().build().unwrap();
    let timings = with_local_recorder(&book, || Timings::new("a"));
    let busy = occupy(&pool);
    let body = {
        let clock = clock.clone();
        move || clock.advance(Duration::from_secs(3))
    };
    let queued = timings.try_submit(pool.job(), body.clone()).unwrap();
    // A refused job comes back as it was, not wrapped.
    let refused = timings.try_submit(pool.job(), || 42).unwrap_err();
    assert_eq!((refused.reason(), refused.into_job()()), (Reason::Full, 42));
    clock.advance(Duration::from_secs(2));
    busy.free();
    resolve(queued).unwrap();
    assert_eq!(book.histogram("weirpool_wait_seconds[pool=a]"), [2.0]);
    assert_eq!(book.histogram("weirpool_service_time_seconds[pool=a]"), [3.0]);
    assert_eq!(book.histogram("weirpool_refusal_seconds[pool=a]").len(), 1);

    // Also by any other way to submit, and if the body panics; outside of a pool there is neither.
    let waited = pool.submit_blocking(timings.body(fail_quietly)).unwrap();
    assert!(resolve(waited).unwrap_err().is_panic());
    timings.body(body)();
    assert_eq!(book.histogram("weirpool_wait_seconds[pool=a]").len(), 2);
    assert_eq!(book.histogram("weirpool_service_time_seconds[pool=a]").len(), 2);
    // A job that never runs has no time on record.
    let busy = occupy(&pool);
    assert!(timings.try_submit(pool.job(), || ()).unwrap().cancel());
    busy.free();
    assert_eq!(book.histogram("weirpool_wait_seconds[pool=a]").len(), 2);
}

#[test]
fn a_recorder_that_panics_costs_no_job() {
    let book = Book::default();
    let pool = Pool::new(1, 1).unwrap();
    let timings = with_local_recorder(&book, || Timings::new("a"));
    book.0.panics.store(true, SeqCst);
    assert_eq!(resolve(timings.try_submit(pool.job(), || 42).unwrap()).unwrap(), 42);
    let panicking = timings.try_submit(pool.job(), fail_quietly).unwrap();
    assert!(resolve(panicking).unwrap_err().is_panic());
    let permit = pool.try_reserve().unwrap();
    let refused = catch_unwind(AssertUnwindSafe(|| timings.try_submit(pool.job(), || 42).is_err()));
    assert_eq!(refused.ok(), Some(true));
    drop(permit);
    assert_adds_up(&pool);
}

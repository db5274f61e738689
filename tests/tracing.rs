//! Spans that go with their jobs, and log lines that don't flood.

mod common;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use tracing::field::{Empty, Field, Visit};
use tracing::span::{Id, Record};
use tracing::{Event, Level, Span, Subscriber, info, info_span};
use tracing_subscriber::Registry;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use weirpool::test::ManualClock;
use weirpool::trace::{QUEUE_WAIT_US, RefusalLog, in_current_span, in_span, job_span, try_submit};
use weirpool::{Pool, Reason};

use common::{assert_adds_up, assert_all_slots_free, occupy, quiet_panic, race, resolve, rounds};

/// What all spans and events of this process did: tests tell theirs apart by the names of spans.
#[derive(Default)]
struct Book {
    entered: BTreeMap<&'static str, usize>,
    exited: BTreeMap<&'static str, usize>,
    closed: BTreeMap<&'static str, usize>,
    /// Values of the field for the wait, by span.
    waits: BTreeMap<&'static str, Vec<u64>>,
    /// Messages, each with the name of the span that it was in.
    messages: Vec<(String, Option<&'static str>)>,
    /// Pool, reason and count of refusals told.
    refusals: Vec<(String, String, u64)>,
}

static BOOK: Mutex<Book> = Mutex::new(Book {
    entered: BTreeMap::new(),
    exited: BTreeMap::new(),
    closed: BTreeMap::new(),
    waits: BTreeMap::new(),
    messages: Vec::new(),
    refusals: Vec::new(),
});

/// The book; a test that failed with it in its hands has not spoilt it.
fn book() -> MutexGuard<'static, Book> {
    BOOK.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

struct Writer;

#[derive(Default)]
struct Fields {
    texts: BTreeMap<&'static str, String>,
    numbers: BTreeMap<&'static str, u64>,
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.numbers.insert(field.name(), value);
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.texts.insert(field.name(), value.to_owned());
    }
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.texts.insert(field.name(), format!("{value:?}"));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Writer {
    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        let name = context.span(id).expect("it is open").name();
        let wait = fields.numbers.get(QUEUE_WAIT_US).copied();
        book().waits.entry(name).or_default().extend(wait);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let span = context.lookup_current().map(|span| span.name());
        let mut book = book();
        if event.metadata().target() == "weirpool" {
            assert_eq!(*event.metadata().level(), Level::WARN);
            let text = |name| fields.texts[name].clone();
            book.refusals.push((text("pool"), text("reason"), fields.numbers["refused"]));
        } else if let Some(message) = fields.texts.remove("message") {
            book.messages.push((message, span));
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let name = context.span(id).expect("it is open").name();
        *book().entered.entry(name).or_default() += 1;
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let name = context.span(id).expect("it is open").name();
        *book().exited.entry(name).or_default() += 1;
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let name = context.span(&id).expect("it is still there").name();
        *book().closed.entry(name).or_default() += 1;
    }
}

/// Has the book written, from now on, for the whole process. Spans of level TRACE interest nobody.
fn listen() {
    static LISTENS: OnceLock<()> = OnceLock::new();
    LISTENS.get_or_init(|| {
        let subscriber = Registry::default().with(Writer.with_filter(LevelFilter::DEBUG));
        tracing::subscriber::set_global_default(subscriber.with(LevelFilter::DEBUG)).unwrap();
    });
}

/// The name of the span that is current here.
fn current() -> Option<&'static str> {
    Span::current().metadata().map(tracing::Metadata::name)
}

/// That a span was left as often as it was entered, and closed so often.
#[track_caller]
fn left_and_closed(name: &'static str, closed: usize) {
    let book = book();
    let (entered, exited) = (book.entered.get(name), book.exited.get(name));
    assert_eq!(entered, exited, "{name} was entered {entered:?} times, left {exited:?} times");
    assert_eq!(book.closed.get(name).copied().unwrap_or(0), closed, "{name} was closed");
}

#[test]
fn the_span_of_the_submit_is_current_in_the_body_and_only_there() {
    listen();
    let pool = Pool::new(1, 4).unwrap();
    let (with, without) = {
        let _request = info_span!("request-1").entered();
        let with = try_submit(pool.job(), || {
            info!("said in request-1");
            current()
        });
        // A body that isn't wrapped takes nothing along.
        (with.unwrap(), pool.try_submit(current).unwrap())
    };
    let spanless = try_submit(pool.job(), current).unwrap();
    assert_eq!(resolve(with).unwrap(), Some("request-1"));
    assert_eq!(resolve(without).unwrap(), None);
    assert_eq!(resolve(spanless).unwrap(), None);
    let said = ("said in request-1".to_owned(), Some("request-1"));
    assert!(book().messages.contains(&said));
    left_and_closed("request-1", 1);
}

#[test]
fn a_nested_job_that_is_stolen_keeps_its_span() {
    listen();
    let pool = Pool::new(2, 8).unwrap();
    let outer = {
        let _request = info_span!("request-2").entered();
        try_submit(pool.job(), || {
            let (told, tells) = std::sync::mpsc::channel();
            let nested = try_submit(weirpool::context().unwrap().pool().job(), move || {
                let worker = weirpool::context().unwrap().worker_index();
                told.send((current(), worker)).unwrap();
            });
            // It ends only when the other worker has run it: this one waits here, not in a join.
            let (span, worker) = common::recv(&tells);
            nested.unwrap().join().unwrap();
            (span, worker != weirpool::context().unwrap().worker_index(), current())
        })
        .unwrap()
    };
    assert_eq!(resolve(outer).unwrap(), (Some("request-2"), true, Some("request-2")));
    left_and_closed("request-2", 1);
}

#[test]
fn after_a_panic_in_a_span_the_worker_is_in_none() {
    listen();
    let pool = Pool::new(1, 4).unwrap();
    {
        let _request = info_span!("request-3").entered();
        let panics =
            try_submit(pool.job(), || quiet_panic()).map(|job: weirpool::JobHandle<()>| job);
        assert!(resolve(panics.unwrap()).unwrap_err().is_panic());
    }
    let after = pool.try_submit(current).unwrap();
    assert_eq!(resolve(after).unwrap(), None);
    left_and_closed("request-3", 1);
    assert_all_slots_free(&pool);
}

#[test]
fn a_job_run_in_place_of_a_join_is_in_its_own_span_or_in_none() {
    listen();
    let pool = Pool::new(1, 8).unwrap();
    let busy = occupy(&pool);
    let spanless = try_submit(pool.job(), current).unwrap();
    let panicking = pool.try_submit(in_current_span(|| -> Option<&str> { quiet_panic() })).unwrap();
    let other = {
        let _other = info_span!("other-4").entered();
        try_submit(pool.job(), || {
            info!("said in other-4");
            current()
        })
        .unwrap()
    };
    let parent = {
        let _outer = info_span!("outer-4").entered();
        let _request = info_span!("request-4").entered();
        let joins = move || {
            let _inner = info_span!("inner-4").entered();
            let other = other.join().unwrap();
            let after_other = current();
            let spanless = spanless.join().unwrap();
            let after_spanless = current();
            assert!(panicking.join().unwrap_err().is_panic());
            (other, after_other, spanless, after_spanless, current())
        };
        // Above the others in the queue, so that they are queued when it joins them.
        try_submit(pool.job().priority(weirpool::Priority::High), joins).unwrap()
    };
    busy.free();
    let inner = Some("inner-4");
    assert_eq!(resolve(parent).unwrap(), (Some("other-4"), inner, None, inner, inner));
    for span in ["other-4", "outer-4", "request-4", "inner-4"] {
        left_and_closed(span, 1);
    }
    // Left and entered again, for the spanless job and for the one that panics.
    assert_eq!(book().entered["request-4"], 1 + 1 + 2);
}

#[test]
fn a_span_of_ones_own_gets_the_wait_as_a_field() {
    listen();
    let clock = ManualClock::new();
    let pool = Pool::builder().workers(1).clock(clock.clone()).batch().build().unwrap();
    let busy = occupy(&pool);
    let request = info_span!("request-5", queue_wait_us = Empty);
    let jobs = [
        pool.try_submit(in_span(request.clone(), current)).unwrap(),
        request.in_scope(|| pool.try_submit(in_span(job_span(), current)).unwrap()),
        // Nobody listens to this one; the request's takes its place, and has no such field.
        info_span!("request-6").in_scope(|| {
            pool.try_submit(in_span(tracing::trace_span!("unheard"), current)).unwrap()
        }),
    ];
    drop(request);
    clock.advance(Duration::from_millis(3));
    busy.free();
    let names = jobs.map(|job| resolve(job).unwrap());
    assert_eq!(names, [Some("request-5"), Some("job"), Some("request-6")]);
    assert_eq!(book().waits["request-5"], [3000]);
    assert_eq!(book().waits["job"], [3000]);
    assert!(book().waits.get("request-6").is_none_or(Vec::is_empty));
    for span in ["request-5", "job", "request-6"] {
        left_and_closed(span, 1);
    }
}

#[test]
fn a_job_that_never_runs_lets_its_span_close() {
    listen();
    let pool = Pool::new(1, 2).unwrap();
    let busy = occupy(&pool);
    let queued = {
        let _request = info_span!("request-7").entered();
        let queued = try_submit(pool.job(), current).unwrap();
        // A refused one comes back as it was, and holds no span.
        let refused = try_submit(pool.job(), || 42).unwrap_err();
        assert_eq!((refused.reason(), refused.into_job()()), (Reason::Full, 42));
        queued
    };
    left_and_closed("request-7", 0);
    assert!(queued.cancel());
    left_and_closed("request-7", 1);
    busy.free();
    assert_adds_up(&pool);
}

#[test]
fn a_wrapped_body_works_outside_of_a_pool_too() {
    listen();
    let body = info_span!("request-8").in_scope(|| in_current_span(current));
    let inside = info_span!("around-8").in_scope(|| (body(), current()));
    assert_eq!(inside, (Some("request-8"), Some("around-8")));
    let spanless = in_current_span(current);
    let inside = info_span!("around-8").in_scope(|| (spanless(), current()));
    assert_eq!(inside, (None, Some("around-8")));
    left_and_closed("request-8", 1);
    left_and_closed("around-8", 2);
}

#[test]
fn spans_of_many_jobs_on_many_workers_are_left_as_often_as_entered() {
    listen();
    let pool = Pool::new(4, 64).unwrap();
    let jobs = rounds(2000);
    for at in 0..jobs {
        let _request = info_span!("request-9").entered();
        let fails = at % 3 == 0;
        let job = try_submit(pool.job(), move || {
            let pool = weirpool::context().unwrap().pool();
            let child = try_submit(pool.job(), current).unwrap();
            assert_eq!(child.join().unwrap(), Some("request-9"));
            if fails {
                quiet_panic();
            }
        });
        if let Ok(job) = job {
            assert_eq!(resolve(job).is_err(), fails);
        }
    }
    pool.wait_idle();
    let plain: Vec<_> = (0..16).map(|_| pool.try_submit(current).unwrap()).collect();
    assert!(plain.into_iter().all(|job| resolve(job).unwrap().is_none()));
    left_and_closed("request-9", jobs);
}

/// What was told of the refusals of a pool.
fn told(pool: &str) -> Vec<(String, u64)> {
    let of_pool = |(name, reason, refused): &(String, String, u64)| {
        (name == pool).then(|| (reason.clone(), *refused))
    };
    book().refusals.iter().filter_map(of_pool).collect()
}

#[test]
fn a_storm_of_refusals_is_a_line_per_reason_and_interval() {
    listen();
    let pool = Pool::new(1, 1).unwrap();
    let permit = pool.try_reserve().unwrap();
    let full = pool.try_reserve().unwrap_err();
    let late = pool.job().timeout(Duration::ZERO).try_reserve().unwrap_err();
    // After the log's own beginning.
    let start = Instant::now() + Duration::from_secs(10);
    let at = |ms| start + Duration::from_millis(ms);
    let log = RefusalLog::new("storm", Duration::from_secs(1));
    for ms in 0..10_000 {
        log.note_at(full, at(ms));
    }
    log.note_at(late, at(9_999));
    let told_of = told("storm");
    assert_eq!(told_of.len(), 11, "{told_of:?}");
    assert_eq!(told_of[0], ("full".to_owned(), 1));
    assert!(told_of[1..10].iter().all(|line| *line == ("full".to_owned(), 1000)));
    assert_eq!(told_of[10], ("deadline".to_owned(), 1));
    // What was not told yet is told with the next line.
    log.note_at(full, at(100_000));
    assert_eq!(told("storm")[11], ("full".to_owned(), 1000));
    drop(permit);
}

#[test]
fn odd_intervals_and_clocks_neither_flood_nor_silence_the_log() {
    listen();
    let pool = Pool::new(1, 1).unwrap();
    let permit = pool.try_reserve().unwrap();
    let full = pool.try_reserve().unwrap_err();
    drop(permit);
    let start = Instant::now() + Duration::from_secs(10);

    let none = RefusalLog::new("no interval", Duration::ZERO);
    for us in 0..5000 {
        none.note_at(full, start + Duration::from_micros(us));
    }
    assert_eq!(told("no interval").len(), 5);

    let endless = RefusalLog::new("endless", Duration::MAX);
    for hours in 0..1000 {
        endless.note_at(full, start + Duration::from_secs(hours * 3600));
    }
    assert_eq!(told("endless").len(), 1);

    let back = RefusalLog::new("back", Duration::from_secs(1));
    back.note_at(full, start + Duration::from_secs(1_000_000));
    back.note_at(full, start);
    back.note_at(full, start + Duration::from_millis(1));
    assert_eq!(told("back").len(), 2);

    // Of two threads at once one tells.
    let both = RefusalLog::new("both", Duration::from_secs(1));
    race(|| both.note_at(full, start), || both.note_at(full, start));
    let lines = told("both");
    assert_eq!(lines.len(), 1);
    both.note_at(full, start + Duration::from_secs(2));
    let total: u64 = told("both").iter().map(|(_, refused)| refused).sum();
    assert_eq!(total, 3);
    both.note(full);
}

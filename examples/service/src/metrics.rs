//! `/metrics`: the figures as Prometheus reads them (text format 0.0.4).

use std::fmt::{Display, Write};
use std::sync::atomic::Ordering::Relaxed;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use weirpool::{Pool, Reason, ShedReason};

use crate::App;
use crate::engine::Route;
use crate::memory;

const REASONS: [(Reason, &str); 7] = [
    (Reason::Full, "full"),
    (Reason::Limit, "limit"),
    (Reason::QueueDelay, "queue_delay"),
    (Reason::Cpu, "cpu"),
    (Reason::Deadline, "deadline"),
    (Reason::Bytes, "bytes"),
    (Reason::Closed, "closed"),
];

const SHED: [(ShedReason, &str); 3] = [
    (ShedReason::QueueDelay, "queue_delay"),
    (ShedReason::Deadline, "deadline"),
    (ShedReason::Displaced, "displaced"),
];

pub(crate) async fn show(State(app): State<App>) -> impl IntoResponse {
    let mut text = Text::default();
    let seen = app.engine.seen();
    let done = Route::ALL.map(|route| (route.name(), seen.done[route as usize].load(Relaxed)));
    text.labelled("service_jobs_done_total", "Jobs done.", "counter", "route", done);
    if let Some(bytes) = memory::resident_bytes() {
        text.one("process_resident_memory_bytes", "Resident memory.", "gauge", bytes);
    }
    match app.engine.pool() {
        Some(pool) => of_pool(&mut text, pool),
        None => {
            let queued = seen.queued.load(Relaxed);
            text.one("service_jobs_queued", "Jobs waiting for a thread.", "gauge", queued);
            let running = seen.running.load(Relaxed);
            text.one("service_jobs_running", "Jobs on a thread.", "gauge", running);
        }
    }
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text.0)
}

fn of_pool(text: &mut Text, pool: &Pool) {
    let snapshot = pool.snapshot();
    let rejected = REASONS.map(|(reason, name)| (name, snapshot.rejected.get(reason)));
    text.labelled("weirpool_rejected_total", "Refused at the door.", "counter", "reason", rejected);
    let shed = SHED.map(|(reason, name)| (name, snapshot.shed.get(reason)));
    text.labelled("weirpool_shed_total", "Accepted, not done.", "counter", "reason", shed);
    for (name, help, value) in [
        ("weirpool_accepted_total", "Jobs that got a slot and were queued.", snapshot.accepted),
        ("weirpool_completed_total", "Jobs whose body returned.", snapshot.completed),
        ("weirpool_panicked_total", "Jobs whose body panicked.", snapshot.panicked),
        ("weirpool_cancelled_total", "Jobs cancelled before they began.", snapshot.cancelled),
        ("weirpool_discarded_total", "Jobs discarded at the end.", snapshot.discarded),
    ] {
        text.one(name, help, "counter", value);
    }
    for (name, help, value) in [
        ("weirpool_reserved", "Slots held by permits.", snapshot.reserved),
        ("weirpool_queued", "Jobs waiting to start.", snapshot.queued),
        ("weirpool_running", "Jobs started and not ended.", snapshot.running),
        ("weirpool_in_flight", "Slots in use.", snapshot.in_flight),
        ("weirpool_limit", "Slots that may be used.", snapshot.limit),
        ("weirpool_capacity", "All slots.", snapshot.capacity),
        ("weirpool_workers", "Worker threads.", snapshot.workers),
        ("weirpool_active_workers", "Workers that may take jobs.", snapshot.active_workers),
    ] {
        text.one(name, help, "gauge", value);
    }
    let wait = snapshot.queue_delay.predicted_wait.as_secs_f64();
    text.one("weirpool_predicted_wait_seconds", "Wait of a job submitted now.", "gauge", wait);
    if let Some(mean) = snapshot.mean_service_time {
        let mean = mean.as_secs_f64();
        text.one("weirpool_mean_service_seconds", "Mean time in the body.", "gauge", mean);
    }
    let means = Route::ALL.map(|route| {
        let mean = snapshot.class(route.class()).mean_service_time.unwrap_or_default();
        (route.name(), mean.as_secs_f64())
    });
    text.labelled("service_mean_seconds", "Mean time in the body.", "gauge", "route", means);
    if let Some(cpu) = snapshot.cpu {
        text.one("weirpool_cpu_ratio", "Average CPU use by the gate's source.", "gauge", cpu);
    }
    let score = pool.load().score;
    text.one("weirpool_load_ratio", "Load: 0 idle, 1 refusing.", "gauge", score);
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        // Writing to a String can't fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn one(&mut self, name: &str, help: &str, kind: &str, value: impl Display) {
        self.head(name, help, kind);
        let _ = writeln!(self.0, "{name} {value}");
    }

    fn labelled<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        kind: &str,
        label: &str,
        values: [(&str, impl Display); N],
    ) {
        self.head(name, help, kind);
        for (of, value) in values {
            let _ = writeln!(self.0, "{name}{{{label}=\"{of}\"}} {value}");
        }
    }
}

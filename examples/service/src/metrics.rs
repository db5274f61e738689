//! `/metrics`: the figures as Prometheus reads them (text format 0.0.4): the service's few, and the
//! pool's.

use std::fmt::{Display, Write};
use std::sync::atomic::Ordering::Relaxed;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use crate::App;
use crate::engine::Route;
use crate::memory;

pub(crate) async fn show(State(app): State<App>) -> impl IntoResponse {
    let mut text = Text::default();
    let seen = app.engine.seen();
    let done = Route::ALL.map(|route| (route.name(), seen.done[route as usize].load(Relaxed)));
    text.labelled("service_jobs_done_total", "Jobs done.", "counter", "route", done);
    if let Some(bytes) = memory::resident_bytes() {
        text.one("process_resident_memory_bytes", "Resident memory.", "gauge", bytes);
    }
    match app.engine.pool() {
        // The crate tells its own figures.
        Some(pool) => text.0 += &pool.snapshot().to_prometheus("service"),
        None => {
            let queued = seen.queued.load(Relaxed);
            text.one("service_jobs_queued", "Jobs waiting for a thread.", "gauge", queued);
            let running = seen.running.load(Relaxed);
            text.one("service_jobs_running", "Jobs on a thread.", "gauge", running);
        }
    }
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text.0)
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

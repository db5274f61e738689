//! A pool's figures as text for Prometheus, and what each of them is.
//!
//! No feature and no dependency: serve the text at `/metrics` yourself, as
//! [`CONTENT_TYPE`]. It is made when it is asked for, from a [`Snapshot`] that is read from the pool's
//! own state: in the middle of a storm the figures are as right as ever, and nothing was pushed
//! anywhere for them.
//!
//! ```
//! use weirpool::exposition;
//!
//! let images = weirpool::Pool::new(1, 4)?;
//! let hashes = weirpool::Pool::new(1, 8)?;
//! let text = exposition::prometheus([
//!     ("images", &images.snapshot()),
//!     ("hashes", &hashes.snapshot()),
//! ]);
//! assert!(text.contains("# TYPE weirpool_capacity_slots gauge\n"));
//! assert!(text.contains("weirpool_capacity_slots{pool=\"hashes\"} 8\n"));
//! # Ok::<(), weirpool::BuildError>(())
//! ```
//!
//! # The metrics
//!
//! Each has the label `pool`, and some one more. The same names are those of the exporter for the
//! facade `metrics` (module `metrics`, with the feature of that name).
//!
//! | name | kind | unit | label | what |
//! |---|---|---|---|---|
//! | `weirpool_accepted_total` | counter |  |  | Jobs that got a slot and were queued |
//! | `weirpool_completed_total` | counter |  |  | Jobs whose body returned |
//! | `weirpool_panicked_total` | counter |  |  | Jobs whose body panicked |
//! | `weirpool_cancelled_total` | counter |  |  | Jobs cancelled before they started |
//! | `weirpool_discarded_total` | counter |  |  | Jobs discarded by a shutdown |
//! | `weirpool_shed_total` | counter |  | `reason` | Jobs accepted and dropped before their body began |
//! | `weirpool_rejected_total` | counter |  | `reason` | Jobs refused at the door |
//! | `weirpool_contained_panics_total` | counter |  |  | Panics of user code other than bodies |
//! | `weirpool_cpu_readings_ignored_total` | counter |  |  | CPU readings that could not be used |
//! | `weirpool_class_jobs_total` | counter |  | `class` | Jobs that returned and were measured, by class |
//! | `weirpool_in_flight_slots` | gauge |  |  | Slots in use |
//! | `weirpool_reserved_slots` | gauge |  |  | Slots held by permits not yet used |
//! | `weirpool_queued_jobs` | gauge |  |  | Jobs waiting to start |
//! | `weirpool_running_jobs` | gauge |  |  | Jobs started and not ended |
//! | `weirpool_capacity_slots` | gauge |  |  | All slots |
//! | `weirpool_limit_slots` | gauge |  |  | The limit in force on slots in use |
//! | `weirpool_held_bytes` | gauge | bytes |  | Bytes held by jobs and permits, as declared |
//! | `weirpool_workers` | gauge |  |  | Worker threads |
//! | `weirpool_active_workers` | gauge |  |  | Workers that may take jobs |
//! | `weirpool_cpu_ratio` | gauge | share |  | The average CPU use by the gate's source |
//! | `weirpool_worker_cpu_ratio` | gauge | share | `worker` | The average CPU use of each worker |
//! | `weirpool_contention_ratio` | gauge | share | `by` | What is taken from the pool of the CPU |
//! | `weirpool_cpu_refusal_ratio` | gauge | share |  | The chance that the CPU gate refuses a job |
//! | `weirpool_queue_target_seconds` | gauge | s |  | The wait that is aimed at |
//! | `weirpool_queue_oldest_wait_seconds` | gauge | s |  | The longest wait up to now |
//! | `weirpool_queue_smallest_wait_seconds` | gauge | s |  | The smallest wait of late |
//! | `weirpool_queue_predicted_wait_seconds` | gauge | s |  | The wait of a new low job |
//! | `weirpool_queue_bound_seconds` | gauge | s |  | The wait that the door allows |
//! | `weirpool_queue_offered_load_ratio` | gauge | share |  | Load offered over what can be done |
//! | `weirpool_queue_refusing` | gauge |  |  | 1 while waits make the pool refuse or shed |
//! | `weirpool_service_time_mean_seconds` | gauge | s |  | The mean time in the body |
//! | `weirpool_class_service_time_mean_seconds` | gauge | s | `class` | The same, by class |
//! | `weirpool_class_cpu_time_mean_seconds` | gauge | s | `class` | Mean CPU time, by class |
//! | `weirpool_uptime_seconds` | gauge | s |  | Time since the pool was built |
//!
//! Labels: `reason` as [`Reason`](crate::Reason) and [`ShedReason`](crate::ShedReason), in snake case;
//! `class` as in [`Class`](crate::Class); `worker` from 0; `by` one of `quota`, `other_threads`,
//! `neighbours`.
//!
//! What isn't known has no line, rather than a zero or NaN: the CPU before its first reading, a mean
//! before the first job, a class without jobs. Only the oldest and the smallest wait are 0 if nothing
//! waited.
//!
//! Counters only grow while the pool lives. A pool built anew under the same name begins at 0, which
//! Prometheus takes for a restart. At rest accepted = completed + panicked + cancelled + discarded +
//! shed.

use std::fmt::Write as _;

use super::figures::{Kind, METRICS, Series, Value};
use super::snapshot::Snapshot;

/// The header field `Content-Type` of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The figures of several pools, each under its name, as text for Prometheus.
///
/// Names may hold anything; of two pools with the same name only the first is shown, since a series
/// may be there only once. Write all pools by one call: each metric may be described only once, too.
/// See the [module](self) for the metrics.
pub fn prometheus<'a>(pools: impl IntoIterator<Item = (&'a str, &'a Snapshot)>) -> String {
    let mut shown: Vec<(&str, &Snapshot)> = Vec::new();
    for (name, snapshot) in pools {
        if shown.iter().all(|(other, _)| *other != name) {
            shown.push((name, snapshot));
        }
    }
    let labels: Vec<_> =
        shown.iter().map(|(name, _)| format!("pool=\"{}\"", escaped(name))).collect();
    let mut text = String::new();
    for metric in &METRICS {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let head = text.len();
        // Writing to a string can't fail.
        let _ = writeln!(text, "# HELP {0} {1}\n# TYPE {0} {kind}", metric.name, metric.help);
        let body = text.len();
        for (pool, (_, snapshot)) in labels.iter().zip(&shown) {
            metric.each(snapshot, |series, value| {
                let _ = write!(text, "{}{{{pool}", metric.name);
                if let (Some(label), true) = (metric.label, series != Series::Only) {
                    let _ = write!(text, ",{label}=\"{series}\"");
                }
                let _ = match value {
                    Value::Total(total) => writeln!(text, "}} {total}"),
                    Value::Level(level) => writeln!(text, "}} {level}"),
                };
            });
        }
        if text.len() == body {
            text.truncate(head);
        }
    }
    text
}

/// A label's value as the format wants it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

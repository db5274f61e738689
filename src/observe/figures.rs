//! The figures of a snapshot as metrics: each with its name, unit and labels, once for all formats.

use std::fmt;
use std::time::Duration;

use super::snapshot::{ClassFigures, Snapshot};
use crate::error::{Reason, ShedReason};
use crate::priority::Class;

/// One metric, of which a pool has one series, or one per value of a label.
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Prometheus reads it off the name.
    #[cfg_attr(not(feature = "metrics"), allow(dead_code))]
    pub(super) unit: Unit,
    /// What sets its series apart, beside the pool.
    pub(super) label: Option<&'static str>,
    pub(super) help: &'static str,
    /// Gives out each series and its value. What isn't known isn't given.
    pub(super) read: fn(&Snapshot, &mut dyn FnMut(Series, Value)),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Count,
    Seconds,
    Ratio,
    Bytes,
}

/// Which of a metric's series: the value of its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Series {
    Only,
    Named(&'static str),
    Numbered(usize),
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Only => Ok(()),
            Self::Named(name) => f.write_str(name),
            Self::Numbered(number) => number.fmt(f),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Total(u64),
    Level(f64),
}

impl Metric {
    /// Each series and its value, as far as it is a number.
    pub(super) fn each(&self, snapshot: &Snapshot, mut take: impl FnMut(Series, Value)) {
        (self.read)(snapshot, &mut |series, value| match value {
            Value::Level(level) if !level.is_finite() => {}
            _ => take(series, value),
        });
    }
}

/// A metric without the function that reads it, so that the table below reads well.
struct Builder {
    name: &'static str,
    kind: Kind,
    unit: Unit,
    label: Option<&'static str>,
    help: &'static str,
}

impl Builder {
    const fn by(mut self, label: &'static str) -> Self {
        self.label = Some(label);
        self
    }

    const fn read(self, read: fn(&Snapshot, &mut dyn FnMut(Series, Value))) -> Metric {
        let Self { name, kind, unit, label, help } = self;
        Metric { name, kind, unit, label, help, read }
    }
}

const fn total(name: &'static str, help: &'static str) -> Builder {
    Builder { name, kind: Kind::Counter, unit: Unit::Count, label: None, help }
}

const fn level(name: &'static str, unit: Unit, help: &'static str) -> Builder {
    Builder { name, kind: Kind::Gauge, unit, label: None, help }
}

type Take<'a> = &'a mut dyn FnMut(Series, Value);

fn put(take: Take<'_>, count: usize) {
    take(Series::Only, Value::Level(count as f64));
}

fn put_total(take: Take<'_>, count: u64) {
    take(Series::Only, Value::Total(count));
}

fn put_ratio(take: Take<'_>, ratio: impl Into<Option<f64>>) {
    if let Some(ratio) = ratio.into() {
        take(Series::Only, Value::Level(ratio));
    }
}

fn put_time(take: Take<'_>, time: impl Into<Option<Duration>>) {
    if let Some(time) = time.into() {
        take(Series::Only, Value::Level(time.as_secs_f64()));
    }
}

fn put_times_by_class(take: Take<'_>, now: &Snapshot, time: fn(&ClassFigures) -> Option<Duration>) {
    for (class, figures) in now.classes() {
        if let Some(time) = time(&figures) {
            take(numbered(class), Value::Level(time.as_secs_f64()));
        }
    }
}

fn numbered(Class(class): Class) -> Series {
    Series::Numbered(class.into())
}

/// All metrics, in the order in which they are shown; the table in [`super::exposition`] is this one.
pub(super) static METRICS: [Metric; 34] = [
    total("weirpool_accepted_total", "Jobs that got a slot and were queued.")
        .read(|now, take| put_total(take, now.accepted)),
    total("weirpool_completed_total", "Jobs whose body returned.")
        .read(|now, take| put_total(take, now.completed)),
    total("weirpool_panicked_total", "Jobs whose body panicked.")
        .read(|now, take| put_total(take, now.panicked)),
    total("weirpool_cancelled_total", "Jobs cancelled before they started.")
        .read(|now, take| put_total(take, now.cancelled)),
    total("weirpool_discarded_total", "Jobs discarded by a shutdown.")
        .read(|now, take| put_total(take, now.discarded)),
    total("weirpool_shed_total", "Jobs accepted and dropped before their body began.")
        .by("reason")
        .read(|now, take| {
            for reason in ShedReason::ALL {
                take(Series::Named(reason.key()), Value::Total(now.shed.get(reason)));
            }
        }),
    total("weirpool_rejected_total", "Jobs refused at the door.").by("reason").read(|now, take| {
        for reason in Reason::ALL {
            take(Series::Named(reason.key()), Value::Total(now.rejected.get(reason)));
        }
    }),
    total("weirpool_contained_panics_total", "Panics of user code other than bodies.")
        .read(|now, take| put_total(take, now.contained_panics)),
    total("weirpool_cpu_readings_ignored_total", "CPU readings that could not be used.")
        .read(|now, take| put_total(take, now.cpu_readings_ignored)),
    total("weirpool_class_jobs_total", "Jobs that returned and were measured, by class.")
        .by("class")
        .read(|now, take| {
            now.classes().for_each(|(class, of)| take(numbered(class), Value::Total(of.jobs)));
        }),
    level("weirpool_in_flight_slots", Unit::Count, "Slots in use.")
        .read(|now, take| put(take, now.in_flight)),
    level("weirpool_reserved_slots", Unit::Count, "Slots held by permits not yet used.")
        .read(|now, take| put(take, now.reserved)),
    level("weirpool_queued_jobs", Unit::Count, "Jobs waiting to start.")
        .read(|now, take| put(take, now.queued)),
    level("weirpool_running_jobs", Unit::Count, "Jobs started and not ended.")
        .read(|now, take| put(take, now.running)),
    level("weirpool_capacity_slots", Unit::Count, "All slots.")
        .read(|now, take| put(take, now.capacity)),
    level("weirpool_limit_slots", Unit::Count, "The limit in force on slots in use.")
        .read(|now, take| put(take, now.limit)),
    level("weirpool_held_bytes", Unit::Bytes, "Bytes held by jobs and permits, as declared.")
        .read(|now, take| take(Series::Only, Value::Level(now.bytes as f64))),
    level("weirpool_workers", Unit::Count, "Worker threads.")
        .read(|now, take| put(take, now.workers)),
    level("weirpool_active_workers", Unit::Count, "Workers that may take jobs.")
        .read(|now, take| put(take, now.active_workers)),
    level("weirpool_cpu_ratio", Unit::Ratio, "The average CPU use by the gate's source.")
        .read(|now, take| put_ratio(take, now.cpu)),
    level("weirpool_worker_cpu_ratio", Unit::Ratio, "The average CPU use of each worker.")
        .by("worker")
        .read(|now, take| {
            for (worker, cpu) in now.cpu_per_worker.iter().enumerate() {
                take(Series::Numbered(worker), Value::Level(*cpu));
            }
        }),
    level("weirpool_contention_ratio", Unit::Ratio, "What is taken from the pool of the CPU.")
        .by("by")
        .read(|now, take| {
            let contention = now.contention;
            take(Series::Named("quota"), Value::Level(contention.throttled));
            take(Series::Named("other_threads"), Value::Level(contention.other_threads));
            take(Series::Named("neighbours"), Value::Level(contention.neighbours));
        }),
    level("weirpool_cpu_refusal_ratio", Unit::Ratio, "The chance that the CPU gate refuses a job.")
        .read(|now, take| put_ratio(take, now.cpu_refusal)),
    level("weirpool_queue_target_seconds", Unit::Seconds, "The wait that is aimed at.")
        .read(|now, take| put_time(take, now.queue_delay.target)),
    level("weirpool_queue_oldest_wait_seconds", Unit::Seconds, "The longest wait up to now.")
        .read(|now, take| put_time(take, now.queue_delay.oldest_wait.unwrap_or_default())),
    level("weirpool_queue_smallest_wait_seconds", Unit::Seconds, "The smallest wait of late.")
        .read(|now, take| put_time(take, now.queue_delay.smallest_wait.unwrap_or_default())),
    level("weirpool_queue_predicted_wait_seconds", Unit::Seconds, "The wait of a new low job.")
        .read(|now, take| put_time(take, now.queue_delay.predicted_wait)),
    level("weirpool_queue_bound_seconds", Unit::Seconds, "The wait that the door allows.")
        .read(|now, take| put_time(take, now.queue_delay.bound)),
    level("weirpool_queue_offered_load_ratio", Unit::Ratio, "Load offered over what can be done.")
        .read(|now, take| put_ratio(take, now.queue_delay.offered_load)),
    level("weirpool_queue_refusing", Unit::Count, "1 while waits make the pool refuse or shed.")
        .read(|now, take| put(take, now.queue_delay.is_refusing.into())),
    level("weirpool_service_time_mean_seconds", Unit::Seconds, "The mean time in the body.")
        .read(|now, take| put_time(take, now.mean_service_time)),
    level("weirpool_class_service_time_mean_seconds", Unit::Seconds, "The same, by class.")
        .by("class")
        .read(|now, take| put_times_by_class(take, now, |class| class.mean_service_time)),
    level("weirpool_class_cpu_time_mean_seconds", Unit::Seconds, "Mean CPU time, by class.")
        .by("class")
        .read(|now, take| put_times_by_class(take, now, |class| class.mean_cpu_time)),
    level("weirpool_uptime_seconds", Unit::Seconds, "Time since the pool was built.")
        .read(|now, take| put_time(take, now.uptime)),
];

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_documented_table_is_this_one() {
        let documented: Vec<_> = include_str!("exposition.rs")
            .lines()
            .filter(|line| line.starts_with("//! | `weirpool_"))
            .map(str::to_owned)
            .collect();
        let rows: Vec<_> = METRICS
            .iter()
            .map(|Metric { name, kind, unit, label, help, .. }| {
                let kind = format!("{kind:?}").to_lowercase();
                let unit = match unit {
                    Unit::Count => "",
                    Unit::Seconds => "s",
                    Unit::Ratio => "share",
                    Unit::Bytes => "bytes",
                };
                let label = label.map_or_else(String::new, |label| format!("`{label}`"));
                format!(
                    "//! | `{name}` | {kind} | {unit} | {label} | {} |",
                    help.trim_end_matches('.')
                )
            })
            .collect();
        for (row, line) in rows.iter().zip(&documented) {
            assert_eq!(row, line);
        }
        assert_eq!(rows.len(), documented.len(), "{}", rows.join("\n"));
    }

    #[test]
    fn names_say_kind_and_unit_and_are_different() {
        for (at, metric) in METRICS.iter().enumerate() {
            assert_eq!(metric.name.ends_with("_total"), metric.kind == Kind::Counter);
            assert_eq!(metric.name.ends_with("_seconds"), metric.unit == Unit::Seconds);
            assert_eq!(metric.name.ends_with("_ratio"), metric.unit == Unit::Ratio);
            assert_eq!(metric.name.ends_with("_bytes"), metric.unit == Unit::Bytes);
            assert!(METRICS[..at].iter().all(|other| other.name != metric.name));
            assert!(metric.help.ends_with('.') && !metric.help.contains(['\\', '\n']));
        }
    }

    #[test]
    fn reasons_are_counted_under_their_own_names() {
        for (at, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), at);
        }
        for (at, reason) in ShedReason::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), at);
        }
    }
}

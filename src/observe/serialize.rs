//! Figures as data: field for field, times as seconds under names that say so. Nothing is ever NaN.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::load::Load;
use super::snapshot::{
    ClassFigures, ContentionState, QueueDelayState, RejectedCounts, ShedCounts, Snapshot,
};
use crate::error::{Reason, ShedReason};

impl Serialize for RejectedCounts {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(Reason::ALL.map(|reason| (reason.key(), self.get(reason))))
    }
}

impl Serialize for ShedCounts {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(ShedReason::ALL.map(|reason| (reason.key(), self.get(reason))))
    }
}

/// Writes a map of fields, each under its own name or another.
macro_rules! fields {
    ($to:expr, $($name:literal: $value:expr),+ $(,)?) => {{
        let mut map = $to.serialize_map(None)?;
        $(map.serialize_entry($name, $value)?;)+
        map.end()
    }};
}

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        // Taken apart in full, so that no figure is forgotten.
        let Self {
            accepted,
            completed,
            panicked,
            cancelled,
            discarded,
            shed,
            rejected,
            contained_panics,
            reserved,
            queued,
            running,
            in_flight,
            capacity,
            limit,
            bytes,
            workers,
            active_workers,
            cpu,
            cpu_per_worker,
            contention,
            cpu_refusal,
            cpu_readings_ignored,
            queue_delay,
            classes: _,
            mean_service_time,
            uptime,
        } = self;
        let classes: BTreeMap<_, _> =
            self.classes().map(|(class, figures)| (class.0, figures)).collect();
        fields! { to,
            "accepted": accepted,
            "completed": completed,
            "panicked": panicked,
            "cancelled": cancelled,
            "discarded": discarded,
            "shed": shed,
            "rejected": rejected,
            "contained_panics": contained_panics,
            "reserved": reserved,
            "queued": queued,
            "running": running,
            "in_flight": in_flight,
            "capacity": capacity,
            "limit": limit,
            "bytes": bytes,
            "workers": workers,
            "active_workers": active_workers,
            "cpu": cpu,
            "cpu_per_worker": cpu_per_worker,
            "contention": contention,
            "cpu_refusal": cpu_refusal,
            "cpu_readings_ignored": cpu_readings_ignored,
            "queue_delay": queue_delay,
            "classes": &classes,
            "mean_service_time_seconds": &seconds(*mean_service_time),
            "uptime_seconds": &uptime.as_secs_f64(),
        }
    }
}

impl Serialize for ContentionState {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { throttled, other_threads, neighbours } = self;
        fields! { to,
            "throttled": throttled,
            "other_threads": other_threads,
            "neighbours": neighbours,
        }
    }
}

impl Serialize for QueueDelayState {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self {
            target,
            smallest_wait,
            oldest_wait,
            bound,
            door_jobs,
            offered_load,
            predicted_wait,
            is_refusing,
        } = self;
        fields! { to,
            "target_seconds": &seconds(*target),
            "smallest_wait_seconds": &seconds(*smallest_wait),
            "oldest_wait_seconds": &seconds(*oldest_wait),
            "bound_seconds": &seconds(*bound),
            "door_jobs": door_jobs,
            "offered_load": offered_load,
            "predicted_wait_seconds": &predicted_wait.as_secs_f64(),
            "is_refusing": is_refusing,
        }
    }
}

impl Serialize for ClassFigures {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { jobs, mean_service_time, mean_cpu_time } = self;
        fields! { to,
            "jobs": jobs,
            "mean_service_time_seconds": &seconds(*mean_service_time),
            "mean_cpu_time_seconds": &seconds(*mean_cpu_time),
        }
    }
}

impl Serialize for Load {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { score, in_flight, capacity, cpu, .. } = self;
        fields! { to,
            "score": score,
            "in_flight": in_flight,
            "capacity": capacity,
            "cpu": cpu,
        }
    }
}

fn seconds(time: Option<Duration>) -> Option<f64> {
    time.map(|time| time.as_secs_f64())
}

//! What a request asks of the door.

use std::time::{Duration, Instant};

use crate::pool::Pool;
use crate::priority::{Class, Priority};
use crate::submit::{JobSpec, PartitionId};

/// How a request is to be treated at the door: what [`JobSpec`] says of a job, without a pool.
///
/// Given by a classifier ([`AdmissionLayer::classify`](super::AdmissionLayer::classify)) that looks
/// at the request. Go by what you know (the route, who was authenticated), not by what the client
/// claims of itself.
///
/// ```
/// use std::time::Duration;
/// use weirpool::Priority;
/// use weirpool::service::RequestClass;
///
/// fn classify(path: &str) -> RequestClass {
///     match path {
///         "/health" => RequestClass::new().priority(Priority::Critical),
///         "/report" => RequestClass::new().priority(Priority::Low),
///         _ => RequestClass::new().timeout(Duration::from_millis(250)),
///     }
/// }
/// assert_eq!(classify("/health"), RequestClass::new().priority(Priority::Critical));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct RequestClass {
    priority: Option<Priority>,
    class: Option<Class>,
    deadline: Option<Instant>,
    timeout: Option<Duration>,
    partition: Option<PartitionId>,
    bytes: u64,
}

impl RequestClass {
    /// Nothing in particular.
    pub fn new() -> Self {
        Self::default()
    }

    /// See [`JobSpec::priority`].
    pub fn priority(self, priority: Priority) -> Self {
        Self { priority: Some(priority), ..self }
    }

    /// See [`JobSpec::class`].
    pub fn class(self, class: Class) -> Self {
        Self { class: Some(class), ..self }
    }

    /// See [`JobSpec::deadline`]. A request that only holds a slot has begun when it has that; the
    /// deadline then decides at the door alone.
    pub fn deadline(self, deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// See [`JobSpec::timeout`]; also takes an `Option`, as read from a header.
    pub fn timeout(self, timeout: impl Into<Option<Duration>>) -> Self {
        Self { timeout: timeout.into(), ..self }
    }

    /// See [`JobSpec::partition`].
    pub fn partition(self, partition: PartitionId) -> Self {
        Self { partition: Some(partition), ..self }
    }

    /// See [`JobSpec::bytes`]: such as the request's `Content-Length`.
    pub fn bytes(self, bytes: u64) -> Self {
        Self { bytes, ..self }
    }

    /// The same as a spec of jobs for `pool`.
    pub fn job(self, pool: &Pool) -> JobSpec<'_> {
        let mut job = pool.job().bytes(self.bytes);
        if let Some(priority) = self.priority {
            job = job.priority(priority);
        }
        if let Some(class) = self.class {
            job = job.class(class);
        }
        if let Some(deadline) = self.deadline {
            job = job.deadline(deadline);
        }
        if let Some(timeout) = self.timeout {
            job = job.timeout(timeout);
        }
        if let Some(partition) = self.partition {
            job = job.partition(partition);
        }
        job
    }
}

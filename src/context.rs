//! What a body can learn of itself.

use std::fmt;
use std::time::{Duration, Instant};

use crate::job::JobRef;
use crate::pool::Pool;
use crate::priority::Priority;
use crate::schedule::{Core, Worker};
use crate::sync::Arc;

/// The running job, seen from inside its body; none outside of one.
///
/// ```
/// let pool = weirpool::Pool::new(1, 4)?;
/// let name_and_wait = pool
///     .try_submit(|| {
///         let context = weirpool::context().expect("inside a body");
///         (context.worker_index(), context.queued_for())
///     })
///     .unwrap()
///     .join()
///     .unwrap();
/// assert_eq!(name_and_wait.0, 0);
/// assert!(weirpool::context().is_none());
/// # Ok::<(), weirpool::BuildError>(())
/// ```
pub fn context() -> Option<Context> {
    Worker::with_current(|worker| {
        let worker = worker?;
        let body = worker.body()?;
        Some(Context {
            // SAFETY: `body` is the one on top of this thread's stack, so its job runs on it.
            job: unsafe { body.job.another() },
            core: Arc::clone(worker.core()),
            queued_for: Duration::from_nanos(body.queued_for_ns),
            worker_index: worker.index(),
        })
    })
}

/// Whether the running job is asked to stop; false outside of a body.
///
/// The cheap form of `context().is_cancelled()`, for inner loops.
pub fn is_cancelled() -> bool {
    Worker::with_current(|worker| {
        worker.and_then(Worker::body).is_some_and(|body| {
            // SAFETY: `body` is the one on top of this thread's stack, so its job runs on it.
            unsafe { body.job.is_asked_to_stop() }
        })
    })
}

/// How long the running job waited; none outside of a body.
#[cfg(any(feature = "metrics", feature = "tracing"))]
pub(crate) fn queued_for_ns() -> Option<u64> {
    Worker::with_current(|worker| Some(worker?.body()?.queued_for_ns))
}

/// The running job, from [`context()`]; may be kept and sent to other threads.
pub struct Context {
    job: JobRef,
    core: Arc<Core>,
    queued_for: Duration,
    worker_index: usize,
}

impl Context {
    /// Whether somebody asked this job to stop, by [`JobHandle::cancel`](crate::JobHandle::cancel)
    /// or a [`Canceller`](crate::Canceller) while it ran. A body that never asks runs to its end.
    pub fn is_cancelled(&self) -> bool {
        self.job.state().is_asked_to_stop()
    }

    /// The instant by which the job had to start, if there is one.
    pub fn deadline(&self) -> Option<Instant> {
        self.core.time.instant_at(self.job.deadline_ns())
    }

    /// The job's priority.
    pub fn priority(&self) -> Priority {
        self.job.priority()
    }

    /// How long the job waited from submit to start.
    pub fn queued_for(&self) -> Duration {
        self.queued_for
    }

    /// Which worker runs it, from 0 to the number of workers - 1.
    pub fn worker_index(&self) -> usize {
        self.worker_index
    }

    /// The pool that runs it: open as long as this handle lives, unless it was closed before.
    pub fn pool(&self) -> Pool {
        Pool::of(&self.core)
    }
}

impl Clone for Context {
    fn clone(&self) -> Self {
        Self { job: self.job.another(), core: Arc::clone(&self.core), ..*self }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("priority", &self.priority())
            .field("worker_index", &self.worker_index)
            .field("queued_for", &self.queued_for)
            .field("is_cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}

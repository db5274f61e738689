//! The pools under test, each behind the same two questions: will you take this job, and how many
//! are waiting?

use crate::AnyError;
use crate::load::{Job, Run};

pub(crate) trait Contender: Sync {
    /// Hands the job over; `false` if the pool refuses it.
    fn offer(&self, job: Job) -> bool;

    /// Jobs that are accepted and have not started.
    fn queued(&self, run: &Run) -> usize {
        run.accepted_not_started()
    }

    /// Accepted jobs that were dropped before they started, since the pool was built.
    fn shed(&self) -> u64 {
        0
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Weirpool,
    Rayon,
    Tokio,
}

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::Weirpool, Kind::Rayon, Kind::Tokio];
    pub(crate) const PEERS: [Kind; 2] = [Kind::Rayon, Kind::Tokio];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Weirpool => "weirpool",
            Kind::Rayon => "rayon",
            Kind::Tokio => "tokio",
        }
    }

    /// A pool with that many threads; `slots` is the bound of the one that has a bound.
    pub(crate) fn build(
        self,
        workers: usize,
        slots: usize,
    ) -> Result<Box<dyn Contender>, AnyError> {
        Ok(match self {
            Kind::Weirpool => {
                Box::new(weirpool::Pool::builder().workers(workers).capacity(slots).build()?)
            }
            Kind::Rayon => Box::new(rayon::ThreadPoolBuilder::new().num_threads(workers).build()?),
            Kind::Tokio => Box::new(
                tokio::runtime::Builder::new_current_thread()
                    .max_blocking_threads(workers)
                    .build()?,
            ),
        })
    }
}

impl Contender for weirpool::Pool {
    fn offer(&self, job: Job) -> bool {
        self.try_spawn(move || job.run()).is_ok()
    }

    // A job that is shed leaves the queue without ever starting, so only the pool knows.
    fn queued(&self, _: &Run) -> usize {
        weirpool::Pool::queued(self)
    }

    fn shed(&self) -> u64 {
        self.snapshot().shed.total()
    }
}

impl Contender for rayon::ThreadPool {
    fn offer(&self, job: Job) -> bool {
        self.spawn(move || job.run());
        true
    }
}

impl Contender for tokio::runtime::Runtime {
    fn offer(&self, job: Job) -> bool {
        // The handle is dropped, which detaches the job.
        self.spawn_blocking(move || job.run());
        true
    }
}

//! The pools under test, each behind the same few questions: will you take this job, how many
//! are waiting, and what did you do with the others?

use std::collections::BTreeMap;
use std::time::Duration;

use weirpool::{Limit, Pool, QueueDelay, Reason};

use crate::AnyError;
use crate::run::{Job, Run};

/// What the door aims at, a fifth of the time in which an answer is worth something.
const TARGET: Duration = QueueDelay::DEFAULT_TARGET;

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

    /// How many of its workers take jobs now, where that changes.
    fn active_workers(&self) -> Option<usize> {
        None
    }

    /// Refused jobs by reason, since the pool was built.
    fn refused_by(&self) -> RefusedBy {
        RefusedBy::new()
    }
}

pub(crate) type RefusedBy = BTreeMap<&'static str, u64>;

/// The policies of weirpool, the shipped one first, then other people's pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Weirpool,
    Door,
    Vegas,
    Codel,
    Bounded,
    Rayon,
    Tokio,
    Threadpool,
    RustyPool,
}

impl Kind {
    pub(crate) const ALL: [Kind; 9] = [
        Kind::Weirpool,
        Kind::Door,
        Kind::Vegas,
        Kind::Codel,
        Kind::Bounded,
        Kind::Rayon,
        Kind::Tokio,
        Kind::Threadpool,
        Kind::RustyPool,
    ];

    /// Those by which the capacity is measured.
    pub(crate) const MEASURES: [Kind; 2] = [Kind::Rayon, Kind::Tokio];

    /// Those whose protections should keep most of the capacity.
    pub(crate) const DOORS: [Kind; 2] = [Kind::Weirpool, Kind::Door];

    /// Where time is scarce, one of each sort.
    pub(crate) const TYPICAL: [Kind; 4] = [Kind::Weirpool, Kind::Codel, Kind::Bounded, Kind::Rayon];

    /// For the long flood: the default, and those without protection.
    pub(crate) const FLOODED: [Kind; 5] =
        [Kind::Weirpool, Kind::Rayon, Kind::Tokio, Kind::Threadpool, Kind::RustyPool];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Weirpool => "weirpool",
            Kind::Door => "door",
            Kind::Vegas => "vegas",
            Kind::Codel => "codel",
            Kind::Bounded => "bounded",
            Kind::Rayon => "rayon",
            Kind::Tokio => "tokio",
            Kind::Threadpool => "threadpool",
            Kind::RustyPool => "rusty_pool",
        }
    }

    pub(crate) fn explanation(self) -> &'static str {
        match self {
            Kind::Weirpool => "as it comes: graded door, CPU gate",
            Kind::Door => "weirpool, the graded door alone",
            Kind::Vegas => "weirpool, the door and a Vegas limit",
            Kind::Codel => "weirpool, CoDel at dequeue",
            Kind::Bounded => "weirpool, nothing but the bound",
            Kind::Rayon => "ThreadPool::spawn",
            Kind::Tokio => "spawn_blocking",
            Kind::Threadpool => "execute",
            Kind::RustyPool => "execute",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// A pool with that many threads; `slots` bounds those that can be bounded, by default 64 for
    /// each worker.
    pub(crate) fn build(
        self,
        workers: usize,
        slots: Option<usize>,
    ) -> Result<Box<dyn Contender>, AnyError> {
        let mut weirpool = Pool::builder().workers(workers);
        if let Some(slots) = slots {
            weirpool = weirpool.capacity(slots);
        }
        let door = QueueDelay::graded(TARGET);
        let codel = QueueDelay::codel(TARGET, QueueDelay::DEFAULT_INTERVAL);
        Ok(match self {
            Kind::Weirpool => Box::new(weirpool.build()?),
            Kind::Door => Box::new(weirpool.batch().queue_delay(door).build()?),
            Kind::Vegas => {
                Box::new(weirpool.batch().queue_delay(door).limit(Limit::vegas()).build()?)
            }
            Kind::Codel => Box::new(weirpool.batch().queue_delay(codel).build()?),
            Kind::Bounded => Box::new(weirpool.batch().build()?),
            Kind::Rayon => Box::new(rayon::ThreadPoolBuilder::new().num_threads(workers).build()?),
            Kind::Tokio => Box::new(
                tokio::runtime::Builder::new_current_thread()
                    .max_blocking_threads(workers)
                    .build()?,
            ),
            Kind::Threadpool => Box::new(threadpool::ThreadPool::new(workers)),
            Kind::RustyPool => {
                Box::new(rusty_pool::Builder::new().core_size(workers).max_size(workers).build())
            }
        })
    }
}

impl Contender for Pool {
    fn offer(&self, job: Job) -> bool {
        self.try_spawn(move || job.run()).is_ok()
    }

    // A job that is shed leaves the queue without ever starting, so only the pool knows.
    fn queued(&self, _: &Run) -> usize {
        Pool::queued(self)
    }

    fn shed(&self) -> u64 {
        self.snapshot().shed.total()
    }

    fn active_workers(&self) -> Option<usize> {
        Some(self.snapshot().active_workers)
    }

    fn refused_by(&self) -> RefusedBy {
        let rejected = self.snapshot().rejected;
        let reasons = [
            ("queue_delay", Reason::QueueDelay),
            ("cpu", Reason::Cpu),
            ("limit", Reason::Limit),
            ("full", Reason::Full),
        ];
        reasons.into_iter().map(|(name, reason)| (name, rejected.get(reason))).collect()
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

impl Contender for threadpool::ThreadPool {
    fn offer(&self, job: Job) -> bool {
        self.execute(move || job.run());
        true
    }
}

impl Contender for rusty_pool::ThreadPool {
    fn offer(&self, job: Job) -> bool {
        self.execute(move || job.run());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pool_is_found_by_its_name_alone() {
        for kind in Kind::ALL {
            assert_eq!(Kind::named(kind.name()), Some(kind));
        }
        assert_eq!(Kind::named("Rayon"), None);
    }
}

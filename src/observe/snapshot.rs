//! The pool's figures at one moment.

use std::fmt;
use std::time::Duration;

use crate::error::{Reason, ShedReason};
use crate::priority::Class;

/// The figures of a pool at one moment, from [`Pool::snapshot`](crate::Pool::snapshot).
///
/// In every snapshot `in_flight == reserved + queued + running`. At rest, with nothing queued or
/// running, `accepted == completed + panicked + cancelled + shed.total() + discarded`.
///
/// ```
/// let pool = weirpool::Pool::new(1, 4)?;
/// pool.try_submit(|| 1 + 1).unwrap().join().unwrap();
/// let snapshot = pool.snapshot();
/// assert_eq!((snapshot.accepted, snapshot.completed, snapshot.in_flight), (1, 1, 0));
/// assert_eq!(snapshot.rejected.get(weirpool::Reason::Full), 0);
/// # Ok::<(), weirpool::BuildError>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Jobs that got a slot and were queued.
    pub accepted: u64,
    /// Jobs whose body returned.
    pub completed: u64,
    /// Jobs whose body panicked. What a body captured is dropped as part of it.
    pub panicked: u64,
    /// Jobs cancelled before they started.
    pub cancelled: u64,
    /// Jobs discarded by a shutdown.
    pub discarded: u64,
    /// Jobs accepted and dropped before their body began, by reason.
    pub shed: ShedCounts,
    /// Jobs refused at the door, by reason.
    pub rejected: RejectedCounts,
    /// Panics of user code other than bodies that the pool contained: destructors of captures that
    /// never ran, of results and panics' payloads whose handle was gone, wakers, thread hooks, the
    /// panic handler. Those in the destructor of a handle are contained too, but not counted: a
    /// handle may outlive its pool.
    pub contained_panics: u64,
    /// Slots held by permits not yet used.
    pub reserved: usize,
    /// Jobs waiting to start.
    pub queued: usize,
    /// Jobs started and not ended.
    pub running: usize,
    /// Slots in use.
    pub in_flight: usize,
    /// All slots.
    pub capacity: usize,
    /// The limit in force on what is in flight, of work that is neither critical nor of a partition's
    /// reserved share: the adaptive one if there is one, never above the capacity.
    pub limit: usize,
    /// Bytes held by jobs and permits, as declared; zero without a budget of bytes.
    pub bytes: u64,
    /// Worker threads.
    pub workers: usize,
    /// Workers that may take jobs; fewer than all while a quota throttles the process.
    pub active_workers: usize,
    /// The average CPU use by the gate's source, from 0 to 1. None before the first reading, and
    /// without a CPU gate.
    pub cpu: Option<f64>,
    /// The average CPU use of each worker, from 0 to 1. Empty before the first reading, and without
    /// a CPU gate; zeros where threads have no CPU clock.
    pub cpu_per_worker: Vec<f64>,
    /// What takes the CPU from the pool.
    pub contention: ContentionState,
    /// The chance that the CPU gate refuses a job of normal priority now, from 0 to 1.
    pub cpu_refusal: f64,
    /// Readings of the CPU source that made no sense, or could not be made.
    pub cpu_readings_ignored: u64,
    /// How the queue stands.
    pub queue_delay: QueueDelayState,
    /// By class; see [`class`](Self::class).
    pub(crate) classes: ClassTable,
    /// The mean time in the body, queue wait not included; none before the first job has ended.
    pub mean_service_time: Option<Duration>,
    /// Time since the pool was built, by its clock.
    pub uptime: Duration,
}

impl Snapshot {
    /// What was learned of the jobs of one class.
    pub fn class(&self, class: Class) -> ClassFigures {
        self.classes.0[class.index()]
    }

    /// The classes of which anything was learned, from the lowest on.
    pub fn classes(&self) -> impl Iterator<Item = (Class, ClassFigures)> + '_ {
        let figures = self.classes.0.iter().copied();
        (0..).map(Class).zip(figures).filter(|(_, figures)| figures.jobs > 0)
    }

    /// The figures as text for Prometheus, under this name of the pool; see
    /// [`exposition`](crate::exposition).
    pub fn to_prometheus(&self, pool: &str) -> String {
        super::exposition::prometheus([(pool, self)])
    }
}

/// What takes the CPU from a pool, in a [`Snapshot`]: shares, from 0 to 1, of what the pool could have
/// used over about the last second. All cores busy with its own jobs is none of these.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ContentionState {
    /// Of the workers' time: stopped because a quota was used up.
    pub throttled: f64,
    /// Of the CPU: taken by other threads of this process.
    pub other_threads: f64,
    /// Of the CPU: taken by other processes, or by other machines on the same hardware.
    pub neighbours: f64,
}

/// How the queue of a pool stands, in a [`Snapshot`].
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueDelayState {
    /// The wait that is aimed at: the target set, or the mean service time if that is more. None if
    /// nothing is done about waits.
    pub target: Option<Duration>,
    /// The smallest wait of the last full interval (100 ms, or the law's own): above the target it
    /// shows that a queue stands. None if no job was taken in it.
    pub smallest_wait: Option<Duration>,
    /// How long the job has waited that has waited longest in the lanes; none if none waits there.
    /// Normal jobs submitted from inside bodies wait elsewhere, and so do the few very short ones that a
    /// worker has taken at one go.
    pub oldest_wait: Option<Duration>,
    /// The wait that the graded door allows at present. None with another law, and before 50 jobs
    /// have ended.
    pub bound: Option<Duration>,
    /// The same as a number of queued jobs.
    pub door_jobs: Option<usize>,
    /// The load offered to the graded door over about a second, refused jobs included, as a multiple
    /// of what the active workers can do. None with another law.
    pub offered_load: Option<f64>,
    /// The wait predicted for a job of the lowest priority submitted now; zero before any job has
    /// ended.
    pub predicted_wait: Duration,
    /// Whether a job of the lowest priority would be refused now, or is being shed, for its wait.
    pub is_refusing: bool,
}

/// What was learned of the jobs of one [`Class`], from [`Snapshot::class`]. Workers hand their
/// measurements over every 32 jobs or 10 ms and when they run out of work.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassFigures {
    /// How many of them have returned and were measured.
    pub jobs: u64,
    /// The mean time in the body; none before the first.
    pub mean_service_time: Option<Duration>,
    /// The mean CPU time of the body, measured on all jobs of a millisecond and more, and a sample of
    /// the others; none before the first measurement and where threads have no CPU clock.
    pub mean_cpu_time: Option<Duration>,
}

/// The figures of all classes.
#[derive(Clone)]
pub(crate) struct ClassTable(pub(crate) Box<[ClassFigures]>);

impl fmt::Debug for ClassTable {
    /// Only of those in use, by their number: sixty empty ones would hide the rest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_use = self.0.iter().enumerate().filter(|(_, figures)| figures.jobs > 0);
        f.debug_map().entries(in_use).finish()
    }
}

/// Jobs refused, by [`Reason`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RejectedCounts([u64; Reason::COUNT]);

impl RejectedCounts {
    pub(crate) fn new(counts: [u64; Reason::COUNT]) -> Self {
        Self(counts)
    }

    /// How many were refused for `reason`.
    pub fn get(&self, reason: Reason) -> u64 {
        self.0[reason.index()]
    }

    /// How many were refused in all.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// Jobs shed, by [`ShedReason`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShedCounts([u64; ShedReason::COUNT]);

impl ShedCounts {
    pub(crate) fn new(counts: [u64; ShedReason::COUNT]) -> Self {
        Self(counts)
    }

    /// How many were shed for `reason`.
    pub fn get(&self, reason: ShedReason) -> u64 {
        self.0[reason.index()]
    }

    /// How many were shed in all.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

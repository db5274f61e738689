//! The pool's figures at one moment.

use std::time::Duration;

use crate::error::{Reason, ShedReason};

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
    /// Bytes held by jobs and permits, as declared; zero without a budget of bytes.
    pub bytes: u64,
    /// Worker threads.
    pub workers: usize,
    /// The mean time in the body, queue wait not included; none before the first job has ended.
    pub mean_service_time: Option<Duration>,
    /// Time since the pool was built, by its clock.
    pub uptime: Duration,
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

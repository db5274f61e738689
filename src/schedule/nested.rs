//! Jobs submitted from inside a body wait in their worker's own deque, where thieves find them.
//!
//! A job that is cancelled, or joined in place, while it lies in the middle of a deque can't be
//! taken out: its entry stays as a tombstone, a reference to a block whose body is gone. Each
//! deque counts its tombstones, and its owner sweeps them at a push once they are more than half of
//! the entries and [`SPARE_TOMBSTONES`] besides: so they are bounded, whatever a body does.

use std::cell::{Cell, RefCell};

use crossbeam_utils::CachePadded;

use super::handful::Handful;
use crate::job::JobRef;
use crate::policy::ageing::{NEVER, due_at};
use crate::sync::stat::{AtomicU64, AtomicUsize, Relaxed};
use crate::sync::{Owner, Thief, deque};

/// Tombstones a deque may have beyond half of its entries before it is swept.
const SPARE_TOMBSTONES: usize = 64;

/// A place in a deque has the top bit set, then the worker, then a number that wraps; one in a lane
/// is a number that never gets so far.
const IN_DEQUE: u64 = 1 << 63;
const WORKER_SHIFT: u32 = 48;
const WORKER_MASK: u64 = (1 << (63 - WORKER_SHIFT)) - 1;
const NUMBER_MASK: u64 = (1 << WORKER_SHIFT) - 1;

fn place_of(worker: usize, number: u64) -> u64 {
    IN_DEQUE | ((worker as u64) << WORKER_SHIFT) | (number & NUMBER_MASK)
}

/// The worker whose deque the job was pushed to; none if it was pushed to a lane.
pub(crate) fn home_of(job: &JobRef) -> Option<usize> {
    let place = job.place();
    (place & IN_DEQUE != 0).then_some(((place >> WORKER_SHIFT) & WORKER_MASK) as usize)
}

/// What everybody may see and do of one worker's deque, and of the handful beside it.
pub(crate) struct Shelf {
    handful: Handful,
    thief: Thief<JobRef>,
    figures: CachePadded<Figures>,
}

/// Hints and counts: none of it decides whether a job is found.
struct Figures {
    /// May wrap below zero for an instant: a thief can meet a tombstone before it is counted.
    tombstones: AtomicUsize,
    pushed: AtomicU64,
    /// When the deque became non-empty or was last served by its owner or a thief.
    waiting_since_ns: AtomicU64,
}

/// The worker's own side of its deque.
pub(crate) struct Nest {
    owner: Owner<JobRef>,
    worker: usize,
    /// The place of the job pushed last.
    last_pushed: Cell<u64>,
    /// Room for a sweep, kept so that a sweep allocates at most when it is the largest so far.
    swept: RefCell<Vec<JobRef>>,
}

/// The deque of worker number `worker`.
pub(crate) fn nest(worker: usize) -> (Nest, Shelf) {
    let (owner, thief) = deque();
    let figures = CachePadded::new(Figures {
        tombstones: AtomicUsize::new(0),
        pushed: AtomicU64::new(0),
        waiting_since_ns: AtomicU64::new(NEVER),
    });
    let last_pushed = Cell::new(u64::MAX);
    (
        Nest { owner, worker, last_pushed, swept: RefCell::default() },
        Shelf { handful: Handful::new(), thief, figures },
    )
}

impl Shelf {
    pub(crate) fn is_empty(&self) -> bool {
        self.handful.is_empty() && self.thief.is_empty()
    }

    /// The jobs that the worker has taken from the lanes.
    #[inline]
    pub(crate) fn handful(&self) -> &Handful {
        &self.handful
    }

    /// Takes the oldest entry, which may be a tombstone.
    pub(crate) fn steal(&self, now_ns: u64) -> Option<JobRef> {
        let job = self.handful.steal().or_else(|| self.thief.steal())?;
        self.note_taken(&job, now_ns);
        Some(job)
    }

    /// Notes that an entry was taken; a tombstone serves nobody.
    #[inline]
    pub(crate) fn note_taken(&self, job: &JobRef, now_ns: u64) {
        if job.state().is_queued() {
            self.note_served(now_ns);
        }
    }

    /// How many jobs were ever pushed.
    pub(crate) fn pushed(&self) -> u64 {
        self.figures.pushed.load(Relaxed)
    }

    /// Notes that an entry has become a tombstone.
    pub(crate) fn note_tombstone(&self) {
        self.figures.tombstones.fetch_add(1, Relaxed);
    }

    /// Notes that a tombstone was taken out.
    pub(crate) fn note_burial(&self) {
        self.figures.tombstones.fetch_sub(1, Relaxed);
    }

    /// Whether jobs have waited here for an ageing bound.
    pub(crate) fn is_due(&self, now_ns: u64, bound_ns: u64) -> bool {
        due_at(self.figures.waiting_since_ns.load(Relaxed), bound_ns) <= now_ns && !self.is_empty()
    }

    /// The jobs in here wait from now on, or have been served.
    pub(crate) fn note_served(&self, now_ns: u64) {
        self.figures.waiting_since_ns.store(now_ns, Relaxed);
    }
}

impl Nest {
    /// Pushes a job, sweeping first if tombstones have piled up.
    pub(crate) fn push(&self, job: JobRef, shelf: &Shelf, now_ns: u64) {
        let waiting = self.owner.len();
        if waiting == 0 {
            shelf.note_served(now_ns);
        }
        self.sweep_if_due(waiting, shelf);
        // Only the owner writes it.
        let pushed = shelf.figures.pushed.load(Relaxed);
        shelf.figures.pushed.store(pushed + 1, Relaxed);
        let place = place_of(self.worker, pushed);
        self.last_pushed.set(place);
        job.set_place(place);
        self.owner.push(job);
    }

    /// Takes the newest entry, which may be a tombstone.
    #[inline]
    pub(crate) fn pop(&self) -> Option<JobRef> {
        self.owner.pop()
    }

    /// Takes the entry of a started or seized job out if it is the newest, else leaves it as a
    /// tombstone.
    ///
    /// The owner can't look at the newest without taking it, and an entry that is out for an instant
    /// may be missed by a worker that then goes to sleep. So it takes one only where that can be no
    /// other: thieves take the oldest first, so if the one pushed last is gone, all are.
    pub(crate) fn retract(&self, job: &JobRef, shelf: &Shelf) {
        if job.place() == self.last_pushed.get() {
            if let Some(newest) = self.owner.pop() {
                debug_assert!(newest.is_same(job), "an older entry outlived a newer one");
                return;
            }
        }
        shelf.note_tombstone();
    }

    fn sweep_if_due(&self, waiting: usize, shelf: &Shelf) {
        let tombstones = shelf.figures.tombstones.load(Relaxed) as isize;
        // Tombstones among `waiting` entries: more than half of them, and more than a few.
        if tombstones > (waiting / 2 + SPARE_TOMBSTONES) as isize {
            self.sweep(shelf);
        }
    }

    /// Takes all entries out and puts the live ones back in their order. Thieves may take some
    /// meanwhile, which is as good.
    #[cold]
    pub(crate) fn sweep(&self, shelf: &Shelf) {
        let mut swept = self.swept.borrow_mut();
        while let Some(job) = self.owner.pop() {
            if job.state().is_queued() {
                swept.push(job);
            } else {
                shelf.note_burial();
            }
        }
        while let Some(job) = swept.pop() {
            self.owner.push(job);
        }
    }
}

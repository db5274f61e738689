//! Jobs submitted from inside a body wait in their worker's own deque, where thieves find them.
//!
//! A job that is cancelled, or joined in place, while it lies in the middle of a deque can't be
//! taken out: its entry stays as a tombstone, a reference to a block whose body is gone. Each
//! deque counts its tombstones, and its owner sweeps them at a push once they are more than half of
//! the entries and [`SPARE_TOMBSTONES`] besides: so they are bounded, whatever a body does.

use std::cell::RefCell;

use crossbeam_utils::CachePadded;

use super::handful::Handful;
use super::newest::Newest;
use super::root::{Before, Root};
use crate::job::JobRef;
use crate::policy::ageing::{NEVER, due_at};
use crate::sync::stat::{AtomicU64 as Figure, AtomicUsize, Relaxed};
use crate::sync::{Owner, Thief, deque};

/// Tombstones a deque may have beyond half of its entries before it is swept.
const SPARE_TOMBSTONES: usize = 64;

/// A place in a deque has the top bit set, then the worker, then a number that wraps; one in a lane
/// is a number that never gets so far.
pub(super) type Place = u64;

const IN_DEQUE: u64 = 1 << 63;
const WORKER_SHIFT: u32 = 48;
const WORKER_MASK: u64 = (1 << (63 - WORKER_SHIFT)) - 1;
const NUMBER_MASK: u64 = (1 << WORKER_SHIFT) - 1;

fn place_of(worker: usize, number: u64) -> Place {
    IN_DEQUE | ((worker as u64) << WORKER_SHIFT) | (number & NUMBER_MASK)
}

/// Whether a place is in the same deque as `first`, and not before it.
#[inline]
pub(super) fn follows(place: Place, first: Place) -> bool {
    place >> WORKER_SHIFT == first >> WORKER_SHIFT && place >= first
}

/// Whether a place is in the same deque as `next`, and before it.
pub(super) fn is_earlier(place: Place, next: Place) -> bool {
    place >> WORKER_SHIFT == next >> WORKER_SHIFT && place < next
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
    root: CachePadded<Root>,
    figures: CachePadded<Figures>,
}

/// Hints and counts: none of it decides whether a job is found.
struct Figures {
    /// May wrap below zero for an instant: a thief can meet a tombstone before it is counted.
    tombstones: AtomicUsize,
    pushed: Figure,
    /// When the deque became non-empty or was last served by its owner or a thief.
    waiting_since_ns: Figure,
    /// The same of the handful, which the owner serves after the deque.
    in_hand_since_ns: Figure,
}

/// The worker's own side of its deque.
pub(crate) struct Nest {
    owner: Owner<JobRef>,
    worker: usize,
    newest: Newest,
    /// Room for a sweep, kept so that a sweep allocates at most when it is the largest so far.
    swept: RefCell<Vec<JobRef>>,
}

/// The deque of worker number `worker`.
pub(crate) fn nest(worker: usize) -> (Nest, Shelf) {
    let (owner, thief) = deque();
    let figures = CachePadded::new(Figures {
        tombstones: AtomicUsize::new(0),
        pushed: Figure::new(0),
        waiting_since_ns: Figure::new(NEVER),
        in_hand_since_ns: Figure::new(NEVER),
    });
    let root = CachePadded::new(Root::new(place_of(worker, 0)));
    (
        Nest { owner, worker, newest: Newest::new(), swept: RefCell::default() },
        Shelf { handful: Handful::new(), thief, root, figures },
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
        self.steal_from_hand(now_ns).or_else(|| self.steal_nested(now_ns))
    }

    fn steal_from_hand(&self, now_ns: u64) -> Option<JobRef> {
        let job = self.handful.steal()?;
        self.note_taken_from_hand(&job, now_ns);
        Some(job)
    }

    /// As [`steal`](Self::steal), from where jobs have waited for an ageing bound.
    pub(crate) fn steal_due(&self, now_ns: u64, bound_ns: u64) -> Option<JobRef> {
        let nested = || {
            let is_due = due_at(self.figures.waiting_since_ns.load(Relaxed), bound_ns) <= now_ns;
            if is_due && self.has_nested() { self.steal_nested(now_ns) } else { None }
        };
        self.steal_if_in_hand_for(bound_ns, now_ns).or_else(nested)
    }

    /// Takes the oldest job in hand if none was taken for so long.
    pub(crate) fn steal_if_in_hand_for(&self, bound_ns: u64, now_ns: u64) -> Option<JobRef> {
        let is_due = due_at(self.figures.in_hand_since_ns.load(Relaxed), bound_ns) <= now_ns;
        if is_due { self.steal_from_hand(now_ns) } else { None }
    }

    /// Whether there is something in the deque.
    pub(crate) fn has_nested(&self) -> bool {
        !self.thief.is_empty()
    }

    /// As [`steal`](Self::steal), from the deque alone.
    pub(crate) fn steal_nested(&self, now_ns: u64) -> Option<JobRef> {
        let job = self.thief.steal()?;
        self.note_taken(&job, now_ns);
        Some(job)
    }

    /// Whether the worker began this job at the bottom of its stack, with an empty deque, and no other
    /// since. A hint.
    pub(crate) fn is_root(&self, job: &JobRef) -> bool {
        self.root.is(job)
    }

    /// Whether an entry that was taken out of the deque descends from `job`, which is the root.
    pub(crate) fn descends(&self, entry: &JobRef, job: &JobRef) -> bool {
        self.root.is_above(entry, job)
    }

    /// Whether a job that its own worker runs on top of the root may descend from that.
    #[inline]
    pub(super) fn may_descend(&self, job: &JobRef) -> bool {
        self.root.may_be_above(job)
    }

    /// Notes that an entry was taken; a tombstone serves nobody.
    #[inline]
    pub(crate) fn note_taken(&self, job: &JobRef, now_ns: u64) {
        if job.state().is_queued() {
            self.note_served(now_ns);
        }
    }

    /// The same of an entry of the handful.
    #[inline]
    pub(crate) fn note_taken_from_hand(&self, job: &JobRef, now_ns: u64) {
        if job.state().is_queued() {
            self.note_in_hand(now_ns);
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

    /// The nested jobs wait from now on, or have been served.
    pub(crate) fn note_served(&self, now_ns: u64) {
        self.figures.waiting_since_ns.store(now_ns, Relaxed);
    }

    /// The jobs in hand wait from now on, or have been served.
    pub(crate) fn note_in_hand(&self, now_ns: u64) {
        self.figures.in_hand_since_ns.store(now_ns, Relaxed);
    }
}

impl Nest {
    /// A job begins of which what is pushed from now on descends, until it ends or another begins. To be
    /// called before it can push any.
    #[inline]
    pub(crate) fn begin_root(&self, job: &JobRef, shelf: &Shelf) {
        let job = self.owner.is_empty().then_some(job);
        shelf.root.begin(job, self.next_place(shelf));
    }

    /// The same for a job on top of the root's, which may not descend from that.
    pub(crate) fn begin_root_on_top(&self, job: &JobRef, shelf: &Shelf) -> Before {
        let before = shelf.root.before(self.next_place(shelf));
        self.begin_root(job, shelf);
        before
    }

    /// The job on top has ended. What it has left in the deque doesn't descend from the root.
    pub(crate) fn end_root_on_top(&self, before: &Before, shelf: &Shelf) {
        let is_clean = self.newest.is_before(before.next);
        shelf.root.end(before, (!is_clean).then(|| self.next_place(shelf)));
    }

    /// Where the next entry will be.
    #[inline]
    fn next_place(&self, shelf: &Shelf) -> Place {
        place_of(self.worker, shelf.figures.pushed.load(Relaxed))
    }

    /// Pushes a job that was taken out of another deque, to which its place still leads.
    pub(crate) fn push_adopted(&self, job: JobRef) {
        self.newest.pushed(job.place());
        self.owner.push(job);
    }

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
        self.newest.pushed(place);
        job.set_place(place);
        self.owner.push(job);
    }

    /// Takes the newest entry, which may be a tombstone.
    #[inline]
    pub(crate) fn pop(&self) -> Option<JobRef> {
        let job = self.owner.pop();
        match job {
            Some(_) => self.newest.popped(),
            None => self.newest.clear(),
        }
        job
    }

    /// Takes the entry of a started or seized job out if it is the newest, else leaves it as a
    /// tombstone.
    ///
    /// The owner can't look at the newest without taking it, and an entry that is out for an instant
    /// may be missed by a worker that then goes to sleep. So it takes one only where that can be no
    /// other, see [`Newest`].
    pub(crate) fn retract(&self, job: &JobRef, shelf: &Shelf) {
        if self.newest.is(job.place()) {
            if let Some(newest) = self.pop() {
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
        while let Some(job) = self.pop() {
            if job.state().is_queued() {
                swept.push(job);
            } else if home_of(&job) == Some(self.worker) {
                shelf.note_burial();
            }
        }
        while let Some(job) = swept.pop() {
            self.newest.pushed(job.place());
            self.owner.push(job);
        }
    }
}

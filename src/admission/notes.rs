//! Returns of slots that workers note for themselves, and that are taken off the word later, many at
//! once.
//!
//! Where jobs are very short, the cache line of the ledger's word travels between the threads that
//! take slots and the workers that return them, twice for each job. A worker that only notes its returns
//! on a line of its own leaves the word's line with who takes.
//!
//! Nothing of what the ledger promises may depend on it, so whoever would be told something else for
//! want of what is noted *takes it in* first. The protocol stands in this folder's README.

use crossbeam_utils::CachePadded;

use super::ledger::{Holder, Holding, Ledger};
use super::word::Word;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, fence};

/// So many a worker notes before it takes them in itself.
#[cfg(not(all(loom, feature = "loom")))]
const AT_MOST: u64 = 32;
#[cfg(all(loom, feature = "loom"))]
const AT_MOST: u64 = 2;

/// How returns are made: one of the three states, and above them how often it became [`NOTING`].
const STATE: u64 = 0b11;
/// All returns go to the word.
const PROMPT: u64 = 0;
/// Workers may note theirs.
const NOTING: u64 = 1;
/// As [`PROMPT`], but what was noted before is still being taken in.
const TURNING: u64 = 2;
const ROUND: u64 = STATE + 1;

/// A state, as it was seen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Mode(u64);

impl Mode {
    #[inline]
    pub(super) fn is_noting(self) -> bool {
        self.0 & STATE == NOTING
    }

    #[inline]
    pub(super) fn is_prompt(self) -> bool {
        self.0 & STATE == PROMPT
    }
}

pub(super) struct Notes {
    // Beside what the door reads with each take, and as seldom written.
    mode: AtomicU64,
    /// Held while the mode is changed and while notes are taken in: until they are off the word.
    turning: CachePadded<Mutex<()>>,
    /// One line for each worker; none if returns are never noted.
    noted: Box<[CachePadded<AtomicU64>]>,
}

/// Proof that the mode stays as it is, and that nobody else takes notes in.
pub(super) struct Turning<'a>(#[allow(dead_code)] MutexGuard<'a, ()>);

impl Notes {
    /// For so many workers; for none, all returns are prompt for ever. At first all are.
    pub(super) fn new(workers: usize) -> Self {
        Self {
            mode: AtomicU64::new(PROMPT),
            turning: CachePadded::new(Mutex::new(())),
            noted: (0..workers).map(|_| CachePadded::new(AtomicU64::new(0))).collect(),
        }
    }

    #[inline]
    pub(super) fn are_never_made(&self) -> bool {
        self.noted.is_empty()
    }

    /// How many returns may be noted at a time.
    pub(super) fn at_most(&self) -> usize {
        self.noted.len() * AT_MOST as usize
    }

    /// How returns are made now. Acquire pairs with the Release of the changes: who sees that returns are
    /// prompt also sees in the word what was noted before.
    #[inline]
    pub(super) fn mode(&self) -> Mode {
        if self.are_never_made() {
            return Mode(PROMPT);
        }
        Mode(self.mode.load(Ordering::Acquire))
    }

    /// Whether what the word says stands: all returns were prompt from `mode`, which was asked before the word
    /// was read, until now. If not, a slot may be back whose return was only noted.
    ///
    /// The fence pairs with the Release of [`Ledger::take`]: if a return was noted before the last slots were
    /// taken, this reads the mode as it was then, or later.
    #[inline]
    pub(super) fn stands(&self, mode: Mode) -> bool {
        if self.are_never_made() {
            return true;
        }
        fence(Ordering::Acquire);
        mode.is_prompt() && self.mode() == mode
    }

    /// A worker notes a return. True if it may stay noted; if not, it must
    /// [`take in`](Self::take_in) its notes.
    ///
    /// It adds first and looks at the mode second, [`turn_prompt`](Self::turn_prompt) changes the mode
    /// first and collects second. Adding and collecting are read-modify-writes on the same number: if
    /// this comes first, that finds the note, and if that does, its Release pairs with the Acquire
    /// here, and this sees the change. Without it the return of a job that has been joined could
    /// lie here while the ledger tells the joiner that it is full.
    #[inline]
    pub(super) fn add(&self, worker: usize) -> bool {
        let before = self.noted[worker].fetch_add(1, Ordering::AcqRel);
        self.mode().is_noting() && before + 1 < AT_MOST
    }

    /// Whether a worker has noted anything that nobody has taken in. Only its own thread adds to it.
    #[inline]
    pub(super) fn has(&self, worker: usize) -> bool {
        self.noted[worker].load(Ordering::Relaxed) != 0
    }

    pub(super) fn lock(&self) -> Turning<'_> {
        Turning(self.turning.lock())
    }

    /// What a worker has noted goes over to the caller, who takes it off the word while it holds the
    /// lock: else nobody would know of it for an instant.
    pub(super) fn take_in(&self, worker: usize, _: &Turning<'_>) -> u64 {
        // AcqRel: see `add`. And who takes one of these slots sees what its last job left behind.
        self.noted[worker].swap(0, Ordering::AcqRel)
    }

    /// The same of all workers.
    pub(super) fn take_in_all(&self, turning: &Turning<'_>) -> u64 {
        if !self.mode().is_noting() {
            return 0;
        }
        (0..self.noted.len()).map(|worker| self.take_in(worker, turning)).sum()
    }

    /// From now on all returns are prompt. `take_off` takes off the word what has been noted.
    pub(super) fn turn_prompt(&self, turning: &Turning<'_>, take_off: impl FnOnce(u64)) {
        let mode = self.mode();
        if !mode.is_noting() {
            return;
        }
        let round = mode.0 & !STATE;
        // Whoever meets this waits for the lock, since the word isn't right yet.
        self.mode.store(round | TURNING, Ordering::Release);
        take_off((0..self.noted.len()).map(|worker| self.take_in(worker, turning)).sum());
        self.mode.store(round | PROMPT, Ordering::Release);
    }

    /// Workers may note their returns from now on, if `may` says so, which is asked under the lock.
    pub(super) fn turn_noting(&self, _: &Turning<'_>, may: impl FnOnce() -> bool) {
        let mode = self.mode();
        if mode.is_prompt() && may() {
            self.mode.store((mode.0 | NOTING) + ROUND, Ordering::Release);
        }
    }
}

impl Ledger {
    /// Returns a plain slot of a job that `worker` has run, or notes its return. True if that was the
    /// last job and somebody listens for its end.
    #[inline]
    pub(super) fn return_by(&self, worker: usize, may_note: bool) -> bool {
        let is_noting = self.notes.mode().is_noting();
        if is_noting && (may_note || self.notes.has(worker)) {
            // The word isn't looked at: its line stays where it is.
            let stays = self.notes.add(worker) && may_note;
            return !stays && self.take_in_notes_of(worker);
        }
        let before = self.return_parts(Holding::default(), Holder::Job);
        if !is_noting && may_note && self.is_worth_noting(before) {
            self.begin_noting();
        }
        before.is_watched() && before.jobs() == 1
    }

    /// As [`return_by`](Self::return_by), of all that `worker` has noted.
    #[cold]
    fn take_in_notes_of(&self, worker: usize) -> bool {
        let (before, noted) = {
            let turning = self.notes.lock();
            let noted = self.notes.take_in(worker, &turning);
            (self.give_back_noted(noted), noted)
        };
        if before.has_waiters() {
            self.serve_waiters();
        }
        // If another thread has taken all of it in, nobody listened by then: whoever comes to listen makes
        // returns prompt first.
        noted > 0 && before.is_watched() && before.jobs() as u64 == noted
    }

    /// A worker that is about to sleep takes in what it has noted: it may be long until anybody else does,
    /// and [`in_flight_at_most`](Self::in_flight_at_most) is as much too high meanwhile.
    pub(crate) fn take_in_before_sleep(&self, worker: usize) {
        if !self.notes.are_never_made() && self.notes.has(worker) {
            let last = self.take_in_notes_of(worker);
            debug_assert!(!last, "whoever listens has taken them in");
        }
    }

    /// Takes in what all workers have noted, or waits for who is at it. Nobody listens for it, or all
    /// returns would be prompt.
    #[cold]
    pub(super) fn take_in_notes(&self) {
        let turning = self.notes.lock();
        self.give_back_noted(self.notes.take_in_all(&turning));
    }

    fn give_back_noted(&self, noted: u64) -> Word {
        if noted == 0 {
            self.guess()
        } else {
            self.give_back_word(noted * Holder::Job.amount(true))
        }
    }

    /// Does something while all returns are prompt, and none is noted elsewhere than in the word. What
    /// a return must see is changed in here alone.
    pub(super) fn promptly<R>(&self, f: impl FnOnce() -> R) -> R {
        if self.notes.are_never_made() {
            return f();
        }
        let turning = self.notes.lock();
        self.notes.turn_prompt(&turning, |noted| {
            self.give_back_noted(noted);
        });
        f()
    }

    /// Whether the pool is so far from its bounds, before one slot was returned, that it may be a while
    /// until somebody asks for what is noted.
    #[inline]
    fn is_worth_noting(&self, before: Word) -> bool {
        !self.notes.are_never_made()
            && !before.has_flags()
            && (before.in_flight() - 1) * 4 < self.ordinary_bound()
    }

    #[cold]
    fn begin_noting(&self) {
        let turning = self.notes.lock();
        // Whoever sets a flag does so under the lock, and makes returns prompt first: see `promptly`.
        self.notes.turn_noting(&turning, || !self.guess().has_flags());
    }
}

#[cfg(all(test, unix, not(miri), not(loom)))]
mod tests {
    use crate::pool::Pool;
    use crate::sync::stat::{Arc, AtomicUsize, Relaxed};
    use crate::sync::thread;
    use crate::test::ManualClock;

    /// Whoever held the lock at the fork is not there to release it.
    #[test]
    fn a_body_that_returns_in_a_child_waits_for_no_lock() {
        // By a clock that stands still jobs take no time, so their returns may be noted.
        let builder = Pool::builder().batch().workers(1).capacity(64).clock(ManualClock::new());
        let pool = builder.build().unwrap();
        (0..2).for_each(|_| pool.try_submit(|| ()).unwrap().join().unwrap());
        let ledger = &pool.core().ledger;
        // So the next return is one that asks for the lock.
        ledger.promptly(|| ());
        let held = ledger.notes.lock();
        let told = Arc::new(AtomicUsize::new(0));
        let tell = Arc::clone(&told);
        let body = move || {
            // SAFETY: the child returns from this body, which is all that it does.
            match unsafe { libc::fork() } {
                // SAFETY: the default action of the alarm ends the child, if it hangs.
                0 => drop(unsafe { libc::alarm(60) }),
                child => tell.store(child as usize, Relaxed),
            }
        };
        pool.try_spawn(body).unwrap();
        // Its own end waits for the lock, too.
        while told.load(Relaxed) == 0 {
            thread::yield_now();
        }
        let (child, mut status) = (told.load(Relaxed) as libc::pid_t, 0);
        // SAFETY: `status` is a valid place, and the child is ours to wait for.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        drop(held);
        assert!(libc::WIFEXITED(status), "the child hung");
        pool.wait_idle();
    }
}

//! The state word of a job. Every transition is a named method here, and nothing else writes it.
//!
//! ```text
//!  31                    8   7      6      5   4    2 1   0
//! ┌───────────────────────┬──────┬──────┬─────┬──────┬─────┐
//! │ references            │WAITER│HANDLE│ASKED│ end  │phase│
//! └───────────────────────┴──────┴──────┴─────┴──────┴─────┘
//! ```
//!
//! | phase | body | result | who owns body and result |
//! |---|---|---|---|
//! | `QUEUED` | present | - | nobody: the winner of the next transition |
//! | `RUNNING` | moved out, being called | written at its end | the thread that won [`State::start`] |
//! | `ENDING` | being dropped, never called | - | the thread that won [`State::seize`] |
//! | `DONE` | gone | present iff the end is `COMPLETED` or `PANICKED` and `HANDLE` is set | the handle |
//!
//! `QUEUED → RUNNING → DONE` and `QUEUED → ENDING → DONE` are the only ways. Both first steps are
//! compare-and-swaps from `QUEUED`, so exactly one thread wins; a loser touches neither the body
//! nor the slot. (Where only one thread can ever look, see [`is_sole`], they are stores, and the last step,
//! of which nobody could learn, is left out.)
//!
//! | bit | set | cleared | meaning |
//! |---|---|---|---|
//! | `ASKED` | [`State::cancel`] while running | never | the body is asked to stop |
//! | `HANDLE` | at birth, unless detached | [`State::drop_handle`] | somebody may want the result |
//! | `WAITER` | [`State::set_waiter`] | [`State::unset_waiter`], [`State::drop_handle`] | the waiter cell belongs to the publisher; clear: to the handle |
//! | end | [`State::publish`] | never | which [`Outcome`]; valid in `DONE` |
//! | references | birth, [`State::add_reference`] | [`State::release`], [`State::publish`] | queue entry or runner, handle, cancellers |

use crate::error::ShedReason;
use crate::sync::{AtomicU32, Ordering};

const PHASE: u32 = 0b11;
const QUEUED: u32 = 0;
const RUNNING: u32 = 1;
const ENDING: u32 = 2;
const DONE: u32 = 3;

const END_SHIFT: u32 = 2;
const END: u32 = 0b111 << END_SHIFT;

const ASKED: u32 = 1 << 5;
const HANDLE: u32 = 1 << 6;
const WAITER: u32 = 1 << 7;
const REFERENCE: u32 = 1 << 8;
/// As `Arc` does, stop the process long before the count could wrap.
const MAX_REFERENCES: u32 = 1 << 23;

/// The one way in which a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Completed,
    Panicked,
    Cancelled,
    Discarded,
    Shed(ShedReason),
}

impl Outcome {
    fn to_bits(self) -> u32 {
        let end = match self {
            Self::Completed => 0,
            Self::Panicked => 1,
            Self::Cancelled => 2,
            Self::Discarded => 3,
            Self::Shed(ShedReason::QueueDelay) => 4,
            Self::Shed(ShedReason::Deadline) => 5,
            Self::Shed(ShedReason::Displaced) => 6,
        };
        end << END_SHIFT
    }

    fn from_bits(word: u32) -> Self {
        match (word & END) >> END_SHIFT {
            0 => Self::Completed,
            1 => Self::Panicked,
            2 => Self::Cancelled,
            3 => Self::Discarded,
            4 => Self::Shed(ShedReason::QueueDelay),
            5 => Self::Shed(ShedReason::Deadline),
            _ => Self::Shed(ShedReason::Displaced),
        }
    }
}

/// The job is not queued any more: somebody else runs it or ends it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotQueued;

/// The job is done: its outcome is published.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Done;

/// What a request to cancel met.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CancelOutcome {
    /// The caller won the job and must end it.
    Seized,
    /// The job runs; it is asked to stop.
    Asked,
    /// The job has ended, or another thread is ending it.
    TooLate,
}

/// What the publisher of an outcome is left with.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Published {
    /// Nothing: its reference is gone, others remain.
    Released,
    /// The block itself: its reference was the last and there is no result.
    Last,
    /// Its reference, and the waiter cell: it wakes who is in there, then releases.
    WakeWaiter,
    /// Everything still, and the result, which nobody wants: nothing is published yet. It drops
    /// or takes the result, then publishes without.
    Unwanted,
}

/// What the handle is left with when it goes.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HandleGone {
    /// Nothing: the job goes on. `waiter`: it got its waiter cell back and must empty it.
    BeforeEnd { waiter: bool },
    /// The result, if the outcome has one and it was not taken. The reference is still held.
    AfterEnd(Outcome),
}

/// Whether the caller, who holds a reference, is the only one who can ever look at the word again:
/// then it needs no read-modify-write, and nobody is there to publish to. Most detached jobs are so all
/// their life.
///
/// The word was loaded with Acquire, which pairs with the Release of [`State::release`] and
/// [`State::drop_handle`]: what others did with the block comes before what the caller does. References are only made from
/// references, so a count of one that is one's own stays so.
#[inline]
fn is_sole(word: u32) -> bool {
    word & HANDLE == 0 && word / REFERENCE == 1
}

/// The state word.
pub(crate) struct State(AtomicU32);

impl State {
    /// A queued job: one reference for its queue entry, one more for its handle if it has one.
    pub(crate) fn new(with_handle: bool) -> Self {
        let of_handle = if with_handle { HANDLE + REFERENCE } else { 0 };
        Self(AtomicU32::new(QUEUED + REFERENCE + of_handle))
    }

    /// `QUEUED → RUNNING`: the winner owns the body.
    ///
    /// `AcqRel`: Acquire pairs with the handle's and cancellers' writes to this word. The body was
    /// written before the entry was pushed, and is made visible by the queue's own edge; to a joiner
    /// or canceller, who took no entry, by whatever brought the handle from the submitting thread.
    pub(crate) fn start(&self) -> Result<(), NotQueued> {
        self.leave_queue(RUNNING)
    }

    /// `QUEUED → ENDING`: the winner owns the body and must not call it.
    pub(crate) fn seize(&self) -> Result<(), NotQueued> {
        self.leave_queue(ENDING)
    }

    #[inline]
    fn leave_queue(&self, phase: u32) -> Result<(), NotQueued> {
        // Acquire: see `is_sole`.
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            if word & PHASE != QUEUED {
                return Err(NotQueued);
            }
            if is_sole(word) {
                self.0.store(word | phase, Ordering::Relaxed);
                return Ok(());
            }
            match self.0.compare_exchange_weak(
                word,
                word | phase,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Ok(()),
                Err(current) => word = current,
            }
        }
    }

    /// Seizes a queued job, or asks a running one to stop.
    pub(crate) fn cancel(&self) -> CancelOutcome {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let (next, outcome) = match word & PHASE {
                QUEUED => (word | ENDING, CancelOutcome::Seized),
                RUNNING if word & ASKED == 0 => (word | ASKED, CancelOutcome::Asked),
                RUNNING => return CancelOutcome::Asked,
                _ => return CancelOutcome::TooLate,
            };
            match self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return outcome,
                Err(current) => word = current,
            }
        }
    }

    /// Whether the body is asked to stop. Relaxed: it is a hint and carries no data.
    pub(crate) fn is_asked_to_stop(&self) -> bool {
        self.0.load(Ordering::Relaxed) & ASKED != 0
    }

    /// Whether nobody will ask for the result. Acquire pairs with [`State::drop_handle`].
    pub(crate) fn is_detached(&self) -> bool {
        self.0.load(Ordering::Acquire) & HANDLE == 0
    }

    /// Whether a worker may still find it in a queue alive.
    pub(crate) fn is_queued(&self) -> bool {
        self.0.load(Ordering::Relaxed) & PHASE == QUEUED
    }

    /// The outcome once it is published. Acquire pairs with [`State::publish`]: who reads it also
    /// sees the result and that the slot is back.
    #[inline]
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        let word = self.0.load(Ordering::Acquire);
        (word & PHASE == DONE).then(|| Outcome::from_bits(word))
    }

    /// `RUNNING | ENDING → DONE`, releasing the caller's reference in the same step if nothing is
    /// left to do. `has_result`: the block holds a result or a panic's payload.
    ///
    /// Release makes the result visible to [`State::outcome`]; Acquire pairs with
    /// [`State::set_waiter`], whose waiter the publisher is about to read.
    #[inline(always)]
    pub(crate) fn publish(&self, outcome: Outcome, has_result: bool) -> Published {
        // Acquire: see `is_sole`.
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            debug_assert!(matches!(word & PHASE, RUNNING | ENDING), "published twice: {word:#x}");
            // Whoever reads that it is done must not meet a result on its way out.
            if word & HANDLE == 0 && has_result {
                return Published::Unwanted;
            }
            if is_sole(word) {
                return Published::Last;
            }
            let mut next = word | DONE | outcome.to_bits();
            let published = if word & WAITER != 0 {
                Published::WakeWaiter
            } else {
                next -= REFERENCE;
                if next < REFERENCE { Published::Last } else { Published::Released }
            };
            match self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return published,
                Err(current) => word = current,
            }
        }
    }

    /// Hands the waiter cell, which the handle has just filled, to the publisher.
    ///
    /// Release pairs with [`State::publish`]. On failure the cell stays the handle's.
    pub(crate) fn set_waiter(&self) -> Result<(), Done> {
        self.change_waiter(|word| word | WAITER)
    }

    /// Takes the waiter cell back. On failure it is the publisher's for good.
    pub(crate) fn unset_waiter(&self) -> Result<(), Done> {
        self.change_waiter(|word| word & !WAITER)
    }

    fn change_waiter(&self, change: impl Fn(u32) -> u32) -> Result<(), Done> {
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            if word & PHASE == DONE {
                return Err(Done);
            }
            match self.0.compare_exchange_weak(
                word,
                change(word),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Ok(()),
                Err(current) => word = current,
            }
        }
    }

    /// Whether the waiter cell is the publisher's. Only the handle's owner asks, and only it sets
    /// the bit, so Relaxed reads its own writes.
    pub(crate) fn has_waiter(&self) -> bool {
        self.0.load(Ordering::Relaxed) & WAITER != 0
    }

    /// The handle goes. Its reference stays with the caller, who releases it when it has done
    /// what the answer asks for.
    pub(crate) fn drop_handle(&self) -> HandleGone {
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            if word & PHASE == DONE {
                return HandleGone::AfterEnd(Outcome::from_bits(word));
            }
            let next = word & !(HANDLE | WAITER);
            match self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return HandleGone::BeforeEnd { waiter: word & WAITER != 0 },
                Err(current) => word = current,
            }
        }
    }

    /// One more reference, made from one that is held: Relaxed, as in `Arc`.
    pub(crate) fn add_reference(&self) {
        let before = self.0.fetch_add(REFERENCE, Ordering::Relaxed);
        if before / REFERENCE >= MAX_REFERENCES {
            std::process::abort();
        }
    }

    /// Gives one reference back; true if it was the last, and the block is the caller's to free.
    ///
    /// Release on each, Acquire on the last: all uses of the block come before its end. (A load and
    /// not a fence, which would do as well, since ThreadSanitizer doesn't understand fences.)
    ///
    /// The holder of the only reference looks and writes nothing. Whoever joins many jobs is that, and
    /// a locked instruction in each join would keep the processor from looking ahead to the next one,
    /// whose line is with the core that ran it.
    #[inline]
    pub(crate) fn release(&self) -> bool {
        // Acquire: see `is_sole`; it matters not whether the handle's bit is still set, since nobody
        // but the caller can look at it.
        if self.0.load(Ordering::Acquire) / REFERENCE == 1 {
            return true;
        }
        let before = self.0.fetch_sub(REFERENCE, Ordering::Release);
        debug_assert!(before >= REFERENCE);
        let last = before / REFERENCE == 1;
        if last {
            self.0.load(Ordering::Acquire);
        }
        last
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = self.0.load(Ordering::Relaxed);
        let phase = match word & PHASE {
            QUEUED => "queued",
            RUNNING => "running",
            ENDING => "ending",
            _ => "done",
        };
        let mut state = f.debug_struct("State");
        state.field("phase", &phase);
        if word & PHASE == DONE {
            state.field("end", &Outcome::from_bits(word));
        }
        state
            .field("asked_to_stop", &(word & ASKED != 0))
            .field("handle", &(word & HANDLE != 0))
            .field("waiter", &(word & WAITER != 0))
            .field("references", &(word / REFERENCE))
            .finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_leaves_the_queue() {
        let state = State::new(true);
        assert_eq!(state.start(), Ok(()));
        assert_eq!(state.seize(), Err(NotQueued));
        assert_eq!(state.start(), Err(NotQueued));
        assert_eq!(state.cancel(), CancelOutcome::Asked);
        assert!(state.is_asked_to_stop());
        assert_eq!(state.publish(Outcome::Completed, true), Published::Released);
        assert_eq!(state.cancel(), CancelOutcome::TooLate);
        assert_eq!(state.outcome(), Some(Outcome::Completed));
        assert!(state.release());
    }

    #[test]
    fn the_outcome_survives_the_bits_around_it() {
        use ShedReason::{Deadline, Displaced, QueueDelay};
        for outcome in [
            Outcome::Cancelled,
            Outcome::Discarded,
            Outcome::Shed(QueueDelay),
            Outcome::Shed(Deadline),
            Outcome::Shed(Displaced),
        ] {
            let state = State::new(true);
            state.seize().unwrap();
            assert_eq!(state.publish(outcome, false), Published::Released);
            assert_eq!(state.outcome(), Some(outcome));
            assert_eq!(state.drop_handle(), HandleGone::AfterEnd(outcome));
        }
    }

    #[test]
    fn a_detached_job_without_result_is_freed_by_its_publisher() {
        let state = State::new(false);
        state.seize().unwrap();
        assert_eq!(state.publish(Outcome::Cancelled, false), Published::Last);
    }

    #[test]
    fn an_unwanted_result_is_the_publishers() {
        let state = State::new(true);
        state.start().unwrap();
        assert_eq!(state.drop_handle(), HandleGone::BeforeEnd { waiter: false });
        assert!(!state.release());
        assert!(state.is_detached());
        assert_eq!(state.publish(Outcome::Panicked, true), Published::Unwanted);
        assert_eq!(state.outcome(), None);
        assert_eq!(state.publish(Outcome::Panicked, false), Published::Last);
    }

    #[test]
    fn the_waiter_cell_changes_hands() {
        let state = State::new(true);
        state.start().unwrap();
        assert_eq!(state.set_waiter(), Ok(()));
        assert!(state.has_waiter());
        assert_eq!(state.unset_waiter(), Ok(()));
        assert_eq!(state.set_waiter(), Ok(()));
        assert_eq!(state.publish(Outcome::Completed, true), Published::WakeWaiter);
        assert_eq!(state.unset_waiter(), Err(Done));
    }
}

//! A worker runs a job on top of the body that joins it.

use super::Worker;
use crate::error::ShedReason;
use crate::job::{JobRef, Outcome};
use crate::schedule::nested;
use crate::schedule::root::Before;
use crate::sync::Arc;

/// What became of an attempt to run a job in place.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum InPlace {
    /// It has ended, one way or the other.
    Ended,
    /// It is not queued: somebody else runs it or has ended it.
    Elsewhere,
    /// The stack is nearly used up.
    TooDeep,
}

impl Worker {
    /// Runs a queued job here and now, on top of the present body, for a join.
    ///
    /// # Panics
    /// If the job is one that this thread is running: the join would wait for itself.
    fn run_in_place(&self, job: &JobRef) -> InPlace {
        assert!(!self.is_running(job), "a job can't join itself, nor one that waits for it");
        if !job.state().is_queued() {
            return InPlace::Elsewhere;
        }
        if !self.is_stack_ample() {
            return InPlace::TooDeep;
        }
        self.run_won(job)
    }

    /// Whether there is room for one more body.
    pub(in crate::schedule) fn is_stack_ample(&self) -> bool {
        self.stack.remaining() >= self.stack.reserve()
    }

    /// Whether the job's body is on this thread's stack.
    fn is_running(&self, job: &JobRef) -> bool {
        let mut next = self.body.get();
        // SAFETY: each body is a local of the call of `run` that put it on this thread's stack, and that
        // call has not returned: before it does, it sets the top back to the body below.
        while let Some(body) = unsafe { next.as_ref() } {
            if body.job == job.view() {
                return true;
            }
            next = body.parent;
        }
        false
    }

    /// Runs a queued job in place for a scope that can't return before, out of the stack's reserve
    /// if need be; wakes a peer before the caller blocks.
    pub(crate) fn finish_in_place(&self, job: &JobRef) {
        if !job.state().is_queued() || self.run_won(job) == InPlace::Elsewhere {
            self.wake_peer();
        }
    }

    /// Runs a job in place unless somebody else has won it.
    fn run_won(&self, job: &JobRef) -> InPlace {
        let now_ns = self.core.time.now_ns();
        if job.deadline_ns() <= now_ns {
            let Ok(seized) = job.another().seize() else { return InPlace::Elsewhere };
            self.retract(job);
            let expired = Outcome::Shed(ShedReason::Deadline);
            self.core.end_seized(seized, expired, self.counted());
            return InPlace::Ended;
        }
        let Ok(running) = job.another().start() else { return InPlace::Elsewhere };
        self.retract(job);
        if self.shelf().may_descend(job) {
            self.run(running, now_ns);
        } else {
            let before = self.begin_on_top(job);
            self.run(running, now_ns);
            self.end_on_top(&before);
        }
        InPlace::Ended
    }

    /// A job begins on top of the root's, which may not descend from that.
    pub(in crate::schedule) fn begin_on_top(&self, job: &JobRef) -> Before {
        self.nest.begin_root_on_top(job, self.shelf())
    }

    /// It has ended: what it has left in the deque doesn't descend from the root either.
    pub(in crate::schedule) fn end_on_top(&self, before: &Before) {
        self.nest.end_root_on_top(before, self.shelf());
    }

    /// Whether the job belongs to this worker's pool.
    pub(crate) fn core_is_owner_of(&self, job: &JobRef) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.core), job.owner().cast().as_ptr())
    }

    /// Runs a queued job in place; before the caller blocks for one that isn't, a peer is woken
    /// for what this worker would have run next.
    pub(crate) fn join_in_place(&self, job: &JobRef) -> InPlace {
        let in_place = self.run_in_place(job);
        if in_place == InPlace::Elsewhere {
            self.wake_peer();
            self.help(job);
        }
        in_place
    }

    /// What this worker would run next must not wait for it while it blocks.
    pub(super) fn wake_peer(&self) {
        if self.core.has_work() {
            self.core.sleep.notify(|| self.lanes().queued());
        }
    }

    /// Takes a won job's entry out of whatever queue it is in.
    fn retract(&self, job: &JobRef) {
        if nested::home_of(job) == Some(self.index) {
            self.nest.retract(job, self.shelf());
        } else {
            self.core.retract(job);
        }
    }

    /// Queues a job that was taken out of another worker's deque.
    pub(in crate::schedule) fn adopt(&self, job: JobRef) {
        self.nest.push_adopted(job);
        self.core.announce();
    }
}

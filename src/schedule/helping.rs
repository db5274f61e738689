//! What a worker does while a body on its stack joins a job that another worker runs.
//!
//! To wait would waste a core: in an uneven tree the one who joins would idle for a fifth of the
//! time. So it runs descendants of the joined job, which that has to wait for itself ("leapfrogging",
//! Wagner and Calder 1993), and nothing else: a stranger could want a lock that the waiting body
//! holds, or take hours.
//!
//! Which jobs are descendants, nothing in a job says. But each worker publishes from which job the
//! entries of its deque descend, see [`root`](super::root).

use super::nested::Shelf;
use super::worker::Worker;
use crate::job::JobRef;
use crate::sync::look_until;

impl Worker {
    /// Runs descendants of a job that runs elsewhere until it has ended, or for as long as there are
    /// some.
    #[cold]
    pub(super) fn help(&self, job: &JobRef) {
        let Some(runner) = self.shelves().iter().find(|shelf| shelf.is_root(job)) else { return };
        let has_ended = || job.state().outcome().is_some();
        let is_worthwhile = || runner.has_nested() || has_ended();
        while (is_worthwhile() || look_until(is_worthwhile)) && !has_ended() {
            if !self.is_stack_ample() || !self.help_once(job, runner) {
                return;
            }
        }
    }

    /// Takes and runs one job of the runner; false if that was no descendant, or there was none.
    fn help_once(&self, job: &JobRef, runner: &Shelf) -> bool {
        let now_ns = self.core().time.now_ns();
        let Some(next) = runner.steal_nested(now_ns) else { return true };
        if !next.state().is_queued() {
            self.core().bury(next);
            return true;
        }
        // In this order: the root is looked at when the job is in hand, see above. And a job that has
        // ended is waited for by nobody: what its destructors push is no part of it.
        let descends = runner.descends(&next, job) && job.state().outcome().is_none();
        if descends && next.is_awaited() {
            // Who joins what runs here can help in turn.
            let before = self.begin_on_top(&next);
            self.take_up(next.into(), now_ns);
            self.end_on_top(&before);
            return true;
        }
        // To whoever is free. It was out of sight for an instant, so it is pushed like a new one.
        self.adopt(next);
        false
    }
}

//! What a worker takes next.

use super::Worker;
use crate::job::JobRef;
use crate::policy::ageing::PICKS_PER_TURN;
use crate::priority::Priority;
use crate::schedule::handful::worth_taking;
use crate::schedule::lanes::Taken;
use crate::schedule::nested::{self, Shelf};

/// Every so many picks the oldest comes first, not the newest: two jobs that submit each other for
/// ever must not starve what lies below them, or in the lane.
const FAIR_EVERY: u32 = 32;

/// A job that has been in a hand for longer than this is behind one that was not short: whether it has
/// waited too long is asked again,
const JUDGED_FOR_NS: u64 = 100_000;
/// and every so many times other workers take such a job rather than what came to the lane after it.
const STALE_HANDS_EVERY: u32 = 8;

impl Worker {
    /// The next entry to take up, which may be a tombstone. What has waited too long comes first.
    pub(super) fn pick(&self, now_ns: u64) -> Option<Taken> {
        self.picks.set(self.picks.get().wrapping_add(1));
        let due = self.pick_due(now_ns);
        // One that is shed has not been served; the next may be.
        let is_run = |taken: &Taken| !taken.overdue && taken.job.deadline_ns() > now_ns;
        let served = due.as_ref().is_some_and(is_run);
        self.turns.picked(served);
        due.or_else(|| self.pick_in_order(now_ns))
    }

    /// What has waited for an ageing bound, if it is this worker's turn to serve such.
    fn pick_due(&self, now_ns: u64) -> Option<Taken> {
        if !self.turns.may_serve_due() {
            return None;
        }
        if self.lanes().has_due(now_ns) {
            // What it has in hand is older than what waits in the normal lane.
            let but = (!self.shelf().handful().is_empty()).then_some(Priority::Normal);
            if let Some(taken) = self.lanes().take_due(but, now_ns) {
                return Some(taken);
            }
        }
        if !self.looks_for_due_shelves() {
            return None;
        }
        let mut shelves = self.core.shelves.iter();
        let due = shelves.find_map(|shelf| self.steal_due_live(shelf, now_ns));
        due.map(|job| self.stolen(job, now_ns))
    }

    /// Nested jobs wait behind the lanes, too, and what is in hand behind the nested ones. Looking at
    /// every deque costs, so beside a flood of their own class only every so often.
    fn looks_for_due_shelves(&self) -> bool {
        let occupied = self.lanes().occupied();
        occupied.at_least(Priority::High)
            || self.picks.get() % PICKS_PER_TURN == 0
                && (occupied.any() || !self.shelf().handful().is_empty())
    }

    /// The oldest entry that is due on a shelf and isn't a tombstone.
    fn steal_due_live(&self, shelf: &Shelf, now_ns: u64) -> Option<JobRef> {
        let bound_ns = self.core.settings.ageing_bound_ns;
        loop {
            let job = shelf.steal_due(now_ns, bound_ns)?;
            if job.state().is_queued() {
                return Some(job);
            }
            self.core.bury(job);
        }
    }

    /// Upper lanes, own deque (newest first), normal lane, other deques (oldest first), low lane.
    fn pick_in_order(&self, now_ns: u64) -> Option<Taken> {
        if let Some(urgent) = self.lanes().take(Priority::High, now_ns) {
            return Some(urgent);
        }
        if self.picks.get() % FAIR_EVERY == 0 {
            if let Some(oldest) = self.pick_oldest(now_ns) {
                return Some(oldest);
            }
        }
        let newest = self.pick_newest(now_ns).map(Taken::from);
        newest
            .or_else(|| self.pick_normal(now_ns))
            .or_else(|| self.steal(now_ns))
            .or_else(|| self.lanes().take(Priority::Low, now_ns))
    }

    /// The next of the normal lane, of which a worker takes a handful at a time if jobs are very short.
    #[inline]
    fn pick_normal(&self, now_ns: u64) -> Option<Taken> {
        let handful = self.shelf().handful();
        if let Some(job) = handful.next(&self.next_in_hand) {
            self.shelf().note_taken_from_hand(&job, now_ns);
            let in_hand_ns = now_ns.saturating_sub(self.stowed_ns.get());
            let is_judged = in_hand_ns <= JUDGED_FOR_NS;
            return Some(if is_judged { job.into() } else { self.judge_again(job, now_ns) });
        }
        self.lane_visits.set(self.lane_visits.get().wrapping_add(1));
        if self.lane_visits.get() % STALE_HANDS_EVERY == 0 {
            if let Some(older) = self.steal_from_stale_hand(now_ns) {
                return Some(older);
            }
        }
        let most = worth_taking(self.core.pressure.mean_service_ns());
        let mut stowed = 0;
        let first = self.lanes().take_several(Priority::Normal, now_ns, most, |job| {
            handful.put(stowed, job);
            stowed += 1;
        });
        if stowed > 0 {
            self.next_in_hand.set(0);
            self.stowed_ns.set(now_ns);
            self.shelf().note_in_hand(now_ns);
        }
        first
    }

    /// The oldest job in the hand of a worker that hasn't come to it for long.
    #[cold]
    fn steal_from_stale_hand(&self, now_ns: u64) -> Option<Taken> {
        let mut shelves = self.core.shelves.iter();
        let job = shelves.find_map(|shelf| shelf.steal_if_in_hand_for(JUDGED_FOR_NS, now_ns))?;
        Some(self.judge_again(job, now_ns))
    }

    /// A job of the lanes that was in a hand: it may have waited since behind one that was not short.
    #[cold]
    fn judge_again(&self, job: JobRef, now_ns: u64) -> Taken {
        let overdue = self.lanes().is_overdue(&job, now_ns);
        Taken { job, overdue }
    }

    /// What was stolen: a job that was submitted inside, which nobody judges, or one out of a hand.
    fn stolen(&self, job: JobRef, now_ns: u64) -> Taken {
        match nested::home_of(&job) {
            Some(_) => Taken::from(job),
            None => self.judge_again(job, now_ns),
        }
    }

    #[inline]
    fn pick_newest(&self, now_ns: u64) -> Option<JobRef> {
        let job = self.nest.pop()?;
        self.shelf().note_taken(&job, now_ns);
        Some(job)
    }

    /// The lane, the bottom of the own deque, and the bottom of another in turn.
    fn pick_oldest(&self, now_ns: u64) -> Option<Taken> {
        match (self.picks.get() / FAIR_EVERY) % 3 {
            0 => self.pick_normal(now_ns),
            // Of the deque alone: what is in hand has had its turn.
            1 => self.shelf().steal_nested(now_ns).map(Taken::from),
            _ => self.steal(now_ns),
        }
    }

    /// The oldest entry of some other worker's deque, from a random one on.
    fn steal(&self, now_ns: u64) -> Option<Taken> {
        let shelves = &self.core.shelves;
        if shelves.len() == 1 {
            return None;
        }
        let start = self.random.borrow_mut().usize(..shelves.len());
        (0..shelves.len())
            .map(|offset| (start + offset) % shelves.len())
            .filter(|&victim| victim != self.index)
            .find_map(|victim| shelves[victim].steal(now_ns))
            .map(|job| self.stolen(job, now_ns))
    }
}

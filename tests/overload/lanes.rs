//! The four lanes, as numbers: what waits, in which order it is taken, and who gives way.

use std::collections::VecDeque;

use crate::load::{Arrival, Priority};
use crate::policy::ageing::{NEVER, Turns, due_at};

/// One job that waits; `number` is its record's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    pub(crate) number: usize,
    pub(crate) arrival: Arrival,
    /// Taken because its lane had waited for an ageing bound.
    pub(crate) due: bool,
    /// The last of a lane that had waited for an ageing bound.
    pub(crate) last_of_due: bool,
}

pub(crate) struct Lanes {
    lanes: [Lane; 4],
    ageing_bound_ns: u64,
    queued: usize,
    /// No lane is due before this moment.
    look_again_ns: u64,
}

struct Lane {
    jobs: VecDeque<(usize, Arrival)>,
    /// As many as there are jobs; asked so often that it pays to keep it.
    queued: usize,
    /// Since it became non-empty, or was last served; [`NEVER`] while it is empty.
    waiting_since_ns: u64,
}

impl Lanes {
    pub(crate) fn new(ageing_bound_ns: u64) -> Self {
        let empty = |_| Lane { jobs: VecDeque::new(), queued: 0, waiting_since_ns: NEVER };
        Self { lanes: std::array::from_fn(empty), ageing_bound_ns, queued: 0, look_again_ns: 0 }
    }

    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// How many of this class and above wait.
    pub(crate) fn queued_from(&self, priority: Priority) -> usize {
        match priority {
            Priority::Low => self.queued,
            Priority::Normal => self.queued - self.lanes[0].queued,
            Priority::High => self.lanes[2].queued + self.lanes[3].queued,
            Priority::Critical => self.lanes[3].queued,
        }
    }

    pub(crate) fn push(&mut self, number: usize, arrival: Arrival) {
        let lane = &mut self.lanes[arrival.priority as usize];
        if lane.queued == 0 {
            lane.waiting_since_ns = arrival.at_ns;
        }
        lane.jobs.push_back((number, arrival));
        lane.queued += 1;
        self.queued += 1;
    }

    /// What a worker takes up next: the lane that has been due for longest, else the highest.
    pub(crate) fn take(&mut self, turns: &mut Turns, now_ns: u64) -> Option<Queued> {
        if self.queued == 0 {
            return None;
        }
        let looks = now_ns >= self.look_again_ns && turns.may_serve_due();
        let due = if looks { self.due_lane(now_ns) } else { None };
        let at = due.or_else(|| self.highest())?;
        let lane = &mut self.lanes[at];
        let (number, arrival) = lane.jobs.pop_front()?;
        lane.queued -= 1;
        self.queued -= 1;
        let last_of_due = due.is_some() && lane.queued == 0;
        Some(Queued { number, arrival, due: due.is_some(), last_of_due })
    }

    /// What was taken is run, or not: only then is its lane served.
    pub(crate) fn taken(&mut self, turns: &mut Turns, queued: &Queued, runs: bool, now_ns: u64) {
        turns.picked(queued.due && runs);
        let lane = &mut self.lanes[queued.arrival.priority as usize];
        if lane.queued == 0 {
            lane.waiting_since_ns = NEVER;
        } else if runs {
            lane.waiting_since_ns = now_ns;
        }
    }

    // No iterators in here: unoptimized they take a third of the simulator's time.
    fn highest(&self) -> Option<usize> {
        match &self.lanes {
            [.., critical] if critical.queued > 0 => Some(3),
            [.., high, _] if high.queued > 0 => Some(2),
            [_, normal, ..] if normal.queued > 0 => Some(1),
            [low, ..] => (low.queued > 0).then_some(0),
        }
    }

    /// The lane that has waited for longest, if that is an ageing bound.
    fn due_lane(&mut self, now_ns: u64) -> Option<usize> {
        let since = self.lanes.iter().map(|lane| lane.waiting_since_ns).enumerate();
        let (longest, since_ns) = since.min_by_key(|&(_, since_ns)| since_ns)?;
        let due_ns = due_at(since_ns, self.ageing_bound_ns);
        // Whoever begins to wait later is due later.
        self.look_again_ns = due_ns.min(due_at(now_ns, self.ageing_bound_ns));
        (due_ns <= now_ns).then_some(longest)
    }

    /// The newest Low job, else the newest Normal one, in favour of a Critical one.
    pub(crate) fn take_victim(&mut self) -> Option<usize> {
        let mut below_high = self.lanes[..Priority::High as usize].iter_mut();
        let lane = below_high.find(|lane| lane.queued > 0)?;
        let (number, _) = lane.jobs.pop_back()?;
        lane.queued -= 1;
        if lane.queued == 0 {
            lane.waiting_since_ns = NEVER;
        }
        self.queued -= 1;
        Some(number)
    }
}

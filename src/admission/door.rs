//! The one function that asks all the checks, in the order in which they are reported.

use super::ledger::{Claim, Holding, Ledger, NoSlot};
use super::partition;
use super::pressure::Pressure;
use crate::error::Reason;
use crate::priority::{Class, Priority};
use crate::sense::clock::{NO_DEADLINE, Timeline};
use crate::sense::fork::Generation;

/// What the door needs to know of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) priority: Priority,
    pub(crate) class: Class,
    pub(crate) deadline_ns: u64,
    pub(crate) partition: Option<Membership>,
    pub(crate) bytes: u64,
    pub(crate) checks: Checks,
}

impl Ask {
    /// Of a job that asks for nothing but a slot, as most do.
    #[inline]
    pub(crate) fn plain(priority: Priority, checks: Checks) -> Self {
        let (class, deadline_ns) = (Class(0), NO_DEADLINE);
        Self { priority, class, deadline_ns, partition: None, bytes: 0, checks }
    }

    /// Whether the door has nothing to ask of it but its priority and what it is exempt from.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.deadline_ns == NO_DEADLINE && self.partition.is_none() && self.bytes == 0
    }

    /// What a job that asks so holds beyond its slot, once it has one.
    #[inline]
    pub(crate) fn holding(&self) -> Holding {
        let partition = match self.partition {
            Some(Membership::Of(index)) => Some(index),
            // It is refused.
            Some(Membership::Foreign) | None => None,
        };
        Holding { partition, bytes: self.bytes }
    }
}

/// Which of the checks of time and CPU a job meets. Critical work meets none of them anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Checks {
    /// None: its work has begun already, inside a body, or it has waited for its slot.
    Bounds,
    /// The queue delay: it is ready to wait, and so for the CPU as well.
    Delay,
    /// All.
    All,
}

/// The partition that was named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    Of(partition::Index),
    /// It is one of another pool.
    Foreign,
}

/// The door of one pool.
#[derive(Clone, Copy)]
pub(crate) struct Door<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) pressure: &'a Pressure,
    pub(crate) time: &'a Timeline,
    pub(crate) born: Generation,
    /// Whether deadlines are compared with the predicted wait.
    pub(crate) predicts: bool,
    /// Whether the CPU gate has its say also where nothing is in flight.
    pub(crate) gate_always: bool,
    /// Whether the CPU gate has its say only where the wait would be above the target.
    pub(crate) gate_on_backlog: bool,
}

impl<'a> Door<'a> {
    /// Takes a slot, which is the caller's then; the first reason in the documented order is the one
    /// reported.
    ///
    /// No clock is read unless the job has a deadline or the CPU gate refuses it, no chance is drawn
    /// unless the CPU gate is up, no lock is taken unless somebody waits, nothing is allocated.
    #[inline(always)]
    pub(crate) fn admit(self, ask: &Ask) -> Result<(), Reason> {
        let claim = self.check(ask)?;
        self.ledger.take(claim).map_err(reason)
    }

    /// As [`admit`](Self::admit) for `count` slots, all or none, kept for jobs that come later.
    #[inline(always)]
    pub(crate) fn reserve(self, ask: &Ask, count: usize) -> Result<(), Reason> {
        let claim = self.check(ask)?;
        self.ledger.reserve(claim, count).map_err(reason)
    }

    /// The checks that come before the bounds, and what is asked of the ledger after them.
    #[inline(always)]
    pub(crate) fn check(self, ask: &Ask) -> Result<Claim, Reason> {
        if self.born.is_past() {
            return Err(Reason::Forked);
        }
        if ask.deadline_ns != NO_DEADLINE && self.misses_deadline(ask) {
            return Err(self.unless_closed(Reason::Deadline));
        }
        if ask.checks == Checks::All
            && self.pressure.gate_is_up()
            && self.gate_refuses(ask.priority)
        {
            return Err(self.unless_closed(Reason::Cpu));
        }
        if ask.checks >= Checks::Delay && self.pressure.delays(ask.priority) {
            return Err(self.unless_closed(Reason::QueueDelay));
        }
        self.claim(ask)
    }

    /// As [`check`](Self::check) for one who is ready to wait, also for a shorter queue.
    pub(crate) fn check_to_wait(self, ask: &Ask) -> Result<Claim, Reason> {
        match self.check(ask) {
            Err(Reason::QueueDelay) => self.claim(ask),
            checked => checked,
        }
    }

    /// What is asked of the ledger.
    #[inline]
    fn claim(self, ask: &Ask) -> Result<Claim, Reason> {
        if ask.partition == Some(Membership::Foreign) {
            return Err(self.unless_closed(Reason::Partition));
        }
        let holding = ask.holding();
        let meets_delay = ask.checks >= Checks::Delay;
        Ok(Claim { priority: ask.priority, holding, meets_delay })
    }

    /// A closed pool says so first. Seen by the ledger itself where no other check refuses.
    #[inline]
    fn unless_closed(self, reason: Reason) -> Reason {
        if self.ledger.is_closed() { Reason::Closed } else { reason }
    }

    /// Whether the job would be too late to start.
    #[inline]
    fn misses_deadline(self, ask: &Ask) -> bool {
        let judged = self.predicts && ask.checks != Checks::Bounds;
        is_too_late(self.time, self.pressure, judged.then_some(ask.priority), ask.deadline_ns)
    }

    #[inline]
    fn gate_refuses(self, priority: Priority) -> bool {
        self.meets_gate(priority) && has_bad_luck(self.time, self.pressure, priority)
    }

    /// A pool with nothing in flight always admits, unless its owner wants it otherwise: somebody
    /// must run for the gate to learn that the CPU is free again.
    fn meets_gate(self, priority: Priority) -> bool {
        (self.gate_always || self.ledger.is_in_use())
            && (!self.gate_on_backlog || self.pressure.is_backlogged(priority))
    }

    /// The chance that the CPU gate refuses a job of this priority now.
    pub(crate) fn gate_chance(self, priority: Priority) -> f64 {
        if self.meets_gate(priority) { self.pressure.refusal(priority) } else { 0.0 }
    }
}

// What follows takes the parts of the door that it needs, one by one: for a function that isn't inlined
// the whole of it would be written to the stack, by every job, also where it isn't called.

/// Whether a job of this deadline would start too late, behind what is queued for this priority.
#[cold]
#[inline(never)]
fn is_too_late(
    time: &Timeline,
    pressure: &Pressure,
    queued_for: Option<Priority>,
    deadline_ns: u64,
) -> bool {
    let wait_ns = queued_for.map_or(0, |priority| pressure.predicted_wait_ns(priority));
    time.now_ns().saturating_add(wait_ns) >= deadline_ns
}

/// Whether chance refuses a job at the CPU gate.
///
/// What was measured too long ago refuses nobody: while one long job runs, and all others are
/// refused, there is nobody who would measure anew.
#[cold]
#[inline(never)]
fn has_bad_luck(time: &Timeline, pressure: &Pressure, priority: Priority) -> bool {
    pressure.gate_refuses(priority) && !pressure.are_refusals_stale(time.now_ns())
}

#[inline]
pub(crate) fn reason(no_slot: NoSlot) -> Reason {
    match no_slot {
        NoSlot::Closed => Reason::Closed,
        NoSlot::Partition => Reason::Partition,
        NoSlot::Bytes => Reason::Bytes,
        NoSlot::Limit => Reason::Limit,
        NoSlot::Full => Reason::Full,
        NoSlot::Delay => Reason::QueueDelay,
    }
}

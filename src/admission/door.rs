//! The one function that asks all the checks, in the order in which they are reported.

use super::ledger::{Ledger, NoSlot, Slot};
use crate::error::Reason;
use crate::priority::Priority;
use crate::sense::clock::{NO_DEADLINE, Timeline};
use crate::sense::fork::Generation;

/// What the door needs to know of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) priority: Priority,
    pub(crate) deadline_ns: u64,
}

/// Asks for a slot; the first reason in the documented order is the one reported.
///
/// No clock is read unless the job has a deadline, no lock is taken, nothing is allocated.
#[inline]
pub(crate) fn admit<'a>(
    ledger: &'a Ledger,
    time: &Timeline,
    born: Generation,
    ask: Ask,
) -> Result<Slot<'a>, Reason> {
    check(ledger, time, born, ask)?;
    ledger.take(ask.priority == Priority::Critical).map_err(reason)
}

/// As [`admit`], but the slot is kept for a job that comes later.
pub(crate) fn reserve(
    ledger: &Ledger,
    time: &Timeline,
    born: Generation,
    ask: Ask,
) -> Result<(), Reason> {
    check(ledger, time, born, ask)?;
    ledger.reserve(ask.priority == Priority::Critical).map_err(reason)
}

/// The checks that come before the bounds.
#[inline]
fn check(ledger: &Ledger, time: &Timeline, born: Generation, ask: Ask) -> Result<(), Reason> {
    if born.is_past() {
        return Err(Reason::Forked);
    }
    if ask.deadline_ns != NO_DEADLINE
        && !ledger.word().is_closed()
        && time.now_ns() >= ask.deadline_ns
    {
        return Err(Reason::Deadline);
    }
    Ok(())
}

pub(crate) fn reason(no_slot: NoSlot) -> Reason {
    match no_slot {
        NoSlot::Closed => Reason::Closed,
        NoSlot::Full => Reason::Full,
    }
}

//! The one function that asks all the checks, in the order in which they are reported.

use super::ledger::{Claim, Holding, Ledger, NoSlot, Slot};
use super::partition;
use crate::error::Reason;
use crate::priority::Priority;
use crate::sense::clock::{NO_DEADLINE, Timeline};
use crate::sense::fork::Generation;

/// What the door needs to know of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) priority: Priority,
    pub(crate) deadline_ns: u64,
    pub(crate) partition: Option<Membership>,
    pub(crate) bytes: u64,
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
    pub(crate) time: &'a Timeline,
    pub(crate) born: Generation,
}

impl<'a> Door<'a> {
    /// Asks for a slot; the first reason in the documented order is the one reported.
    ///
    /// No clock is read unless the job has a deadline, no lock is taken unless somebody waits,
    /// nothing is allocated.
    #[inline]
    pub(crate) fn admit(self, ask: Ask) -> Result<Slot<'a>, Reason> {
        let claim = self.check(ask)?;
        self.ledger.take(claim).map_err(reason)
    }

    /// As [`admit`](Self::admit) for `count` slots, all or none, kept for jobs that come later.
    pub(crate) fn reserve(self, ask: Ask, count: usize) -> Result<(), Reason> {
        let claim = self.check(ask)?;
        self.ledger.reserve(claim, count).map_err(reason)
    }

    /// The checks that come before the bounds, and what is asked of the ledger after them.
    #[inline]
    pub(crate) fn check(self, ask: Ask) -> Result<Claim, Reason> {
        if self.born.is_past() {
            return Err(Reason::Forked);
        }
        if ask.deadline_ns != NO_DEADLINE
            && !self.ledger.word().is_closed()
            && self.time.now_ns() >= ask.deadline_ns
        {
            return Err(Reason::Deadline);
        }
        let partition = match ask.partition {
            None => None,
            Some(Membership::Of(index)) => Some(index),
            Some(Membership::Foreign) if self.ledger.word().is_closed() => {
                return Err(Reason::Closed);
            }
            Some(Membership::Foreign) => return Err(Reason::Partition),
        };
        let holding = Holding { partition, bytes: ask.bytes };
        Ok(Claim { priority: ask.priority, holding })
    }
}

pub(crate) fn reason(no_slot: NoSlot) -> Reason {
    match no_slot {
        NoSlot::Closed => Reason::Closed,
        NoSlot::Partition => Reason::Partition,
        NoSlot::Bytes => Reason::Bytes,
        NoSlot::Full => Reason::Full,
    }
}

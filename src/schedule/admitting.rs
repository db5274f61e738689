//! The way in of a job or a permit: past the door, or over another job that gives way.

use super::core::Core;
use crate::admission::ledger::{Claim, Holding, Slot};
use crate::admission::partition;
use crate::admission::{Ask, Checks, Door, reason};
use crate::error::{Reason, Refusal, ShedReason};
use crate::job::{Outcome, Seized};
use crate::policy::delay::Law;
use crate::priority::Priority;

impl Core {
    #[inline]
    pub(super) fn door(&self) -> Door<'_> {
        Door {
            ledger: &self.ledger,
            pressure: &self.pressure,
            time: &self.time,
            born: self.born(),
            predicts: self.control.law() != Law::Off,
            gate_always: self.gauge.is_always_armed(),
            gate_on_backlog: self.gauge.wants_backlog(),
        }
    }

    /// Takes a slot, or says why not. The refusal is not counted: see [`refuse`](Self::refuse).
    #[inline]
    pub(crate) fn admit(&self, ask: &Ask) -> Result<Slot<'_>, Reason> {
        // What the two answer fits in a register, as does what the first is asked.
        let admitted = if ask.is_plain() {
            self.let_in_plain(ask.priority, ask.checks)
        } else {
            self.let_in(*ask)
        };
        admitted.map(|()| Slot::of_taken(&self.ledger, ask.holding()))
    }

    /// As [`let_in`](Self::let_in) for a job that asks for nothing special: a copy of it without all
    /// that such a job never meets.
    #[inline(never)]
    fn let_in_plain(&self, priority: Priority, checks: Checks) -> Result<(), Reason> {
        self.judge(&Ask::plain(priority, checks))
    }

    /// Takes a slot, which is the caller's then, or says why not.
    #[inline(never)]
    fn let_in(&self, ask: Ask) -> Result<(), Reason> {
        self.judge(&ask)
    }

    #[inline(always)]
    fn judge(&self, ask: &Ask) -> Result<(), Reason> {
        match self.door().admit(ask) {
            Err(Reason::Cpu) => self.let_in_after_a_sample(*ask),
            Err(Reason::Full) if ask.priority == Priority::Critical => {
                self.displace(*ask).map(Slot::keep_taken).ok_or(Reason::Full)
            }
            admitted => admitted,
        }
    }

    #[cold]
    #[inline(never)]
    fn let_in_after_a_sample(&self, ask: Ask) -> Result<(), Reason> {
        if self.has_sampled_for_a_refusal() { self.door().admit(&ask) } else { Err(Reason::Cpu) }
    }

    /// Where the gate may refuse everything, nobody but those it refuses is left to see that the CPU
    /// is free again.
    #[cold]
    fn has_sampled_for_a_refusal(&self) -> bool {
        self.gauge.is_always_armed() && self.sample_cpu(self.time.now_ns())
    }

    /// Takes slots for permits, all or none, or says why not.
    #[inline]
    pub(crate) fn reserve(&self, ask: &Ask, count: usize) -> Result<(), Refusal> {
        let reserved = if ask.is_plain() {
            self.set_aside_plain(ask.priority, ask.checks, count)
        } else {
            self.set_aside(*ask, count)
        };
        reserved.map_err(|reason| self.refuse(reason))
    }

    /// As [`let_in_plain`](Self::let_in_plain), for permits.
    #[inline(never)]
    fn set_aside_plain(
        &self,
        priority: Priority,
        checks: Checks,
        count: usize,
    ) -> Result<(), Reason> {
        self.judge_permits(&Ask::plain(priority, checks), count)
    }

    /// As [`let_in`](Self::let_in), for permits.
    #[inline(never)]
    fn set_aside(&self, ask: Ask, count: usize) -> Result<(), Reason> {
        self.judge_permits(&ask, count)
    }

    #[inline(always)]
    fn judge_permits(&self, ask: &Ask, count: usize) -> Result<(), Reason> {
        match self.door().reserve(ask, count) {
            Err(Reason::Cpu) => self.set_aside_after_a_sample(*ask, count),
            reserved => reserved,
        }
    }

    #[cold]
    #[inline(never)]
    fn set_aside_after_a_sample(&self, ask: Ask, count: usize) -> Result<(), Reason> {
        if self.has_sampled_for_a_refusal() {
            self.door().reserve(&ask, count)
        } else {
            Err(Reason::Cpu)
        }
    }

    /// What is asked of the ledger, if nothing that waiting doesn't cure stands in the way.
    pub(crate) fn claim(&self, ask: &Ask) -> Result<Claim, Refusal> {
        let claim = self.door().check_to_wait(ask).map_err(|reason| self.refuse(reason))?;
        if self.ledger.bytes().can_ever_hold(ask.bytes) {
            Ok(claim)
        } else {
            Err(self.refuse(Reason::Bytes))
        }
    }

    /// Turns a permit's slot into a job's, or says why not.
    pub(crate) fn redeem(&self, holding: Holding) -> Result<Slot<'_>, Refusal> {
        if self.is_forked() {
            return Err(self.refuse(Reason::Forked));
        }
        self.ledger.redeem(holding).map_err(|no_slot| {
            self.ledger.cancel_permit(holding);
            self.refuse(reason(no_slot))
        })
    }

    #[inline]
    pub(crate) fn refuse(&self, reason: Reason) -> Refusal {
        self.counters.refused(reason);
        Refusal::new(reason, self.drain_ns())
    }

    /// In what time all that is in flight is worked off.
    #[inline]
    pub(super) fn drain_ns(&self) -> f64 {
        self.pressure.drain_ns(self.ledger.in_flight_at_most().max(1))
    }

    /// Where capacity refuses a critical job, ends a queued one of lower priority in its favour: the
    /// victim's slot goes over to it, so that none is made and none is lost.
    ///
    /// The victim holds a slot of the common part or one of the same partition; and nobody of the same
    /// class, in the same line, may have come before. Its body is dropped here, on the displacing thread, outside of every lock.
    #[cold]
    #[inline(never)]
    fn displace(&self, ask: Ask) -> Option<Slot<'_>> {
        let claim = self.door().check(&ask).ok()?;
        let wanted = claim.holding;
        if self.ledger.waiters().come_before(claim).is_some() {
            return None;
        }
        if !self.ledger.bytes().take(wanted.bytes) {
            return None;
        }
        let Some(victim) = self.find_victim(wanted.partition) else {
            self.ledger.give_back_bytes(wanted.bytes);
            return None;
        };
        let counted = self.counters.by_outsider();
        let _ending = counted.ending_begins();
        let mut ended = self.drop_body(victim, Outcome::Shed(ShedReason::Displaced));
        let contained = ended.drop_unwanted();
        counted.ended(ended.outcome());
        counted.contained(contained);
        let slot = Slot::of_ended_job(&self.ledger, ended.holding());
        let inherited = slot.pass_on(wanted);
        self.publish(ended, counted);
        inherited
    }

    /// Seizes a queued Low job, else a Normal one, that a job of `partition` may displace.
    fn find_victim(&self, partition: Option<partition::Index>) -> Option<Seized> {
        for priority in [Priority::Low, Priority::Normal] {
            // What is nobody's or one's own comes before what another partition has above its share.
            let own_or_nobodys = |of: Option<_>| of.is_none() || of == partition;
            let may_give_way = |of| self.ledger.may_give_way(of, partition);
            let next = || {
                let first = self.lanes.take_victim(priority, own_or_nobodys);
                first.or_else(|| self.lanes.take_victim(priority, may_give_way))
            };
            while let Some(job) = next() {
                match job.seize() {
                    Ok(seized) => return Some(seized),
                    Err(tombstone) => drop(tombstone),
                }
            }
        }
        // Jobs of partitions don't wait in deques, so any will do.
        for shelf in &self.shelves {
            // A thread's first theft allocates, which a refusal must not.
            while !shelf.is_empty() {
                let Some(job) = shelf.steal(self.time.now_ns()) else { break };
                match job.seize() {
                    Ok(seized) => return Some(seized),
                    Err(tombstone) => self.bury(tombstone),
                }
            }
        }
        None
    }
}

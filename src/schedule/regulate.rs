//! What follows from what workers have measured: limits, active workers, CPU samples.

use super::control::Surroundings;
use super::core::Core;
use super::gather::Gathered;
use super::nested::Shelf;
use crate::error::Reason;
use crate::policy::delay::Law;
use crate::priority::Priority;

impl Core {
    /// Takes a sample of the CPU if one is due; true if it did.
    #[inline]
    pub(crate) fn sample_cpu(&self, now_ns: u64) -> bool {
        self.gauge.is_due(now_ns) && self.sample_cpu_now(now_ns)
    }

    #[cold]
    fn sample_cpu_now(&self, now_ns: u64) -> bool {
        let Some(now) = self.time.instant_at(now_ns) else { return false };
        let sampled = self.gauge.sample(now_ns, now);
        if sampled {
            self.apply_limit();
            if self.ledger.is_closed() {
                self.activate_all();
            }
        }
        sampled
    }

    /// Takes in what a worker has measured; in a hurry only if no other worker is at it.
    pub(crate) fn hand_over(&self, gathered: &mut Gathered, now_ns: u64, in_a_hurry: bool) {
        let surroundings = Surroundings {
            capacity: self.ledger.capacity(),
            arrivals: || self.arrivals(),
            refusing: self.pressure.gate_is_up() || self.pressure.delays(Priority::Low),
            in_a_hurry,
        };
        let limit = self.control.hand_over(gathered, now_ns, surroundings);
        if limit {
            self.apply_limit();
        }
    }

    /// Lets all workers take jobs: what is left is to be worked off as fast as it can.
    pub(crate) fn activate_all(&self) {
        self.pressure.set_active_level(self.settings.workers as f64);
    }

    /// The strictest proposal decides.
    pub(super) fn apply_limit(&self) {
        loop {
            let limit = self.strictest_limit();
            self.ledger.set_limit(limit);
            // Of two threads that set it, the one that looked first must not have the last word.
            if self.strictest_limit() == limit {
                return;
            }
        }
    }

    fn strictest_limit(&self) -> Option<usize> {
        let halved = self.gauge.is_halved().then(|| self.ledger.capacity() / 2);
        let adaptive = self.control.limit();
        adaptive.into_iter().chain(halved).min()
    }

    /// How many jobs are in flight, if an adaptive limit wants to know.
    pub(crate) fn in_flight_if_limited(&self) -> Option<usize> {
        self.control.limit().map(|_| self.ledger.in_flight_at_most())
    }

    /// Jobs that came to the door and were let in, or would have been by a pool of more capacity.
    pub(super) fn arrivals(&self) -> u64 {
        const FOR_WANT_OF_CAPACITY: [Reason; 5] =
            [Reason::Full, Reason::Limit, Reason::QueueDelay, Reason::Cpu, Reason::Deadline];
        let refused = FOR_WANT_OF_CAPACITY.map(|reason| self.counters.refusals(reason));
        self.accepted() + refused.iter().sum::<u64>()
    }

    pub(super) fn accepted(&self) -> u64 {
        self.lanes.pushed() + self.shelves.iter().map(Shelf::pushed).sum::<u64>()
    }

    /// All workers have run out of work: what came before says nothing of what comes.
    pub(crate) fn comes_to_rest(&self) {
        if self.control.law() != Law::Off {
            self.lanes.forget_waits();
            self.control.rest();
            self.ledger.serve_waiters_if_any();
        }
    }

    /// Sets the capacity; the lanes grow first, so that they never have to under their lock.
    pub(crate) fn set_capacity(&self, capacity: usize) {
        self.lanes.make_room(capacity);
        self.ledger.set_capacity(capacity);
        self.control.resize(self.ledger.capacity());
        self.apply_limit();
    }
}

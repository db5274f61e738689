//! What can be seen of a pool from outside.

use std::time::Duration;

use super::core::Core;
use crate::observe::load::Load;
use crate::observe::snapshot::{
    ClassTable, ContentionState, QueueDelayState, RejectedCounts, ShedCounts, Snapshot,
};
use crate::priority::Priority;

impl Core {
    /// Queued and running, from one load of the ledger's word, so that they add up.
    pub(crate) fn queued_and_running(&self) -> (usize, usize) {
        let running = self.counters.running();
        let jobs = self.ledger.word().jobs();
        let running = running.min(jobs);
        (jobs - running, running)
    }

    pub(crate) fn load(&self) -> Load {
        let share =
            |part: usize, whole: usize| if whole == 0 { 1.0 } else { part as f64 / whole as f64 };
        let in_flight = self.ledger.word().in_flight();
        let shares = [
            share(in_flight, self.ledger.ordinary_bound()),
            share(self.pressure.queued(), self.pressure.door_jobs()),
            self.cpu_refusal(self.time.now_ns()),
        ];
        let cpu = self.gauge.readings().cpu;
        Load::new(in_flight, self.ledger.capacity(), shares, cpu, self.drain_ns())
    }

    /// The chance that the CPU gate refuses a job of normal priority. Where nothing is in flight and
    /// a sample is due, the next to come takes it, and nothing is known before.
    fn cpu_refusal(&self, now_ns: u64) -> f64 {
        let unknown = !self.ledger.is_in_use() && self.gauge.is_due(now_ns)
            || self.pressure.are_refusals_stale(now_ns);
        if unknown { 0.0 } else { self.door().gate_chance(Priority::Normal) }
    }

    fn queue_delay_state(&self) -> QueueDelayState {
        let law = self.control.law();
        let standing = self.lanes.standing();
        let mean_service_ns = self.pressure.mean_service_ns();
        let door_jobs = self.pressure.door_jobs();
        let overdue = self.pressure.delays(Priority::Low);
        let waited_ns = |since_ns| self.time.now_ns().saturating_sub(since_ns);
        QueueDelayState {
            target: law.effective_target_ns(mean_service_ns).map(Duration::from_nanos),
            smallest_wait: standing.smallest_wait_ns.map(Duration::from_nanos),
            oldest_wait: standing.oldest_ns.map(waited_ns).map(Duration::from_nanos),
            bound: self.control.bound(),
            door_jobs: (door_jobs != usize::MAX).then_some(door_jobs),
            offered_load: self.control.offered_load(self.time.now_ns(), self.arrivals()),
            predicted_wait: Duration::from_nanos(self.pressure.predicted_wait_ns(Priority::Low)),
            is_refusing: overdue || standing.is_shedding,
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let totals = self.counters.totals();
        let word = self.ledger.word();
        let running = totals.running.min(word.jobs());
        let mean_ns = self.pressure.mean_service_ns();
        let readings = self.gauge.readings();
        let capacity = self.ledger.capacity();
        Snapshot {
            accepted: self.accepted(),
            completed: totals.completed,
            panicked: totals.panicked,
            cancelled: totals.cancelled,
            discarded: totals.discarded,
            shed: ShedCounts::new(totals.shed),
            rejected: RejectedCounts::new(totals.refused),
            contained_panics: totals.contained + self.ledger.waiters().contained(),
            reserved: word.reserved(),
            queued: word.jobs() - running,
            running,
            in_flight: word.in_flight(),
            capacity,
            // Another thread may be changing the capacity.
            limit: self.ledger.limit().min(capacity),
            bytes: self.ledger.bytes().used(),
            workers: self.settings.workers,
            active_workers: self.pressure.active_workers(),
            cpu: readings.cpu,
            cpu_per_worker: readings.per_worker,
            contention: ContentionState {
                throttled: readings.contention.throttled,
                other_threads: readings.contention.other_threads,
                neighbours: readings.contention.neighbours,
            },
            cpu_refusal: self.cpu_refusal(self.time.now_ns()),
            cpu_readings_ignored: readings.ignored,
            queue_delay: self.queue_delay_state(),
            classes: ClassTable(self.control.classes()),
            mean_service_time: (mean_ns != 0).then(|| Duration::from_nanos(mean_ns)),
            uptime: Duration::from_nanos(self.time.now_ns()),
        }
    }
}

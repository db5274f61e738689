//! A pool that is always full, in front of servers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Batch, CAPACITY, Limiter, MS};

/// What one worker reports together.
const BATCH_JOBS: u64 = 32;
const BATCH_NS: u64 = 10 * MS;

/// Each of the workers runs a job if one is in flight for it; a job takes `service`, times the
/// number of jobs per server that run when it begins, if that is above 1.
pub(super) struct Plant<F> {
    limiter: Limiter,
    workers: usize,
    servers: usize,
    service: F,
    /// See [`Seen::below`].
    pub(super) bound: usize,
    now_ns: u64,
    /// The one that ends next comes first.
    running: BinaryHeap<Reverse<Running>>,
    idle: Vec<usize>,
    in_flight: usize,
    /// Of each worker.
    batches: Vec<Batch>,
    batches_since_ns: Vec<u64>,
}

/// Ordered by its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Running {
    end_ns: u64,
    worker: usize,
    service_ns: u64,
}

/// What was in force over some time.
#[derive(Debug)]
pub(super) struct Seen {
    /// The extremes, outside of probes.
    pub(super) least: usize,
    pub(super) most: usize,
    /// The share of the time spent in probes.
    pub(super) probing: f64,
    /// The share of the time outside of probes with a limit below the plant's bound.
    pub(super) below: f64,
}

const NOTHING: Batch = Batch { class: 0, jobs: 0, service_ns: 0, in_flight: 0 };

impl<F: FnMut() -> u64> Plant<F> {
    pub(super) fn new(limiter: Limiter, workers: usize, servers: usize, service: F) -> Self {
        Self {
            limiter,
            workers,
            servers,
            service,
            bound: 0,
            now_ns: 0,
            running: BinaryHeap::new(),
            idle: (0..workers).rev().collect(),
            in_flight: 0,
            batches: vec![NOTHING; workers],
            batches_since_ns: vec![0; workers],
        }
    }

    /// Runs until so many jobs more have ended.
    pub(super) fn run(&mut self, jobs: u64) -> Seen {
        let start_ns = self.now_ns;
        let mut seen = Seen { least: usize::MAX, most: 0, probing: 0.0, below: 0.0 };
        for _ in 0..jobs {
            let limit = self.limiter.limit(CAPACITY);
            let passed_ns = self.one_job(limit) as f64;
            if self.limiter.refresh.probe_limit().is_some() {
                seen.probing += passed_ns;
                continue;
            }
            // The job itself may have ended a probe.
            let limit = self.limiter.limit(CAPACITY);
            seen.least = seen.least.min(limit);
            seen.most = seen.most.max(limit);
            seen.below += if limit < self.bound { passed_ns } else { 0.0 };
        }
        let all_ns = (self.now_ns - start_ns) as f64;
        seen.probing /= all_ns;
        seen.below /= all_ns;
        seen
    }

    /// Fills the pool up to the limit and lets the next job end; returns the time that took.
    fn one_job(&mut self, limit: usize) -> u64 {
        self.in_flight = self.in_flight.max(limit);
        let to_run = self.workers.min(self.in_flight);
        let slow_down = (to_run as f64 / self.servers as f64).max(1.0);
        while self.running.len() < to_run {
            let service_ns = ((self.service)() as f64 * slow_down) as u64;
            let worker = self.idle.pop().expect("no more run than there are workers");
            let end_ns = self.now_ns + service_ns;
            self.running.push(Reverse(Running { end_ns, worker, service_ns }));
        }
        let Reverse(ended) = self.running.pop().expect("a limit is at least 1");
        let passed_ns = ended.end_ns - self.now_ns;
        self.now_ns = ended.end_ns;
        self.idle.push(ended.worker);
        self.report(ended);
        self.in_flight -= 1;
        passed_ns
    }

    fn report(&mut self, ended: Running) {
        let batch = &mut self.batches[ended.worker];
        let since_ns = &mut self.batches_since_ns[ended.worker];
        if batch.jobs == 0 {
            *since_ns = self.now_ns - ended.service_ns;
        }
        batch.jobs += 1;
        batch.service_ns += ended.service_ns;
        batch.in_flight = batch.in_flight.max(self.in_flight);
        if batch.jobs >= BATCH_JOBS || self.now_ns - *since_ns >= BATCH_NS {
            self.limiter.add(self.now_ns, std::mem::replace(batch, NOTHING), CAPACITY, true);
        }
    }
}

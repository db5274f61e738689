//! A queue with servers, as numbers, around the policies; every step as the pool's workers take it.

use std::collections::VecDeque;

use crate::load::{Arrival, MS};
use crate::policy::delay::{Judge, Law, Measured, Wait};
use crate::policy::graded::{Graded, Observed, Plan};
use crate::policy::service::MeanServiceTime;

/// An answer later than this is of no use to the one who asked.
pub(crate) const IN_TIME_NS: f64 = 25.0 * MS;

/// As the workers do it: service times are handed over in batches, a new plan made so often.
const BATCH: u64 = 32;
const EVERY_NS: u64 = 10_000_000;

/// The lane of ordinary jobs.
const NORMAL: usize = 1;

/// What refuses beside the capacity.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Door {
    /// Only the capacity.
    Bound,
    /// Nothing at the door; the law at dequeue.
    AtDequeue(Law),
    /// The pool's default.
    Graded { target_ns: u64 },
    /// A fixed number of queued jobs.
    Static(usize),
    /// One target, while the smallest wait of the last 100 ms stands above it: what must not be.
    ArmedByInterval { target_ns: u64 },
}

/// The default of the pool.
pub(crate) const DEFAULT: Door = Door::Graded { target_ns: 5_000_000 };

/// What became of one arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) at_ns: f64,
    pub(crate) fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fate {
    Refused,
    Shed,
    /// Waited, and done so long after the arrival.
    Done {
        waited_ns: f64,
        latency_ns: f64,
    },
}

pub(crate) struct Sim {
    door: Door,
    capacity: usize,
    judge: Judge,
    graded: Graded,
    plan: Plan,
    planned_ns: u64,
    mean: MeanServiceTime,
    arrivals: u64,
    servers: Vec<Server>,
    queue: VecDeque<(usize, Arrival)>,
    pub(crate) records: Vec<Record>,
    pub(crate) longest_queue: usize,
}

#[derive(Clone, Copy, Default)]
struct Server {
    job: Option<(usize, f64)>,
    started_ns: f64,
    gathered: u64,
    gathered_ns: f64,
    handed_ns: u64,
}

impl Sim {
    pub(crate) fn new(door: Door, workers: usize) -> Self {
        let law = match door {
            Door::AtDequeue(law) => law,
            Door::Graded { target_ns } => Law::Graded { target_ns },
            Door::ArmedByInterval { target_ns } => {
                Law::Interval { target_ns, interval_ns: 100_000_000 }
            }
            Door::Bound | Door::Static(_) => Law::Off,
        };
        let target_ns = if let Door::Graded { target_ns } = door { target_ns } else { 1 };
        Self {
            door,
            capacity: 64 * workers,
            judge: Judge::new(law),
            graded: Graded::new(target_ns),
            plan: Plan::OPEN,
            planned_ns: 0,
            mean: MeanServiceTime::default(),
            arrivals: 0,
            servers: vec![Server::default(); workers],
            queue: VecDeque::new(),
            records: Vec::new(),
            longest_queue: 0,
        }
    }

    /// Plays all arrivals before `end_ms`, and what they leave behind.
    pub(crate) fn play(mut self, stream: impl Iterator<Item = Arrival>, end_ms: f64) -> Self {
        for arrival in stream.take_while(|arrival| arrival.at_ns < end_ms * MS) {
            self.run_until(arrival.at_ns);
            self.arrives(arrival);
        }
        self.run_until(f64::INFINITY);
        self
    }

    fn run_until(&mut self, until_ns: f64) {
        while let Some((server, ends_ns)) = self.next_end().filter(|&(_, ends)| ends <= until_ns) {
            self.ends(server, ends_ns);
        }
    }

    fn next_end(&self) -> Option<(usize, f64)> {
        let busy = self.servers.iter().enumerate();
        let ends = busy.filter_map(|(at, server)| Some((at, server.job?.1)));
        ends.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn busy(&self) -> usize {
        self.servers.iter().filter(|server| server.job.is_some()).count()
    }

    fn mean_ns(&self) -> u64 {
        self.mean.mean_ns().unwrap_or(0)
    }

    fn measured(&self) -> Measured {
        Measured { mean_service_ns: self.mean_ns(), cut_ns: self.plan.cut_ns }
    }

    fn refuses(&self) -> bool {
        let queued = self.queue.len();
        match self.door {
            Door::Bound | Door::AtDequeue(_) => false,
            Door::Graded { .. } => queued >= self.plan.door_jobs,
            Door::Static(jobs) => queued >= jobs,
            Door::ArmedByInterval { target_ns } => {
                let wait_ns = queued as u64 * self.mean_ns() / self.servers.len() as u64;
                self.judge.is_shedding(self.mean_ns()) && wait_ns > target_ns
            }
        }
    }

    fn arrives(&mut self, arrival: Arrival) {
        self.arrivals += 1;
        let number = self.records.len();
        self.records.push(Record { at_ns: arrival.at_ns, fate: Fate::Refused });
        if self.queue.len() + self.busy() >= self.capacity || self.refuses() {
            return;
        }
        self.judge.pushed(arrival.at_ns as u64, self.measured());
        self.queue.push_back((number, arrival));
        self.longest_queue = self.longest_queue.max(self.queue.len());
        if let Some(idle) = self.servers.iter().position(|server| server.job.is_none()) {
            self.takes(idle, arrival.at_ns);
        }
    }

    /// A server takes the next job that isn't shed, if there is one.
    fn takes(&mut self, server: usize, now_ns: f64) {
        while let Some((number, arrival)) = self.queue.pop_front() {
            let enqueued_ns = arrival.at_ns as u64;
            let wait = Wait { lane: NORMAL, enqueued_ns, may_be_shed: true };
            if self.judge.takes(wait, now_ns as u64, self.measured()) {
                self.records[number].fate = Fate::Shed;
                continue;
            }
            let waited_ns = now_ns - arrival.at_ns;
            let latency_ns = waited_ns + arrival.service_ns;
            self.records[number].fate = Fate::Done { waited_ns, latency_ns };
            let server = &mut self.servers[server];
            server.job = Some((number, now_ns + arrival.service_ns));
            server.started_ns = now_ns;
            return;
        }
        self.hand_over(server, now_ns as u64);
        if self.busy() == 0 {
            self.judge.forget();
        }
    }

    fn ends(&mut self, server: usize, now_ns: f64) {
        let state = &mut self.servers[server];
        state.job = None;
        state.gathered += 1;
        state.gathered_ns += now_ns - state.started_ns;
        let due = state.gathered >= BATCH || now_ns as u64 - state.handed_ns >= EVERY_NS;
        if due || self.mean.mean_ns().is_none() {
            self.hand_over(server, now_ns as u64);
        }
        self.takes(server, now_ns);
    }

    fn hand_over(&mut self, server: usize, now_ns: u64) {
        let state = &mut self.servers[server];
        self.mean.add(state.gathered, state.gathered_ns as u64);
        (state.gathered, state.gathered_ns, state.handed_ns) = (0, 0.0, now_ns);
        if now_ns - self.planned_ns >= EVERY_NS {
            self.planned_ns = now_ns;
            let observed = Observed {
                arrivals: self.arrivals,
                mean_service_ns: self.mean_ns(),
                served: self.mean.jobs(),
                active_workers: self.servers.len(),
            };
            self.plan = self.graded.plan(now_ns, observed);
        }
    }

    // ── What came of it ─────────────────────────────────────────────────────────────────────

    /// Records of arrivals from this moment on.
    pub(crate) fn since(&self, from_ms: f64) -> impl Iterator<Item = &Record> + Clone {
        self.records.iter().filter(move |record| record.at_ns >= from_ms * MS)
    }

    pub(crate) fn share(&self, from_ms: f64, which: impl Fn(Fate) -> bool) -> f64 {
        let records = self.since(from_ms);
        let all = records.clone().count();
        records.filter(|record| which(record.fate)).count() as f64 / all as f64
    }

    /// Work done in time, as a share of what the servers could do between these moments.
    pub(crate) fn good_share(&self, from_ms: f64, to_ms: f64, mean_service_ns: f64) -> f64 {
        let good = self.records.iter().filter(|record| {
            let Fate::Done { latency_ns, .. } = record.fate else { return false };
            let done_ns = record.at_ns + latency_ns;
            latency_ns <= IN_TIME_NS && done_ns >= from_ms * MS && done_ns < to_ms * MS
        });
        let could = self.servers.len() as f64 * (to_ms - from_ms) * MS / mean_service_ns;
        good.count() as f64 / could
    }

    /// The wait that this share of the jobs that ran has not exceeded.
    pub(crate) fn wait_ms(&self, from_ms: f64, share: f64) -> f64 {
        let mut waits: Vec<f64> = self
            .since(from_ms)
            .filter_map(|record| match record.fate {
                Fate::Done { waited_ns, .. } => Some(waited_ns / MS),
                _ => None,
            })
            .collect();
        waits.sort_by(f64::total_cmp);
        waits[((waits.len() - 1) as f64 * share) as usize]
    }
}

pub(crate) fn is_good(fate: Fate) -> bool {
    matches!(fate, Fate::Done { latency_ns, .. } if latency_ns <= IN_TIME_NS)
}

pub(crate) fn is_turned_away(fate: Fate) -> bool {
    matches!(fate, Fate::Refused | Fate::Shed)
}

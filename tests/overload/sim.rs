//! A queue with workers, as numbers, around the policies; every step as the pool takes it.

use crate::lanes::Lanes;
use crate::load::{Arrival, MS, Priority};
use crate::outcome::{Fate, Outcome, Record};
use crate::policy::ageing::Turns;
use crate::policy::delay::{Judge, Law, Measured, Wait};
use crate::policy::graded::{Graded, Observed, Plan};
use crate::policy::service::MeanServiceTime;

/// As the workers do it: service times are handed over in batches, a new plan made so often.
const BATCH: u64 = 32;
const EVERY_NS: u64 = 10 * MS;

pub(crate) const TARGET_NS: u64 = 5 * MS;
pub(crate) const INTERVAL_NS: u64 = 100 * MS;

/// What refuses beside the capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Door {
    /// Nothing at the door; this law at dequeue, if any.
    Open(Law),
    /// The pool's default.
    Graded,
    /// A fixed number of queued jobs.
    Static(usize),
    /// One target, while the smallest wait of the last interval stands above it, and the interval law
    /// at dequeue: what must not be.
    ArmedByInterval,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) door: Door,
    pub(crate) workers: usize,
    pub(crate) capacity: usize,
    pub(crate) critical_reserve: usize,
    pub(crate) ageing_bound_ns: u64,
    /// Whether the law also judges a job that is taken because its lane is due.
    pub(crate) judges_the_due: bool,
}

impl Settings {
    /// The pool's defaults.
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            door: Door::Graded,
            workers,
            capacity: 64 * workers,
            critical_reserve: 0,
            ageing_bound_ns: 1_000 * MS,
            judges_the_due: false,
        }
    }

    pub(crate) fn with(door: Door, workers: usize) -> Self {
        Self { door, ..Self::new(workers) }
    }

    /// Plays all these arrivals, and what they leave behind.
    pub(crate) fn play(self, arrivals: &[Arrival]) -> Outcome {
        let mut sim = Sim::new(self);
        sim.offer(arrivals);
        sim.finish()
    }
}

pub(crate) struct Sim {
    settings: Settings,
    judge: Judge,
    graded: Graded,
    plan: Plan,
    planned_ns: u64,
    mean: MeanServiceTime,
    workers: Vec<Worker>,
    idle: Vec<usize>,
    /// When each busy worker will be done; the next one comes last.
    ends: Vec<(u64, usize)>,
    lanes: Lanes,
    out: Outcome,
}

#[derive(Default)]
struct Worker {
    turns: Turns,
    /// The number of the job it runs.
    job: usize,
    started_ns: u64,
    gathered: u64,
    gathered_ns: u64,
    handed_ns: u64,
}

impl Sim {
    pub(crate) fn new(settings: Settings) -> Self {
        let law = match settings.door {
            Door::Open(law) => law,
            Door::Graded => Law::Graded { target_ns: TARGET_NS },
            Door::ArmedByInterval => {
                Law::Interval { target_ns: TARGET_NS, interval_ns: INTERVAL_NS }
            }
            Door::Static(_) => Law::Off,
        };
        Self {
            judge: Judge::new(law),
            graded: Graded::new(TARGET_NS),
            plan: Plan::OPEN,
            planned_ns: 0,
            mean: MeanServiceTime::default(),
            workers: (0..settings.workers).map(|_| Worker::default()).collect(),
            idle: (0..settings.workers).collect(),
            ends: Vec::new(),
            lanes: Lanes::new(settings.ageing_bound_ns),
            out: Outcome::new(settings.workers),
            settings,
        }
    }

    pub(crate) fn offer(&mut self, arrivals: &[Arrival]) {
        self.out.records.reserve(arrivals.len());
        for &arrival in arrivals {
            self.offer_one(arrival);
        }
    }

    /// Whether it is accepted.
    pub(crate) fn offer_one(&mut self, arrival: Arrival) -> bool {
        self.run_until(arrival.at_ns);
        self.arrives(arrival);
        self.out.records.last().is_some_and(|record| record.fate.is_accepted())
    }

    /// The whole process stands still from one moment to the other.
    pub(crate) fn freeze(&mut self, from_ns: u64, to_ns: u64) {
        self.run_until(from_ns);
        self.ends.iter_mut().for_each(|(ends_ns, _)| *ends_ns += to_ns - from_ns);
    }

    /// The worker that would be done next loses its core for so long.
    pub(crate) fn lose_core(&mut self, from_ns: u64, for_ns: u64) {
        self.run_until(from_ns);
        if let Some((ends_ns, at)) = self.ends.pop() {
            self.will_end(at, ends_ns + for_ns);
        }
    }

    /// Lets all that is left come to its end.
    pub(crate) fn finish(mut self) -> Outcome {
        self.run_until(u64::MAX);
        self.out
    }

    fn run_until(&mut self, until_ns: u64) {
        while let Some(&(ends_ns, worker)) = self.ends.last() {
            if ends_ns > until_ns {
                break;
            }
            self.ends.pop();
            self.ends(worker, ends_ns);
        }
    }

    fn busy(&self) -> usize {
        self.workers.len() - self.idle.len()
    }

    fn mean_ns(&self) -> u64 {
        self.mean.mean_ns().unwrap_or(0)
    }

    fn measured(&self) -> Measured {
        Measured { mean_service_ns: self.mean_ns(), cut_ns: self.plan.cut_ns }
    }

    // ── The door ────────────────────────────────────────────────────────────────────────────

    fn arrives(&mut self, arrival: Arrival) {
        let number = self.out.records.len();
        self.out.records.push(Record { arrival, queue: 0, fate: Fate::Refused });
        if !self.admits(arrival.priority) {
            return;
        }
        self.out.records[number].fate = Fate::Queued;
        self.judge.pushed(arrival.at_ns, self.measured());
        self.lanes.push(number, arrival);
        self.out.records[number].queue = self.lanes.queued() as u32;
        if let Some(idle) = self.idle.pop() {
            self.takes(idle, arrival.at_ns);
        }
    }

    fn admits(&mut self, priority: Priority) -> bool {
        let in_flight = self.lanes.queued() + self.busy();
        if priority == Priority::Critical {
            return in_flight < self.settings.capacity || self.displaces();
        }
        in_flight < self.settings.capacity - self.settings.critical_reserve
            && !self.refuses(priority)
    }

    fn refuses(&self, priority: Priority) -> bool {
        let queued = self.lanes.queued_from(priority);
        match self.settings.door {
            Door::Open(_) => false,
            Door::Graded => queued >= self.plan.door_jobs,
            Door::Static(jobs) => queued >= jobs,
            Door::ArmedByInterval => {
                let wait_ns = queued as u64 * self.mean_ns() / self.workers.len() as u64;
                self.judge.is_shedding(self.mean_ns()) && wait_ns > TARGET_NS
            }
        }
    }

    /// A Critical job at a full pool takes the slot of a queued one.
    fn displaces(&mut self) -> bool {
        let victim = self.lanes.take_victim();
        if let Some(number) = victim {
            self.out.records[number].fate = Fate::Displaced;
        }
        victim.is_some()
    }

    // ── The workers ─────────────────────────────────────────────────────────────────────────

    /// A worker takes the next job that isn't shed, if there is one.
    fn takes(&mut self, at: usize, now_ns: u64) {
        while let Some(next) = self.lanes.take(&mut self.workers[at].turns, now_ns) {
            let arrival = next.arrival;
            let spared = next.last_of_due && !self.settings.judges_the_due;
            let wait = Wait {
                lane: arrival.priority as usize,
                enqueued_ns: arrival.at_ns,
                may_be_shed: !spared,
            };
            let sheds = self.judge.takes(wait, now_ns, self.measured());
            self.lanes.taken(&mut self.workers[at].turns, &next, !sheds, now_ns);
            if sheds {
                let waited_ns = now_ns - arrival.at_ns;
                self.out.records[next.number].fate = Fate::Shed { waited_ns };
                continue;
            }
            self.out.records[next.number].fate = Fate::Running;
            let worker = &mut self.workers[at];
            (worker.job, worker.started_ns) = (next.number, now_ns);
            self.will_end(at, now_ns + arrival.service_ns);
            return;
        }
        self.hand_over(at, now_ns);
        self.idle.push(at);
        if self.busy() == 0 {
            self.judge.forget();
            self.plan = self.graded.plan_at_rest(self.observed());
        }
    }

    fn will_end(&mut self, at: usize, ends_ns: u64) {
        let end = (ends_ns, at);
        let place = self.ends.partition_point(|other| *other > end);
        self.ends.insert(place, end);
    }

    fn ends(&mut self, at: usize, now_ns: u64) {
        let worker = &mut self.workers[at];
        let record = &mut self.out.records[worker.job];
        record.fate = Fate::Done {
            waited_ns: worker.started_ns - record.arrival.at_ns,
            latency_ns: now_ns - record.arrival.at_ns,
        };
        worker.gathered += 1;
        worker.gathered_ns += now_ns - worker.started_ns;
        let due = worker.gathered >= BATCH || now_ns - worker.handed_ns >= EVERY_NS;
        if due || self.mean.mean_ns().is_none() {
            self.hand_over(at, now_ns);
        }
        self.takes(at, now_ns);
    }

    fn hand_over(&mut self, at: usize, now_ns: u64) {
        let worker = &mut self.workers[at];
        self.mean.add(now_ns, worker.gathered, worker.gathered_ns);
        (worker.gathered, worker.gathered_ns, worker.handed_ns) = (0, 0, now_ns);
        if now_ns - self.planned_ns >= EVERY_NS {
            self.planned_ns = now_ns;
            self.plan = self.graded.plan(now_ns, self.observed());
            self.out.plans.push((now_ns, self.plan));
        }
    }

    fn observed(&self) -> Observed {
        Observed {
            arrivals: self.out.records.len() as u64,
            mean_service_ns: self.mean_ns(),
            served: self.mean.jobs(),
            active_workers: self.workers.len() as f64,
        }
    }
}

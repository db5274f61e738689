//! A server and its clients in virtual time: discrete events, no thread, no clock.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use fastrand::Rng;
use weirpool::client::{Backoff, Decision, Hint, Pacer, Retry, Turn};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// How the clients behave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Clients {
    /// With a `Pacer` each.
    Paced,
    /// They send everything, and each refused request again, three times in all.
    Naive,
}

/// What the server does from some moment on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// It has so many workers.
    Workers(usize),
    /// It takes requests as long as it has room, and does none.
    Stalls,
    /// It refuses everything.
    Refuses,
    /// It works again.
    Works,
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) clients: Clients,
    /// Requests a second that each client is asked for.
    pub(crate) demand_per_s: Vec<f64>,
    pub(crate) workers: usize,
    /// Mean of the exponential service time.
    pub(crate) service: Duration,
    /// Requests that the server holds at most, queued and running.
    pub(crate) slots: usize,
    /// Whether answers carry the server's score.
    pub(crate) reports: bool,
    /// The score when all slots are taken.
    pub(crate) score_when_full: f64,
    /// What refusals ask for.
    pub(crate) retry_after: Option<Duration>,
    /// One way, evenly from half of it to one and a half.
    pub(crate) network: Duration,
    /// After which a client gives an answer up.
    pub(crate) patience: Duration,
    /// A client that asks for nothing before this second.
    pub(crate) joins_late: Option<(usize, f64)>,
    pub(crate) changes: Vec<(f64, Change)>,
    pub(crate) seconds: usize,
}

impl World {
    /// So many clients that ask together for 2.5 times what the server can do, which is 1000 a second.
    pub(crate) fn new(clients: usize) -> Self {
        let mut world = Self {
            seed: 1,
            clients: Clients::Paced,
            demand_per_s: vec![1.0; clients],
            workers: 10,
            service: Duration::from_millis(10),
            slots: 60,
            reports: true,
            score_when_full: 1.0,
            retry_after: None,
            network: Duration::from_millis(2),
            patience: Duration::from_secs(1),
            joins_late: None,
            changes: Vec::new(),
            seconds: 30,
        };
        world.demand(2.5 * world.capacity());
        world
    }

    /// Scales the clients' demand to `per_s` altogether.
    pub(crate) fn demand(&mut self, per_s: f64) {
        let sum: f64 = self.demand_per_s.iter().sum();
        for demand in &mut self.demand_per_s {
            *demand *= per_s / sum;
        }
    }

    /// Requests a second that the server can do.
    pub(crate) fn capacity(&self) -> f64 {
        self.workers as f64 / self.service.as_secs_f64()
    }

    pub(crate) fn run(self) -> Outcome {
        let pacers: Vec<_> =
            (0..self.demand_per_s.len()).map(|i| pacer(self.seed + i as u64)).collect();
        Simulation::new(self, &pacers).run()
    }
}

fn pacer(seed: u64) -> Pacer {
    Pacer::new().seed(seed)
}

/// What happened within one second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Second {
    /// Requests made of the clients.
    pub(crate) wanted: u64,
    /// Requests that were sent at least once.
    pub(crate) begun: u64,
    /// Requests that reached the server, retries included.
    pub(crate) offered: u64,
    pub(crate) refused: u64,
    pub(crate) served: u64,
    pub(crate) retries: u64,
}

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) seconds: Vec<Second>,
    /// By second and client.
    pub(crate) served_by_client: Vec<Vec<u64>>,
}

impl Outcome {
    pub(crate) fn sum(&self, from: usize, to: usize, what: impl Fn(&Second) -> u64) -> f64 {
        self.seconds[from..to].iter().map(what).sum::<u64>() as f64
    }

    /// A second, on the average.
    pub(crate) fn mean(&self, from: usize, to: usize, what: impl Fn(&Second) -> u64) -> f64 {
        self.sum(from, to, what) / (to - from) as f64
    }

    pub(crate) fn refused_share(&self, from: usize, to: usize) -> f64 {
        self.sum(from, to, |s| s.refused) / self.sum(from, to, |s| s.offered)
    }

    /// How often a request is sent, on the average.
    pub(crate) fn amplification(&self, from: usize, to: usize) -> f64 {
        let begun = self.sum(from, to, |s| s.begun);
        (begun + self.sum(from, to, |s| s.retries)) / begun
    }

    pub(crate) fn served_by_client(&self, from: usize, to: usize) -> Vec<f64> {
        let clients = self.served_by_client[0].len();
        let of = |client: usize| self.served_by_client[from..to].iter().map(move |s| s[client]);
        (0..clients).map(|client| of(client).sum::<u64>() as f64).collect()
    }
}

/// Jain's index of fairness: 1 if all are equal, 1/n if one has everything.
pub(crate) fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

#[derive(Clone, Copy, Debug)]
struct Request {
    client: usize,
    attempt: u32,
}

#[derive(Debug)]
enum Event {
    /// A client is asked for a request.
    Wanted(usize),
    /// It asks its pacer, or sends.
    Try(Request),
    Turn(usize),
    Arrives(u64),
    Done(u64),
    Answered {
        id: u64,
        accepted: bool,
        score: f64,
    },
    TimedOut(u64),
    Changes(Change),
}

/// An event with its time. The earliest is the greatest, because a heap gives the greatest first; of
/// two at the same time the one made first.
struct Scheduled {
    at: u64,
    id: u64,
    event: Event,
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.id).cmp(&(self.at, self.id))
    }
}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scheduled {}

struct Simulation<'a> {
    world: World,
    pacers: &'a [Pacer],
    begin: Instant,
    now: u64,
    rng: Rng,
    events: BinaryHeap<Scheduled>,
    next: u64,
    turns: Vec<Option<(Turn<'a>, Request)>>,
    waiting: HashMap<u64, Request>,
    queue: VecDeque<u64>,
    running: usize,
    stalled: bool,
    refusing: bool,
    outcome: Outcome,
}

impl<'a> Simulation<'a> {
    fn new(world: World, pacers: &'a [Pacer]) -> Self {
        let clients = pacers.len();
        let outcome = Outcome {
            seconds: vec![Second::default(); world.seconds],
            served_by_client: vec![vec![0; clients]; world.seconds],
        };
        let mut simulation = Self {
            begin: Instant::now(),
            now: 0,
            rng: Rng::with_seed(world.seed),
            events: BinaryHeap::new(),
            next: 0,
            turns: Vec::new(),
            waiting: HashMap::new(),
            queue: VecDeque::new(),
            running: 0,
            stalled: false,
            refusing: false,
            world,
            pacers,
            outcome,
        };
        for client in 0..clients {
            match simulation.world.joins_late {
                Some((late, at_s)) if late == client => {
                    simulation.at((at_s * SECOND as f64) as u64, Event::Wanted(client));
                }
                _ => simulation.next_want(client),
            }
        }
        for (at_s, change) in simulation.world.changes.clone() {
            simulation.at((at_s * SECOND as f64) as u64, Event::Changes(change));
        }
        simulation
    }

    fn run(mut self) -> Outcome {
        let end = self.world.seconds as u64 * SECOND;
        while let Some(Scheduled { at, event, .. }) = self.events.pop() {
            if at >= end {
                break;
            }
            self.now = at;
            self.happen(event);
        }
        self.outcome
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Wanted(client) => {
                self.second().wanted += 1;
                self.next_want(client);
                self.attempt(Request { client, attempt: 0 });
            }
            Event::Try(request) => self.attempt(request),
            Event::Turn(place) => {
                let (turn, request) = self.turns[place].take().expect("a turn comes once");
                turn.send(self.instant());
                self.send(request);
            }
            Event::Arrives(id) => self.arrive(id),
            Event::Done(id) => self.done(id),
            Event::Answered { id, accepted, score } => self.answered(id, accepted, score),
            Event::TimedOut(id) => {
                if let Some(request) = self.waiting.remove(&id) {
                    self.refused(request, None);
                }
            }
            Event::Changes(change) => self.change(change),
        }
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::Workers(workers) => self.world.workers = workers,
            Change::Stalls => self.stalled = true,
            Change::Refuses => self.refusing = true,
            Change::Works => (self.stalled, self.refusing) = (false, false),
        }
        self.work();
    }

    fn attempt(&mut self, request: Request) {
        if self.world.clients == Clients::Naive {
            return self.send(request);
        }
        let pacers = self.pacers;
        match pacers[request.client].ask(request.attempt, self.instant()) {
            Decision::Send => self.send(request),
            Decision::GiveUp(_) => {}
            Decision::Wait(turn) => {
                let wait = turn.wait(self.instant()).as_nanos() as u64;
                self.turns.push(Some((turn, request)));
                self.after(wait, Event::Turn(self.turns.len() - 1));
            }
        }
    }

    fn send(&mut self, request: Request) {
        if request.attempt == 0 {
            self.second().begun += 1;
        } else {
            self.second().retries += 1;
        }
        let id = self.next;
        self.waiting.insert(id, request);
        let on_the_way = self.network();
        self.after(on_the_way, Event::Arrives(id));
        self.after(self.world.patience.as_nanos() as u64, Event::TimedOut(id));
    }

    fn arrive(&mut self, id: u64) {
        self.second().offered += 1;
        if self.refusing || self.running + self.queue.len() >= self.world.slots {
            self.second().refused += 1;
            return self.answer(id, false);
        }
        self.queue.push_back(id);
        self.work();
    }

    fn work(&mut self) {
        while !self.stalled && self.running < self.world.workers {
            let Some(id) = self.queue.pop_front() else { return };
            self.running += 1;
            let mean = self.world.service.as_nanos() as f64;
            let service = self.exponential(mean);
            self.after(service, Event::Done(id));
        }
    }

    fn done(&mut self, id: u64) {
        self.running -= 1;
        self.second().served += 1;
        if let Some(request) = self.waiting.get(&id) {
            let second = (self.now / SECOND) as usize;
            self.outcome.served_by_client[second][request.client] += 1;
        }
        self.answer(id, true);
        self.work();
    }

    fn answer(&mut self, id: u64, accepted: bool) {
        let share = (self.running + self.queue.len()) as f64 / self.world.slots as f64;
        let score = share * self.world.score_when_full;
        let on_the_way = self.network();
        self.after(on_the_way, Event::Answered { id, accepted, score });
    }

    fn answered(&mut self, id: u64, accepted: bool, score: f64) {
        let Some(request) = self.waiting.remove(&id) else { return };
        let (pacer, now) = (&self.pacers[request.client], self.instant());
        if self.world.clients == Clients::Paced {
            if self.world.reports {
                pacer.reported(score, now);
            }
            if accepted {
                pacer.accepted(now);
            }
        }
        if !accepted {
            self.refused(request, self.world.retry_after);
        }
    }

    fn refused(&mut self, request: Request, retry_after: Option<Duration>) {
        let Request { client, attempt } = request;
        let again = Request { client, attempt: attempt + 1 };
        let wait = if self.world.clients == Clients::Paced {
            let hint = retry_after.map_or(Hint::None, Hint::After);
            match self.pacers[client].refused(attempt, hint, self.instant()) {
                Retry::After(wait) => wait,
                Retry::No(_) => return,
            }
        } else if attempt < 2 {
            Backoff::default().delay(attempt, self.rng.f64())
        } else {
            return;
        };
        self.after(wait.as_nanos() as u64, Event::Try(again));
    }

    fn next_want(&mut self, client: usize) {
        let gap = self.exponential(SECOND as f64 / self.world.demand_per_s[client]);
        self.after(gap, Event::Wanted(client));
    }

    fn exponential(&mut self, mean: f64) -> u64 {
        (-mean * (1.0 - self.rng.f64()).ln()) as u64
    }

    fn network(&mut self) -> u64 {
        let mean = self.world.network.as_nanos() as f64;
        (mean * (0.5 + self.rng.f64())) as u64
    }

    fn second(&mut self) -> &mut Second {
        &mut self.outcome.seconds[(self.now / SECOND) as usize]
    }

    fn instant(&self) -> Instant {
        self.begin + Duration::from_nanos(self.now)
    }

    fn after(&mut self, ns: u64, event: Event) {
        self.at(self.now + ns, event);
    }

    fn at(&mut self, at: u64, event: Event) {
        self.events.push(Scheduled { at, id: self.next, event });
        self.next += 1;
    }
}

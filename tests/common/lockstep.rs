//! A pool whose bodies take virtual time: each runs until the test has stepped the clock over its end.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use weirpool::{JobSpec, Pool, Priority, Refusal};

use super::clocks::WatchedClock;
use super::{STEP, eventually};

/// A body that has started.
pub(crate) struct Started {
    pub(crate) waited: Duration,
    pub(crate) priority: Priority,
    pub(crate) at: Instant,
    worker: ThreadId,
    release: Sender<()>,
}

/// Bodies of one service time each, on all workers; one ends at each [`tick`](Self::tick).
pub(crate) struct Lockstep {
    pub(crate) pool: Pool,
    pub(crate) clock: WatchedClock,
    tick: Duration,
    started: Sender<Started>,
    starts: Receiver<Started>,
    running: VecDeque<Started>,
    /// Every body that has started, in order; the releases are gone.
    pub(crate) log: Vec<(Instant, Priority, Duration)>,
}

impl Lockstep {
    /// With so many workers each body takes so many ticks.
    pub(crate) fn new(pool: Pool, clock: WatchedClock, tick: Duration) -> Self {
        let (started, starts) = mpsc::channel();
        Self { pool, clock, tick, started, starts, running: VecDeque::new(), log: Vec::new() }
    }

    /// A body for this pool.
    pub(crate) fn body(&self) -> impl FnOnce() + Send + 'static {
        let (started, clock) = (self.started.clone(), self.clock.clone());
        move || {
            let context = weirpool::context().expect("inside a body");
            let (release, released) = mpsc::channel();
            let (waited, priority) = (context.queued_for(), context.priority());
            let at = weirpool::Clock::now(&clock);
            let worker = thread::current().id();
            let _ = started.send(Started { waited, priority, at, worker, release });
            // An error means that the test is over.
            let _ = released.recv();
        }
    }

    /// Offers one job.
    pub(crate) fn offer(&mut self, job: impl Fn(&Pool) -> JobSpec<'_>) -> Result<(), Refusal> {
        let offered = job(&self.pool).try_spawn(self.body()).map_err(Refusal::from);
        // One that starts at once does so before the clock moves.
        self.settle();
        offered
    }

    /// Offers so many ordinary jobs; how many were refused.
    pub(crate) fn offer_many(&mut self, many: usize) -> usize {
        let refused = (0..many).filter(|_| self.pool.try_spawn(self.body()).is_err()).count();
        self.settle();
        refused
    }

    /// A tick passes, then the body that has run longest ends, and a worker takes the next.
    pub(crate) fn tick(&mut self) {
        self.settle();
        self.clock.advance(self.tick);
        self.end_one();
    }

    /// The body that has run longest ends, its time is taken, and a worker takes the next.
    pub(crate) fn end_one(&mut self) {
        if let Some(Started { worker, release, .. }) = self.running.pop_front() {
            let looks = self.clock.looks_of(worker);
            release.send(()).expect("its body waits for this");
            // The slot is back before that, so without a wait the clock could move in between.
            eventually("its worker has looked at the clock", || {
                self.clock.looks_of(worker) > looks
            });
        }
        self.settle();
    }

    /// For how long the body that has run longest has done so.
    pub(crate) fn oldest(&self) -> Option<Duration> {
        let now = weirpool::Clock::now(&self.clock);
        self.running.front().map(|oldest| now - oldest.at)
    }

    /// How many bodies run.
    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    /// Returns when all workers are inside a body, or nothing is queued.
    pub(crate) fn settle(&mut self) {
        let hung = Instant::now() + STEP;
        loop {
            while let Ok(started) = self.starts.try_recv() {
                self.log.push((started.at, started.priority, started.waited));
                self.running.push_back(started);
            }
            let all = self.running.len() == self.pool.workers();
            // Grants that nobody has used yet hold slots, too.
            if all || self.running.len() == self.pool.in_flight() || self.is_waiting() {
                return;
            }
            assert!(Instant::now() < hung, "the workers don't take what is queued");
            thread::yield_now();
        }
    }

    /// Whether all that is in flight runs, or is a permit.
    fn is_waiting(&self) -> bool {
        let now = self.pool.snapshot();
        now.reserved > 0 && self.running.len() + now.reserved == now.in_flight
    }

    /// Lets all end, the queued too.
    pub(crate) fn finish(&mut self) {
        while self.pool.in_flight() > 0 {
            self.end_one();
        }
    }

    /// The waits of the bodies that started from then on, in rising order.
    pub(crate) fn waits_since(&self, from: Instant) -> Vec<Duration> {
        let since = self.log.iter().filter(|(at, ..)| *at >= from);
        let mut waits: Vec<_> = since.map(|(.., waited)| *waited).collect();
        waits.sort();
        waits
    }
}

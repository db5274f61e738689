//! A client: it is asked for requests at random times, and has a few threads to send them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use weirpool::Pool;
use weirpool::client::{Backoff, Decision, Hint, Pacer, Retry};

use crate::AnyError;
use crate::wire;

/// Requests that one client has under way at most.
const UNDER_WAY: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Manner {
    /// Sends everything, and what was refused again, three times in all.
    Naive,
    /// Asks a `Pacer`.
    Paced,
}

/// What became of one request that was sent, at least once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) at: Instant,
    pub(crate) is_retry: bool,
    pub(crate) accepted: bool,
    /// From the request to this answer, the wait for its turn included.
    pub(crate) latency: Duration,
}

/// What a client has to tell in the end.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) wanted: Vec<Instant>,
    pub(crate) sent: Vec<Sent>,
    /// Requests that could not be sent because too many were under way.
    pub(crate) crowded: u64,
}

pub(crate) struct Client {
    server: SocketAddr,
    manner: Manner,
    per_s: f64,
    rng: Rng,
    pacer: Pacer,
    crowded: AtomicU64,
    sent: Mutex<Vec<Sent>>,
}

impl Client {
    pub(crate) fn new(server: SocketAddr, manner: Manner, per_s: f64, seed: u64) -> Self {
        Self {
            server,
            manner,
            per_s,
            rng: Rng::with_seed(seed),
            pacer: Pacer::new().seed(seed),
            crowded: AtomicU64::new(0),
            sent: Mutex::default(),
        }
    }

    /// Works until `end`.
    pub(crate) fn run(mut self, end: Instant) -> Result<Log, AnyError> {
        let mut rng = self.rng.fork();
        let per_s = self.per_s;
        let threads = Pool::new(16, UNDER_WAY)?;
        let this = Arc::new(self);
        let mut wanted = Vec::new();
        let mut next = Instant::now();
        loop {
            // Times are on a schedule of their own, whatever became of earlier requests.
            next += Duration::from_secs_f64(-(1.0 - rng.f64()).ln() / per_s);
            if next >= end {
                break;
            }
            thread::sleep(next.saturating_duration_since(Instant::now()));
            wanted.push(next);
            let own = Arc::clone(&this);
            if threads.try_spawn(move || own.request(end)).is_err() {
                this.crowded.fetch_add(1, SeqCst);
            }
        }
        threads.shutdown(weirpool::Shutdown::Drain, None);
        let sent = std::mem::take(&mut *this.sent.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Log { wanted, sent, crowded: this.crowded.load(SeqCst) })
    }

    /// One request, with its retries.
    fn request(&self, end: Instant) {
        let begun = Instant::now();
        for attempt in 0.. {
            if self.manner == Manner::Paced && !self.may_send(attempt) {
                return;
            }
            let Some(wait) = self.attempt(attempt, begun) else { return };
            let retry_at = Instant::now() + wait;
            if retry_at >= end {
                return;
            }
            thread::sleep(wait);
        }
    }

    /// Waits for the request's turn; false if it is to be given up.
    fn may_send(&self, attempt: u32) -> bool {
        match self.pacer.ask(attempt, Instant::now()) {
            Decision::Send => true,
            Decision::Wait(turn) => {
                thread::sleep(turn.wait(Instant::now()));
                turn.send(Instant::now());
                true
            }
            Decision::GiveUp(_) => false,
        }
    }

    /// Sends it once. If it is to be sent again, after how long.
    fn attempt(&self, attempt: u32, begun: Instant) -> Option<Duration> {
        let at = Instant::now();
        let answer = wire::call(self.server).ok();
        let accepted = answer.as_ref().is_some_and(|answer| answer.accepted);
        let sent = Sent { at, is_retry: attempt > 0, accepted, latency: begun.elapsed() };
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).push(sent);

        let now = Instant::now();
        if let Some(score) = answer.as_ref().and_then(|answer| answer.score) {
            self.pacer.reported(score, now);
        }
        if accepted {
            self.pacer.accepted(now);
            return None;
        }
        match self.manner {
            // No answer in time is a refusal, too.
            Manner::Paced => {
                let retry_after = answer.and_then(|answer| answer.retry_after);
                let hint = retry_after.map_or(Hint::None, Hint::After);
                match self.pacer.refused(attempt, hint, now) {
                    Retry::After(wait) => Some(wait),
                    Retry::No(_) => None,
                }
            }
            Manner::Naive => {
                (attempt < 2).then(|| Backoff::default().delay(attempt, fastrand::f64()))
            }
        }
    }
}

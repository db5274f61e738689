//! The figures of one moment, as the page shows them.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use serde::Serialize;
use weirpool::cpu::Process;
use weirpool::{CpuReading, CpuSource, Pool, Reason, ShedReason};

use crate::engine::{Engine, Route};
use crate::memory;

/// What becomes of jobs that are not done, in the words of the page.
pub(crate) const TURNED_AWAY: [&str; 7] =
    ["wait too long", "slots full", "deadline", "CPU", "bytes", "shed late", "shed for wait"];

/// Rates are taken over so many samples: a second.
const RATE_SAMPLES: usize = 5;

/// All rates are per second, all times in milliseconds; what isn't known is null.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Sample {
    /// Counts from 1 while the process lives.
    pub(crate) number: u64,
    /// Since the process began.
    pub(crate) at_ms: u64,
    /// By route.
    pub(crate) served: [f64; Route::ALL.len()],
    /// As in [`TURNED_AWAY`].
    pub(crate) turned_away: [f64; TURNED_AWAY.len()],
    /// Jobs whose client hung up before they began.
    pub(crate) cancelled: f64,
    /// What goes up and down with each job is the mean of several looks: these, the predicted wait,
    /// the workers and the score.
    pub(crate) reserved: f64,
    pub(crate) queued: f64,
    pub(crate) running: f64,
    pub(crate) limit: Option<usize>,
    /// The wait that a new job would have, of the lowest priority.
    pub(crate) predicted_ms: Option<f64>,
    /// The smallest wait of the last interval.
    pub(crate) smallest_ms: Option<f64>,
    /// The longest wait of the jobs started since the last sample.
    pub(crate) longest_ms: f64,
    /// The wait that the door allows.
    pub(crate) bound_ms: Option<f64>,
    pub(crate) offered_load: Option<f64>,
    /// CPU of the whole process, as a share of the cores it may use.
    pub(crate) cpu: Option<f64>,
    pub(crate) active_workers: Option<f64>,
    pub(crate) memory_mib: Option<f64>,
    pub(crate) score: Option<f64>,
    pub(crate) is_refusing: bool,
}

/// What only ever grows.
#[derive(Clone, Copy, Default)]
struct Totals {
    at: Duration,
    done: [u64; Route::ALL.len()],
    turned_away: [u64; TURNED_AWAY.len()],
    cancelled: u64,
    cpu: Option<(Duration, f64)>,
}

/// Makes one sample after the other.
pub(crate) struct Sampler {
    born: Instant,
    number: u64,
    cpu: Process,
    looks: Looks,
    /// Of the last second, the oldest first.
    totals: VecDeque<Totals>,
}

impl Sampler {
    pub(crate) fn new() -> Self {
        let totals = VecDeque::from([Totals::default()]);
        Self {
            born: Instant::now(),
            number: 0,
            cpu: Process::new(),
            looks: Looks::default(),
            totals,
        }
    }

    /// To be called several times for each sample.
    pub(crate) fn look(&mut self, engine: &Engine) {
        self.looks.add(engine);
    }

    pub(crate) fn take(&mut self, engine: &Engine) -> Sample {
        self.number += 1;
        let now = self.totals(engine);
        let before = self.totals.front().copied().unwrap_or_default();
        self.totals.push_back(now);
        if self.totals.len() > RATE_SAMPLES {
            self.totals.pop_front();
        }
        let seen = engine.seen();
        let sample = Sample {
            number: self.number,
            at_ms: now.at.as_millis() as u64,
            served: rates(before.done, now.done, now.at - before.at),
            turned_away: rates(before.turned_away, now.turned_away, now.at - before.at),
            cancelled: rates([before.cancelled], [now.cancelled], now.at - before.at)[0],
            longest_ms: ms(seen.take_longest_wait()),
            cpu: cpu_share(before, now),
            memory_mib: memory::resident_bytes()
                .map(|bytes| round(bytes as f64 / f64::from(1 << 20), 10.0)),
            ..Sample::default()
        };
        let means = std::mem::take(&mut self.looks).means();
        let sample = Sample {
            reserved: means.reserved,
            queued: means.queued,
            running: means.running,
            ..sample
        };
        match engine.pool() {
            Some(pool) => of_pool(sample, &means, pool),
            None => sample,
        }
    }

    fn totals(&mut self, engine: &Engine) -> Totals {
        let now = Instant::now();
        let mut totals = Totals {
            at: now - self.born,
            done: engine.seen().done.each_ref().map(|done| done.load(Relaxed)),
            cpu: match self.cpu.read(now) {
                Some(CpuReading::Cumulative { cpu, cores }) => Some((cpu, cores)),
                _ => None,
            },
            ..Totals::default()
        };
        if let Some(snapshot) = engine.pool().map(Pool::snapshot) {
            let refused = |reason| snapshot.rejected.get(reason);
            let shed = |reason| snapshot.shed.get(reason);
            totals.cancelled = snapshot.cancelled;
            totals.turned_away = [
                refused(Reason::QueueDelay),
                refused(Reason::Full) + refused(Reason::Limit) + refused(Reason::Partition),
                refused(Reason::Deadline),
                refused(Reason::Cpu),
                refused(Reason::Bytes),
                shed(ShedReason::Deadline),
                shed(ShedReason::QueueDelay) + shed(ShedReason::Displaced),
            ];
        }
        totals
    }
}

fn of_pool(sample: Sample, means: &Looks, pool: &Pool) -> Sample {
    let snapshot = pool.snapshot();
    let delay = snapshot.queue_delay;
    Sample {
        limit: Some(snapshot.limit),
        predicted_ms: Some(means.predicted_ms),
        smallest_ms: delay.smallest_wait.map(ms),
        bound_ms: delay.bound.map(ms),
        offered_load: delay.offered_load.map(|load| round(load, 1e3)),
        active_workers: Some(means.active_workers),
        score: Some(means.score),
        is_refusing: delay.is_refusing,
        ..sample
    }
}

/// Sums over several looks at what changes with each job.
#[derive(Default)]
struct Looks {
    count: f64,
    reserved: f64,
    queued: f64,
    running: f64,
    predicted_ms: f64,
    active_workers: f64,
    score: f64,
}

impl Looks {
    fn add(&mut self, engine: &Engine) {
        self.count += 1.0;
        let Some(pool) = engine.pool() else {
            let seen = engine.seen();
            self.queued += seen.queued.load(Relaxed) as f64;
            self.running += seen.running.load(Relaxed) as f64;
            return;
        };
        let snapshot = pool.snapshot();
        self.reserved += snapshot.reserved as f64;
        self.queued += snapshot.queued as f64;
        self.running += snapshot.running as f64;
        self.predicted_ms += ms(snapshot.queue_delay.predicted_wait);
        self.active_workers += snapshot.active_workers as f64;
        self.score += pool.load().score;
    }

    fn means(self) -> Self {
        let mean = |sum: f64| round(sum / self.count.max(1.0), 1e3);
        Self {
            count: 1.0,
            reserved: mean(self.reserved),
            queued: mean(self.queued),
            running: mean(self.running),
            predicted_ms: mean(self.predicted_ms),
            active_workers: mean(self.active_workers),
            score: mean(self.score),
        }
    }
}

/// To one part of so many: digits that mean nothing need not travel.
fn round(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}

fn ms(time: Duration) -> f64 {
    round(time.as_secs_f64() * 1e3, 1e3)
}

fn rates<const N: usize>(before: [u64; N], now: [u64; N], time: Duration) -> [f64; N] {
    let seconds = time.as_secs_f64().max(1e-3);
    std::array::from_fn(|i| round(now[i].saturating_sub(before[i]) as f64 / seconds, 10.0))
}

fn cpu_share(before: Totals, now: Totals) -> Option<f64> {
    let ((before_cpu, _), (now_cpu, cores)) = (before.cpu?, now.cpu?);
    let available = (now.at - before.at).as_secs_f64() * cores;
    let used = now_cpu.saturating_sub(before_cpu).as_secs_f64();
    (available > 0.0).then(|| round((used / available).clamp(0.0, 1.0), 1e3))
}

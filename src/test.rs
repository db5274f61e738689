//! Stand-ins for the world outside, for tests of your own.

use std::time::{Duration, Instant};

use crate::cpu::{Contention, CpuReading, CpuSource};
use crate::sense::clock::Clock;
use crate::sync::stat::{Arc, AtomicU64, Mutex, Relaxed};

/// Far more than any test wants, and no trouble for any platform's `Instant`.
const CENTURY_NS: u64 = 100 * 365 * 86_400 * 1_000_000_000;

/// A clock that stands still until you move it. Clones share their time.
///
/// ```
/// use std::time::Duration;
/// use weirpool::test::ManualClock;
/// use weirpool::{JobError, Pool, ShedReason};
///
/// let clock = ManualClock::new();
/// let pool = Pool::builder().workers(1).clock(clock.clone()).build()?;
/// let (open, gate) = std::sync::mpsc::channel::<()>();
/// pool.try_spawn(move || gate.recv().unwrap()).unwrap();
/// let impatient = pool.job().timeout(Duration::from_secs(1)).try_submit(|| ()).unwrap();
/// clock.advance(Duration::from_secs(2));
/// open.send(()).unwrap();
/// assert!(matches!(impatient.join(), Err(JobError::Shed(ShedReason::Deadline))));
/// # Ok::<(), weirpool::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    start: Instant,
    elapsed_ns: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock that begins at the present.
    pub fn new() -> Self {
        Self { start: Instant::now(), elapsed_ns: Arc::default() }
    }

    /// Moves the time on, at most to a century after its beginning.
    pub fn advance(&self, by: Duration) {
        let by_ns = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let _ = self.elapsed_ns.fetch_update(Relaxed, Relaxed, |elapsed_ns| {
            Some(elapsed_ns.saturating_add(by_ns).min(CENTURY_NS))
        });
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        let elapsed = Duration::from_nanos(self.elapsed_ns.load(Relaxed));
        self.start + elapsed
    }
}

/// A CPU as busy, and as contended, as you say. Clones share their figures.
///
/// It begins with no reading and no contention, and always answers for contention, so that a pool with
/// this source never looks at the real machine.
///
/// ```
/// use std::time::Instant;
/// use weirpool::cpu::{Contention, CpuReading, CpuSource};
/// use weirpool::test::ManualCpu;
///
/// let cpu = ManualCpu::new();
/// let mut source = cpu.clone();
/// assert_eq!(source.read(Instant::now()), None);
/// cpu.set(0.9);
/// cpu.set_contention(Contention::none().throttled(0.5));
/// assert_eq!(source.read(Instant::now()), Some(CpuReading::Busy(0.9)));
/// assert_eq!(source.contention(Instant::now()).unwrap().throttled, Some(0.5));
/// ```
#[derive(Clone, Debug)]
pub struct ManualCpu {
    figures: Arc<Mutex<Figures>>,
}

#[derive(Clone, Copy, Debug)]
struct Figures {
    reading: Option<CpuReading>,
    contention: Contention,
}

impl ManualCpu {
    /// A CPU without a reading yet, and without contention.
    pub fn new() -> Self {
        let figures = Figures { reading: None, contention: Contention::none() };
        Self { figures: Arc::new(Mutex::new(figures)) }
    }

    /// From now on the share in use is this, whatever it is: a pool ignores what makes no sense.
    pub fn set(&self, busy: f64) {
        self.figures.lock().reading = Some(CpuReading::Busy(busy));
    }

    /// From now on contention is this. A share that is none counts as zero.
    pub fn set_contention(&self, contention: Contention) {
        let or_none = |share: Option<f64>| Some(share.unwrap_or(0.0));
        self.figures.lock().contention = Contention {
            throttled: or_none(contention.throttled),
            other_threads: or_none(contention.other_threads),
            neighbours: or_none(contention.neighbours),
        };
    }
}

impl Default for ManualCpu {
    fn default() -> Self {
        Self::new()
    }
}

impl CpuSource for ManualCpu {
    fn read(&mut self, _now: Instant) -> Option<CpuReading> {
        self.figures.lock().reading
    }

    fn contention(&mut self, _now: Instant) -> Option<Contention> {
        Some(self.figures.lock().contention)
    }
}

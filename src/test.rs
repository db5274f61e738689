//! Stand-ins for the world outside, for tests of your own.

use std::time::{Duration, Instant};

use crate::sense::clock::Clock;
use crate::sync::stat::{Arc, AtomicU64, Relaxed};

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

//! What tells the pool how busy the CPU is, and what takes it.

use std::time::{Duration, Instant};

use super::cpu::WorkerClocks;
use crate::policy::contention::Contention as Shares;
use crate::policy::meter::Reading;
use crate::sync::stat::Arc;

/// Says how busy the CPU is.
///
/// What is no number, negative, infinite or backwards is dropped and counted by the pool; a share
/// above 1 counts as 1.
///
/// ```
/// use std::time::Instant;
/// use weirpool::cpu::{CpuReading, CpuSource};
///
/// /// A battery-driven device that calls itself busy when it gets hot.
/// struct Heat;
///
/// # fn degrees() -> f64 { 65.0 }
/// impl CpuSource for Heat {
///     fn read(&mut self, _now: Instant) -> Option<CpuReading> {
///         Some(CpuReading::Busy((degrees() - 40.0) / 50.0))
///     }
/// }
///
/// assert_eq!(Heat.read(Instant::now()), Some(CpuReading::Busy(0.5)));
/// ```
pub trait CpuSource: Send + 'static {
    /// The present figure; `now` is the pool's time. None if there is none at the moment: the pool
    /// goes on with its average, and as long as there never was a figure it admits all.
    fn read(&mut self, now: Instant) -> Option<CpuReading>;

    /// What kept the pool from the CPU since the last call, where this source knows it. The default,
    /// none, leaves that to the pool's own sensors; so does a share that is none.
    fn contention(&mut self, now: Instant) -> Option<Contention> {
        let _ = now;
        None
    }

    /// How many readings could not be made so far, because a file was missing or made no sense. The
    /// default: none.
    fn skipped(&self) -> u64 {
        0
    }

    /// Tells the source about the pool's workers, once, before its first reading.
    #[doc(hidden)]
    fn attach(&mut self, workers: &WorkerTable) {
        let _ = workers;
    }
}

impl<S: CpuSource + ?Sized> CpuSource for Box<S> {
    fn read(&mut self, now: Instant) -> Option<CpuReading> {
        (**self).read(now)
    }

    fn contention(&mut self, now: Instant) -> Option<Contention> {
        (**self).contention(now)
    }

    fn skipped(&self) -> u64 {
        (**self).skipped()
    }

    fn attach(&mut self, workers: &WorkerTable) {
        (**self).attach(workers);
    }
}

/// One figure of a [`CpuSource`].
///
/// ```
/// use std::time::Duration;
/// use weirpool::CpuReading;
///
/// // Three quarters of what there is were in use since the last reading.
/// let share = CpuReading::Busy(0.75);
/// // A counter of CPU time: the pool divides its growth by the time and the cores.
/// let counter = CpuReading::Cumulative { cpu: Duration::from_secs(3_600), cores: 1.5 };
/// # let _ = (share, counter);
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CpuReading {
    /// The share in use since the last reading, from 0 to 1.
    Busy(f64),
    /// CPU time used since some beginning. The first such reading gives no share yet, and one that is
    /// smaller than the last is a new beginning.
    Cumulative {
        /// The counter.
        cpu: Duration,
        /// The cores that could be used, above 0; may be a fraction.
        cores: f64,
    },
}

impl From<CpuReading> for Reading {
    fn from(reading: CpuReading) -> Self {
        match reading {
            CpuReading::Busy(share) => Self::Busy(share),
            CpuReading::Cumulative { cpu, cores } => Self::Cumulative {
                cpu_ns: u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX),
                cores,
            },
        }
    }
}

/// What kept the pool from the CPU over a time, by cause: each a share, from 0 to 1, of what it could
/// have used. A share that is none is unknown to the source, and the pool's own sensors are asked.
///
/// All cores busy with the pool's own jobs is no contention.
///
/// ```
/// use weirpool::cpu::Contention;
///
/// let throttled = Contention::none().throttled(0.3);
/// assert_eq!((throttled.throttled, throttled.neighbours), (Some(0.3), Some(0.0)));
/// assert_eq!(Contention::unknown().other_threads(0.1).throttled, None);
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Contention {
    /// Of the workers' time: stopped because a quota was used up.
    pub throttled: Option<f64>,
    /// Of the CPU: taken by other threads of this process.
    pub other_threads: Option<f64>,
    /// Of the CPU: taken by other processes, or by other machines on the same hardware.
    pub neighbours: Option<f64>,
}

impl Contention {
    /// Nothing is known.
    pub fn unknown() -> Self {
        Self::default()
    }

    /// It is known that nothing was taken.
    pub fn none() -> Self {
        Self { throttled: Some(0.0), other_threads: Some(0.0), neighbours: Some(0.0) }
    }

    /// The same with this share throttled. What is no number counts as 0, above 1 as 1.
    #[must_use]
    pub fn throttled(self, share: f64) -> Self {
        Self { throttled: Some(share), ..self }
    }

    /// The same with this share taken by other threads of the process. What is no number counts as 0,
    /// above 1 as 1.
    #[must_use]
    pub fn other_threads(self, share: f64) -> Self {
        Self { other_threads: Some(share), ..self }
    }

    /// The same with this share taken by neighbours. What is no number counts as 0, above 1 as 1.
    #[must_use]
    pub fn neighbours(self, share: f64) -> Self {
        Self { neighbours: Some(share), ..self }
    }

    /// Whether nothing is left to ask the pool's own sensors for.
    pub(crate) fn is_complete(&self) -> bool {
        self.throttled.is_some() && self.other_threads.is_some() && self.neighbours.is_some()
    }

    /// What is known here, and of `own` what isn't.
    pub(crate) fn completed_by(self, own: Shares) -> Shares {
        Shares {
            throttled: self.throttled.unwrap_or(own.throttled),
            other_threads: self.other_threads.unwrap_or(own.other_threads),
            neighbours: self.neighbours.unwrap_or(own.neighbours),
        }
        .clamped()
    }
}

/// The pool's workers, for [`CpuSource::attach`].
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct WorkerTable(pub(crate) Arc<WorkerClocks>);

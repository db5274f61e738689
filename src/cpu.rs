//! Where the CPU gate gets its figures from.
//!
//! A [`CpuSource`] says how busy the CPU is, and may say who else takes it. Four come with the crate:
//!
//! | source | says | of |
//! |---|---|---|
//! | [`Process`] (default) | what `getrusage` counts for this process | the cores it may use |
//! | [`Workers`] | what the pool's own threads use, also within long bodies | the cores they may use |
//! | [`Cgroup`] | what the container uses, and for how long its quota stopped it | its quota |
//! | [`Host`] | what the whole machine does | all its CPUs |
//!
//! Write your own for a figure that only you have; [`ManualCpu`](crate::test::ManualCpu) is the one
//! for tests. A source is read about ten times a second, on the pool's threads, never at the same time
//! by two of them.
//!
//! # What readings cost
//! [`Process`] and [`Host`] a few microseconds, [`Cgroup`] about ten per level of nested groups,
//! [`Workers`] a quarter of a microsecond per worker: each less than a thousandth of a core.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::policy::contention::Contention as Shares;
use crate::policy::meter::Reading;
use crate::sense::cgroup::Cgroup as Groups;
use crate::sense::cores::{UsableCores, online_cpus};
use crate::sense::cpu::{WorkerClocks, allowed_cpus, process_cpu_ns};
use crate::sense::host::HostStat;
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

/// The CPU time of this process, by `getrusage(RUSAGE_SELF)`, of the cores that it may use: those of
/// its affinity where it is made, or its cgroup's quota if that is less. The default source.
///
/// On systems other than Unix there is no such figure, and the gate admits all.
///
/// ```
/// use std::time::Instant;
/// use weirpool::cpu::{CpuReading, CpuSource, Process};
///
/// let mut source = Process::new();
/// if let Some(CpuReading::Cumulative { cpu, cores }) = source.read(Instant::now()) {
///     println!("{cpu:?} so far, on {cores} cores");
/// }
/// ```
#[derive(Debug)]
pub struct Process {
    cores: UsableCores,
}

impl Process {
    /// Never fails.
    pub fn new() -> Self {
        Self { cores: UsableCores::new() }
    }
}

impl Default for Process {
    fn default() -> Self {
        Self::new()
    }
}

impl CpuSource for Process {
    fn read(&mut self, now: Instant) -> Option<CpuReading> {
        let cpu = Duration::from_nanos(process_cpu_ns()?);
        Some(CpuReading::Cumulative { cpu, cores: self.cores.get(now) })
    }
}

/// The CPU time of the pool's own workers, of the cores that they may use together.
///
/// Each worker publishes its `getrusage(RUSAGE_THREAD)` between jobs; while a body runs for long, its
/// thread's CPU clock is read from outside, so that it is seen as busy. Other threads of the process
/// don't count. Linux only; elsewhere, and outside of a pool, there is no figure.
///
/// ```
/// use std::time::Instant;
/// use weirpool::cpu::{CpuSource, Workers};
///
/// // It learns from its pool which threads to look at.
/// assert_eq!(Workers::new().read(Instant::now()), None);
/// ```
#[derive(Debug)]
pub struct Workers {
    table: Option<WorkerTable>,
    cores: UsableCores,
}

impl Workers {
    /// Never fails.
    pub fn new() -> Self {
        Self { table: None, cores: UsableCores::new() }
    }
}

impl Default for Workers {
    fn default() -> Self {
        Self::new()
    }
}

impl CpuSource for Workers {
    fn read(&mut self, now: Instant) -> Option<CpuReading> {
        let WorkerTable(clocks) = self.table.as_ref().filter(|_| cfg!(target_os = "linux"))?;
        let cpu = Duration::from_nanos(clocks.total_ns());
        let cores = self.cores.get(now).min(clocks.len() as f64);
        Some(CpuReading::Cumulative { cpu, cores })
    }

    fn attach(&mut self, workers: &WorkerTable) {
        self.table = Some(workers.clone());
    }
}

/// The CPU time of this process's control group (version 1 or 2), of its quota.
///
/// Of nested groups the one with the tightest quota counts, with all that it holds. Without a quota
/// it is the process's own group, of the cores that the process may use. It also knows for how long
/// the quota stopped the group. Quotas may change at any time.
///
/// Making one never fails. If its files are missing or make no sense, there is no reading; the first
/// time that happens, one line on stderr says so, and [`skipped`](CpuSource::skipped) counts them.
///
/// ```
/// use std::time::Instant;
/// use weirpool::cpu::{Cgroup, CpuSource};
///
/// let mut source = Cgroup::new();
/// println!("{:?}", source.read(Instant::now()));
/// ```
#[derive(Debug)]
pub struct Cgroup {
    groups: Groups,
    /// To divide by where there is no quota.
    cores: f64,
    /// Those of the pool, if there is one.
    workers: Option<usize>,
    last_throttled: Option<(Instant, u64)>,
    misses: Misses,
}

impl Cgroup {
    /// The groups of this process.
    pub fn new() -> Self {
        Self::with(Path::new("/"), allowed_cpus())
    }

    /// The groups in the file tree under `root` instead of `/`: `proc/self/cgroup`,
    /// `proc/self/mountinfo`, `sys/fs/cgroup` and `sys/devices/system/cpu/online`, as far as they are
    /// there. Or `root` may be the directory of one group, such as that of a whole pod.
    pub fn at(root: impl AsRef<Path>) -> Self {
        let root = root.as_ref();
        Self::with(root, online_cpus(root).unwrap_or_else(allowed_cpus))
    }

    fn with(root: &Path, cpus: usize) -> Self {
        Self {
            groups: Groups::find(root),
            cores: cpus as f64,
            workers: None,
            last_throttled: None,
            misses: Misses::default(),
        }
    }
}

impl Default for Cgroup {
    fn default() -> Self {
        Self::new()
    }
}

impl CpuSource for Cgroup {
    fn read(&mut self, _now: Instant) -> Option<CpuReading> {
        let Ok(usage) = self.groups.usage() else {
            self.misses.add("the control group");
            return None;
        };
        let cores = usage.quota_cores.unwrap_or(self.cores);
        Some(CpuReading::Cumulative { cpu: Duration::from_nanos(usage.cpu_ns), cores })
    }

    fn contention(&mut self, now: Instant) -> Option<Contention> {
        let throttled_ns = self.groups.throttled_ns()?;
        let (at, before_ns) = self.last_throttled.replace((now, throttled_ns))?;
        let elapsed_ns = now.saturating_duration_since(at).as_nanos() as f64;
        let stopped_ns = throttled_ns.checked_sub(before_ns)? as f64;
        if elapsed_ns <= 0.0 {
            return None;
        }
        // CPUs are stopped each for itself: as many as there were threads to run.
        let threads = match self.workers {
            Some(workers) => workers as f64,
            None => self.groups.quota_cores().ok()?.unwrap_or(self.cores).ceil(),
        };
        let share = (stopped_ns / (elapsed_ns * threads)).clamp(0.0, 1.0);
        Some(Contention::unknown().throttled(share))
    }

    fn skipped(&self) -> u64 {
        self.misses.count
    }

    fn attach(&mut self, workers: &WorkerTable) {
        self.workers = Some(workers.0.len().max(1));
    }
}

/// What all CPUs of this machine do, by `/proc/stat`: whatever runs on it counts, and what a hypervisor
/// took. Waiting for a disk is idle. In a container this is the host, not the container.
///
/// Making one never fails. If the file is missing or makes no sense, there is no reading; the first
/// time that happens, one line on stderr says so, and [`skipped`](CpuSource::skipped) counts them.
///
/// ```
/// use std::time::Instant;
/// use weirpool::cpu::{CpuSource, Host};
///
/// let mut source = Host::new();
/// println!("{:?}", source.read(Instant::now()));
/// ```
#[derive(Debug)]
pub struct Host {
    stat: HostStat,
    misses: Misses,
}

impl Host {
    /// This machine.
    pub fn new() -> Self {
        Self::at("/proc/stat")
    }

    /// A file in the format of `/proc/stat`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { stat: HostStat::at(path.into()), misses: Misses::default() }
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

impl CpuSource for Host {
    fn read(&mut self, _now: Instant) -> Option<CpuReading> {
        let Some(times) = self.stat.read() else {
            self.misses.add("the host's file of CPU times");
            return None;
        };
        let cpu = Duration::from_nanos(times.busy_ns.saturating_add(times.stolen_ns));
        Some(CpuReading::Cumulative { cpu, cores: times.cpus as f64 })
    }

    fn skipped(&self) -> u64 {
        self.misses.count
    }
}

/// Readings that could not be made: all are counted, the first is told.
#[derive(Debug, Default)]
struct Misses {
    count: u64,
}

impl Misses {
    fn add(&mut self, what: &str) {
        if self.count == 0 {
            let line = format!("weirpool: no CPU figure from {what}; the gate does without\n");
            // Not `eprintln!`, which panics if stderr is closed.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
        }
        self.count = self.count.saturating_add(1);
    }
}

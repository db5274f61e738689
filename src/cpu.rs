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

use crate::sense::cgroup::Cgroup as Groups;
use crate::sense::cores::{UsableCores, online_cpus};
use crate::sense::cpu::{allowed_cpus, process_cpu_ns};
use crate::sense::host::HostStat;
pub use crate::sense::source::{Contention, CpuReading, CpuSource, WorkerTable};

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

//! What the policy of contention needs, read from this machine.
//!
//! On Linux: throttled time from the control groups, CPU time of the process and of the workers,
//! what the host does, and how long workers waited for a core. Elsewhere nothing.
//!
//! # Cost
//! About 15 µs a sample with four workers on a machine of two cores, ten times a second. Of that the
//! control groups take 7, the workers 6 (1.2 each for the run delay, 0.3 for the clock). Two parts grow
//! with the machine, and are bounded: the run delay is read of at most [`WATCHED_WORKERS`] workers, and
//! `/proc/stat`, which takes long where there are many CPUs and interrupts, for at most a thousandth of
//! the time.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::cgroup::Cgroup;
use super::cores::UsableCores;
use super::cpu::{WorkerClocks, allowed_cpus, process_cpu_ns};
use super::host::HostStat;
use super::text::Text;
use crate::policy::contention::Sample;
use crate::sync::stat::Arc;
use crate::sync::system_now;

/// The run delay of so many workers stands for that of all. The first ones: those take jobs also when
/// only a few may.
const WATCHED_WORKERS: usize = 16;

/// Reading the host's figures takes at most this part of the time.
const HOST_PART: u32 = 1_000;

/// The sensors of one pool.
///
/// The counters belong to the real world, so the time between two looks is real time too, whatever
/// clock the pool judges by.
pub(crate) struct Sensors {
    clocks: Arc<WorkerClocks>,
    began: Instant,
    cores: UsableCores,
    cgroup: Cgroup,
    host: HostPace,
    delays: RunDelays,
    last: Option<Counters>,
}

/// All counters at one moment.
#[derive(Clone, Copy)]
struct Counters {
    at_ns: u64,
    throttled_ns: Option<u64>,
    pool_cpu_ns: u64,
    process_cpu_ns: Option<u64>,
    delays: Option<Delays>,
}

impl Sensors {
    /// For the pool whose workers these clocks are.
    pub(crate) fn new(clocks: Arc<WorkerClocks>) -> Self {
        Self::at(Path::new("/"), clocks)
    }

    /// With the files under `root`; affinity and clocks are those of this process all the same.
    pub(crate) fn at(root: &Path, clocks: Arc<WorkerClocks>) -> Self {
        let began = system_now();
        Self {
            clocks,
            began,
            cores: UsableCores::at(root, allowed_cpus()),
            cgroup: Cgroup::find(root),
            host: HostPace::new(HostStat::at(root.join("proc/stat")), began),
            delays: RunDelays::at(root),
            last: None,
        }
    }

    /// What happened since the last look, while so many workers could take jobs. None at the first
    /// look, without elapsed time, and on systems other than Linux.
    pub(crate) fn sample(&mut self, active_workers: f64) -> Option<Sample> {
        if !cfg!(target_os = "linux") {
            return None;
        }
        let now = system_now();
        let at_ns = ns(now.saturating_duration_since(self.began));
        let host = self.host.busy_and_stolen_cores(now);
        let counters = Counters {
            at_ns,
            throttled_ns: self.cgroup.throttled_ns(),
            pool_cpu_ns: self.clocks.total_ns(),
            process_cpu_ns: process_cpu_ns(),
            delays: self.delays.read(&self.clocks),
        };
        let last = self.last.replace(counters)?;
        let dt_ns = at_ns.checked_sub(last.at_ns).filter(|dt_ns| *dt_ns > 0)?;
        let pool_cpu_ns = counters.pool_cpu_ns.checked_sub(last.pool_cpu_ns);
        let share_ns = |cores: f64| (cores * dt_ns as f64) as u64;
        Some(Sample {
            dt_ns,
            workers: active_workers,
            cores: Some(self.cores.get(now)),
            throttled_ns: since(counters.throttled_ns, last.throttled_ns),
            pool_cpu_ns,
            process_cpu_ns: since(counters.process_cpu_ns, last.process_cpu_ns),
            host_busy_ns: host.map(|(busy, _)| share_ns(busy)),
            stolen_ns: host.map(|(_, stolen)| share_ns(stolen)),
            run_delay_ns: Delays::of_all(
                counters.delays,
                last.delays,
                pool_cpu_ns,
                self.clocks.len(),
            ),
        })
    }
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The growth of a counter; none if it isn't known or went backwards.
fn since(now: Option<u64>, before: Option<u64>) -> Option<u64> {
    now?.checked_sub(before?)
}

/// Reads the host's figures no more often than their cost allows, and meanwhile tells the last rates.
struct HostPace {
    stat: HostStat,
    /// Until then the last rates do.
    again_at: Instant,
    last: Option<(Instant, u64, u64)>,
    busy_and_stolen_cores: Option<(f64, f64)>,
}

impl HostPace {
    fn new(stat: HostStat, now: Instant) -> Self {
        Self { stat, again_at: now, last: None, busy_and_stolen_cores: None }
    }

    fn busy_and_stolen_cores(&mut self, now: Instant) -> Option<(f64, f64)> {
        if now < self.again_at {
            return self.busy_and_stolen_cores;
        }
        let times = self.stat.read();
        let cost = system_now().saturating_duration_since(now);
        self.again_at = now.checked_add(cost.saturating_mul(HOST_PART)).unwrap_or(now);
        let Some(times) = times else {
            self.last = None;
            self.busy_and_stolen_cores = None;
            return None;
        };
        let before = self.last.replace((now, times.busy_ns, times.stolen_ns));
        self.busy_and_stolen_cores = before.and_then(|(at, busy_ns, stolen_ns)| {
            let dt_ns = now.saturating_duration_since(at).as_nanos() as f64;
            let cores = |now_ns: u64, before_ns: u64| {
                (dt_ns > 0.0).then_some(now_ns.checked_sub(before_ns)? as f64 / dt_ns)
            };
            cores(times.busy_ns, busy_ns).zip(cores(times.stolen_ns, stolen_ns))
        });
        self.busy_and_stolen_cores
    }
}

/// How long the watched workers waited for a core, by `schedstat` of each.
///
/// These files stay open: of all that is read here they are the many ones.
struct RunDelays {
    tasks: PathBuf,
    open: Vec<Option<(u64, File)>>,
    text: Text,
}

/// The counters of the watched workers, summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Delays {
    workers: usize,
    cpu_ns: u64,
    waited_ns: u64,
}

impl RunDelays {
    fn at(root: &Path) -> Self {
        Self { tasks: root.join("proc/self/task"), open: Vec::new(), text: Text::default() }
    }

    /// None if there is no worker to read of.
    fn read(&mut self, clocks: &WorkerClocks) -> Option<Delays> {
        let watched = clocks.len().min(WATCHED_WORKERS);
        self.open.resize_with(watched, || None);
        let mut sum = Delays { workers: 0, cpu_ns: 0, waited_ns: 0 };
        for worker in 0..watched {
            let Some((cpu_ns, waited_ns)) = self.read_one(worker, clocks.tid(worker)) else {
                self.open[worker] = None;
                continue;
            };
            sum.workers += 1;
            sum.cpu_ns = sum.cpu_ns.saturating_add(cpu_ns);
            sum.waited_ns = sum.waited_ns.saturating_add(waited_ns);
        }
        (sum.workers > 0).then_some(sum)
    }

    fn read_one(&mut self, worker: usize, tid: Option<u64>) -> Option<(u64, u64)> {
        let tid = tid?;
        let open = &mut self.open[worker];
        if open.as_ref().is_none_or(|(opened, _)| *opened != tid) {
            let path = self.tasks.join(tid.to_string()).join("schedstat");
            *open = Some((tid, File::open(path).ok()?));
        }
        let (_, file) = open.as_ref()?;
        parse_schedstat(self.text.of_open(file).ok()?)
    }
}

/// `cpu waited slices`, in nanoseconds the first two.
fn parse_schedstat(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_ascii_whitespace();
    let (cpu, waited) = (numbers.next()?, numbers.next()?);
    Some((cpu.parse().ok()?, waited.parse().ok()?))
}

impl Delays {
    /// How long all workers waited between two looks, if those that weren't watched waited as much for
    /// each second on a core, or if nobody ran, as much each.
    fn of_all(
        now: Option<Self>,
        before: Option<Self>,
        pool_cpu_ns: Option<u64>,
        workers: usize,
    ) -> Option<u64> {
        let (now, before) = (now?, before?);
        if now.workers != before.workers {
            return None;
        }
        let waited_ns = now.waited_ns.checked_sub(before.waited_ns)?;
        if workers <= now.workers {
            return Some(waited_ns);
        }
        let watched_ns = now.cpu_ns.checked_sub(before.cpu_ns)?;
        let factor = match pool_cpu_ns {
            Some(pool_ns) if watched_ns > 0 => (pool_ns as f64 / watched_ns as f64).max(1.0),
            _ => workers as f64 / now.workers as f64,
        };
        Some((waited_ns as f64 * factor) as u64)
    }
}

#[cfg(test)]
mod tests;

//! The settings of a pool, validated when it is built.

use std::fmt;
use std::time::Duration;

use crate::admission::ledger::MAX_CAPACITY;
use crate::admission::partition::Partition;
use crate::contain::Contained;
use crate::cpu_gate::{ActiveWorkers, CpuGate};
use crate::error::{BuildError, Panic};
use crate::limit::Limit;
use crate::pool::Pool;
use crate::queue_delay::QueueDelay;
use crate::schedule::gauge::Parts;
use crate::schedule::sleep::MAX_WORKERS;
use crate::schedule::{Core, Hooks, Settings, worker};
use crate::sense::clock::{Clock, Timeline};
use crate::sense::fork;

/// More tenants than this want a limiter of their own in front.
const MAX_PARTITIONS: usize = 256;

/// Slots per worker if the capacity isn't set.
const DEFAULT_SLOTS_PER_WORKER: usize = 64;
/// What the standard library gives its threads.
const DEFAULT_STACK_SIZE: usize = 2 << 20;
/// Less than this can't hold the pool's own frames, a job and one more in place.
const MIN_STACK_SIZE: usize = 64 << 10;
/// Far above any stack of use, far below what would overflow the arithmetic of others.
const MAX_STACK_SIZE: usize = isize::MAX as usize / 2;
const DEFAULT_AGEING_BOUND: Duration = Duration::from_secs(1);

/// Builds a [`Pool`], from [`Pool::builder`].
///
/// Nothing is checked before [`build`](Self::build), which names the setting and the value that
/// can't be used.
///
/// ```
/// use weirpool::Pool;
///
/// let pool = Pool::builder().name("images").workers(2).capacity(100).critical_reserve(4).build()?;
/// assert_eq!((pool.workers(), pool.capacity()), (2, 100));
///
/// let error = Pool::builder().workers(2).capacity(0).build().unwrap_err();
/// assert!(error.to_string().starts_with("capacity = 0"));
/// # Ok::<(), weirpool::BuildError>(())
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    name: String,
    workers: Option<usize>,
    capacity: Option<usize>,
    critical_reserve: usize,
    partitions: Vec<(String, Partition)>,
    max_bytes: Option<u64>,
    queue_delay: QueueDelay,
    limit: Limit,
    cpu_gate: Option<CpuGate>,
    active_workers: Option<ActiveWorkers>,
    stack_size: usize,
    ageing_bound: Duration,
    clock: Option<Box<dyn Clock>>,
    seed: Option<u64>,
    hooks: Hooks,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            name: "weirpool".to_owned(),
            workers: None,
            capacity: None,
            critical_reserve: 0,
            partitions: Vec::new(),
            max_bytes: None,
            queue_delay: QueueDelay::default(),
            limit: Limit::default(),
            cpu_gate: Some(CpuGate::default()),
            active_workers: None,
            stack_size: DEFAULT_STACK_SIZE,
            ageing_bound: DEFAULT_AGEING_BOUND,
            clock: None,
            seed: None,
            hooks: Hooks::default(),
        }
    }

    /// The pool's name; its threads are called `name-0`, `name-1` and so on. Default "weirpool".
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Worker threads, from 1 to 4096. Default: the cores this process may use, by its affinity
    /// and its cgroup's quota.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Slots: how many jobs may be queued plus running, from 1 to 1 048 575. Default: 64 for each
    /// worker. Takes about 130 bytes of address space per slot for the queues.
    pub fn capacity(mut self, slots: usize) -> Self {
        self.capacity = Some(slots);
        self
    }

    /// Slots that only [`Priority::Critical`](crate::Priority::Critical) work may fill; less than
    /// the capacity. Default 0.
    pub fn critical_reserve(mut self, slots: usize) -> Self {
        self.critical_reserve = slots;
        self
    }

    /// A share of the slots for one tenant, by a name that [`Pool::partition`] finds again. At most
    /// 256 of them; their reserved shares and the critical reserve fit in the capacity together.
    pub fn partition(mut self, name: impl Into<String>, partition: Partition) -> Self {
        self.partitions.push((name.into(), partition));
        self
    }

    /// A second budget: the bytes that jobs may hold together, as declared by
    /// [`JobSpec::bytes`](crate::JobSpec::bytes); at least 1. Default: none.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = Some(bytes);
        self
    }

    /// What is done about the time that jobs wait. Default: [`QueueDelay::graded`] with a target of
    /// 5 ms.
    pub fn queue_delay(mut self, queue_delay: QueueDelay) -> Self {
        self.queue_delay = queue_delay;
        self
    }

    /// How many jobs may be in flight below the capacity. Default: [`Limit::fixed`], the capacity.
    pub fn limit(mut self, limit: Limit) -> Self {
        self.limit = limit;
        self
    }

    /// What is done about a busy CPU. Default: [`CpuGate::default`], which refuses nothing unless the
    /// CPU is taken from the pool.
    pub fn cpu_gate(mut self, gate: CpuGate) -> Self {
        self.active_workers = gate.chosen_active_workers().or(self.active_workers);
        self.cpu_gate = Some(gate);
        self
    }

    /// Nothing is read or refused because of the CPU, and all workers always take jobs.
    pub fn no_cpu_gate(mut self) -> Self {
        self.cpu_gate = None;
        self
    }

    /// Whether fewer workers take jobs while a quota throttles the process. Default
    /// [`ActiveWorkers::Adaptive`]; without a CPU gate always `Fixed`.
    pub fn active_workers(mut self, active_workers: ActiveWorkers) -> Self {
        self.active_workers = Some(active_workers);
        self
    }

    /// The batch profile: nothing is refused or shed because of time or CPU, only because of the
    /// bounds and of deadlines the caller has set. Short for [`QueueDelay::off`],
    /// [`no_cpu_gate`](Self::no_cpu_gate) and [`Limit::fixed`], all of which may be set again
    /// afterwards.
    pub fn batch(self) -> Self {
        self.queue_delay(QueueDelay::off()).no_cpu_gate().limit(Limit::fixed())
    }

    /// The stack of each worker in bytes, at least 65 536. Default 2 MiB.
    ///
    /// Jobs run in place by a join share it; when less than a quarter is left (at least 32 KiB, at
    /// most 256 KiB), a join answers [`JobError::TooDeep`](crate::JobError::TooDeep) instead.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// After how long a waiting lower lane is served although higher ones have work, at most once
    /// in eight picks of a worker. Default 1 s.
    pub fn ageing_bound(mut self, bound: Duration) -> Self {
        self.ageing_bound = bound;
        self
    }

    /// Called on each worker thread before its first job. A panic in it is contained and counted.
    pub fn on_thread_start(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.hooks.on_thread_start = Some(Contained::new(Box::new(hook)));
        self
    }

    /// Called on each worker thread after its last job. A panic in it is contained and counted.
    pub fn on_thread_stop(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.hooks.on_thread_stop = Some(Contained::new(Box::new(hook)));
        self
    }

    /// Called, on the worker, with the panic of a job whose handle was gone when it ended, after
    /// its slot has returned. Without one, one line per second goes to stderr.
    pub fn panic_handler(mut self, handler: impl Fn(Panic) + Send + Sync + 'static) -> Self {
        self.hooks.panic_handler = Some(Contained::new(Box::new(handler)));
        self
    }

    /// The clock by which deadlines, ageing and service times are judged. Default: the system's
    /// monotonic one.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Box::new(clock));
        self
    }

    /// Seeds the pool's random choices. Default: random.
    ///
    /// With one submitting thread, the same all the time, they are the same for the same seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Starts the pool.
    ///
    /// # Errors
    /// [`BuildError::Invalid`] for the first setting that can't be used, before any thread is
    /// started; [`BuildError::Spawn`] if a thread can't be created, after those already started
    /// have exited.
    pub fn build(self) -> Result<Pool, BuildError> {
        let workers = self.workers.unwrap_or_else(default_workers);
        BuildError::check_range("workers", workers, 1..=MAX_WORKERS)?;
        let capacity = self.capacity.unwrap_or(workers * DEFAULT_SLOTS_PER_WORKER);
        BuildError::check_range("capacity", capacity, 1..=MAX_CAPACITY)?;
        BuildError::check_range("critical_reserve", self.critical_reserve, 0..=capacity - 1)?;
        check_partitions(&self.partitions, capacity, self.critical_reserve)?;
        if self.max_bytes == Some(0) {
            return Err(BuildError::invalid("max_bytes", 0, "above zero"));
        }
        BuildError::check_range("stack_size", self.stack_size, MIN_STACK_SIZE..=MAX_STACK_SIZE)?;
        let ageing_bound_ns = BuildError::check_ns("ageing_bound", self.ageing_bound)?;
        let law = self.queue_delay.law()?;
        self.limit.check(capacity)?;
        let limiter = self.limit.limiter(workers, capacity);
        let gate = self.cpu_gate.map(CpuGate::check).transpose()?;
        let cpu = Parts {
            // In a model there is no CPU to read.
            gate: gate.filter(|_| !cfg!(all(loom, feature = "loom"))),
            adaptive: self.active_workers.unwrap_or_default() == ActiveWorkers::Adaptive,
            real_time: self.clock.is_none(),
        };
        if self.name.contains('\0') {
            return Err(BuildError::invalid("name", &self.name, "free of NUL bytes"));
        }
        fork::watch().map_err(BuildError::Spawn)?;
        let settings = Settings {
            name: self.name,
            workers,
            capacity,
            critical_reserve: self.critical_reserve,
            partitions: self.partitions,
            max_bytes: self.max_bytes,
            stack_size: self.stack_size,
            ageing_bound_ns,
            law,
            seed: self.seed.unwrap_or_else(|| fastrand::u64(..)),
        };
        let (core, nests) =
            Core::new(settings, self.hooks, cpu, limiter, Timeline::new(self.clock));
        worker::start(&core, nests)?;
        Ok(Pool::from_core(core))
    }
}

fn default_workers() -> usize {
    num_cpus::get().clamp(1, MAX_WORKERS)
}

fn check_partitions(
    partitions: &[(String, Partition)],
    capacity: usize,
    critical_reserve: usize,
) -> Result<(), BuildError> {
    BuildError::check_range("partition", partitions.len(), 0..=MAX_PARTITIONS)?;
    let mut left = capacity - critical_reserve;
    for (at, (name, partition)) in partitions.iter().enumerate() {
        if partitions[..at].iter().any(|(known, _)| known == name) {
            return Err(BuildError::invalid("partition", name, "a name of its own"));
        }
        if partition.reserved > left {
            let expected = "a reserved share that fits in the capacity beside the other reserves";
            return Err(BuildError::invalid("partition", (name, partition), expected));
        }
        left -= partition.reserved;
        if partition.max.is_some_and(|max| max < partition.reserved.max(1)) {
            let expected = "a maximum of at least 1 and at least the reserved share";
            return Err(BuildError::invalid("partition", (name, partition), expected));
        }
    }
    Ok(())
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .field("workers", &self.workers)
            .field("capacity", &self.capacity)
            .field("critical_reserve", &self.critical_reserve)
            .field("partitions", &self.partitions)
            .field("max_bytes", &self.max_bytes)
            .field("queue_delay", &self.queue_delay)
            .field("limit", &self.limit)
            .field("cpu_gate", &self.cpu_gate)
            .field("active_workers", &self.active_workers)
            .field("stack_size", &self.stack_size)
            .field("ageing_bound", &self.ageing_bound)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

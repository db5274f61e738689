//! How to bring a pool to each of its reasons, with what any user has.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use weirpool::cpu::Contention;
use weirpool::test::ManualCpu;
use weirpool::{
    ActiveWorkers, Arm, Builder, CpuGate, JobSpec, Limit, Partition, Permit, Pool, Priority, Reason,
};

pub(crate) const CAPACITY: usize = 4096;
const LIMIT: usize = CAPACITY - 8;
const BYTES: u64 = 1 << 20;
/// Beyond any measurement, so that no figure of the pool grows old meanwhile.
const AGES: Duration = Duration::from_secs(3_600);

pub(crate) const REASONS: [Reason; 8] = [
    Reason::Full,
    Reason::Limit,
    Reason::QueueDelay,
    Reason::Cpu,
    Reason::Deadline,
    Reason::Partition,
    Reason::Bytes,
    Reason::Closed,
];

/// A pool that refuses for one reason, and what keeps it so.
pub(crate) struct Refusing {
    pub(crate) pool: Pool,
    pub(crate) reason: Reason,
    past: Instant,
    _permits: Vec<Permit>,
    /// Dropped at last: the worker, which waits for this, then runs what is queued.
    _hold: mpsc::Sender<()>,
}

impl Refusing {
    /// With about so many jobs in the queue, behind a worker that is held in a body. Where a reason
    /// needs more slots than that, permits take them; only the queue delay needs a queue.
    pub(crate) fn new(reason: Reason, queued: usize) -> Self {
        let pool = builder(reason).build().expect("the settings make sense");
        let past = Instant::now();
        let hold = hold(&pool, reason);
        let critical = pool.job().priority(Priority::Critical);
        for _ in 0..queued.clamp(least(&pool, reason), room(reason)) {
            // Critical work passes the door whatever time and CPU say, and queues like any other.
            critical.try_spawn(|| ()).expect("within the bounds");
        }
        let permits = fill(&pool, reason);
        if reason == Reason::Closed {
            pool.close();
        }
        let refusing = Self { pool, reason, past, _permits: permits, _hold: hold };
        assert_eq!(refusing.refuse(), Some(reason), "not in the state that is to be measured");
        refusing
    }

    /// Offers a job; returns why it was refused.
    pub(crate) fn refuse(&self) -> Option<Reason> {
        let refused = self.spec().try_submit(|| ()).err();
        refused.map(|rejected| rejected.reason())
    }

    fn spec(&self) -> JobSpec<'_> {
        let job = self.pool.job();
        match self.reason {
            Reason::Deadline => job.deadline(self.past),
            Reason::Partition => job.partition(self.pool.partition("small").expect("it has one")),
            Reason::Bytes => job.bytes(1),
            _ => job,
        }
    }

    pub(crate) fn queued(&self) -> usize {
        self.pool.queued()
    }
}

/// The service profile, but for what the reason wants.
fn builder(reason: Reason) -> Builder {
    let builder = Pool::builder().workers(1).capacity(CAPACITY);
    match reason {
        Reason::Limit => builder.limit(Limit::aimd().initial(LIMIT)),
        Reason::Partition => builder.partition("small", Partition::new().max(1)),
        Reason::Bytes => builder.max_bytes(BYTES),
        Reason::Cpu => {
            let cpu = ManualCpu::new();
            cpu.set(1.0);
            cpu.set_contention(Contention::none().throttled(1.0));
            let gate = CpuGate::default().source(cpu).sample_every(Duration::from_secs(60));
            // No number of active workers that would give way before anything is refused, and no pool that
            // must be busy for the gate to be asked.
            let gate = gate.time_constant(AGES).active_workers(ActiveWorkers::Fixed);
            builder.cpu_gate(gate.armed(Arm::Always))
        }
        _ => builder,
    }
}

/// Holds the worker in a body, after what it has to learn first.
fn hold(pool: &Pool, reason: Reason) -> mpsc::Sender<()> {
    if matches!(reason, Reason::QueueDelay | Reason::Cpu) {
        teach(pool, reason);
    }
    let (hold, held) = mpsc::channel::<()>();
    let (started, starts) = mpsc::channel();
    let body = move || {
        let _ = started.send(());
        // Ends when the sender goes.
        let _ = held.recv();
    };
    pool.job().priority(Priority::Critical).try_spawn(body).expect("there is room");
    starts.recv().expect("the worker is free");
    hold
}

/// Jobs of about a millisecond, one at a time, until the pool goes by their mean, or by the CPU.
fn teach(pool: &Pool, reason: Reason) {
    let critical = pool.job().priority(Priority::Critical);
    let has_learned = || {
        let now = pool.snapshot();
        match reason {
            Reason::Cpu => now.cpu_refusal == 1.0,
            _ => now.completed > 100 && now.queue_delay.door_jobs.is_some(),
        }
    };
    while !has_learned() {
        let body = || std::thread::sleep(Duration::from_millis(1));
        critical.try_submit(body).expect("there is room").join().expect("it ends");
    }
}

/// The least jobs that must be queued.
fn least(pool: &Pool, reason: Reason) -> usize {
    match reason {
        Reason::QueueDelay => pool.snapshot().queue_delay.door_jobs.expect("it was taught"),
        _ => 0,
    }
}

/// The most jobs that may be queued so that the reason is still the first that applies.
fn room(reason: Reason) -> usize {
    match reason {
        // The body that holds the worker, and the one that fills the bound.
        Reason::Limit => LIMIT - 2,
        _ => CAPACITY - 2,
    }
}

/// Takes what is left of the bound that the reason is about.
fn fill(pool: &Pool, reason: Reason) -> Vec<Permit> {
    let critical = pool.job().priority(Priority::Critical);
    let slots = |count| critical.try_reserve_many(count).expect("there are as many");
    match reason {
        Reason::Full => slots(CAPACITY - pool.in_flight()),
        Reason::Limit => slots(LIMIT - pool.in_flight()),
        Reason::Partition => {
            let small = pool.partition("small").expect("it has one");
            vec![critical.partition(small).try_reserve().expect("one fits")]
        }
        Reason::Bytes => vec![critical.bytes(BYTES).try_reserve().expect("it fits")],
        _ => Vec::new(),
    }
}

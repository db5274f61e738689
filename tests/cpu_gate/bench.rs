//! A pool whose CPU and clock are the test's, and the ways to measure, to contend and to see who is
//! refused.

use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use weirpool::cpu::{Contention, CpuReading, CpuSource};
use weirpool::test::{ManualClock, ManualCpu};
use weirpool::{ActiveWorkers, Arm, Builder, CpuGate, JobSpec, Pool, Priority, QueueDelay, Reason};

use crate::common::{Count, assert_all_slots_free, eventually, poll, resolve};

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const SAMPLE: Duration = Duration::from_millis(100);

/// A pool whose CPU and clock are the test's, without a queue delay.
pub(crate) struct Bench {
    pub(crate) pool: Pool,
    pub(crate) cpu: ManualCpu,
    pub(crate) clock: ManualClock,
    pub(crate) reads: Count,
}

/// A source that counts how often it is read.
struct Counted(ManualCpu, Count);

impl CpuSource for Counted {
    fn read(&mut self, now: Instant) -> Option<CpuReading> {
        self.1.add();
        self.0.read(now)
    }

    fn contention(&mut self, now: Instant) -> Option<Contention> {
        self.0.contention(now)
    }
}

pub(crate) fn bench_with(gate: CpuGate, set: impl FnOnce(Builder) -> Builder) -> Bench {
    let (cpu, clock, reads) = (ManualCpu::new(), ManualClock::new(), Count::new());
    let gate = gate.source(Counted(cpu.clone(), reads.clone()));
    let builder = Pool::builder().workers(1).capacity(64).clock(clock.clone()).seed(7);
    let builder = builder.queue_delay(QueueDelay::off()).cpu_gate(gate);
    Bench { pool: set(builder).build().unwrap(), cpu, clock, reads }
}

pub(crate) fn bench(gate: CpuGate) -> Bench {
    bench_with(gate, |builder| builder)
}

/// The classic ramp.
pub(crate) fn always() -> CpuGate {
    CpuGate::between(0.7, 0.9).armed(Arm::Always)
}

pub(crate) fn contended() -> CpuGate {
    CpuGate::between(0.7, 0.9).active_workers(ActiveWorkers::Fixed)
}

impl Bench {
    /// Lets one job in, past the gate; if a sample is due, it is taken here and now. All workers must
    /// be held.
    #[track_caller]
    pub(crate) fn let_one_in(&self) {
        let mut submit = self.pool.submit(|| ());
        let answer = poll(&mut submit, Waker::noop());
        let Poll::Ready(Ok(job)) = answer else { panic!("there is a slot") };
        assert!(job.cancel());
    }

    /// Runs one job, and returns when its worker has looked at the clock for the last time.
    #[track_caller]
    pub(crate) fn run(&self, body: impl FnOnce() + Send + 'static) {
        let measured = || self.pool.snapshot().class(Default::default()).jobs;
        let before = measured();
        resolve(self.pool.try_submit(body).unwrap()).unwrap();
        eventually("what it cost is known", || measured() == before + 1);
    }

    /// A sample of this CPU use after `gap`.
    pub(crate) fn measure_after(&self, gap: Duration, busy: f64) {
        self.cpu.set(busy);
        self.clock.advance(gap);
        let before = self.reads.get();
        self.let_one_in();
        assert_eq!(self.reads.get(), before + 1);
    }

    pub(crate) fn measure(&self, busy: f64) {
        self.measure_after(SAMPLE, busy);
    }

    /// Samples that leave no doubt about contention.
    pub(crate) fn contend(&self, contention: Contention) {
        self.cpu.set_contention(contention);
        (0..30).for_each(|_| self.measure(1.0));
    }

    /// Whether each of so many jobs was refused by the gate.
    pub(crate) fn draw(&self, job: JobSpec<'_>, many: usize) -> Vec<bool> {
        let draw = |_| match job.try_submit(|| ()) {
            Ok(job) => {
                assert!(job.cancel());
                false
            }
            Err(refused) => {
                assert_eq!(refused.reason(), Reason::Cpu);
                true
            }
        };
        (0..many).map(draw).collect()
    }

    pub(crate) fn refused(&self, priority: Priority, many: usize) -> usize {
        let drawn = self.draw(self.pool.job().priority(priority), many);
        drawn.into_iter().filter(|refused| *refused).count()
    }

    pub(crate) fn is_shut(&self) -> bool {
        self.refused(Priority::Normal, 100) == 100
    }

    pub(crate) fn is_open(&self) -> bool {
        self.refused(Priority::Low, 100) == 0
    }
}

/// All slots are free, as the waiting forms see it, which skip the gate.
pub(crate) fn assert_all_slots_free_but_for_the_gate(bench: &Bench) {
    bench.cpu.set(0.0);
    bench.clock.advance(3_600 * SECOND);
    assert_all_slots_free(&bench.pool);
}

/// Runs jobs of a sample's time until then. Not each makes a sample: who has begun one may be held up.
pub(crate) fn work_until(pool: &Pool, clock: &ManualClock, done: impl Fn() -> bool) {
    eventually("it was read often enough", || {
        let time = clock.clone();
        resolve(pool.submit_blocking(move || time.advance(SAMPLE)).unwrap()).unwrap();
        done()
    });
}

//! Who reads the source, and when; and sources that panic or use their own pool.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use weirpool::cpu::{Contention, CpuReading, CpuSource};
use weirpool::test::ManualClock;
use weirpool::{Builder, Pool, Shutdown};

use crate::bench::{SECOND, always, bench, bench_with, contended, work_until};
use crate::common::{
    Count, Rendezvous, eventually, give_way, hold, quiet_panic, resolve, watchdog,
};

#[test]
fn refusals_take_no_sample_and_accepted_submits_do() {
    let bench = bench(contended().sample_every(SECOND));
    let held = hold(&bench.pool, 1);
    bench.cpu.set_contention(Contention::none().throttled(0.9));
    (0..5).for_each(|_| bench.measure_after(SECOND, 1.0));
    let before = bench.reads.get();
    // For less than the time constant, after which the figures are too old to refuse by.
    for _ in 0..3 {
        bench.clock.advance(SECOND);
        assert!(bench.is_shut());
    }
    assert_eq!(bench.reads.get(), before, "a refusal costs no reading");
    (0..10).for_each(|_| bench.let_one_in());
    assert_eq!(bench.reads.get(), before + 1, "ten accepted at one moment make one");
    bench.clock.advance(SECOND - Duration::from_nanos(1));
    bench.let_one_in();
    assert_eq!(bench.reads.get(), before + 1, "not yet due");
    bench.clock.advance(Duration::from_nanos(1));
    bench.let_one_in();
    assert_eq!(bench.reads.get(), before + 2);
    held.free();
}

#[test]
fn a_gate_that_is_always_armed_reads_for_refusals_too() {
    let bench = bench(always().sample_every(SECOND));
    let held = hold(&bench.pool, 1);
    bench.measure_after(SECOND, 1.0);
    let before = bench.reads.get();
    for tick in 1..=10 {
        bench.clock.advance(SECOND);
        assert!(bench.is_shut());
        assert_eq!(bench.reads.get(), before + tick, "one for a hundred refusals");
    }
    held.free();
}

#[test]
fn a_worker_reads_when_a_job_has_ended() {
    let bench = bench(always().sample_every(SECOND));
    // Who submits and who has run may both find the first sample due.
    bench.run(|| ());
    bench.run(|| ());
    let before = bench.reads.get();
    assert!((1..=2).contains(&before), "{before}");
    let clock = bench.clock.clone();
    bench.run(move || clock.advance(2 * SECOND));
    eventually("the end took another", || bench.reads.get() == before + 1);
    bench.clock.advance(3_600 * SECOND);
    give_way(1_000);
    assert_eq!(bench.reads.get(), before + 1, "nobody looks while nothing happens");
}

#[test]
fn without_a_gate_nothing_is_read() {
    for set in [Builder::no_cpu_gate as fn(Builder) -> Builder, Builder::batch] {
        let bench = bench_with(always(), set);
        bench.cpu.set(1.0);
        for _ in 0..10 {
            bench.clock.advance(SECOND);
            resolve(bench.pool.try_submit(|| ()).unwrap()).unwrap();
        }
        let now = bench.pool.snapshot();
        assert_eq!((bench.reads.get(), now.cpu, now.cpu_refusal), (0, None, 0.0));
        assert_eq!((now.active_workers, now.cpu_per_worker.len()), (1, 0));
    }
}

/// A source whose figures panic, each time or some times.
struct Panics(Count, fn(usize) -> bool);

impl CpuSource for Panics {
    fn read(&mut self, _now: Instant) -> Option<CpuReading> {
        if (self.1)(self.0.next()) {
            quiet_panic();
        }
        Some(CpuReading::Busy(1.0))
    }

    fn contention(&mut self, _now: Instant) -> Option<Contention> {
        Some(Contention::none())
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        quiet_panic();
    }
}

#[test]
fn a_source_that_panics_costs_no_worker_and_no_submit() {
    for (when, expected) in [((|_| true) as fn(usize) -> bool, None), (|n| n % 2 == 0, Some(1.0))] {
        let (clock, reads) = (ManualClock::new(), Count::new());
        let gate = always().source(Panics(reads.clone(), when));
        let pool = Pool::builder().workers(2).capacity(8).clock(clock.clone()).cpu_gate(gate);
        let pool = pool.build().unwrap();
        work_until(&pool, &clock, || reads.get() >= 20);
        eventually("what it said is known", || pool.snapshot().cpu == expected);
        let both = Rendezvous::new(2);
        let meet = || {
            let both = both.clone();
            pool.submit_blocking(move || both.meet()).unwrap()
        };
        for job in [meet(), meet()] {
            resolve(job).expect("both workers live");
        }
        assert!(pool.shutdown(Shutdown::Drain, None).still_running == 0);
    }
}

#[test]
fn a_source_that_submits_to_its_own_pool_does_not_hang() {
    struct Submits(mpsc::Receiver<Pool>, Option<Pool>, Count);
    impl CpuSource for Submits {
        fn read(&mut self, _now: Instant) -> Option<CpuReading> {
            self.1 = self.1.take().or_else(|| self.0.try_recv().ok());
            if let Some(pool) = &self.1 {
                let _ = (pool.try_spawn(|| ()), pool.snapshot(), pool.load());
                self.2.add();
            }
            Some(CpuReading::Busy(0.1))
        }
    }
    let _watchdog = watchdog();
    let ((give, take), called) = (mpsc::channel(), Count::new());
    let clock = ManualClock::new();
    let gate = always().source(Submits(take, None, called.clone()));
    let pool = Pool::builder().workers(2).capacity(64).clock(clock.clone()).cpu_gate(gate);
    let pool = pool.build().unwrap();
    give.send(pool.clone()).unwrap();
    work_until(&pool, &clock, || called.get() > 5);
    pool.shutdown(Shutdown::Drain, None);
}

//! Under contention fewer workers take jobs, before anybody is refused; those that stand by leave
//! no job behind, spin in no loop and end with the pool.

use std::task::Waker;

use weirpool::cpu::Contention;
use weirpool::test::{ManualClock, ManualCpu};
use weirpool::{CpuGate, Pool, Shutdown};

use crate::bench::{Bench, assert_all_slots_free_but_for_the_gate, bench_with, work_until};
use crate::common::clocks::CountingClock;
use crate::common::{
    Count, Gate, assert_adds_up, elsewhere, eventually, give_way, hold, occupy, poll, resolve,
    watchdog,
};

#[test]
fn under_contention_fewer_workers_take_jobs_before_anyone_is_refused() {
    let bench = bench_with(CpuGate::between(0.7, 0.9), |builder| builder.workers(8));
    let held = occupy(&bench.pool);
    bench.measure(1.0);
    assert_eq!(bench.pool.snapshot().active_workers, 8);
    bench.cpu.set_contention(Contention::none().throttled(0.5));
    let mut before = 8;
    for _ in 0..200 {
        bench.measure(1.0);
        let active = bench.pool.snapshot().active_workers;
        assert!((1..=before).contains(&active), "{active} after {before}");
        if active > 1 {
            assert!(bench.is_open(), "refused although {active} workers are left");
        }
        before = active;
    }
    assert_eq!(before, 1);
    assert!(bench.is_shut(), "that did not help");
    bench.cpu.set_contention(Contention::none());
    for _ in 0..300 {
        bench.measure(1.0);
        let active = bench.pool.snapshot().active_workers;
        assert!((before..=8).contains(&active), "{active} after {before}");
        before = active;
    }
    assert_eq!(before, 8, "all of them again");
    assert!(bench.is_open());
    held.free();
    assert_all_slots_free_but_for_the_gate(&bench);
}

/// Eight workers of which one may take jobs.
fn throttled_to_one() -> Bench {
    let bench = bench_with(CpuGate::between(0.7, 0.9), |builder| builder.workers(8));
    bench.cpu.set(1.0);
    bench.cpu.set_contention(Contention::none().throttled(0.5));
    work_until(&bench.pool, &bench.clock, || bench.pool.snapshot().active_workers == 1);
    bench.pool.wait_idle();
    bench
}

#[test]
fn two_jobs_that_wait_for_each_other_end_also_if_one_worker_may_take_jobs() {
    let _watchdog = watchdog();
    let bench = throttled_to_one();
    let (there, back) = (Gate::new(), Gate::new());
    let (hers, his) = ((there.clone(), back.clone()), (there, back));
    let one = bench.pool.submit_blocking(move || {
        hers.0.open();
        hers.1.wait();
    });
    let other = bench.pool.submit_blocking(move || {
        his.1.open();
        his.0.wait();
    });
    // Others come and go meanwhile, and that is no sign that these get on.
    let (one, other) = (one.unwrap(), other.unwrap());
    eventually("both have met", || {
        let _ = bench.pool.submit_blocking(|| ()).unwrap().cancel();
        one.is_finished() && other.is_finished()
    });
    bench.pool.wait_idle();
    assert_adds_up(&bench.pool);
}

#[test]
fn a_pool_whose_workers_stand_by_can_be_shut_down() {
    let _watchdog = watchdog();
    for how in [Shutdown::Drain, Shutdown::Discard] {
        let bench = throttled_to_one();
        let busy = hold(&bench.pool, 1);
        let jobs: Vec<_> = (0..50).map(|_| bench.pool.submit_blocking(|| ()).unwrap()).collect();
        let pool = bench.pool.clone();
        let ending = elsewhere(move || pool.shutdown(how, None));
        eventually("it is closed", || bench.pool.is_closed());
        busy.free();
        let report = ending.wait();
        assert_eq!(report.still_running, 0);
        jobs.into_iter().for_each(|job| drop(resolve(job)));
        assert_adds_up(&bench.pool);
    }
}

#[test]
fn dropping_the_last_handle_lets_workers_that_stand_by_go() {
    let stopped = Count::new();
    let bench = {
        let stopped = stopped.clone();
        bench_with(CpuGate::between(0.7, 0.9), move |builder| {
            builder.workers(4).on_thread_stop(move || stopped.add())
        })
    };
    let held = occupy(&bench.pool);
    bench.cpu.set_contention(Contention::none().throttled(0.9));
    (0..100).for_each(|_| bench.measure(1.0));
    let ran = Count::new();
    for _ in 0..20 {
        let ran = ran.clone();
        let mut submit = bench.pool.submit(move || ran.add());
        assert!(poll(&mut submit, Waker::noop()).is_ready());
    }
    drop(bench);
    held.free();
    eventually("all have gone", || stopped.get() == 4);
    assert_eq!(ran.get(), 20, "what was accepted has run");
}

#[test]
fn an_idle_pool_does_nothing_under_contention() {
    let clock = CountingClock::of(ManualClock::new());
    let cpu = ManualCpu::new();
    let gate = CpuGate::default().source(cpu.clone());
    let pool = Pool::builder().workers(4).capacity(64).clock(clock.clone()).cpu_gate(gate);
    let pool = pool.build().unwrap();
    cpu.set(1.0);
    cpu.set_contention(Contention::none().throttled(0.9));
    work_until(&pool, &clock.inner, || pool.snapshot().active_workers < 4);
    pool.wait_idle();
    // Who stands by looks at the clock each time; who sleeps doesn't.
    let quiet = || {
        let before = clock.reads.get();
        give_way(2_000);
        clock.reads.get() == before
    };
    eventually("they have gone to sleep for good", || (0..20).all(|_| quiet()));
}

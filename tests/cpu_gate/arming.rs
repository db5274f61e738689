//! What arms the gate: by default contention alone, then backlog, or nothing but the CPU's use.

use weirpool::cpu::Contention;
use weirpool::{Arm, CpuGate, Priority, Reason};

use crate::bench::{MS, SECOND, always, bench, contended};
use crate::common::{eventually, hold, resolve};

#[test]
fn a_cpu_that_is_busy_with_the_pools_own_work_refuses_nothing_by_default() {
    let bench = bench(CpuGate::default());
    let held = hold(&bench.pool, 1);
    for _ in 0..200 {
        bench.measure(1.0);
        assert!(bench.is_open());
    }
    let now = bench.pool.snapshot();
    assert_eq!((now.cpu, now.cpu_refusal, now.active_workers), (Some(1.0), 0.0, 1));
    held.free();
}

#[test]
fn a_contended_cpu_refuses_all_but_critical_work_and_admits_again() {
    let thieves = [
        Contention::none().throttled(0.5),
        Contention::none().other_threads(0.5),
        Contention::none().neighbours(0.5),
    ];
    for contention in thieves {
        let bench = bench(contended());
        let held = hold(&bench.pool, 1);
        bench.contend(contention);
        assert!(bench.is_shut(), "{contention:?}");
        assert_eq!(bench.refused(Priority::Critical, 100), 0);
        let now = bench.pool.snapshot();
        assert_eq!((now.cpu_refusal, now.active_workers), (1.0, 1));
        let told = now.contention.throttled + now.contention.other_threads;
        assert!(told + now.contention.neighbours > 0.3, "{now:?}");
        assert_eq!(bench.pool.load().score, 1.0);
        // As busy as before, with its own work.
        bench.cpu.set_contention(Contention::none());
        (0..100).for_each(|_| bench.measure(1.0));
        assert!(bench.is_open(), "{contention:?}");
        held.free();
    }
    // Contended, and yet with CPU to spare.
    let bench = bench(contended());
    let held = hold(&bench.pool, 1);
    bench.cpu.set_contention(Contention::none().throttled(0.5));
    (0..30).for_each(|_| bench.measure(0.5));
    assert!(bench.is_open());
    held.free();
}

#[test]
fn only_those_meet_a_backlogged_gate_whose_wait_is_above_the_target() {
    let gate = || CpuGate::between(0.7, 0.9).armed(Arm::Backlogged);
    let bench = bench(gate());
    bench.cpu.set(1.0);
    for _ in 0..60 {
        let clock = bench.clock.clone();
        resolve(bench.pool.try_submit(move || clock.advance(MS)).unwrap()).unwrap();
    }
    eventually("what jobs take is known", || bench.pool.snapshot().mean_service_time == Some(MS));
    let held = hold(&bench.pool, 1);
    bench.measure(1.0);
    let queued = (0..60).take_while(|_| bench.pool.try_spawn(|| ()).is_ok()).count();
    assert_eq!(queued, 6, "5 ms of jobs are the target");
    assert_eq!(bench.pool.try_spawn(|| ()).unwrap_err().reason(), Reason::Cpu);
    assert!(bench.pool.job().priority(Priority::High).try_spawn(|| ()).is_ok());
    assert_eq!(bench.pool.load().score, 1.0);
    bench.measure(0.0);
    bench.measure_after(60 * SECOND, 0.0);
    assert!(bench.pool.try_spawn(|| ()).is_ok(), "long waits, and a free CPU");
    held.free();
}

#[test]
fn with_nothing_in_flight_all_are_admitted_unless_the_gate_is_always_armed() {
    let bench_of = |gate: CpuGate| {
        let bench = bench(gate);
        let held = hold(&bench.pool, 1);
        bench.contend(Contention::none().throttled(0.5));
        assert!(bench.is_shut());
        held.free();
        bench.pool.wait_idle();
        eventually("all is quiet", || bench.pool.in_flight() == 0);
        bench
    };
    let idle = bench_of(contended());
    assert_eq!(idle.pool.snapshot().cpu_refusal, 0.0);
    assert!(idle.pool.load().score < 0.1);
    for priority in [Priority::Low, Priority::Normal, Priority::High] {
        let job = idle.pool.job().priority(priority).try_submit(|| ());
        resolve(job.unwrap()).unwrap();
        idle.pool.wait_idle();
    }
    assert!(bench_of(always()).is_shut());
}

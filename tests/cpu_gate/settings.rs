//! What the snapshot tells of the CPU, and the settings that are refused, or are extreme.

use std::time::Duration;

use weirpool::cpu::Contention;
use weirpool::{CpuGate, Pool};

use crate::bench::{bench, bench_with};
use crate::common::{occupy, resolve};

#[test]
fn the_snapshot_tells_of_the_cpu() {
    let bench = bench_with(CpuGate::default(), |builder| builder.workers(3));
    let now = bench.pool.snapshot();
    assert_eq!((now.cpu, now.cpu_per_worker.len(), now.active_workers), (None, 0, 3));
    assert_eq!(now.contention, Default::default());
    let held = occupy(&bench.pool);
    bench.measure(0.4);
    let now = bench.pool.snapshot();
    assert_eq!((now.cpu, bench.pool.load().cpu), (Some(0.4), Some(0.4)));
    assert_eq!(now.cpu_per_worker.len(), 3);
    assert!(now.cpu_per_worker.iter().all(|share| (0.0..=1.0).contains(share)), "{now:?}");
    for contention in [f64::NAN, -3.0, f64::INFINITY, 9.0] {
        bench.contend(Contention::none().throttled(contention).neighbours(contention));
        let now = bench.pool.snapshot();
        for share in [now.contention.throttled, now.contention.neighbours, now.cpu_refusal] {
            assert!((0.0..=1.0).contains(&share), "{contention}: {now:?}");
        }
        assert!((1..=3).contains(&now.active_workers));
    }
    held.free();
}

#[test]
fn nonsense_is_refused_by_name_when_the_pool_is_built() {
    let said = |gate: CpuGate| {
        let built = Pool::builder().workers(1).cpu_gate(gate).build();
        built.unwrap_err().to_string()
    };
    let zero = Duration::ZERO;
    for (gate, what) in [
        (CpuGate::between(0.9, 0.7), "cpu_gate.hi = 0.7"),
        (CpuGate::between(f64::NAN, 0.7), "cpu_gate.lo = NaN"),
        (CpuGate::between(0.7, f64::NAN), "cpu_gate.hi = NaN"),
        (CpuGate::between(-0.1, 0.7), "cpu_gate.lo = -0.1"),
        (CpuGate::between(0.7, 1.1), "cpu_gate.hi = 1.1"),
        (CpuGate::between(0.7, f64::INFINITY), "cpu_gate.hi = inf"),
        (CpuGate::steps(f64::NAN, 0.8, 0.9), "cpu_gate.halve = NaN"),
        (CpuGate::steps(0.8, 0.7, 0.9), "cpu_gate.drop_low = 0.7"),
        (CpuGate::steps(0.7, 0.8, 0.75), "cpu_gate.refuse = 0.75"),
        (CpuGate::default().time_constant(zero), "cpu_gate.time_constant = 0ns"),
        (CpuGate::default().sample_every(zero), "cpu_gate.sample_every = 0ns"),
    ] {
        let said = said(gate);
        assert!(said.starts_with(what), "{said}");
    }
    for gate in [
        CpuGate::between(0.7, 0.7),
        CpuGate::between(1.0, 1.0),
        CpuGate::default().time_constant(Duration::MAX).sample_every(Duration::MAX),
    ] {
        let bench = bench(gate);
        resolve(bench.pool.try_submit(|| ()).unwrap()).unwrap();
    }
}

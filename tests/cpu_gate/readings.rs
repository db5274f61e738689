//! What becomes of the readings: none or a senseless one refuses nobody, the average is weighted by
//! time, and no old one keeps the gate shut.

use std::time::Duration;

use weirpool::cpu::Contention;
use weirpool::{CpuGate, Reason};

use crate::bench::{MS, SAMPLE, SECOND, always, bench, contended};
use crate::common::{assert_adds_up, eventually, hold};

#[test]
fn without_a_reading_all_are_admitted() {
    let bench = bench(always());
    let held = hold(&bench.pool, 1);
    for _ in 0..100 {
        bench.clock.advance(SECOND);
        assert!(bench.is_open());
    }
    assert!(bench.reads.get() > 100, "it was asked for one");
    let now = bench.pool.snapshot();
    assert_eq!((now.cpu, now.cpu_refusal, now.cpu_readings_ignored), (None, 0.0, 0));
    assert_eq!(bench.pool.load().cpu, None);
    held.free();
}

#[test]
fn what_is_no_share_is_ignored_and_counted_and_too_much_is_all() {
    let bench = bench(always());
    let held = hold(&bench.pool, 1);
    let nonsense = [f64::NAN, -1.0, f64::INFINITY, f64::NEG_INFINITY];
    for (nth, busy) in nonsense.into_iter().enumerate() {
        bench.measure(busy);
        let now = bench.pool.snapshot();
        assert_eq!((now.cpu, now.cpu_readings_ignored), (None, nth as u64 + 1), "{busy}");
        assert!(bench.is_open());
    }
    bench.measure(7.3);
    assert_eq!(bench.pool.snapshot().cpu, Some(1.0));
    assert!(bench.is_shut());
    nonsense.into_iter().for_each(|busy| bench.measure(busy));
    let now = bench.pool.snapshot();
    assert_eq!((now.cpu, now.cpu_readings_ignored), (Some(1.0), 8), "the average stands");
    held.free();
}

#[test]
fn the_average_is_weighted_by_time() {
    let after = |gate: CpuGate, samples: &[(Duration, f64)]| {
        let bench = bench(gate.time_constant(15 * SECOND));
        let held = hold(&bench.pool, 1);
        samples.iter().for_each(|(gap, busy)| bench.measure_after(*gap, *busy));
        held.free();
        bench.pool.snapshot().cpu.unwrap()
    };
    let near = |is: f64, expected: f64| assert!((is - expected).abs() < 1e-3, "{is} {expected}");
    near(after(always(), &[(SECOND, 0.9)]), 0.9);
    near(after(always(), &[(SECOND, 0.4), (30 * SECOND, 1.0)]), 0.919);
    near(after(always(), &[(SECOND, 0.95), (60 * SECOND, 0.0)]), 0.0174);
    near(after(always(), &[(SECOND, 0.3), (SECOND, 1.0)]), 0.345);
    let alike: Vec<_> = (0..1_000).map(|_| (MS, 0.5)).collect();
    let fine = after(always().sample_every(MS), &alike);
    assert!((fine - 0.5).abs() < 1e-9, "{fine}");
}

#[test]
fn a_gate_that_refused_all_opens_after_a_pause_by_the_requests_alone() {
    let bench = bench(always().time_constant(15 * SECOND));
    bench.cpu.set(0.95);
    bench.run(|| ());
    eventually("the first job has left a sample", || bench.pool.snapshot().cpu.is_some());
    assert!(bench.is_shut());
    assert_eq!(bench.pool.load().score, 1.0, "it refuses although it is empty");
    bench.clock.advance(60 * SECOND);
    bench.cpu.set(0.0);
    assert!(bench.pool.load().score < 0.1, "nobody knows, so somebody may come");
    assert!(bench.pool.try_spawn(|| ()).is_ok(), "the first to come opens it");
    bench.pool.wait_idle();
    assert!((bench.pool.snapshot().cpu.unwrap() - 0.0174).abs() < 1e-3);
}

#[test]
fn a_gate_that_refused_all_opens_also_for_those_who_reserve_first() {
    let bench = bench(always());
    bench.cpu.set(1.0);
    bench.run(|| ());
    eventually("the first job has left a sample", || bench.pool.snapshot().cpu.is_some());
    assert_eq!(bench.pool.try_reserve().unwrap_err().reason, Reason::Cpu);
    bench.cpu.set(0.0);
    bench.clock.advance(8 * SECOND);
    assert_eq!(bench.pool.try_reserve_many(3).expect("the CPU is free").len(), 3);
}

#[test]
fn one_long_job_and_nothing_but_refusals_do_not_keep_the_gate_shut_for_ever() {
    for gate in [always(), contended()] {
        let bench = bench(gate);
        let held = hold(&bench.pool, 1);
        bench.contend(Contention::none().throttled(0.5));
        assert!(bench.is_shut());
        bench.cpu.set(0.0);
        bench.cpu.set_contention(Contention::none());
        let mut waited = 0;
        while bench.pool.try_spawn(|| ()).is_err() {
            bench.clock.advance(SAMPLE);
            waited += 1;
            assert!(waited < 600, "a minute of free CPU and still shut");
        }
        held.free();
        bench.pool.wait_idle();
        assert_adds_up(&bench.pool);
    }
}

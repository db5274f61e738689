//! From which CPU use on how many are refused: by the ramp, and by the steps that halve the limit,
//! drop low work and refuse.

use weirpool::{Arm, CpuGate, Priority, Reason};

use crate::bench::{MS, SAMPLE, always, assert_all_slots_free_but_for_the_gate, bench, bench_with};
use crate::common::{counting_waker, hold, poll, resolve};

#[test]
fn of_ten_thousand_half_are_refused_half_way_up_the_ramp() {
    let bench = bench(always());
    let held = hold(&bench.pool, 1);
    bench.measure(0.8);
    let of = |priority| bench.refused(priority, 10_000);
    let (low, normal, high) = (of(Priority::Low), of(Priority::Normal), of(Priority::High));
    assert!(normal.abs_diff(5_000) <= 200, "{normal}");
    assert!(low >= normal && low < 10_000 && high <= normal, "{low} {normal} {high}");
    assert_eq!(of(Priority::Critical), 0);
    let now = bench.pool.snapshot();
    assert_eq!(now.rejected.get(Reason::Cpu), now.rejected.total());
    assert_eq!(now.rejected.total(), (low + normal + high) as u64);
    assert!((now.cpu_refusal - 0.5).abs() < 1e-6, "{now:?}");
    assert_eq!(now.cpu, Some(0.8));
    let score = bench.pool.load().score;
    assert!((0.5..1.0).contains(&score), "{score}");
    held.free();
    assert_all_slots_free_but_for_the_gate(&bench);
}

#[test]
fn the_ramp_goes_from_none_to_all() {
    for (busy, lowest, highest) in [
        (0.65, 0, 0),
        (0.70, 0, 0),
        (0.75, 2_300, 2_700),
        (0.80, 4_800, 5_200),
        (0.90, 10_000, 10_000),
        (1.5, 10_000, 10_000),
    ] {
        let bench = bench(always());
        let held = hold(&bench.pool, 1);
        bench.measure(busy);
        let refused = bench.refused(Priority::Normal, 10_000);
        assert!((lowest..=highest).contains(&refused), "{refused} at {busy}");
        held.free();
    }
    for (busy, refused) in [(0.79, 0), (0.80, 100)] {
        let bench = bench(CpuGate::between(0.8, 0.8).armed(Arm::Always));
        let held = hold(&bench.pool, 1);
        bench.measure(busy);
        assert_eq!(bench.refused(Priority::Normal, 100), refused, "a step at {busy}");
        held.free();
    }
}

#[test]
fn with_the_same_seed_the_same_are_refused() {
    let play = |seed| {
        let bench = bench_with(always(), |builder| builder.seed(seed));
        let held = hold(&bench.pool, 1);
        bench.measure(0.8);
        let mut refused = Vec::new();
        for round in 0..200 {
            let priority = [Priority::Low, Priority::Normal, Priority::High][round % 3];
            refused.extend(bench.draw(bench.pool.job().priority(priority), 7));
            bench.measure(if round % 2 == 0 { 0.9 } else { 0.7 });
        }
        held.free();
        refused
    };
    assert_eq!(play(1), play(1));
    assert_ne!(play(1), play(2));
}

#[test]
fn steps_halve_the_limit_then_drop_low_work_then_refuse() {
    let gate = CpuGate::steps(0.70, 0.80, 0.85).armed(Arm::Always).time_constant(MS);
    let bench = bench_with(gate, |builder| builder.capacity(10));
    let held = hold(&bench.pool, 1);
    let limit = || bench.pool.snapshot().limit;
    let reasons = || {
        [Priority::Low, Priority::Normal, Priority::High, Priority::Critical].map(|priority| {
            let job = bench.pool.job().priority(priority).try_submit(|| ());
            job.map(|job| assert!(job.cancel())).map_err(|refused| refused.reason())
        })
    };
    for busy in [0.0, 0.70] {
        bench.measure(busy);
        assert_eq!((limit(), reasons()), (10, [Ok(()); 4]), "{busy}");
    }
    bench.measure(0.75);
    assert_eq!((limit(), reasons()), (5, [Ok(()); 4]));
    let queued: Vec<_> = (0..4).map(|_| bench.pool.try_submit(|| ()).unwrap()).collect();
    let limited = Err(Reason::Limit);
    assert_eq!(reasons(), [limited, limited, limited, Ok(())]);
    drop(queued.into_iter().map(|job| assert!(job.cancel())).collect::<Vec<_>>());
    bench.measure(0.82);
    assert_eq!((limit(), reasons()), (5, [Err(Reason::Cpu), Ok(()), Ok(()), Ok(())]));
    bench.measure(0.90);
    let refused = Err(Reason::Cpu);
    assert_eq!((limit(), reasons()), (5, [refused, refused, refused, Ok(())]));
    bench.measure(0.0);
    assert_eq!((limit(), reasons()), (10, [Ok(()); 4]));
    held.free();

    // Of one slot there is no half.
    let gate = CpuGate::steps(0.70, 0.80, 0.85).armed(Arm::Always).time_constant(MS);
    let bench = bench_with(gate, |builder| builder.capacity(1));
    bench.cpu.set(0.75);
    for _ in 0..3 {
        bench.clock.advance(SAMPLE);
        resolve(bench.pool.try_submit(|| ()).unwrap()).unwrap();
        bench.pool.wait_idle();
    }
    assert_eq!(bench.pool.snapshot().limit, 1);
}

#[test]
fn who_waits_for_the_halved_limit_is_let_in_when_the_cpu_is_free_again() {
    let gate = CpuGate::steps(0.70, 0.80, 0.85).armed(Arm::Always).time_constant(MS);
    let bench = bench_with(gate, |builder| builder.capacity(4));
    let held = hold(&bench.pool, 1);
    bench.measure(0.75);
    bench.pool.try_spawn(|| ()).unwrap();
    let (waker, wakes) = counting_waker();
    let mut submit = bench.pool.submit(|| 5);
    assert!(poll(&mut submit, &waker).is_pending(), "two of four are all");
    assert_eq!(bench.pool.try_spawn(|| ()).unwrap_err().reason(), Reason::Limit);
    // Nothing ends and nothing comes but critical work, which takes the sample.
    bench.cpu.set(0.0);
    bench.clock.advance(SAMPLE);
    bench.pool.job().priority(Priority::Critical).try_spawn(|| ()).unwrap();
    assert_eq!(wakes.get(), 1);
    let std::task::Poll::Ready(Ok(job)) = poll(&mut submit, &waker) else { panic!("let in") };
    held.free();
    assert_eq!(resolve(job).unwrap(), 5);
}

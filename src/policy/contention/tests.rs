use super::*;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

/// CPU time of so many cores in a sample of 100 ms.
fn cores(number: f64) -> Option<u64> {
    Some((number * 100.0 * MS as f64) as u64)
}

/// 100 ms of four workers on four cores of a host of four, nothing else going on.
fn saturated() -> Sample {
    Sample {
        dt_ns: 100 * MS,
        workers: 4.0,
        cores: Some(4.0),
        throttled_ns: Some(0),
        pool_cpu_ns: cores(4.0),
        process_cpu_ns: cores(4.0),
        host_busy_ns: cores(4.0),
        stolen_ns: Some(0),
        run_delay_ns: Some(0),
    }
}

#[track_caller]
fn check(sample: Sample, throttled: f64, other_threads: f64, neighbours: f64) {
    let shares = sample.contention();
    for (is, expected) in [
        (shares.throttled, throttled),
        (shares.other_threads, other_threads),
        (shares.neighbours, neighbours),
    ] {
        assert!((is - expected).abs() < 1e-6, "{shares:?} of {sample:?}");
    }
}

#[test]
fn own_saturation_is_no_contention() {
    check(saturated(), 0.0, 0.0, 0.0);
    // Twice the workers wait for each other.
    check(Sample { workers: 8.0, run_delay_ns: cores(4.0), ..saturated() }, 0.0, 0.0, 0.0);
    // A pool that has little to do.
    let idle = Sample { pool_cpu_ns: cores(0.2), process_cpu_ns: cores(3.5), ..saturated() };
    check(idle, 0.0, 0.0, 0.0);
}

#[test]
fn a_quota_that_stops_the_pool_is_told_from_those_who_used_it_up() {
    // Half a core of others in a quota of four cores, on a large host.
    let four = Sample {
        throttled_ns: cores(0.45),
        pool_cpu_ns: cores(3.55),
        run_delay_ns: cores(0.45),
        host_busy_ns: cores(30.0),
        ..saturated()
    };
    check(four, 0.1125, 0.0, 0.0);
    let eight = Sample {
        workers: 8.0,
        throttled_ns: cores(4.2),
        pool_cpu_ns: cores(3.75),
        run_delay_ns: cores(4.25),
        host_busy_ns: cores(30.0),
        ..saturated()
    };
    check(eight, 0.525, 0.0, 0.0);
}

#[test]
fn other_threads_of_the_process_are_told_from_neighbours() {
    let waiting = Sample { pool_cpu_ns: cores(3.0), run_delay_ns: cores(1.0), ..saturated() };
    check(waiting, 0.0, 0.25, 0.0);
    check(Sample { process_cpu_ns: cores(3.0), ..waiting }, 0.0, 0.0, 0.25);
    check(Sample { process_cpu_ns: cores(3.4), ..waiting }, 0.0, 0.1, 0.15);
    // A neighbour on another part of the host, nobody waits.
    let apart = Sample { host_busy_ns: cores(60.0), ..saturated() };
    check(apart, 0.0, 0.0, 0.0);
    // They waited, and nobody was there who took it.
    check(
        Sample { process_cpu_ns: cores(3.0), host_busy_ns: cores(3.0), ..waiting },
        0.0,
        0.0,
        0.0,
    );
}

#[test]
fn a_hypervisor_is_a_neighbour_that_no_run_delay_shows() {
    let stolen = Sample {
        pool_cpu_ns: cores(2.5),
        process_cpu_ns: cores(2.5),
        host_busy_ns: cores(2.5),
        stolen_ns: cores(1.5),
        ..saturated()
    };
    check(stolen, 0.0, 0.0, 1.5 / 4.0);
}

#[test]
fn what_is_unknown_is_no_reason() {
    let waiting = Sample { pool_cpu_ns: cores(3.0), run_delay_ns: cores(1.0), ..saturated() };
    check(Sample { pool_cpu_ns: None, ..waiting }, 0.0, 0.0, 0.0);
    check(Sample { process_cpu_ns: None, ..waiting }, 0.0, 0.0, 0.0);
    check(Sample { host_busy_ns: None, process_cpu_ns: cores(3.0), ..waiting }, 0.0, 0.0, 0.0);
    check(Sample { throttled_ns: None, ..waiting }, 0.0, 0.25, 0.0);
    // The run delay unknown: a pool that was busy wanted all, an idle one nothing more.
    check(Sample { run_delay_ns: None, ..waiting }, 0.0, 0.25, 0.0);
    let idle = Sample { pool_cpu_ns: cores(0.5), run_delay_ns: None, ..waiting };
    check(idle, 0.0, 0.0, 0.0);
    check(Sample { cores: None, ..waiting }, 0.0, 0.25, 0.0);
    check(Sample::default(), 0.0, 0.0, 0.0);
}

#[test]
fn odd_figures_give_shares_all_the_same() {
    for workers in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e-300, 1e300] {
        for cores in [None, Some(f64::NAN), Some(-1.0), Some(0.0), Some(1e-300), Some(1e300)] {
            for figure in [None, Some(0), Some(u64::MAX)] {
                for dt_ns in [0, 1, u64::MAX] {
                    let sample = Sample {
                        dt_ns,
                        workers,
                        cores,
                        throttled_ns: figure,
                        pool_cpu_ns: figure.map(|figure| figure / 2),
                        process_cpu_ns: figure,
                        host_busy_ns: figure,
                        stolen_ns: figure,
                        run_delay_ns: figure,
                    };
                    let Contention { throttled, other_threads, neighbours } = sample.contention();
                    for share in [throttled, other_threads, neighbours] {
                        assert!((0.0..=1.0).contains(&share), "{share} of {sample:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn one_odd_sample_arms_nothing_and_a_second_of_it_does() {
    let mut meter = ContentionMeter::new(S);
    let taken = Contention { other_threads: 0.3, ..Contention::default() };
    meter.add(S + 100 * MS, taken);
    assert!(!meter.is_contended());
    for sample in 2..=10 {
        meter.add(S + sample * 100 * MS, taken);
    }
    assert!(meter.is_contended());
    // Over at the latest a few seconds after it ended, also if nobody looked meanwhile.
    meter.add(60 * S, Contention::default());
    assert!(!meter.is_contended());
}

#[test]
fn no_number_is_no_contention() {
    let mut meter = ContentionMeter::new(0);
    let odd = Contention { throttled: f64::NAN, other_threads: -3.0, neighbours: f64::INFINITY };
    meter.add(S, odd);
    let value = meter.value();
    assert_eq!((value.throttled, value.other_threads), (0.0, 0.0));
    assert!((0.0..=1.0).contains(&value.neighbours));
}

const THROTTLED: Contention = Contention { throttled: 0.3, other_threads: 0.0, neighbours: 0.0 };
const TAKEN: Contention = Contention { throttled: 0.0, other_threads: 0.1, neighbours: 0.2 };
const CALM: Contention = Contention { throttled: 0.0, other_threads: 0.0, neighbours: 0.0 };

#[test]
fn throttling_takes_a_twentieth_per_sample_down_to_one_worker() {
    let mut active = ActiveWorkers::new(8);
    assert_eq!(active.level(), 8.0);
    active.add(100 * MS, THROTTLED);
    assert!((active.level() - 7.6).abs() < 1e-9);
    for _ in 0..200 {
        active.add(100 * MS, THROTTLED);
    }
    assert_eq!(active.level(), 1.0);
}

#[test]
fn clean_samples_give_back_a_hundredth_of_the_workers_by_their_time() {
    let mut active = ActiveWorkers::new(100);
    for _ in 0..200 {
        active.add(100 * MS, THROTTLED);
    }
    active.add(100 * MS, CALM);
    assert!((active.level() - 2.0).abs() < 1e-9);
    active.add(50 * MS, CALM);
    assert!((active.level() - 2.5).abs() < 1e-9);
    for _ in 0..98 {
        active.add(100 * MS, CALM);
    }
    assert_eq!(active.level(), 100.0);
}

#[test]
fn a_pause_of_the_whole_process_changes_nothing() {
    let mut active = ActiveWorkers::new(8);
    active.add(100 * MS, THROTTLED);
    let before = active.level();
    for shares in [THROTTLED, TAKEN, CALM] {
        active.add(3_600 * S, shares);
        active.add(0, shares);
        active.add(u64::MAX, shares);
    }
    assert_eq!(active.level(), before);
}

#[test]
fn one_long_sample_is_no_landslide() {
    let mut active = ActiveWorkers::new(8);
    active.add(9 * S, THROTTLED);
    assert!(active.level() > 6.8, "{}", active.level());
}

#[test]
fn the_worker_at_the_edge_works_for_its_fraction_of_each_slice() {
    let looks = 128 * 40;
    let on_average = |level: f64| {
        let seen = (0..looks).map(|look| active_at(level, look * 10 * MS / 128)).sum::<usize>();
        seen as f64 / looks as f64
    };
    for level in [1.0, 1.125, 3.5, 4.0, 7.75] {
        assert_eq!(on_average(level), level);
    }
    assert_eq!(active_at(f64::NAN, 0), 1);
    assert_eq!(active_at(-1.0, 5), 1);
}

mod quota {
    //! The quota of anchors: 4 cores in periods of 100 ms, half a core of other threads, and a pool
    //! with twice the work that it can do. In steps of 1 ms, for 100 s.

    use super::*;

    const QUOTA_CORES: f64 = 4.0;
    const OTHERS: f64 = 0.5;
    const SECONDS: u64 = 100;

    struct Outcome {
        /// Share of the time in which the process stood still.
        frozen: f64,
        /// CPU time of the pool, as a share of what the others left of the quota.
        throughput: f64,
    }

    fn run(workers: usize, adaptive: bool) -> Outcome {
        let mut active = ActiveWorkers::new(workers);
        let (mut left_ms, mut throttled_ms, mut frozen_ms, mut pool_ms) = (0.0, 0.0, 0.0, 0.0);
        let (mut sample_pool_ms, mut sample_cpu_ms, mut sample_waited_ms) = (0.0, 0.0, 0.0);
        let mut told_throttled_ms = 0.0;
        for ms in 0..SECONDS * 1_000 {
            if ms % 100 == 0 {
                // The kernel adds what it stopped when it lets go again.
                told_throttled_ms += std::mem::take(&mut throttled_ms);
                left_ms = QUOTA_CORES * 100.0;
            }
            let running = if adaptive { active_at(active.level(), ms * MS) } else { workers };
            let wanted = running as f64 + OTHERS;
            let ran = (left_ms / wanted).min(1.0);
            left_ms -= wanted * ran;
            throttled_ms += wanted * (1.0 - ran);
            frozen_ms += 1.0 - ran;
            sample_pool_ms += running as f64 * ran;
            sample_cpu_ms += wanted * ran;
            sample_waited_ms += running as f64 * (1.0 - ran);
            if ms % 100 == 36 {
                let ns = |ms: f64| Some((ms * MS as f64) as u64);
                let sample = Sample {
                    dt_ns: 100 * MS,
                    workers: active.level(),
                    cores: Some(QUOTA_CORES),
                    throttled_ns: ns(std::mem::take(&mut told_throttled_ms)),
                    pool_cpu_ns: ns(sample_pool_ms),
                    process_cpu_ns: ns(std::mem::take(&mut sample_cpu_ms)),
                    run_delay_ns: ns(std::mem::take(&mut sample_waited_ms)),
                    ..Sample::default()
                };
                pool_ms += std::mem::take(&mut sample_pool_ms);
                active.add(sample.dt_ns, sample.contention());
            }
        }
        let all_ms = (SECONDS * 1_000) as f64;
        let throughput = pool_ms / ((QUOTA_CORES - OTHERS) * all_ms);
        Outcome { frozen: frozen_ms / all_ms, throughput }
    }

    #[test]
    fn with_all_workers_the_process_stands_still() {
        let four = run(4, false).frozen;
        assert!((0.10..=0.12).contains(&four), "{four}");
        let eight = run(8, false).frozen;
        assert!((0.48..=0.55).contains(&eight), "{eight}");
    }

    #[test]
    fn with_fewer_it_hardly_does_and_gets_as_much_done() {
        for workers in [4, 8] {
            let Outcome { frozen, throughput } = run(workers, true);
            assert!(frozen <= 0.02, "{frozen} with {workers} workers");
            assert!(throughput >= 0.93, "{throughput} with {workers} workers");
        }
    }
}

/// Fewer workers would get less of a CPU that others take, not the same in fewer pieces.
#[test]
fn only_a_quota_makes_workers_stand_by() {
    let mut active = ActiveWorkers::new(8);
    for _ in 0..1_000 {
        active.add(100 * MS, TAKEN);
    }
    assert_eq!(active.level(), 8.0);
    assert!(active.is_at_its_floor(), "so it is for the gate to refuse");
    for _ in 0..100 {
        active.add(100 * MS, THROTTLED);
    }
    assert_eq!(active.level(), 1.0);
    // And when the quota suffices again they come back, whoever else is there.
    for _ in 0..100 {
        active.add(100 * MS, TAKEN);
    }
    assert_eq!(active.level(), 8.0);
}

use super::*;
use crate::sense::fixture::Tree;

const MS: u64 = 1_000_000;

#[test]
fn a_schedstat_is_cpu_and_waiting() {
    for (text, expected) in [
        ("12345 678 9\n", Some((12_345, 678))),
        ("12345 678", Some((12_345, 678))),
        ("12345", None),
        ("", None),
        ("a b c", None),
        ("-1 2 3", None),
    ] {
        assert_eq!(parse_schedstat(text), expected, "{text:?}");
    }
}

#[test]
fn watched_workers_stand_for_the_others() {
    let at = |workers, cpu_ns, waited_ns| Some(Delays { workers, cpu_ns, waited_ns });
    for (now, before, pool_cpu_ns, workers, expected) in [
        (at(4, 100, 50), at(4, 60, 20), Some(40), 4, Some(30)),
        // 40 of 120 were watched, and waited 30.
        (at(16, 100, 50), at(16, 60, 20), Some(120), 48, Some(90)),
        (at(16, 60, 50), at(16, 60, 20), Some(0), 48, Some(90)),
        (at(16, 100, 50), at(16, 60, 20), None, 32, Some(60)),
        // Workers that came or went, and counters that went backwards.
        (at(4, 100, 50), at(3, 60, 20), Some(40), 4, None),
        (at(4, 100, 10), at(4, 60, 20), Some(40), 4, None),
        (None, at(4, 60, 20), Some(40), 4, None),
        (at(4, 100, 50), None, Some(40), 4, None),
    ] {
        let is = Delays::of_all(now, before, pool_cpu_ns, workers);
        assert_eq!(is, expected, "{now:?} {before:?}");
    }
}

#[test]
fn a_host_too_large_to_be_read_often_is_told_by_its_last_rates() {
    let tree = Tree::new(&[("stat", "cpu  100 0 0 0 0 0 0 0\ncpu0 100 0 0 0 0 0 0 0\n")]);
    let began = system_now();
    let at = |ms: u64| began + Duration::from_millis(ms);
    let mut host = HostPace::new(HostStat::at(tree.root().join("stat")), began);
    assert_eq!(host.busy_and_stolen_cores(at(0)), None);
    // However much the first look cost.
    host.again_at = at(500);
    tree.write("stat", "cpu  150 0 0 0 0 0 0 25\ncpu0 150 0 0 0 0 0 0 25\n");
    assert_eq!(host.busy_and_stolen_cores(at(499)), None);
    let rates = Some((0.5, 0.25));
    assert_eq!(host.busy_and_stolen_cores(at(1_000)), rates);
    host.again_at = at(5_000);
    tree.write("stat", "cpu  999 0 0 0 0 0 0 25\n");
    assert_eq!(host.busy_and_stolen_cores(at(2_000)), rates);
    // Backwards, and gone.
    host.again_at = at(0);
    tree.write("stat", "cpu  10 0 0 0 0 0 0 0\n");
    assert_eq!(host.busy_and_stolen_cores(at(6_000)), None);
    host.again_at = at(0);
    tree.write("stat", "");
    assert_eq!(host.busy_and_stolen_cores(at(7_000)), None);
}

#[cfg(all(target_os = "linux", not(loom)))]
#[test]
fn a_fixture_shows_what_stopped_the_pool() {
    let tree = Tree::new(&[
        ("cpu.max", "400000 100000"),
        ("cpu.stat", "usage_usec 1\nthrottled_usec 1000\n"),
    ]);
    let clocks = Arc::new(WorkerClocks::new(4));
    let _registration = clocks.register(0);
    let schedstat = format!("proc/self/task/{}/schedstat", clocks.tid(0).unwrap());
    tree.write(&schedstat, "1000 2000 3\n");
    let mut sensors = Sensors::at(tree.root(), Arc::clone(&clocks));
    assert_eq!(sensors.sample(4.0), None);
    tree.write("cpu.stat", "usage_usec 1\nthrottled_usec 51000\n");
    tree.write(&schedstat, "1000 32000 3\n");
    let sample = sensors.sample(4.0).unwrap();
    assert_eq!((sample.throttled_ns, sample.run_delay_ns), (Some(50 * MS), Some(120_000)));
    assert_eq!(sample.cores, Some(4.0_f64.min(allowed_cpus() as f64)));
    assert_eq!((sample.host_busy_ns, sample.workers), (None, 4.0));
    assert!(sample.process_cpu_ns.is_some() && sample.pool_cpu_ns.is_some());
}

#[cfg(all(target_os = "linux", not(loom)))]
#[test]
fn this_machine_can_be_sampled_while_workers_come_and_go() {
    let clocks = Arc::new(WorkerClocks::new(2));
    let mut sensors = Sensors::new(Arc::clone(&clocks));
    assert_eq!(sensors.sample(2.0), None);
    for _ in 0..3 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _registration = clocks.register(1);
                clocks.note(1);
            });
            for _ in 0..20 {
                let Some(sample) = sensors.sample(2.0) else { continue };
                let shares = sample.contention();
                let sum = shares.throttled + shares.other_threads + shares.neighbours;
                assert!((0.0..=3.0).contains(&sum), "{shares:?}");
            }
        });
    }
}

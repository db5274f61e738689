//! Sources of CPU figures, by the stories of software that read them wrong: file trees made by the
//! test stand in for `/proc` and `/sys`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weirpool::cpu::{Cgroup, Contention, CpuReading, CpuSource, Host, Process, Workers};
use weirpool::test::{ManualClock, ManualCpu};
use weirpool::{Arm, CpuGate, Pool, Shutdown};

/// A directory of its own, removed when dropped.
struct Tree(PathBuf);

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let name =
            format!("weirpool-sources-{}-{}", std::process::id(), MADE.fetch_add(1, Relaxed));
        let root = std::env::temp_dir().join(name);
        fs::create_dir_all(&root).unwrap();
        let tree = Self(root);
        for (path, contents) in files {
            tree.write(path, contents);
        }
        tree
    }

    /// A host of 64 cores with these files of a control group.
    fn of_64_cores(files: &[(&str, &str)]) -> Self {
        let tree = Self::new(&[("sys/devices/system/cpu/online", "0-63\n")]);
        for (path, contents) in files {
            tree.write(path, contents);
        }
        tree
    }

    fn write(&self, path: &str, contents: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const MAX: &str = "sys/fs/cgroup/cpu.max";
const STAT: &str = "sys/fs/cgroup/cpu.stat";
const QUOTA: &str = "sys/fs/cgroup/cpu/cpu.cfs_quota_us";
const PERIOD: &str = "sys/fs/cgroup/cpu/cpu.cfs_period_us";
const ACCT: &str = "sys/fs/cgroup/cpuacct/cpuacct.usage";

/// What a pool makes of two readings, a second apart.
fn share(first: CpuReading, second: CpuReading) -> f64 {
    match (first, second) {
        (
            CpuReading::Cumulative { cpu: before, .. },
            CpuReading::Cumulative { cpu: after, cores },
        ) => (after - before).as_secs_f64() / cores,
        other => panic!("{other:?}"),
    }
}

/// The share of a control group whose file `path` changes so within a second.
#[track_caller]
fn check(tree: &Tree, path: &str, before: &str, after: &str, expected: f64) {
    let now = Instant::now();
    let mut source = Cgroup::at(&tree.0);
    tree.write(path, before);
    let first = source.read(now).unwrap();
    tree.write(path, after);
    let second = source.read(now + Duration::from_secs(1)).unwrap();
    let is = share(first, second);
    assert!((is - expected).abs() < 1e-9, "{is} instead of {expected}");
    assert_eq!(source.skipped(), 0);
}

#[test]
fn the_gate_reads_the_containers_numbers_and_not_the_hosts() {
    let check_v2 = |max: Option<&str>, used_us: u64, expected| {
        let tree = Tree::of_64_cores(&[(STAT, "usage_usec 0\n")]);
        if let Some(max) = max {
            tree.write(MAX, max);
        }
        let after = format!("usage_usec {}\nuser_usec 1\nsystem_usec 1\n", 5_000 + used_us);
        check(&tree, STAT, "usage_usec 5000\nuser_usec 0\nsystem_usec 0\n", &after, expected);
    };
    check_v2(Some("200000 100000\n"), 1_900_000, 0.95);
    check_v2(Some("max 100000\n"), 1_900_000, 1.9 / 64.0);
    check_v2(Some("50000 100000\n"), 500_000, 1.0);
    check_v2(None, 1_900_000, 1.9 / 64.0);

    let check_v1 = |quota: &str, used_ns: u64, expected| {
        let tree = Tree::of_64_cores(&[(QUOTA, quota), (PERIOD, "100000\n")]);
        check(&tree, ACCT, "7\n", &format!("{}\n", 7 + used_ns), expected);
    };
    check_v1("-1\n", 1_900_000_000, 1.9 / 64.0);
    check_v1("150000\n", 1_500_000_000, 1.0);
}

#[test]
fn an_empty_or_garbled_file_skips_the_sample_and_is_counted() {
    let now = Instant::now();
    let tree = Tree::of_64_cores(&[(MAX, "200000 100000\n"), (STAT, "usage_usec 100\n")]);
    let mut source = Cgroup::at(&tree.0);
    let first = source.read(now).unwrap();
    for (skipped, (path, contents)) in
        [(STAT, ""), (STAT, "usage_usec many\n"), (MAX, ""), (MAX, "x y\n")].iter().enumerate()
    {
        tree.write(path, contents);
        assert_eq!(source.read(now), None, "{path} {contents:?}");
        assert_eq!(source.skipped(), skipped as u64 + 1);
        tree.write(STAT, "usage_usec 100\n");
        tree.write(MAX, "200000 100000\n");
        assert_eq!(source.read(now), Some(first));
    }
}

#[test]
fn nothing_readable_is_no_figure_and_no_failure() {
    let empty = Tree::new(&[]);
    for root in [empty.0.as_path(), Path::new("/no/such/place"), Path::new("")] {
        let mut source = Cgroup::at(root);
        for reading in 1..=3 {
            assert_eq!(source.read(Instant::now()), None);
            assert_eq!(source.contention(Instant::now()), None);
            assert_eq!(source.skipped(), reading);
        }
    }
}

#[test]
fn a_container_whose_path_is_the_hosts_is_found_at_its_mount() {
    let tree = Tree::of_64_cores(&[
        ("proc/self/cgroup", "0::/kubepods/pod7/app\n"),
        ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n"),
        (MAX, "100000 100000\n"),
    ]);
    check(&tree, STAT, "usage_usec 0\n", "usage_usec 250000\n", 0.25);
}

#[test]
fn a_pods_tighter_quota_counts_with_all_that_the_pod_uses() {
    let tree = Tree::of_64_cores(&[
        ("proc/self/cgroup", "0::/pod/app\n"),
        ("sys/fs/cgroup/pod/app/cpu.max", "400000 100000\n"),
        ("sys/fs/cgroup/pod/app/cpu.stat", "usage_usec 0\n"),
        ("sys/fs/cgroup/pod/cpu.max", "100000 50000\n"),
    ]);
    check(&tree, "sys/fs/cgroup/pod/cpu.stat", "usage_usec 0\n", "usage_usec 1500000\n", 0.75);
}

#[test]
fn throttled_time_is_a_share_since_the_last_look() {
    let now = Instant::now();
    let at = |ms| now + Duration::from_millis(ms);
    let stat = |us| format!("usage_usec 1\nnr_periods 9\nnr_throttled 3\nthrottled_usec {us}\n");
    let tree = Tree::of_64_cores(&[(MAX, "200000 100000\n"), (STAT, &stat(1_000))]);
    let mut source = Cgroup::at(&tree.0);
    assert_eq!(source.contention(now), None);
    // Two CPUs stopped for 30 ms of 100.
    tree.write(STAT, &stat(61_000));
    let throttled = source.contention(at(100)).unwrap();
    assert!((throttled.throttled.unwrap() - 0.3).abs() < 1e-9, "{throttled:?}");
    // Of others it knows nothing.
    assert_eq!((throttled.other_threads, throttled.neighbours), (None, None));
    assert_eq!(source.contention(at(200)), Some(Contention::unknown().throttled(0.0)));
    // More than there is, backwards, no time, and time that runs backwards.
    tree.write(STAT, &stat(u64::MAX));
    assert_eq!(source.contention(at(300)), Some(Contention::unknown().throttled(1.0)));
    tree.write(STAT, &stat(1_000));
    assert_eq!(source.contention(at(400)), None);
    assert_eq!(source.contention(at(400)), None);
    assert_eq!(source.contention(at(100)), None);
    assert_eq!(source.contention(at(200)), Some(Contention::unknown().throttled(0.0)));
}

#[test]
fn a_host_waiting_for_its_disks_is_idle_and_a_stolen_one_is_busy() {
    let now = Instant::now();
    let cpus = "cpu0 0 0 0 0\ncpu1 0 0 0 0\ncpu2 0 0 0 0\ncpu3 0 0 0 0\nintr 1\n";
    let stat = |total: &str| format!("cpu  {total}\n{cpus}");
    let tree = Tree::new(&[("stat", &stat("100 10 50 9000 400 5 5 30 7 0"))]);
    let mut source = Host::at(tree.0.join("stat"));
    let first = source.read(now).unwrap();
    tree.write("stat", &stat("200 10 100 9100 500 5 5 80 7 0"));
    let second = source.read(now + Duration::from_secs(1)).unwrap();
    // 100 + 50 + 50 hundredths of a second on four CPUs.
    assert!((share(first, second) - 0.5).abs() < 1e-9);
    assert_eq!((source.skipped(), source.contention(now)), (0, None));

    for contents in ["", "cpu  1 2\n", "cpu  a b c d\n", "nonsense\n"] {
        tree.write("stat", contents);
        assert_eq!(source.read(now), None, "{contents:?}");
    }
    assert_eq!(source.skipped(), 4);
    let mut nowhere = Host::at("/no/such/place");
    assert_eq!((nowhere.read(now), nowhere.skipped()), (None, 1));
}

#[test]
fn the_cpu_of_a_test_is_what_the_test_says() {
    let now = Instant::now();
    let cpu = ManualCpu::new();
    let mut source: Box<dyn CpuSource> = Box::new(cpu.clone());
    assert_eq!(source.read(now), None);
    assert_eq!(source.contention(now), Some(Contention::none()));
    for busy in [0.0, 0.5, 7.3, -1.0, f64::INFINITY] {
        cpu.set(busy);
        assert_eq!(source.read(now), Some(CpuReading::Busy(busy)));
    }
    // It leaves nothing for the pool's own sensors to say.
    cpu.set_contention(Contention::unknown().neighbours(0.4));
    assert_eq!(source.contention(now), Some(Contention::none().neighbours(0.4)));
    assert_eq!(source.skipped(), 0);
}

#[test]
fn sources_of_this_machine_never_fail_and_never_go_backwards() {
    let sources: [Box<dyn CpuSource>; 4] = [
        Box::new(Process::default()),
        Box::new(Workers::default()),
        Box::new(Cgroup::default()),
        Box::new(Host::default()),
    ];
    for mut source in sources {
        let mut last = Duration::ZERO;
        for _ in 0..50 {
            let _ = source.contention(Instant::now());
            if let Some(CpuReading::Cumulative { cpu, cores }) = source.read(Instant::now()) {
                assert!(cpu >= last && cores > 0.0);
                last = cpu;
            }
        }
    }
}

#[cfg(unix)]
#[test]
fn the_process_sees_its_own_work() {
    let mut source = Process::new();
    let mut cpu = || match source.read(Instant::now()) {
        Some(CpuReading::Cumulative { cpu, .. }) => cpu,
        other => panic!("{other:?}"),
    };
    let begin = cpu();
    // However long that takes: work until it shows.
    while cpu() < begin + Duration::from_millis(20) {
        std::hint::black_box((0..10_000_u64).sum::<u64>());
    }
}

/// A source that panics when it is asked what it has skipped.
struct SkipsBadly(Arc<AtomicUsize>);

impl CpuSource for SkipsBadly {
    fn read(&mut self, _now: Instant) -> Option<CpuReading> {
        self.0.fetch_add(1, Relaxed);
        Some(CpuReading::Busy(0.5))
    }

    fn skipped(&self) -> u64 {
        std::panic::resume_unwind(Box::new("on purpose"));
    }
}

#[test]
fn a_panic_in_what_a_source_has_skipped_costs_no_sample_to_come() {
    let (clock, reads) = (ManualClock::new(), Arc::new(AtomicUsize::new(0)));
    let gate = CpuGate::default().armed(Arm::Always).source(SkipsBadly(Arc::clone(&reads)));
    let pool = Pool::builder().workers(1).clock(clock.clone()).cpu_gate(gate).build().unwrap();
    for _ in 0..10 {
        clock.advance(Duration::from_secs(1));
        pool.try_submit(|| ()).unwrap().join().expect("the worker lives");
    }
    assert_eq!(pool.shutdown(Shutdown::Drain, None).still_running, 0);
    // The worker and the submits share the samples, and one may stand for two.
    assert!(reads.load(Relaxed) >= 2, "it is read again");
}

use std::fs;

use super::*;
use crate::sense::fixture::Tree;

fn usage(root: &Path) -> Result<Usage, Unread> {
    Cgroup::find(root).usage()
}

#[track_caller]
fn check(root: &Path, cpu_ns: u64, quota_cores: Option<f64>) {
    assert_eq!(usage(root), Ok(Usage { cpu_ns, quota_cores }));
}

#[test]
fn version_2_at_the_usual_place() {
    let tree = Tree::new(&[
        ("proc/self/cgroup", "0::/\n"),
        ("sys/fs/cgroup/cpu.max", "150000 100000\n"),
        ("sys/fs/cgroup/cpu.stat", "usage_usec 7000\nuser_usec 1\nthrottled_usec 30\n"),
    ]);
    check(tree.root(), 7_000_000, Some(1.5));
    assert_eq!(Cgroup::find(tree.root()).throttled_ns(), Some(30_000));
}

#[test]
fn nested_groups_count_by_the_tightest_quota() {
    let tree = Tree::new(&[
        ("proc/self/cgroup", "0::/pod/app\n"),
        ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        ("sys/fs/cgroup/cpu.stat", "usage_usec 9000\n"),
        ("sys/fs/cgroup/pod/cpu.max", "100000 100000\n"),
        ("sys/fs/cgroup/pod/cpu.stat", "usage_usec 500\nthrottled_usec 4\n"),
        ("sys/fs/cgroup/pod/app/cpu.max", "200000 100000\n"),
        ("sys/fs/cgroup/pod/app/cpu.stat", "usage_usec 300\nthrottled_usec 3\n"),
    ]);
    check(tree.root(), 500_000, Some(1.0));
    assert_eq!(Cgroup::find(tree.root()).throttled_ns(), Some(7_000));
    // Of equal quotas the outer one is used up first.
    tree.write("sys/fs/cgroup/pod/app/cpu.max", "100000 100000\n");
    check(tree.root(), 500_000, Some(1.0));
    tree.write("sys/fs/cgroup/pod/app/cpu.max", "25000 50000\n");
    check(tree.root(), 300_000, Some(0.5));
    tree.write("sys/fs/cgroup/pod/app/cpu.max", "max 100000\n");
    tree.write("sys/fs/cgroup/pod/cpu.max", "max\n");
    check(tree.root(), 300_000, None);
}

#[test]
fn a_quota_that_changes_its_place_is_no_jump_of_the_counter() {
    let tree = Tree::new(&[
        ("proc/self/cgroup", "0::/app\n"),
        ("sys/fs/cgroup/cpu.max", "max 100000\n"),
        ("sys/fs/cgroup/cpu.stat", "usage_usec 9000\n"),
        ("sys/fs/cgroup/app/cpu.max", "100000 100000\n"),
        ("sys/fs/cgroup/app/cpu.stat", "usage_usec 300\n"),
    ]);
    let mut cgroup = Cgroup::find(tree.root());
    let mut cpu_ns = || cgroup.usage().unwrap().cpu_ns;
    assert_eq!(cpu_ns(), 300_000);
    tree.write("sys/fs/cgroup/cpu.max", "50000 100000\n");
    assert_eq!(cpu_ns(), 300_000);
    tree.write("sys/fs/cgroup/cpu.stat", "usage_usec 9100\n");
    assert_eq!(cpu_ns(), 400_000);
    tree.write("sys/fs/cgroup/cpu.max", "max 100000\n");
    assert_eq!(cpu_ns(), 400_000);
    tree.write("sys/fs/cgroup/app/cpu.stat", "usage_usec 350\n");
    assert_eq!(cpu_ns(), 450_000);
    // One that really goes backwards is seen to.
    tree.write("sys/fs/cgroup/app/cpu.stat", "usage_usec 250\n");
    assert_eq!(cpu_ns(), 350_000);
}

#[test]
fn version_1_with_both_controllers_in_one_place_or_in_two() {
    let together = Tree::new(&[
        ("proc/self/cgroup", "3:cpu,cpuacct:/docker/x\n"),
        (
            "proc/self/mountinfo",
            "33 31 0:30 /docker/x /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n",
        ),
        ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/cpuacct.usage", "123456789\n"),
        ("sys/fs/cgroup/cpu,cpuacct/cpu.stat", "nr_periods 5\nnr_throttled 2\nthrottled_time 77\n"),
    ]);
    check(together.root(), 123_456_789, Some(0.5));
    assert_eq!(Cgroup::find(together.root()).throttled_ns(), Some(77));

    let apart = Tree::new(&[
        ("proc/self/cgroup", "2:cpuacct:/a\n1:cpu:/b/c\n"),
        (
            "proc/self/mountinfo",
            "32 31 0:29 / /cg/cpu rw - cgroup cgroup rw,cpu\n\
             33 31 0:30 / /cg/acct rw - cgroup cgroup rw,cpuacct\n",
        ),
        ("cg/cpu/b/cpu.cfs_quota_us", "300000"),
        ("cg/cpu/b/c/cpu.cfs_quota_us", "-1"),
        ("cg/acct/cpuacct.usage", "99"),
        ("cg/acct/a/cpuacct.usage", "11"),
    ]);
    check(apart.root(), 99, Some(3.0));
    apart.write("cg/cpu/b/cpu.cfs_quota_us", "-1");
    check(apart.root(), 11, None);
}

#[test]
fn version_1_without_a_list_of_mounts() {
    for place in ["cpu,cpuacct", "cpuacct,cpu"] {
        let path = |file: &str| format!("sys/fs/cgroup/{place}/{file}");
        let tree = Tree::new(&[
            (&path("cpu.cfs_quota_us"), "150000\n"),
            (&path("cpu.cfs_period_us"), "100000\n"),
            (&path("cpuacct.usage"), "5\n"),
        ]);
        check(tree.root(), 5, Some(1.5));
    }
}

#[test]
fn side_by_side_the_version_with_the_controller_counts() {
    let hybrid = Tree::new(&[
        ("proc/self/cgroup", "2:cpuacct:/\n1:cpu:/\n0::/\n"),
        (
            "proc/self/mountinfo",
            "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
             33 31 0:30 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n\
             41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        ),
        ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n"),
        ("sys/fs/cgroup/cpuacct/cpuacct.usage", "8\n"),
        ("sys/fs/cgroup/unified/cpu.stat", "usage_usec 1\n"),
    ]);
    check(hybrid.root(), 8, Some(2.0));

    let other_way = Tree::new(&[
        ("proc/self/cgroup", "5:memory:/x\n0::/x\n"),
        (
            "proc/self/mountinfo",
            "32 31 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        ),
        ("sys/fs/cgroup/unified/x/cpu.stat", "usage_usec 3\n"),
        ("sys/fs/cgroup/unified/x/cpu.max", "50000 100000\n"),
    ]);
    check(other_way.root(), 3_000, Some(0.5));
}

#[test]
fn a_directory_of_a_group_serves_as_a_root_too() {
    let v2 = Tree::new(&[("cpu.max", "70000 100000"), ("cpu.stat", "usage_usec 2")]);
    check(v2.root(), 2_000, Some(0.7));
    let v1 = Tree::new(&[
        ("cpu.cfs_quota_us", "70000"),
        ("cpuacct.usage", "2"),
        ("cpu.stat", "throttled_time 5"),
    ]);
    check(v1.root(), 2, Some(0.7));
    assert_eq!(Cgroup::find(v1.root()).throttled_ns(), Some(5));
}

#[test]
fn what_is_missing_or_garbled_is_told_and_never_guessed() {
    let nothing = Tree::new(&[]);
    assert_eq!(usage(nothing.root()), Err(Unread::Missing));
    assert_eq!(Cgroup::find(nothing.root()).throttled_ns(), None);
    assert_eq!(usage(Path::new("/no/such/place")), Err(Unread::Missing));

    for (max, stat, error) in [
        ("", "usage_usec 1", Unread::Garbled),
        ("\n", "usage_usec 1", Unread::Garbled),
        ("lots 100000", "usage_usec 1", Unread::Garbled),
        ("100000 x", "usage_usec 1", Unread::Garbled),
        ("0 100000", "usage_usec 1", Unread::Garbled),
        ("-5 100000", "usage_usec 1", Unread::Garbled),
        ("100000 0", "usage_usec 1", Unread::Garbled),
        ("nan nan", "usage_usec 1", Unread::Garbled),
        ("100000 100000", "", Unread::Garbled),
        ("100000 100000", "usage_usec -3", Unread::Garbled),
        ("100000 100000", "usage_usec99 3", Unread::Garbled),
        ("100000 100000", "\u{fffd}usage", Unread::Garbled),
    ] {
        let tree = Tree::new(&[("sys/fs/cgroup/cpu.max", max), ("sys/fs/cgroup/cpu.stat", stat)]);
        assert_eq!(usage(tree.root()), Err(error), "{max:?} {stat:?}");
    }
}

#[test]
fn bytes_that_are_no_text_and_files_that_go_away() {
    let tree = Tree::new(&[("cpu.max", "100000 100000"), ("cpu.stat", "usage_usec 1")]);
    let mut cgroup = Cgroup::find(tree.root());
    assert!(cgroup.usage().is_ok());
    fs::write(tree.root().join("cpu.stat"), [0xff, 0xfe, 0x00]).unwrap();
    assert_eq!(cgroup.usage(), Err(Unread::Garbled));
    fs::remove_file(tree.root().join("cpu.stat")).unwrap();
    assert_eq!(cgroup.usage(), Err(Unread::Missing));
    // Without the file of the quota there is none.
    tree.write("cpu.stat", "usage_usec 2");
    fs::remove_file(tree.root().join("cpu.max")).unwrap();
    assert_eq!(cgroup.usage(), Ok(Usage { cpu_ns: 2_000, quota_cores: None }));
}

#[test]
fn a_process_that_is_moved_to_another_group_is_found_there() {
    let tree = Tree::new(&[
        ("proc/self/cgroup", "0::/a\n"),
        ("sys/fs/cgroup/cpu.stat", "usage_usec 900\n"),
        ("sys/fs/cgroup/a/cpu.stat", "usage_usec 10\n"),
    ]);
    let mut cgroup = Cgroup::find(tree.root());
    assert_eq!(cgroup.usage().unwrap().cpu_ns, 10_000);
    fs::remove_dir_all(tree.root().join("sys/fs/cgroup/a")).unwrap();
    tree.write("proc/self/cgroup", "0::/b\n");
    tree.write("sys/fs/cgroup/b/cpu.stat", "usage_usec 3\n");
    tree.write("sys/fs/cgroup/b/cpu.max", "100000 100000\n");
    assert_eq!(cgroup.usage(), Ok(Usage { cpu_ns: 10_000, quota_cores: Some(1.0) }));
    tree.write("sys/fs/cgroup/b/cpu.stat", "usage_usec 5\n");
    assert_eq!(cgroup.usage().unwrap().cpu_ns, 12_000);
    // A tree that is filled only later.
    let late = Tree::new(&[]);
    let mut cgroup = Cgroup::find(late.root());
    assert_eq!(cgroup.usage(), Err(Unread::Missing));
    late.write("sys/fs/cgroup/cpu.stat", "usage_usec 7\n");
    assert_eq!(cgroup.usage(), Ok(Usage { cpu_ns: 7_000, quota_cores: None }));
}

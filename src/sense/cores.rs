//! How many cores this process may use: the lesser of its affinity and its groups' quota.

use std::path::Path;
use std::time::{Duration, Instant};

use super::cgroup::Cgroup;
use super::cpu::allowed_cpus;
use super::host::HostStat;
use super::text::Text;

/// Quotas are changed by people and by schedulers, now and then.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Reads the affinity once, where it is made, and the quota about once a second.
#[derive(Debug)]
pub(crate) struct UsableCores {
    cpus: f64,
    cgroup: Cgroup,
    quota: Option<f64>,
    looked_at: Option<Instant>,
}

impl UsableCores {
    /// For the threads that the calling one will start.
    pub(crate) fn new() -> Self {
        Self::at(Path::new("/"), allowed_cpus())
    }

    /// With the quota of the file tree under `root`.
    pub(crate) fn at(root: &Path, cpus: usize) -> Self {
        let cgroup = Cgroup::find(root);
        Self { cpus: cpus.max(1) as f64, cgroup, quota: None, looked_at: None }
    }

    /// Above zero, and a fraction if the quota is one.
    pub(crate) fn get(&mut self, now: Instant) -> f64 {
        let is_due = |at: Instant| now < at || now.saturating_duration_since(at) >= LOOK_EVERY;
        if self.looked_at.is_none_or(is_due) {
            self.looked_at = Some(now);
            // A file that makes no sense says nothing new.
            if let Ok(quota) = self.cgroup.quota_cores() {
                self.quota = quota;
            }
        }
        self.quota.map_or(self.cpus, |quota| quota.min(self.cpus))
    }
}

/// The CPUs of the host whose file tree stands under `root`; none if it doesn't say.
pub(crate) fn online_cpus(root: &Path) -> Option<usize> {
    let mut text = Text::default();
    let listed = text.of(&root.join("sys/devices/system/cpu/online")).ok().and_then(count_listed);
    listed.or_else(|| Some(HostStat::at(root.join("proc/stat")).read()?.cpus))
}

/// Counts a list like `0-3,8`.
fn count_listed(list: &str) -> Option<usize> {
    let mut cpus = 0_usize;
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        cpus = cpus.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    (cpus > 0).then_some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sense::fixture::Tree;

    #[test]
    fn the_lesser_of_affinity_and_quota_looked_up_now_and_then() {
        let tree = Tree::new(&[("cpu.max", "150000 100000"), ("cpu.stat", "usage_usec 1")]);
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let mut cores = UsableCores::at(tree.root(), 4);
        assert_eq!(cores.get(at(5_000)), 1.5);
        tree.write("cpu.max", "800000 100000");
        assert_eq!(cores.get(at(5_999)), 1.5);
        assert_eq!(cores.get(at(6_000)), 4.0);
        tree.write("cpu.max", "");
        assert_eq!(cores.get(at(7_000)), 4.0);
        tree.write("cpu.max", "25000 100000");
        assert_eq!(cores.get(at(0)), 0.25, "a clock that went backwards");
        assert_eq!(UsableCores::at(Path::new("/no/such/place"), 0).get(began), 1.0);
        assert!(UsableCores::new().get(began) > 0.0);
    }

    #[test]
    fn a_host_says_how_many_cpus_it_has_in_one_of_two_files() {
        let online =
            |list| online_cpus(Tree::new(&[("sys/devices/system/cpu/online", list)]).root());
        for (list, cpus) in [
            ("0-63\n", Some(64)),
            ("0\n", Some(1)),
            ("0-3,8,10-11\n", Some(7)),
            ("", None),
            ("3-1\n", None),
            ("0-18446744073709551615\n", None),
            ("x\n", None),
        ] {
            assert_eq!(online(list), cpus, "{list:?}");
        }
        let stat =
            Tree::new(&[("proc/stat", "cpu  1 1 1 1\ncpu0 1 1 1 1\ncpu1 0 0 0 0\nintr 5\n")]);
        assert_eq!(online_cpus(stat.root()), Some(2));
        assert_eq!(online_cpus(Path::new("/no/such/place")), None);
    }
}

//! Where the files of this process's control groups are.
//!
//! `/proc/self/cgroup` says the path of the group in its hierarchy, `/proc/self/mountinfo` where the
//! hierarchy is mounted and which part of it. In a container the two don't always fit together: the
//! path may be that of the host, while only the container's own part is mounted. Then the mount itself
//! is the best that can be seen. Both versions may be mounted side by side ("hybrid"); the one that
//! has the CPU controller counts.

use std::path::{Component, Path, PathBuf};

use super::{Group, MAX_DEPTH, Text};

/// Where v1's controllers and v2 are usually mounted, if there is no list of mounts.
const USUAL_V1_CPU: [&str; 3] =
    ["/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuacct,cpu"];
const USUAL_V1_CPUACCT: [&str; 3] =
    ["/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup/cpuacct,cpu"];
const USUAL_V2: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// A hierarchy's mount: the part that is mounted, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    part: String,
    at: String,
}

/// The groups from this process's own outwards; none if there are none.
pub(super) fn groups(root: &Path, text: &mut Text) -> Vec<Group> {
    let own = text.of(&root.join("proc/self/cgroup")).map(ToOwned::to_owned).unwrap_or_default();
    let mounts = text.of(&root.join("proc/self/mountinfo")).map(ToOwned::to_owned).ok();
    let dirs = |controller: Controller| {
        let path = own_path(&own, controller).unwrap_or("/");
        mounts_of(mounts.as_deref(), controller)
            .into_iter()
            .map(|mount| chain(root, &mount, path))
            .find(|chain| chain.iter().any(|dir| controller.is_in(dir)))
            .unwrap_or_default()
    };

    let cpu = dirs(Controller::Cpu);
    let cpuacct = dirs(Controller::CpuAcct);
    if !cpu.is_empty() {
        return pair(cpu, &cpuacct);
    }
    let v2 = dirs(Controller::V2);
    if !v2.is_empty() {
        return v2.into_iter().map(Group::V2).collect();
    }
    if !cpuacct.is_empty() {
        // Accounts without quotas: no file will say a quota in there.
        return pair(cpuacct.clone(), &cpuacct);
    }
    bare(root)
}

/// Each group's directory for quotas beside the one for accounts: the same way outwards in both.
fn pair(cpu: Vec<PathBuf>, cpuacct: &[PathBuf]) -> Vec<Group> {
    cpu.into_iter()
        .enumerate()
        .map(|(out, cpu)| {
            let cpuacct = cpuacct.get(out).or(cpuacct.last()).unwrap_or(&cpu).clone();
            Group::V1 { cpu, cpuacct }
        })
        .collect()
}

/// `root` as the directory of a single group.
fn bare(root: &Path) -> Vec<Group> {
    if Controller::V2.is_in(root) {
        vec![Group::V2(root.to_owned())]
    } else if Controller::Cpu.is_in(root) || Controller::CpuAcct.is_in(root) {
        vec![Group::V1 { cpu: root.to_owned(), cpuacct: root.to_owned() }]
    } else {
        Vec::new()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Controller {
    Cpu,
    CpuAcct,
    V2,
}

impl Controller {
    fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::CpuAcct => "cpuacct",
            Self::V2 => "",
        }
    }

    /// Whether `dir` holds this controller's files. v2 accounts also where the controller is off.
    fn is_in(self, dir: &Path) -> bool {
        let files: &[&str] = match self {
            Self::Cpu => &["cpu.cfs_quota_us"],
            Self::CpuAcct => &["cpuacct.usage"],
            Self::V2 => &["cpu.max", "cpu.stat"],
        };
        // v1 has a file `cpu.stat` too.
        let other = self == Self::V2 && dir.join("cpu.cfs_quota_us").exists();
        !other && files.iter().any(|file| dir.join(file).exists())
    }

    fn usual_places(self) -> &'static [&'static str] {
        match self {
            Self::Cpu => &USUAL_V1_CPU,
            Self::CpuAcct => &USUAL_V1_CPUACCT,
            Self::V2 => &USUAL_V2,
        }
    }
}

/// The path in `/proc/self/cgroup`, whose lines are `number:controllers:path`.
fn own_path(own: &str, controller: Controller) -> Option<&str> {
    own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let is_it = match controller {
            Controller::V2 => number == "0" && controllers.is_empty(),
            v1 => controllers.split(',').any(|name| name == v1.name()),
        };
        is_it.then_some(path)
    })
}

/// The mounts of a controller, as listed or at the usual places.
fn mounts_of(mountinfo: Option<&str>, controller: Controller) -> Vec<Mount> {
    let listed: Vec<_> = mountinfo
        .into_iter()
        .flat_map(str::lines)
        .filter_map(|line| listed_mount(line, controller))
        .collect();
    if !listed.is_empty() {
        return listed;
    }
    let usual = |at: &&str| Mount { part: "/".to_owned(), at: (*at).to_owned() };
    controller.usual_places().iter().map(usual).collect()
}

/// A line of `/proc/self/mountinfo`: `id parent device part at options [more] - type source options`.
fn listed_mount(line: &str, controller: Controller) -> Option<Mount> {
    let (mount, system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (part, at) = (mount.next()?, mount.next()?);
    let mut system = system.split(' ');
    let kind = system.next()?;
    let is_it = match controller {
        Controller::V2 => kind == "cgroup2",
        v1 => kind == "cgroup" && system.nth(1)?.split(',').any(|option| option == v1.name()),
    };
    is_it.then(|| Mount { part: unescape(part), at: unescape(at) })
}

/// Spaces and the like are written as a backslash and three octal digits.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 4).and_then(|code| u8::from_str_radix(code, 8).ok());
        match code {
            Some(code) if code.is_ascii() => {
                plain.push(char::from(code));
                rest = &rest[at + 4..];
            }
            _ => {
                plain.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    plain.push_str(rest);
    plain
}

/// The directories of the group at `path` and of those around it, outwards to the mount; of those
/// the ones that exist.
fn chain(root: &Path, mount: &Mount, path: &str) -> Vec<PathBuf> {
    let at = root.join(mount.at.trim_start_matches('/'));
    let mut dirs: Vec<_> = within(&mount.part, path)
        .ancestors()
        .take(MAX_DEPTH)
        .map(|inner| at.join(inner))
        .filter(|dir| dir.is_dir())
        .collect();
    // However deep it is, the mount comes last.
    if dirs.last() != Some(&at) && at.is_dir() {
        dirs.push(at);
    }
    dirs
}

/// `path` as seen from the mounted part; empty if it lies outside of that.
fn within(part: &str, path: &str) -> PathBuf {
    let path = Path::new(path);
    let Ok(inner) = path.strip_prefix(part) else { return PathBuf::new() };
    let plain = inner.components().all(|component| matches!(component, Component::Normal(_)));
    if plain { inner.to_owned() } else { PathBuf::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_path_is_that_of_the_controller() {
        let own = "9:name=systemd:/a\n4:memory:/b\n3:cpu,cpuacct:/c:d\n2:cpuset:/e\n0::/f\n";
        assert_eq!(own_path(own, Controller::Cpu), Some("/c:d"));
        assert_eq!(own_path(own, Controller::CpuAcct), Some("/c:d"));
        assert_eq!(own_path(own, Controller::V2), Some("/f"));
        assert_eq!(own_path("2:cpuset:/e\n", Controller::Cpu), None);
        assert_eq!(own_path("nonsense\n::\n\n", Controller::V2), None);
    }

    #[test]
    fn a_mount_is_told_by_its_kind_and_controllers() {
        let v1 = "33 31 0:30 /docker/x /sys/fs/cgroup/cpu,cpuacct ro,nosuid master:9 - cgroup \
                  cgroup rw,cpu,cpuacct";
        let mount = Mount { part: "/docker/x".into(), at: "/sys/fs/cgroup/cpu,cpuacct".into() };
        assert_eq!(listed_mount(v1, Controller::Cpu), Some(mount.clone()));
        assert_eq!(listed_mount(v1, Controller::CpuAcct), Some(mount));
        assert_eq!(listed_mount(v1, Controller::V2), None);
        let v2 = "30 23 0:26 / /my\\040groups rw,nosuid shared:4 - cgroup2 cgroup2 rw";
        let mount = Mount { part: "/".into(), at: "/my groups".into() };
        assert_eq!(listed_mount(v2, Controller::V2), Some(mount));
        let cpuset = "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset";
        assert_eq!(listed_mount(cpuset, Controller::Cpu), None);
        for odd in ["", "a", "a - b", "1 2 3 4 5 - cgroup", "1 2 3 4 5 6 - cgroup x"] {
            assert_eq!(listed_mount(odd, Controller::Cpu), None, "{odd:?}");
        }
    }

    #[test]
    fn escapes_that_are_none_stay() {
        for (text, plain) in [
            ("a\\040b", "a b"),
            ("a\\", "a\\"),
            ("\\0", "\\0"),
            ("\\999x", "\\999x"),
            ("ä\\134", "ä\\"),
        ] {
            assert_eq!(unescape(text), plain);
        }
    }

    #[test]
    fn a_path_outside_the_mounted_part_is_the_mount() {
        for (part, path, inner) in [
            ("/", "/a/b", "a/b"),
            ("/a", "/a/b", "b"),
            ("/a/b", "/a/b", ""),
            ("/docker/x", "/", ""),
            ("/a", "/ab", ""),
            ("/", "/../other", ""),
        ] {
            assert_eq!(within(part, path), Path::new(inner), "{part} {path}");
        }
    }
}

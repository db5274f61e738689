//! What this process's control groups use and may use: cgroups v1 and v2.
//!
//! A process stands in a group, that in a parent, and so on up to the mount; each of them may have a
//! quota, and the tightest holds. Where a group is found, and under which mount, says [`place`].

use std::io;
use std::path::{Path, PathBuf};

use super::text::Text;

mod place;
#[cfg(test)]
mod tests;

/// Deeper nesting is not looked at.
const MAX_DEPTH: usize = 32;

/// The period if there is no file that says it: the kernel's default.
const DEFAULT_PERIOD_US: f64 = 100_000.0;

/// One group, by its directories.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Group {
    /// One directory for everything.
    V2(PathBuf),
    /// A directory per controller, which may be the same.
    V1 { cpu: PathBuf, cpuacct: PathBuf },
}

/// The groups of this process, from its own outwards.
#[derive(Debug)]
pub(crate) struct Cgroup {
    root: PathBuf,
    groups: Vec<Group>,
    /// The group last read, and what to add to its counter so that a change of groups is no jump.
    last: Option<(usize, u64)>,
    last_ns: u64,
    text: Text,
}

/// What can't be had from a group's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unread {
    /// There is no such file, or it can't be read.
    Missing,
    /// It holds something else.
    Garbled,
}

/// What the group with the tightest quota has used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Usage {
    pub(crate) cpu_ns: u64,
    /// Its quota in cores; none if no group has one.
    pub(crate) quota_cores: Option<f64>,
}

impl Cgroup {
    /// Looks for the groups of this process in the file tree under `root`, which is `/` but in tests.
    /// Finding nothing is no error; reading it then is.
    pub(crate) fn find(root: &Path) -> Self {
        let mut text = Text::default();
        let groups = place::groups(root, &mut text);
        Self { root: root.to_owned(), groups, last: None, last_ns: 0, text }
    }

    /// What the group with the tightest quota has used: of equal ones the outermost, which its other
    /// children use too; without a quota anywhere, this process's own group.
    ///
    /// If its files are gone, the process may have been moved to another group: that is looked for.
    pub(crate) fn usage(&mut self) -> Result<Usage, Unread> {
        let usage = self.usage_of_known();
        if usage != Err(Unread::Missing) {
            return usage;
        }
        let found = place::groups(&self.root, &mut self.text);
        if found == self.groups {
            return usage;
        }
        self.groups = found;
        // No group known before is one of these.
        self.last = self.last.map(|(_, ahead_ns)| (usize::MAX, ahead_ns));
        self.usage_of_known()
    }

    fn usage_of_known(&mut self) -> Result<Usage, Unread> {
        let tightest = self.tightest()?;
        let (at, quota_cores) = tightest.map_or((0, None), |(at, cores)| (at, Some(cores)));
        let group = self.groups.get(at).ok_or(Unread::Missing)?;
        let used_ns = group.used_ns(&mut self.text)?;
        let ahead_ns = match self.last {
            Some((last_at, ahead_ns)) if last_at == at => ahead_ns,
            // Another group is the tightest now: its counter goes on where the last one stood.
            Some(_) => self.last_ns.wrapping_sub(used_ns),
            None => 0,
        };
        self.last = Some((at, ahead_ns));
        self.last_ns = used_ns.wrapping_add(ahead_ns);
        Ok(Usage { cpu_ns: self.last_ns, quota_cores })
    }

    /// The tightest quota in cores; none if no group has one.
    pub(crate) fn quota_cores(&mut self) -> Result<Option<f64>, Unread> {
        Ok(self.tightest()?.map(|(_, cores)| cores))
    }

    fn tightest(&mut self) -> Result<Option<(usize, f64)>, Unread> {
        let mut tightest: Option<(usize, f64)> = None;
        for (at, group) in self.groups.iter().enumerate() {
            if let Some(cores) = group.quota_cores(&mut self.text)? {
                if tightest.is_none_or(|(_, least)| cores <= least) {
                    tightest = Some((at, cores));
                }
            }
        }
        Ok(tightest)
    }

    /// For how long CPUs were stopped by a quota while they had work of a group, over all CPUs and
    /// groups. (Where two nested groups ran out at once, that time counts twice.) None if no group
    /// tells.
    pub(crate) fn throttled_ns(&mut self) -> Option<u64> {
        let mut sum = None;
        for group in &self.groups {
            if let Ok(throttled_ns) = group.throttled_ns(&mut self.text) {
                sum = Some(throttled_ns.saturating_add(sum.unwrap_or(0)));
            }
        }
        sum
    }
}

impl Group {
    /// CPU time that this group and its children have used.
    fn used_ns(&self, text: &mut Text) -> Result<u64, Unread> {
        match self {
            Self::V2(dir) => {
                let stat = read(text, &dir.join("cpu.stat"))?;
                let used_us: u64 = entry(stat, "usage_usec").ok_or(Unread::Garbled)?;
                Ok(used_us.saturating_mul(1_000))
            }
            Self::V1 { cpuacct, .. } => number(read(text, &cpuacct.join("cpuacct.usage"))?),
        }
    }

    /// The quota in cores; none if there is no limit, or no file that could say one.
    fn quota_cores(&self, text: &mut Text) -> Result<Option<f64>, Unread> {
        let (quota_us, period_us) = match self {
            Self::V2(dir) => {
                let Some(max) = if_there(read(text, &dir.join("cpu.max")))? else {
                    return Ok(None);
                };
                let mut words = max.split_ascii_whitespace();
                let quota = words.next().ok_or(Unread::Garbled)?;
                if quota == "max" {
                    return Ok(None);
                }
                (number(quota)?, words.next().map_or(Ok(DEFAULT_PERIOD_US), number)?)
            }
            Self::V1 { cpu, .. } => {
                let quota_file = read(text, &cpu.join("cpu.cfs_quota_us"));
                let Some(quota_us) = if_there(quota_file)?.map(number::<f64>).transpose()? else {
                    return Ok(None);
                };
                if quota_us < 0.0 {
                    return Ok(None);
                }
                let period_file = read(text, &cpu.join("cpu.cfs_period_us"));
                let period_us = if_there(period_file)?.map_or(Ok(DEFAULT_PERIOD_US), number)?;
                (quota_us, period_us)
            }
        };
        let cores: f64 = quota_us / period_us;
        if cores.is_finite() && cores > 0.0 { Ok(Some(cores)) } else { Err(Unread::Garbled) }
    }

    fn throttled_ns(&self, text: &mut Text) -> Result<u64, Unread> {
        match self {
            Self::V2(dir) => {
                let stat = read(text, &dir.join("cpu.stat"))?;
                let throttled_us: u64 = entry(stat, "throttled_usec").ok_or(Unread::Garbled)?;
                Ok(throttled_us.saturating_mul(1_000))
            }
            Self::V1 { cpu, .. } => {
                entry(read(text, &cpu.join("cpu.stat"))?, "throttled_time").ok_or(Unread::Garbled)
            }
        }
    }
}

fn read<'a>(text: &'a mut Text, path: &Path) -> Result<&'a str, Unread> {
    text.of(path).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => Unread::Garbled,
        _ => Unread::Missing,
    })
}

/// A missing file as none.
fn if_there(read: Result<&str, Unread>) -> Result<Option<&str>, Unread> {
    match read {
        Ok(text) => Ok(Some(text)),
        Err(Unread::Missing) => Ok(None),
        Err(Unread::Garbled) => Err(Unread::Garbled),
    }
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, Unread> {
    text.trim().parse().map_err(|_| Unread::Garbled)
}

/// The number after `key` in a file of lines with a key and a number each.
fn entry<N: std::str::FromStr>(stat: &str, key: &str) -> Option<N> {
    let line = stat.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

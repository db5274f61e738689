//! What the whole host does, by `/proc/stat`.

use std::path::PathBuf;

use super::text::Text;

/// The kernel counts for users in hundredths of a second, on all platforms in use.
const TICK_NS: u64 = 10_000_000;

/// Reads a file in the format of `/proc/stat`.
#[derive(Debug)]
pub(crate) struct HostStat {
    path: PathBuf,
    text: Text,
}

/// CPU time since the host was started, over all its CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostTimes {
    /// In programs, the kernel and interrupts; what guests used is part of it.
    pub(crate) busy_ns: u64,
    /// Wanted, and given to others by a hypervisor.
    pub(crate) stolen_ns: u64,
    /// CPUs that are online, at least 1.
    pub(crate) cpus: usize,
}

impl HostStat {
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path, text: Text::default() }
    }

    /// None if the file can't be read or makes no sense.
    pub(crate) fn read(&mut self) -> Option<HostTimes> {
        parse(self.text.of(&self.path).ok()?)
    }
}

fn parse(stat: &str) -> Option<HostTimes> {
    let mut ticks = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let mut known = || ticks.next()?.parse::<u64>().ok();
    let (user, nice, system, _idle) = (known()?, known()?, known()?, known()?);
    // The rest came with later kernels.
    let mut next = || ticks.next().map_or(Some(0), |number| number.parse::<u64>().ok());
    // A CPU that waits for a disk could run something else: idle.
    let _iowait = next()?;
    let (irq, softirq, stolen) = (next()?, next()?, next()?);
    let busy = [user, nice, system, irq, softirq].into_iter().fold(0, u64::saturating_add);
    let cpus = stat.lines().skip(1).take_while(|line| line.starts_with("cpu")).count();
    Some(HostTimes {
        busy_ns: busy.saturating_mul(TICK_NS),
        stolen_ns: stolen.saturating_mul(TICK_NS),
        cpus: cpus.max(1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_disk_is_idle_and_stolen_time_is_apart() {
        let stat = "cpu  10 1 20 500 300 3 4 7 5 5\n\
                    cpu0 5 0 10 250 150 1 2 3 2 2\n\
                    cpu1 5 1 10 250 150 2 2 4 3 3\n\
                    intr 12345 6 7\nctxt 99\n";
        let expected = HostTimes { busy_ns: 38 * TICK_NS, stolen_ns: 7 * TICK_NS, cpus: 2 };
        assert_eq!(parse(stat), Some(expected));
    }

    #[test]
    fn old_short_and_odd_files() {
        for (stat, busy_ticks) in [
            ("cpu  1 2 3 4", Some(6)),
            ("cpu  1 2 3 4 5\n", Some(6)),
            ("cpu  18446744073709551615 2 3 4", Some(u64::MAX)),
            ("", None),
            ("\n", None),
            ("cpu0 1 2 3 4\n", None),
            ("cpu  1 2 3\n", None),
            ("cpu  1 2 x 4\n", None),
            ("cpu  1 2 3 4 x\n", None),
            ("cpu  -1 2 3 4\n", None),
            ("intr 5\n", None),
        ] {
            let busy_ns = busy_ticks.map(|ticks: u64| ticks.saturating_mul(TICK_NS));
            assert_eq!(parse(stat).map(|times| times.busy_ns), busy_ns, "{stat:?}");
        }
    }
}

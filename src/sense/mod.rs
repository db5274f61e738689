//! The world outside: time, CPU, and whether this process is a forked child.

pub(crate) mod cgroup;
pub(crate) mod clock;
pub(crate) mod contention;
pub(crate) mod cores;
pub(crate) mod cpu;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod fork;
pub(crate) mod host;
pub(crate) mod source;
pub(crate) mod steady;
mod text;
#[cfg(all(
    target_arch = "x86_64",
    target_os = "linux",
    not(miri),
    not(all(loom, feature = "loom"))
))]
pub(crate) mod ticks;
#[cfg(not(all(
    target_arch = "x86_64",
    target_os = "linux",
    not(miri),
    not(all(loom, feature = "loom"))
)))]
pub(crate) mod ticks {
    pub(crate) use crate::sync::system_ns as now_ns;
}

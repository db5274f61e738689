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

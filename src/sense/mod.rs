//! The world outside: time, and whether this process is a forked child.

pub(crate) mod clock;
pub(crate) mod fork;

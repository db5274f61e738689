//! The pools, each in its fastest honest use.

pub(crate) mod futures;
pub(crate) mod ours;
pub(crate) mod threads;

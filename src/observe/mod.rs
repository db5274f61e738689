//! What people look at: counters, snapshots, the load.

pub(crate) mod counters;
pub(crate) mod load;
pub(crate) mod snapshot;

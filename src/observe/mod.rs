//! What people look at: counters, snapshots, the load, and how these get to where they are looked at.

pub(crate) mod counters;
pub mod exposition;
mod figures;
pub(crate) mod load;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "serde")]
mod serialize;
pub(crate) mod snapshot;
#[cfg(feature = "tracing")]
pub mod trace;

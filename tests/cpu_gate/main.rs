//! The CPU gate, through the pool: who is refused when the CPU is busy or taken, and how it opens again.
//!
//! The CPU is a `ManualCpu` and time a `ManualClock`. Samples are taken where a test lets a job in
//! while all workers are held, so on its own thread.

#[path = "../common/mod.rs"]
mod common;

mod bench;

// The stories.
mod active_workers;
mod arming;
mod curves;
mod exempt;
mod readings;
mod sampling;
mod settings;

//! Queue delay, through the pool: who is refused at the door, who is shed when a worker takes him up,
//! and who never is.
//!
//! Time is a `ManualClock`: it passes only where a test, or a body, says so.

#[path = "../common/mod.rs"]
mod common;

mod pools;

// The stories.
mod door;
mod flood;
mod laws;
mod settings;
mod shedding;
mod tiny;
mod waiting;

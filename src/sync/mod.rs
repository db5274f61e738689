//! The primitives under one name: the standard library's and parking_lot's, or loom's.
//!
//! Nothing else in the crate names `std::sync`, `std::thread` (but for its thread-locals, where no
//! protocol is concerned), parking_lot, crossbeam-deque or loom. Under
//! `--cfg loom` with the feature `loom` every atomic, lock, cell and thread that takes part in a
//! protocol is loom's, so that the models explore the code that ships. What takes no part in a
//! protocol (statistics, see [`stat`]) stays with the standard library: loom would branch on each
//! such load and drown the model in schedules that differ in nothing but a counter.

mod alarm;
mod bell;
mod parker;
mod striped;

#[cfg(all(loom, feature = "loom"))]
#[path = "model_deque.rs"]
mod deque;
#[cfg(not(all(loom, feature = "loom")))]
#[path = "native_deque.rs"]
mod deque;
#[cfg(not(all(loom, feature = "loom")))]
#[path = "native_patience.rs"]
mod patience;
#[cfg(all(loom, feature = "loom"))]
#[path = "model.rs"]
mod types;
#[cfg(not(all(loom, feature = "loom")))]
#[path = "native.rs"]
mod types;

pub(crate) use alarm::Alarm;
pub(crate) use bell::{Bell, Place};
pub(crate) use deque::{Owner, Thief, deque};
pub(crate) use parker::Parker;
#[cfg(not(all(loom, feature = "loom")))]
pub(crate) use patience::{Patience, look_until};
pub(crate) use striped::Striped;
pub(crate) use types::*;

#[cfg(unix)]
pub(crate) use std::sync::OnceLock;

/// Statistics and other things that only people read, and short locks around them in which nothing
/// else happens: never part of a protocol, so never loom's.
pub(crate) mod stat {
    pub(crate) use parking_lot::Mutex;
    pub(crate) use std::sync::Arc;
    pub(crate) use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
}

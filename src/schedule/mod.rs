//! Who runs what, and when: the lanes, the crew of workers, sleep and wake, and the end of it all.
//!
//! See the README of this folder for the sleep protocol and why no wake-up is lost.

mod admitting;
mod complaints;
mod control;
pub(crate) mod core;
mod gather;
pub(crate) mod gauge;
mod handful;
mod helping;
pub(crate) mod inside;
pub(crate) mod lanes;
mod looking;
pub(crate) mod nested;
mod newest;
mod regulate;
mod ring;
mod root;
pub(crate) mod sleep;
mod stack;
mod stop;
pub(crate) mod worker;

pub(crate) use self::core::{Core, Hooks, Settings};
pub use gauge::Arm;
pub use stop::{Shutdown, ShutdownReport};
pub(crate) use worker::Worker;

//! A work-stealing thread pool that knows its limit and says no early.
//!
//! Put it where a rayon, `threadpool` or `spawn_blocking` pool sits in a CPU-heavy service. Those
//! queue without bound, so that under overload every request is answered, and every answer is too
//! late. weirpool takes one *slot* per job, queued plus running, before anything is allocated; when
//! there is none it gives the job back at once, and the requests that it did accept stay fast.
//!
//! ```
//! use weirpool::Pool;
//!
//! let pool = Pool::builder().name("thumbs").workers(2).capacity(64).build()?;
//!
//! match pool.try_submit(|| (1..=20).product::<u64>()) {
//!     // Accepted: wait for it with `join`, or `.await` the handle on any runtime.
//!     Ok(handle) => println!("20! = {}", handle.join()?),
//!     // Refused, and the closure is yours again: answer 503, or give a cheaper answer.
//!     Err(rejected) => println!("busy: {} ({:?})", rejected, rejected.retry_after()),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it promises
//!
//! - **The bound is a bound.** No load of [`Pool::in_flight`] is ever above [`Pool::capacity`],
//!   whatever is stolen, nested or cancelled.
//! - **Every slot comes back exactly once**, when the closure and all that it captured are gone and
//!   before the handle resolves: after [`JobHandle::join`] there is room.
//! - **Every handle resolves**: with the result, or with a [`JobError`] that says why not.
//! - **Cancelling works although all workers are busy**: closure dropped, slot back and handle
//!   resolved before [`JobHandle::cancel`] returns.
//! - **A panic costs nothing but its job**, wherever in your code it comes from. (A destructor that
//!   panics while another panic unwinds aborts the process, as everywhere in Rust.)
//! - **Joins inside the pool don't deadlock**: a queued job is run in place, exactly that one.
//! - **An idle pool costs nothing**: no polling, no timers.
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | settings | [`Builder`] |
//! | overload control | [`QueueDelay`], [`CpuGate`], [`Limit`], [`Class`] |
//! | submitting, refusals | [`Pool`], [`JobSpec`], [`Permit`], [`Rejected`], [`Reason`] |
//! | results, cancelling | [`JobHandle`], [`CancelOnDrop`], [`Canceller`], [`JobError`] |
//! | inside a body | [`context()`], [`is_cancelled()`] |
//! | ending | [`Pool::shutdown`], [`Shutdown`] |
//! | figures | [`Snapshot`], [`Load`], [`exposition`] (text for Prometheus) |
//! | how busy the CPU is | [`mod@cpu`] |
//! | tests with a clock of their own | [`mod@test`] |
//! | a dependency that fails | [`breaker`] |
//! | refused connections | [`hold`] |
//! | clients that follow the load | [`client`], [`mod@load`] |
//!
//! # Features
//!
//! All are off by default, and the core has the same dependencies without them.
//!
//! | feature | module | for |
//! |---|---|---|
//! | `tower` | `service` | slots for requests, CPU-heavy handlers: layers and services of tower's traits |
//! | `http` | `service::http` | answers for what was refused, timeouts and load in headers |
//! | `metrics` | `metrics` | the figures and histograms for the facade of the crate `metrics` |
//! | `tracing` | `trace` | spans of the crate `tracing` that follow their jobs; log lines about refusals |
//! | `serde` | `config` | a pool's settings from a file; [`Snapshot`] and [`Load`] as data |
//! | `loom` | `loom` | models of your own, see below |
//!
//! # User code inside the pool
//!
//! The pool calls your closures, destructors, wakers, hooks and clock, never under one of its own
//! locks, so all of them may call the pool. Destructors may run on a thread you did not expect: a
//! cancelled job's captures are dropped by the canceller, a discarded one's by whoever shuts down.
//!
//! # Under loom
//!
//! With `--cfg loom` and the feature `loom` the crate is built on [loom](https://docs.rs/loom)'s
//! types, and you can build a pool inside `loom::model` and explore your own code around it;
//! `weirpool::loom` is the loom it uses, exempt from semver. Give the pool explicit small sizes, let
//! jobs panic by `std::panic::resume_unwind` if at all, and end each model with
//! [`Pool::shutdown`] or by dropping the pool.
//!
//! ```ignore
//! use weirpool::{Pool, Shutdown, loom};
//!
//! loom::model(|| {
//!     let pool = Pool::new(1, 2).unwrap();
//!     let total = loom::sync::Arc::new(loom::sync::Mutex::new(0));
//!     let handle = pool.try_submit({
//!         let total = total.clone();
//!         move || *total.lock().unwrap() += 1
//!     });
//!     *total.lock().unwrap() += 1;
//!     handle.unwrap().join().unwrap();
//!     assert_eq!(*total.lock().unwrap(), 2);
//!     pool.shutdown(Shutdown::Drain, None);
//! });
//! ```
//!
//! The workers' own queue, crossbeam's deque, is then a stand-in that gives only the guarantees of
//! the real one: loom proves the ledger, the job states, sleep and wake, and shutdown, not
//! crossbeam-deque. With a bare `--cfg loom`, without the feature, the crate builds as usual.
//!
//! # Platforms
//!
//! Linux in full; other Unix; elsewhere without noticing forks. Targets with 64-bit atomics. Rust 1.85.
//!
//! After `fork` a child has the pool's memory and none of its threads: submits are refused with
//! [`Reason::Forked`], joins return [`JobError::Discarded`], shutting down and dropping return at
//! once. A body that forks and returns in the child ends that thread. Nothing else is promised there.

#[cfg(all(loom, feature = "loom"))]
pub use loom;

mod admission;
pub mod breaker;
mod builder;
pub mod client;
#[cfg(feature = "serde")]
pub mod config;
mod contain;
mod context;
pub mod cpu;
mod cpu_gate;
mod error;
mod handle;
pub mod hold;
mod job;
mod limit;
pub mod load;
mod observe;
mod policy;
mod pool;
mod priority;
#[cfg(all(loom, feature = "loom"))]
#[doc(hidden)]
#[allow(missing_docs)]
pub mod protocols;
mod queue_delay;
mod schedule;
mod scope;
mod sense;
#[cfg(any(feature = "tower", feature = "http"))]
pub mod service;
mod submit;
mod sync;
pub mod test;
mod wait;

/// Pages to read; there is no code in here.
#[cfg(any(doc, doctest))]
pub mod guide {
    #[doc = include_str!("../docs/migrating.md")]
    pub mod migrating {}

    #[doc = include_str!("../docs/tuning.md")]
    pub mod tuning {}
}

pub use admission::partition::Partition;
pub use builder::Builder;
pub use context::{Context, context, is_cancelled};
pub use cpu::{CpuReading, CpuSource};
pub use cpu_gate::{ActiveWorkers, CpuGate};
pub use error::{BuildError, JobError, Panic, Reason, Refusal, Rejected, ShedReason};
pub use handle::{CancelOnDrop, Canceller, JobHandle, JobId};
pub use limit::Limit;
pub use observe::exposition;
pub use observe::load::Load;
#[cfg(feature = "metrics")]
pub use observe::metrics;
pub use observe::snapshot::{
    ClassFigures, ContentionState, QueueDelayState, RejectedCounts, ShedCounts, Snapshot,
};
#[cfg(feature = "tracing")]
pub use observe::trace;
pub use pool::Pool;
pub use priority::{Class, Priority};
pub use queue_delay::QueueDelay;
pub use schedule::{Arm, Shutdown, ShutdownReport};
pub use scope::{Scope, ScopedHandle};
pub use sense::clock::Clock;
pub use submit::{JobSpec, PartitionId, Permit};
pub use wait::Submit;

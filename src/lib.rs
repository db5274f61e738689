//! A work-stealing thread pool with bounded admission: it knows its limit and says no early.

#[cfg(all(loom, feature = "loom"))]
pub use loom;

mod admission;
mod builder;
mod contain;
mod context;
mod error;
mod handle;
mod job;
mod observe;
mod policy;
mod pool;
mod priority;
#[cfg(all(loom, feature = "loom"))]
#[doc(hidden)]
#[allow(missing_docs)]
pub mod protocols;
mod schedule;
mod sense;
mod submit;
mod sync;
pub mod test;

pub use builder::Builder;
pub use context::{Context, context, is_cancelled};
pub use error::{BuildError, JobError, Panic, Reason, Refusal, Rejected, ShedReason};
pub use handle::{CancelOnDrop, Canceller, JobHandle, JobId};
pub use observe::load::Load;
pub use observe::snapshot::{RejectedCounts, ShedCounts, Snapshot};
pub use pool::Pool;
pub use priority::Priority;
pub use schedule::{Shutdown, ShutdownReport};
pub use sense::clock::Clock;
pub use submit::{JobSpec, Permit};

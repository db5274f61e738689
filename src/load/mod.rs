//! Telling others how loaded this process is, in the formats that they already read.
//!
//! | for | written as | by |
//! |---|---|---|
//! | Envoy, gRPC, a [`Pacer`](crate::client::Pacer) | `endpoint-load-metrics`: text, JSON | [`LoadReport`] |
//! | HTTP clients | `Retry-After` | [`RetryAfter`] |
//! | gRPC clients | `grpc-retry-pushback-ms` | [`RetryPushback`] |
//! | HAProxy | the reply to an agent check | [`AgentReply`] |
//!
//! Each is read, too. Readers take any text and never panic; their errors name what is wrong. Writers
//! never write NaN, an infinity, or a character that would end a header line.
//!
//! [`Load`], the pool's own figure, turns into each of them:
//!
//! ```
//! use weirpool::load::{AgentReply, LoadReport, RetryAfter};
//!
//! let pool = weirpool::Pool::new(1, 4)?;
//! let load = pool.load();
//! assert_eq!(
//!     LoadReport::from(&load).to_text().unwrap(),
//!     "TEXT application_utilization=0,named_metrics.capacity=4,named_metrics.in_flight=0",
//! );
//! assert_eq!(AgentReply::from(&load).to_string(), "up ready 100%\n");
//! let hint = load.retry_after().map(RetryAfter::after); // none before the first job
//! # assert_eq!(hint, None);
//! # Ok::<(), weirpool::BuildError>(())
//! ```
//!
//! The text and JSON here are read and written by hand, some hundred lines each: the formats are
//! small, and core dependencies are fixed.

mod agent;
mod binary;
mod error;
mod json;
mod pushback;
mod report;
mod text;

pub use crate::client::{RetryAfter, RetryAfterError};
#[doc(no_inline)]
pub use crate::observe::load::Load;
pub use agent::{AdminState, AgentError, AgentReply, ServiceState};
pub use error::LoadError;
pub use pushback::{GRPC_RETRY_PUSHBACK_MS, RetryPushback};
pub use report::{ENDPOINT_LOAD_METRICS, ENDPOINT_LOAD_METRICS_BIN, LoadReport};

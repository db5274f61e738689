//! Refusals and errors as answers of HTTP and gRPC, and what else travels in headers.
//!
//! # What is answered
//!
//! | what happened | HTTP | gRPC |
//! |---|---|---|
//! | refused: `Full`, `Limit`, `QueueDelay`, `Cpu`, `Bytes`; shed: `QueueDelay`, `Displaced` | 503, `Retry-After` | `UNAVAILABLE`, pushback |
//! | the circuit breaker is open | 503, `Retry-After` | `UNAVAILABLE`, pushback |
//! | refused: `Partition`, the caller's own quota | 429, `Retry-After` | `RESOURCE_EXHAUSTED`, pushback |
//! | refused or shed: `Deadline` | 504 | `DEADLINE_EXCEEDED`, "do not retry" |
//! | refused: `Closed`, `Forked`; discarded at shutdown | 503, `Connection: close` | `UNAVAILABLE` |
//! | the job was cancelled | 503 | `CANCELLED` |
//! | the job panicked, or was too deep in joins | 500 | `INTERNAL` |
//! | anything else | none: the service's own error | none |
//!
//! The two columns go together as in `google.rpc.Code`, which names 503 for `UNAVAILABLE`, 429 for
//! `RESOURCE_EXHAUSTED` and 504 for `DEADLINE_EXCEEDED`. `Retry-After` is in whole seconds, at least 1:
//! [the pool's hint](crate::Refusal::retry_after) rounded up, or 1 if it has none. Pushback
//! (`grpc-retry-pushback-ms`) is given if there is a hint, else the client's own backoff decides. A
//! closing server gives neither: another instance may be free at once.
//!
//! [`Answer`] is all of that as a value, from whatever the cause is; [`answer`] the ready-made
//! responder for an [`AdmissionLayer`](super::AdmissionLayer#method.respond).
//!
//! # What is read and written beside
//!
//! | header field | see |
//! |---|---|
//! | `grpc-timeout` | [`grpc_timeout`] |
//! | a timeout in a field of your own choice | [`timeout`] |
//! | `endpoint-load-metrics` (ORCA) | [`report_load`], and with the feature `tower` `ReportLoadLayer` |

mod answer;
mod deadline;
mod grpc;
mod load;

pub use answer::{Answer, answer};
pub use deadline::{TimeUnit, grpc_timeout, timeout};
pub use grpc::GrpcCode;
pub use load::report_load;
#[cfg(feature = "tower")]
pub use load::{ReportLoad, ReportLoadFuture, ReportLoadLayer};

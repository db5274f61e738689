//! A pool in front of a service: who is let in, what the others are told.
//!
//! With the feature `tower`, for anything that is a [`tower_service::Service`] (axum, tonic, hyper's
//! services through an adapter, tower's own clients):
//!
//! | for | see |
//! |---|---|
//! | a slot for each request, from before its body is read until its answer is there or sent | [`AdmissionLayer`] |
//! | handlers that only compute, on the pool's threads | [`Offload`], [`offload`] |
//! | priority, deadline, partition, class of a request | [`RequestClass`] |
//!
//! With the feature `http`: refusals and errors as [answers](self::http) of HTTP and gRPC.
//!
//! What wasn't served is always a [`ServiceError`], however deep in other errors:
//! [`ServiceError::find`].

// The links above are whole with both features; with one of them the other's are plain words.
#![cfg_attr(not(all(feature = "tower", feature = "http")), allow(rustdoc::broken_intra_doc_links))]

#[cfg(feature = "tower")]
mod admission;
#[cfg(all(feature = "tower", feature = "http"))]
mod body;
#[cfg(feature = "tower")]
mod class;
mod error;
#[cfg(feature = "tower")]
mod future;
#[cfg(feature = "tower")]
mod held;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "tower")]
mod offload;
#[cfg(feature = "tower")]
mod parts;

#[cfg(feature = "tower")]
pub use admission::{Admission, AdmissionLayer};
#[cfg(all(feature = "tower", feature = "http"))]
pub use body::{HeldBody, UntilBodyEnd};
#[cfg(feature = "tower")]
pub use class::RequestClass;
pub use error::{BoxError, ServiceError};
#[cfg(feature = "tower")]
pub use future::AdmissionFuture;
#[cfg(feature = "tower")]
pub use held::{RequestCounts, RequestSlot};
#[cfg(feature = "tower")]
pub use offload::{Offload, OffloadFuture, Offloaded, offload};
#[cfg(feature = "tower")]
pub use parts::{
    Classify, Fail, HandOver, Hold, Keep, Lend, PassOn, Refuse, Respond, Unclassified,
    UntilResponse,
};

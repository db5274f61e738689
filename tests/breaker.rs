//! The circuit breaker, by story: what is recorded, who is let in as a probe, and what changes nothing.
//!
//! Most stories are a line of words, told three times: with plain calls, with futures and with permits. See [`check`].

mod common;

#[path = "breaker/observers.rs"]
mod observers;
#[path = "breaker/reference.rs"]
mod reference;
#[path = "breaker/script.rs"]
mod script;
#[path = "breaker/shapes.rs"]
mod shapes;
#[path = "breaker/stories.rs"]
mod stories;

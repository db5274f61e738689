//! The pool in front of a service: slots of requests, by story.

#[path = "../common/mod.rs"]
mod common;

mod bodies;
mod fakes;
mod offloading;
mod slots;

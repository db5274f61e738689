//! What the tests of the service share: the server as a process, and a client.

#[allow(dead_code)]
pub mod browser;
#[allow(dead_code)]
pub mod client;
#[allow(dead_code)]
pub mod server;

use std::time::{Duration, Instant};

/// Only so that a broken server doesn't hang the tests; no verdict depends on it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Looks until it is so.
#[allow(dead_code)]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "it did not come to it: {what}");
        std::thread::yield_now();
    }
}

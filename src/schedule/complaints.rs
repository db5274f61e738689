//! What is said of detached jobs that panic, where nobody has asked to be told.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::error::Panic;
use crate::sync::stat::Mutex;

/// At most one line in this time.
const COMPLAIN_EVERY: Duration = Duration::from_secs(1);

/// When a line was last written, and how many were not since.
#[derive(Default)]
pub(super) struct Complaints(Mutex<Told>);

#[derive(Default)]
struct Told {
    last: Option<Instant>,
    untold: u64,
}

impl Complaints {
    /// One line to stderr, at most one per second: a flood of panics must not become a flood of
    /// output.
    #[cold]
    pub(super) fn complain(&self, name: &str, panic: &Panic) {
        // Real time, since it is a person who reads it.
        let now = Instant::now();
        let untold = {
            let mut told = self.0.lock();
            if told.last.is_some_and(|last| now - last < COMPLAIN_EVERY) {
                told.untold += 1;
                return;
            }
            told.last = Some(now);
            std::mem::take(&mut told.untold)
        };
        let others = if untold == 0 { String::new() } else { format!(" (and {untold} others)") };
        // Not `eprintln!`, which panics if stderr is closed.
        let line = format!("weirpool: a detached job of pool \"{name}\": {panic}{others}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

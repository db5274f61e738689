//! Where the measuring stands, on standard error: one line, rewritten, on a terminal; elsewhere a
//! line for each phase.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Often enough to look alive, seldom enough to cost the pools nothing.
const REWRITE_EVERY: Duration = Duration::from_millis(200);

pub(crate) struct Progress {
    on_terminal: bool,
    phase: String,
    rewritten: Instant,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let on_terminal = io::stderr().is_terminal();
        Progress { on_terminal, phase: String::new(), rewritten: Instant::now() }
    }

    pub(crate) fn phase(&mut self, phase: &str) {
        phase.clone_into(&mut self.phase);
        if self.on_terminal {
            self.rewrite("");
        } else {
            eprintln!("{phase}");
        }
    }

    pub(crate) fn detail(&mut self, detail: impl FnOnce() -> String) {
        if self.on_terminal && self.rewritten.elapsed() >= REWRITE_EVERY {
            self.rewrite(&detail());
        }
    }

    /// Leaves an empty line for what is printed next.
    pub(crate) fn clear(&self) {
        if self.on_terminal {
            eprint!("\r\x1b[K");
        }
    }

    fn rewrite(&mut self, detail: &str) {
        eprint!("\r\x1b[K{}{detail}", self.phase);
        let _ = io::stderr().flush();
        self.rewritten = Instant::now();
    }
}

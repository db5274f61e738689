//! Ctrl-C, and sleeping in a way that notices it.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::Stop;

/// Nobody sleeps for less: a shorter sleep costs as much as it lasts, and spinning would take a
/// core from the workers. What falls due meanwhile is sent in one go.
const SHORTEST_SLEEP: Duration = Duration::from_micros(200);

/// How long it takes at most to notice Ctrl-C.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The first Ctrl-C ends the measuring at the next arrival, the second one the process.
pub(crate) fn stop_on_ctrl_c() -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            process::exit(130);
        }
    })
}

pub(crate) fn check() -> Result<(), Stop> {
    if INTERRUPTED.load(Ordering::Relaxed) { Err(Stop::Interrupted) } else { Ok(()) }
}

/// Returns at once if `due` has passed, and otherwise not before it.
pub(crate) fn sleep_until(due: Instant) -> Result<(), Stop> {
    loop {
        check()?;
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.clamp(SHORTEST_SLEEP, LONGEST_SLEEP));
    }
}

//! How much of the processor this process and this thread have used.

use std::time::Duration;

/// Processor time of the calling thread, where the system tells.
pub(crate) fn thread_cpu() -> Option<Duration> {
    #[cfg(unix)]
    return read(libc::CLOCK_THREAD_CPUTIME_ID);
    #[cfg(not(unix))]
    None
}

/// Processor time of all threads of this process, where the system tells.
pub(crate) fn process_cpu() -> Option<Duration> {
    #[cfg(unix)]
    return read(libc::CLOCK_PROCESS_CPUTIME_ID);
    #[cfg(not(unix))]
    None
}

#[cfg(unix)]
fn read(clock: libc::clockid_t) -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place to write to for the duration of the call.
    let failed = unsafe { libc::clock_gettime(clock, &mut time) } != 0;
    if failed {
        return None;
    }
    Some(Duration::new(time.tv_sec.try_into().ok()?, time.tv_nsec.try_into().ok()?))
}

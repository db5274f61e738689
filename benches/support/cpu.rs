//! CPU time, which other work on the machine disturbs far less than wall time.

use std::time::Duration;

/// CPU time that the whole process has used.
pub(crate) fn process() -> Duration {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time that this thread has used.
pub(crate) fn thread() -> Duration {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec that lives through the call.
    let status = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(status, 0, "every Unix of today has clocks for CPU time");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

//! What the system tells about this process.
#![cfg(unix)]

use std::time::Duration;

/// CPU time of this process so far.
pub(crate) fn cpu_used() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a valid place for the answer.
    let answer = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    assert_eq!(answer, 0);
    // SAFETY: zero bytes are a valid `rusage`, and the call has filled it in.
    let usage = unsafe { usage.assume_init() };
    let part = |time: libc::timeval| {
        Duration::new(time.tv_sec as u64, 0) + Duration::from_micros(time.tv_usec as u64)
    };
    part(usage.ru_utime) + part(usage.ru_stime)
}

/// CPU time of the calling thread so far.
#[cfg(target_os = "linux")]
pub(crate) fn thread_cpu_used() -> Duration {
    let mut time = std::mem::MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: `time` is a valid place for the answer.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr()) };
    assert_eq!(answer, 0);
    // SAFETY: zero bytes are a valid `timespec`, and the call has filled it in.
    let time = unsafe { time.assume_init() };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The threads of this process with this name, of at most 15 bytes.
#[cfg(target_os = "linux")]
pub(crate) fn threads_named(name: &str) -> Vec<libc::pid_t> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let named = tasks.filter(|task| {
        let comm = std::fs::read_to_string(task.path().join("comm"));
        comm.is_ok_and(|comm| comm.trim() == name)
    });
    named.map(|task| task.file_name().to_str().unwrap().parse().unwrap()).collect()
}

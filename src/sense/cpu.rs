//! CPU time of this process and of its threads, and the CPUs it may run on.
//!
//! Two clocks tell what a thread used. `getrusage(RUSAGE_THREAD)` speaks only for the calling thread,
//! so workers publish it between jobs. A thread's CPU clock can be read from outside while a body runs
//! for long. They count the same; the clock is live.

use crate::sync::stat::{Acquire, Arc, AtomicU64, Relaxed, Release};

use crossbeam_utils::CachePadded;

/// CPU time of all threads of this process, past ones included; none where it can't be known.
pub(crate) fn process_cpu_ns() -> Option<u64> {
    #[cfg(unix)]
    return usage_ns(libc::RUSAGE_SELF);
    #[cfg(not(unix))]
    None
}

/// CPU time of the calling thread by `getrusage(RUSAGE_THREAD)`, to a microsecond; Linux only.
#[cold]
pub(crate) fn thread_cpu_ns() -> Option<u64> {
    #[cfg(target_os = "linux")]
    return usage_ns(libc::RUSAGE_THREAD);
    #[cfg(not(target_os = "linux"))]
    None
}

#[cfg(unix)]
fn usage_ns(who: libc::c_int) -> Option<u64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: `usage` is memory for one `rusage`, which the call may write and keeps no pointer to.
    let failed = unsafe { libc::getrusage(who, usage.as_mut_ptr()) } != 0;
    if failed {
        return None;
    }
    // SAFETY: the call succeeded, so it has written the whole structure.
    let usage = unsafe { usage.assume_init() };
    Some(time_ns(usage.ru_utime).saturating_add(time_ns(usage.ru_stime)))
}

#[cfg(unix)]
fn time_ns(time: libc::timeval) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(micros.saturating_mul(1_000))
}

/// The CPUs that the calling thread may run on, by its affinity; at least 1. Threads inherit it, so
/// on the thread that builds a pool it holds for the workers.
pub(crate) fn allowed_cpus() -> usize {
    #[cfg(target_os = "linux")]
    {
        /// For 65 536 CPUs, eight times what Linux can be built for.
        const WORDS: usize = 1_024;
        let mut set = [0_u64; WORDS];
        // SAFETY: the size is that of `set`, which the call fills at most; it is made of plain
        // words, as the C library's own `cpu_set_t` is, whose fixed size is only a convention.
        let failed = unsafe {
            libc::sched_getaffinity(
                0,
                size_of_val(&set),
                set.as_mut_ptr().cast::<libc::cpu_set_t>(),
            )
        } != 0;
        let cpus = set.iter().map(|word| word.count_ones() as usize).sum();
        if !failed && cpus > 0 {
            return cpus;
        }
    }
    num_cpus::get().max(1)
}

/// What the workers of one pool use, each by its own two clocks.
#[derive(Debug)]
pub(crate) struct WorkerClocks {
    workers: Box<[CachePadded<WorkerClock>]>,
}

#[derive(Debug, Default)]
struct WorkerClock {
    /// The thread's CPU clock, with [`REGISTERED`]; zero while there is no such thread.
    clock: AtomicU64,
    tid: AtomicU64,
    published_ns: AtomicU64,
}

/// Tells a clock from none, since a clock's number may be anything.
const REGISTERED: u64 = 1 << 32;

impl WorkerClocks {
    pub(crate) fn new(workers: usize) -> Self {
        Self { workers: (0..workers).map(|_| CachePadded::default()).collect() }
    }

    /// How many workers there are.
    pub(crate) fn len(&self) -> usize {
        self.workers.len()
    }

    /// Makes the calling thread that of `worker`, until the registration is dropped on it.
    pub(crate) fn register(self: &Arc<Self>, worker: usize) -> Registration {
        let entry = &self.workers[worker];
        entry.tid.store(own_tid().unwrap_or(0), Relaxed);
        entry.clock.store(own_clock().map_or(0, |clock| clock | REGISTERED), Release);
        Registration { clocks: Arc::clone(self), worker, _on_its_thread: std::marker::PhantomData }
    }

    /// Publishes what the calling thread, which must be that of `worker`, has used so far.
    pub(crate) fn note(&self, worker: usize) {
        if let Some(cpu_ns) = thread_cpu_ns() {
            // Never smaller: what was published may be from the finer clock.
            self.workers[worker].published_ns.fetch_max(cpu_ns, Relaxed);
        }
    }

    /// CPU time of `worker`, also while a body runs: the larger of what was published and the
    /// thread's clock. Zero before it is registered, and the last figure after it has gone.
    pub(crate) fn cpu_ns(&self, worker: usize) -> u64 {
        let entry = &self.workers[worker];
        let clock = entry.clock.load(Acquire);
        let live_ns = if clock & REGISTERED == 0 { None } else { read_clock(clock) };
        // If it has gone meanwhile, the number may already be that of another thread.
        let still_its = entry.clock.load(Acquire) == clock;
        let published_ns = entry.published_ns.load(Relaxed);
        live_ns.filter(|_| still_its).map_or(published_ns, |live_ns| live_ns.max(published_ns))
    }

    /// CPU time of all workers.
    pub(crate) fn total_ns(&self) -> u64 {
        (0..self.len()).map(|worker| self.cpu_ns(worker)).fold(0, u64::saturating_add)
    }

    /// The thread's number by which the system knows it, while it is registered; Linux only.
    pub(crate) fn tid(&self, worker: usize) -> Option<u64> {
        let tid = self.workers[worker].tid.load(Relaxed);
        (tid != 0).then_some(tid)
    }
}

/// While it lives, a thread is known as one of the pool's. Stays on that thread.
#[must_use = "dropping it takes the thread out of the table"]
pub(crate) struct Registration {
    clocks: Arc<WorkerClocks>,
    worker: usize,
    /// Neither `Send` nor `Sync`: it ends on the thread it speaks for.
    _on_its_thread: std::marker::PhantomData<*const ()>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let last_ns = self.clocks.cpu_ns(self.worker);
        let entry = &self.clocks.workers[self.worker];
        entry.published_ns.fetch_max(last_ns, Relaxed);
        entry.tid.store(0, Relaxed);
        entry.clock.store(0, Release);
    }
}

#[cfg(target_os = "linux")]
fn own_tid() -> Option<u64> {
    // SAFETY: this call has no arguments, touches no memory and can't fail. (The C library's own
    // `gettid` is too young to rely on.)
    let tid = unsafe { libc::syscall(libc::SYS_gettid) };
    u64::try_from(tid).ok()
}

#[cfg(not(target_os = "linux"))]
fn own_tid() -> Option<u64> {
    None
}

/// The number of the calling thread's CPU clock, in 32 bits.
#[cfg(target_os = "linux")]
fn own_clock() -> Option<u64> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `pthread_self` is the calling thread, which lives; `clock` is memory for the answer.
    let failed = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) } != 0;
    (!failed).then_some(u64::from(clock as u32))
}

#[cfg(target_os = "linux")]
fn read_clock(clock: u64) -> Option<u64> {
    // The lower half, as stored.
    let clock = clock as u32 as libc::clockid_t;
    let mut time = std::mem::MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: `time` is memory for the answer. A clock whose thread has gone is an error (or the
    // clock of a later thread of the same number), never a dangling pointer: it is only a number.
    let failed = unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) } != 0;
    if failed {
        return None;
    }
    // SAFETY: the call succeeded, so it has written the whole structure.
    let time = unsafe { time.assume_init() };
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let nanos = u64::try_from(time.tv_nsec).ok()?;
    Some(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

#[cfg(not(target_os = "linux"))]
fn own_clock() -> Option<u64> {
    None
}

#[cfg(not(target_os = "linux"))]
fn read_clock(_: u64) -> Option<u64> {
    None
}

#[cfg(all(test, target_os = "linux", not(loom)))]
mod tests {
    use super::*;

    /// Works until the calling thread's own account has moved: no matter how long that takes.
    fn work() {
        let before_ns = thread_cpu_ns().unwrap();
        while thread_cpu_ns().unwrap() < before_ns + 5_000_000 {
            std::hint::black_box((0..10_000_u64).sum::<u64>());
        }
    }

    #[test]
    fn work_shows_in_the_accounts_of_the_process_and_of_the_thread() {
        let process_ns = process_cpu_ns().unwrap();
        let thread_ns = thread_cpu_ns().unwrap();
        work();
        assert!(process_cpu_ns().unwrap() >= process_ns + 4_000_000);
        assert!(thread_cpu_ns().unwrap() >= thread_ns + 5_000_000);
        assert!(allowed_cpus() >= 1);
    }

    #[test]
    fn a_worker_is_seen_from_outside_while_it_is_busy_and_kept_after_it_has_gone() {
        let clocks = Arc::new(WorkerClocks::new(2));
        assert_eq!((clocks.cpu_ns(0), clocks.tid(0)), (0, None));
        let (done, seen) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        let live_ns = std::thread::scope(|scope| {
            scope.spawn(|| {
                let _registration = clocks.register(0);
                work();
                done.wait();
                seen.wait();
            });
            done.wait();
            // It has published nothing, and stands inside its body.
            let live_ns = clocks.cpu_ns(0);
            assert!(live_ns >= 5_000_000, "{live_ns}");
            let schedstat = format!("/proc/self/task/{}/stat", clocks.tid(0).unwrap());
            assert!(std::fs::metadata(schedstat).is_ok());
            seen.wait();
            live_ns
        });
        assert!(clocks.cpu_ns(0) >= live_ns);
        assert_eq!(clocks.cpu_ns(0), clocks.cpu_ns(0));
        assert_eq!((clocks.tid(0), clocks.cpu_ns(1)), (None, 0));
        assert_eq!(clocks.total_ns(), clocks.cpu_ns(0));
    }

    #[test]
    fn what_is_published_never_falls() {
        let clocks = Arc::new(WorkerClocks::new(1));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _registration = clocks.register(0);
                work();
                let mut last_ns = 0;
                for _ in 0..100 {
                    clocks.note(0);
                    let cpu_ns = clocks.cpu_ns(0);
                    assert!(cpu_ns >= last_ns);
                    last_ns = cpu_ns;
                }
                assert!(clocks.workers[0].published_ns.load(Relaxed) > 0);
            });
        });
    }
}

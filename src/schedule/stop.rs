//! Closing, draining, discarding, and the exit of the threads.

use std::task::Waker;
use std::time::{Duration, Instant};

use super::core::Core;
use super::inside::{self, Doing, step_inside};
use crate::job::Outcome;
use crate::priority::Priority;
use crate::sync::thread::JoinHandle;
use crate::sync::{AtomicBool, AtomicUsize, Bell, Mutex, Ordering, Place, fence, yield_until};

/// What [`Pool::shutdown`](crate::Pool::shutdown) does with queued jobs.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shutdown {
    /// Runs them.
    Drain,
    /// Drops them unrun; their handles resolve to
    /// [`JobError::Discarded`](crate::JobError::Discarded). Running ones finish.
    Discard,
}

/// What became of the jobs that were in flight when the pool was closed, from
/// [`Pool::shutdown`](crate::Pool::shutdown).
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Ended in any way but by being discarded.
    pub completed: usize,
    /// Discarded.
    pub discarded: usize,
    /// Not ended when the call returned.
    pub still_running: usize,
}

impl ShutdownReport {
    /// A forked child has none of the parent's jobs.
    pub(crate) const OF_A_CHILD: Self = Self { completed: 0, discarded: 0, still_running: 0 };
}

/// Discarding goes on for so long although the time is up, since queued jobs must end also where all
/// workers are busy, and the queues are emptied in far less unless destructors take their time.
const DISCARD_AT_LEAST: Duration = Duration::from_millis(250);

pub(crate) struct Stop {
    /// How many jobs were left at the closing. The lock makes closing and noting this one step.
    jobs_at_close: Mutex<usize>,
    discarding: AtomicBool,
    live_threads: AtomicUsize,
    /// Rings when the last thread leaves.
    exited: Bell,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Stop {
    pub(crate) fn new() -> Self {
        Self {
            jobs_at_close: Mutex::new(0),
            discarding: AtomicBool::new(false),
            live_threads: AtomicUsize::new(0),
            exited: Bell::new(),
            threads: Mutex::new(Vec::new()),
        }
    }

    /// Relaxed: ordered by the fences in [`Core::discard`] and in `notify`, or a mere hint.
    #[inline]
    pub(crate) fn is_discarding(&self) -> bool {
        self.discarding.load(Ordering::Relaxed)
    }

    pub(crate) fn thread_starts(&self) {
        self.live_threads.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn keep_thread(&self, thread: JoinHandle<()>) {
        self.threads.lock().push(thread);
    }

    /// A thread has left its loop, or could not be started.
    pub(crate) fn thread_exits(&self) {
        // AcqRel and the Acquire load in `all_exited`: who sees zero sees all that they did.
        if self.live_threads.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.exited.ring();
        }
    }

    fn all_exited(&self) -> bool {
        self.live_threads.load(Ordering::Acquire) == 0
    }

    /// Waits for the threads to be gone altogether. One that runs its thread-locals' destructors
    /// in there and asks for this itself is left out.
    pub(crate) fn join_threads(&self) {
        let threads = std::mem::take(&mut *self.threads.lock());
        let me = crate::sync::thread::current().id();
        for thread in threads {
            if thread.thread().id() != me {
                let _ = thread.join();
            }
        }
    }
}

impl Core {
    /// Refuses new work from now on. Idle workers are woken, to leave if nothing is left.
    pub(crate) fn close(&self) {
        {
            let mut jobs_at_close = self.stop.jobs_at_close.lock();
            let Some(jobs) = self.ledger.close() else { return };
            *jobs_at_close = jobs;
        }
        self.ledger.close_waiters();
        self.activate_all();
        self.sleep.wake_all();
    }

    /// Ends all queued jobs, now and whatever is still on its way into a queue.
    ///
    /// From `until` on, and a moment more, the rest is left to the workers. A destructor that asks for it in the course
    /// of it is told by its own thread's frames that it is being done.
    fn discard(&self, until: Option<Instant>) {
        self.stop.discarding.store(true, Ordering::Relaxed);
        // Pairs with the fence in `notify`, see `announce`.
        fence(Ordering::SeqCst);
        self.discard_queued(until);
    }

    /// Ends what is in the queues. Their bodies are dropped on this thread, outside any lock.
    #[cold]
    pub(crate) fn discard_queued(&self, until: Option<Instant>) {
        if inside::is_discarding(self) {
            return;
        }
        step_inside(self, Doing::Discarding, || {
            let now_ns = self.time.now_ns();
            let next = || {
                let in_lane = self.lanes.take(Priority::Low, now_ns).map(|taken| taken.job);
                in_lane.or_else(|| self.shelves.iter().find_map(|shelf| shelf.steal(now_ns)))
            };
            let until = until.map(|until| until.max(Instant::now() + DISCARD_AT_LEAST));
            while let Some(job) = next() {
                self.end_unrun(job, Outcome::Discarded, self.counters.by_outsider());
                if until.is_some_and(|until| Instant::now() >= until) {
                    return;
                }
            }
        });
    }

    /// Closes and waits, see [`Pool::shutdown`](crate::Pool::shutdown).
    pub(crate) fn shutdown(&self, how: Shutdown, limit: Option<Duration>) -> ShutdownReport {
        if self.is_forked() {
            return ShutdownReport::OF_A_CHILD;
        }
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        self.begin_shutdown(how, until);
        if !inside::is_inside(self) && self.wait_idle_until(until) {
            let gone = self.stop.exited.wait(until, || self.stop.all_exited());
            if gone && until.is_none() {
                self.stop.join_threads();
            }
        }
        self.report()
    }

    pub(crate) fn begin_shutdown(&self, how: Shutdown, until: Option<Instant>) {
        self.close();
        if how == Shutdown::Discard {
            self.discard(until);
        }
    }

    /// Whether nothing is queued or running; if not, `waker` is woken when that is so.
    pub(crate) fn ask_idle(&self, place: &mut Place, waker: &Waker) -> bool {
        self.ledger.settled().listen(place, waker);
        if self.ledger.watch().jobs() > 0 {
            return false;
        }
        let published = self.all_published();
        if !published {
            waker.wake_by_ref();
        }
        published
    }

    /// When the last slot is back, the last outcome may still be a few instructions away. (Once new
    /// work has come in, the idle moment is over and there is nothing to wait for.)
    fn all_published(&self) -> bool {
        self.counters.ending() == 0 || self.ledger.word().jobs() > 0
    }

    /// Whether all threads have left; if not, `waker` is woken when they have.
    pub(crate) fn ask_exited(&self, place: &mut Place, waker: &Waker) -> bool {
        self.stop.exited.listen(place, waker);
        self.stop.all_exited()
    }

    /// Takes a task that asked off the lists.
    pub(crate) fn stop_asking(&self, idle: &mut Place, exited: &mut Place) {
        self.ledger.settled().forget(idle);
        self.stop.exited.forget(exited);
    }

    /// Waits until nothing is queued or running; false if `until` came first.
    pub(crate) fn wait_idle_until(&self, until: Option<Instant>) -> bool {
        let idle = self.ledger.settled().wait(until, || self.ledger.watch().jobs() == 0);
        yield_until(|| self.all_published());
        idle
    }

    pub(crate) fn report(&self) -> ShutdownReport {
        let jobs_at_close = *self.stop.jobs_at_close.lock();
        // A job that is being discarded is counted before its slot is back: not as running, too.
        let discarded = self.counters.discarded().min(jobs_at_close);
        let still_running = self.ledger.word().jobs().min(jobs_at_close - discarded);
        let completed = jobs_at_close - discarded - still_running;
        ShutdownReport { completed, discarded, still_running }
    }
}

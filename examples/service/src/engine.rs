//! Where the work is done: in a weirpool pool or, to see the difference, without protection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::task::spawn_blocking;
use weirpool::{
    ActiveWorkers, BuildError, Class, JobError, Permit, Pool, Priority, QueueDelay, Refusal,
};

use crate::options::Options;

/// Slots that only health checks may fill.
const CRITICAL_RESERVE: usize = 4;
/// What all requests together may hold in memory, as bodies.
const MAX_BYTES: u64 = 64 << 20;

/// A kind of work: what is learned together, and how urgent it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Password,
    Thumbnail,
    Health,
}

impl Route {
    pub(crate) const ALL: [Self; 3] = [Self::Password, Self::Thumbnail, Self::Health];

    pub(crate) fn name(self) -> &'static str {
        ["password", "thumbnail", "health"][self as usize]
    }

    pub(crate) fn class(self) -> Class {
        Class(self as u8)
    }

    /// Nobody can use the rest of a service without logging in; a picture may come a second later.
    fn priority(self) -> Priority {
        match self {
            Self::Password => Priority::High,
            Self::Thumbnail => Priority::Normal,
            Self::Health => Priority::Critical,
        }
    }
}

/// Health checks end by the patience of whoever asks; this only keeps them from piling up.
const HEALTH_DEADLINE: Duration = Duration::from_secs(1);

/// Why a request got no result from its job.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Refused at the door.
    Refused(Refusal),
    /// Accepted, and then not done: shed, late, panicked or discarded.
    Job(JobError),
    /// A job panicked, without weirpool.
    Panicked,
}

pub(crate) struct Engine {
    /// None: unprotected.
    pool: Option<Pool>,
    deadline: Duration,
    slow_factor: f64,
    seen: Arc<Seen>,
}

/// What the service counts itself, in the same way with and without protection.
#[derive(Default)]
pub(crate) struct Seen {
    /// Jobs that were done, by route.
    pub(crate) done: [AtomicU64; Route::ALL.len()],
    /// Jobs accepted and not started; only counted without a pool, which knows it itself.
    pub(crate) queued: AtomicUsize,
    /// Jobs started and not ended, likewise.
    pub(crate) running: AtomicUsize,
    /// The longest wait, in nanoseconds, of the jobs started since somebody took this figure.
    longest_wait_ns: AtomicU64,
}

impl Seen {
    /// The longest wait of the jobs started since the last call.
    pub(crate) fn take_longest_wait(&self) -> Duration {
        Duration::from_nanos(self.longest_wait_ns.swap(0, Relaxed))
    }
}

impl Engine {
    pub(crate) fn new(options: &Options) -> Result<Self, BuildError> {
        let pool = Pool::builder()
            .name("work")
            .workers(options.workers)
            .critical_reserve(CRITICAL_RESERVE)
            .max_bytes(MAX_BYTES)
            .queue_delay(QueueDelay::graded(options.target))
            .active_workers(match options.has_fixed_workers {
                true => ActiveWorkers::Fixed,
                false => ActiveWorkers::Adaptive,
            })
            .build();
        Ok(Self {
            pool: if options.is_unprotected { None } else { Some(pool?) },
            deadline: options.deadline,
            slow_factor: options.slow_factor,
            seen: Arc::default(),
        })
    }

    pub(crate) fn pool(&self) -> Option<&Pool> {
        self.pool.as_ref()
    }

    pub(crate) fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Takes a slot before the request's body is read, which may hold so many bytes.
    pub(crate) fn reserve(&self, route: Route, bytes: u64) -> Result<Ticket, Failure> {
        let is_health = route == Route::Health;
        let deadline = if is_health { HEALTH_DEADLINE } else { self.deadline };
        let permit = match &self.pool {
            None => None,
            Some(pool) => Some(
                pool.job()
                    .priority(route.priority())
                    .class(route.class())
                    .bytes(bytes)
                    .timeout(deadline)
                    .try_reserve()
                    .map_err(Failure::Refused)?,
            ),
        };
        let (slow_factor, seen) = (self.slow_factor, Arc::clone(&self.seen));
        Ok(Ticket { permit, route, slow_factor, seen })
    }
}

/// The right to have one job done. Dropping it, because the client hung up, gives the slot back.
pub(crate) struct Ticket {
    /// None: unprotected.
    permit: Option<Permit>,
    route: Route,
    slow_factor: f64,
    seen: Arc<Seen>,
}

impl Ticket {
    /// Has the work done. Dropping the future takes a job that is still queued out of the queue.
    pub(crate) async fn run<T, F>(self, work: F) -> Result<T, Failure>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let Self { permit, route, slow_factor, seen } = self;
        let submitted = Instant::now();
        let timed = {
            let seen = Arc::clone(&seen);
            move || {
                let started = Instant::now();
                let wait_ns = u64::try_from((started - submitted).as_nanos()).unwrap_or(u64::MAX);
                seen.longest_wait_ns.fetch_max(wait_ns, Relaxed);
                let result = work();
                std::thread::sleep(started.elapsed().mul_f64(slow_factor - 1.0));
                seen.done[route as usize].fetch_add(1, Relaxed);
                result
            }
        };
        match permit {
            Some(permit) => {
                let job = permit.submit(timed).map_err(|r| Failure::Refused(r.refusal()))?;
                job.cancel_on_drop().await.map_err(Failure::Job)
            }
            None => unprotected(seen, timed).await,
        }
    }
}

/// As it is often done. A client that hangs up leaves its job in the queue.
async fn unprotected<T, F>(seen: Arc<Seen>, work: F) -> Result<T, Failure>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    seen.queued.fetch_add(1, Relaxed);
    let job = spawn_blocking(move || {
        seen.queued.fetch_sub(1, Relaxed);
        seen.running.fetch_add(1, Relaxed);
        let _running = Running(&seen);
        work()
    });
    job.await.map_err(|_panicked| Failure::Panicked)
}

struct Running<'a>(&'a Seen);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Relaxed);
    }
}

//! The pool's handle.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use crate::admission::ledger::MAX_CAPACITY;
use crate::admission::partition;
use crate::builder::Builder;
use crate::error::{BuildError, Refusal, Rejected};
use crate::handle::JobHandle;
use crate::observe::load::Load;
use crate::observe::snapshot::Snapshot;
use crate::schedule::inside::is_inside;
use crate::schedule::{Core, Shutdown, ShutdownReport};
use crate::submit::{self, JobSpec, PartitionId, Permit};
use crate::sync::Arc;
use crate::wait::{IdleWait, ShutdownWait, Submit};

/// A thread pool that knows its limit and says no early.
///
/// A handle on shared state: clone it freely. When the last `Pool` (and [`Permit`]) is gone the
/// pool closes, finishes what it accepted, and its threads exit; that never blocks.
///
/// ```
/// use weirpool::{Pool, Reason};
///
/// let pool = Pool::builder().name("thumbs").workers(2).capacity(3).build()?;
/// match pool.try_submit(|| "expensive") {
///     Ok(handle) => assert_eq!(handle.join().unwrap(), "expensive"),
///     // Overload: answer 503 at once. The closure is back in `rejected`.
///     Err(rejected) => assert_eq!(rejected.reason(), Reason::Full),
/// }
/// # Ok::<(), weirpool::BuildError>(())
/// ```
pub struct Pool {
    core: Arc<Core>,
}

// The pool's state is only reached through atomics and short locks that no user code runs under,
// so a panic elsewhere can't leave it half-changed.
impl UnwindSafe for Pool {}
impl RefUnwindSafe for Pool {}

impl Pool {
    /// All settings, with the defaults of a service.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// A pool with nothing but its bounds: `workers` threads and at most `capacity` jobs queued
    /// plus running. Short for `Pool::builder().workers(workers).capacity(capacity).batch().build()`.
    ///
    /// # Errors
    /// [`BuildError`] if a number is out of range or a thread can't be created.
    pub fn new(workers: usize, capacity: usize) -> Result<Self, BuildError> {
        Self::builder().workers(workers).capacity(capacity).batch().build()
    }

    /// Takes the handle that came with the shared state.
    pub(crate) fn from_core(core: Arc<Core>) -> Self {
        Self { core }
    }

    #[inline]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// One more handle.
    pub(crate) fn of(core: &Arc<Core>) -> Self {
        core.keep_open();
        Self { core: Arc::clone(core) }
    }

    /// Submits a job, or gives it back at once: never blocks, and allocates nothing unless the
    /// job is accepted.
    ///
    /// The job holds one slot from now until it has ended: completed, panicked, cancelled, shed or
    /// discarded. From inside a body of this pool it inherits the running job's priority and
    /// deadline; [`job`](Self::job) sets them.
    ///
    /// # Errors
    /// [`Rejected`] with the job and the reason.
    #[inline]
    pub fn try_submit<F, T>(&self, f: F) -> Result<JobHandle<T>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        submit::try_submit(&self.core, submit::inherited(&self.core), f)
    }

    /// As [`try_submit`](Self::try_submit), for a job whose result nobody asks for: detached from
    /// birth, which is cheaper.
    ///
    /// If it panics, the builder's [`panic_handler`](Builder::panic_handler) is called.
    ///
    /// # Errors
    /// [`Rejected`] with the job and the reason.
    #[inline]
    pub fn try_spawn<F>(&self, f: F) -> Result<(), Rejected<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        submit::try_spawn(&self.core, submit::inherited(&self.core), f)
    }

    /// Submits a job as soon as there is a slot for it: a future for any runtime.
    ///
    /// It waits while the pool, the job's partition or the budget of bytes is full, the limit reached or
    /// the queue too long, first come first served within a partition and priority;
    /// [`try_submit`](Self::try_submit) of the same or a lower priority doesn't overtake. It doesn't
    /// meet the CPU gate, and once it has waited it is not shed for the wait in the queue. A closed
    /// pool, a deadline that can't be met and a job larger than the whole budget are refused at once.
    /// Dropping the future gives up.
    ///
    /// ```
    /// let pool = weirpool::Pool::new(1, 1)?;
    /// let answer = pollster::block_on(async {
    ///     let handle = pool.submit(|| 6 * 7).await.unwrap();
    ///     handle.await.unwrap()
    /// });
    /// assert_eq!(answer, 42);
    /// # Ok::<(), weirpool::BuildError>(())
    /// ```
    pub fn submit<F, T>(&self, f: F) -> Submit<F, T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.job().submit(f)
    }

    /// As [`submit`](Self::submit), blocking the calling thread. On a worker of this pool it never
    /// waits, like [`try_submit`](Self::try_submit).
    ///
    /// # Errors
    /// [`Rejected`] with the job if the pool is closed, and whatever else waiting doesn't cure.
    pub fn submit_blocking<F, T>(&self, f: F) -> Result<JobHandle<T>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.job().submit_blocking(f)
    }

    /// As [`submit_blocking`](Self::submit_blocking), but no longer than `limit` of real time.
    ///
    /// # Errors
    /// [`Rejected`] with the job; when the time is up, with the reason it waited on.
    pub fn submit_timeout<F, T>(&self, f: F, limit: Duration) -> Result<JobHandle<T>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.job().submit_timeout(f, limit)
    }

    /// A job with its own priority, deadline and so on.
    #[inline]
    pub fn job(&self) -> JobSpec<'_> {
        JobSpec::new(self)
    }

    /// Takes a slot now for a job that comes later.
    ///
    /// # Errors
    /// [`Refusal`] if there is no slot.
    pub fn try_reserve(&self) -> Result<Permit, Refusal> {
        self.job().try_reserve()
    }

    /// Takes several slots, all or none.
    ///
    /// # Errors
    /// [`Refusal`] if there are not so many; then none is taken.
    pub fn try_reserve_many(&self, count: usize) -> Result<Vec<Permit>, Refusal> {
        self.job().try_reserve_many(count)
    }

    /// The partition of that name, to submit with ([`JobSpec::partition`]).
    pub fn partition(&self, name: &str) -> Option<PartitionId> {
        let partitions = &self.core.settings.partitions;
        let index = partitions.iter().position(|(known, _)| known == name)?;
        Some(PartitionId::new(partition::Index::of(index), self.core.id()))
    }

    /// Sets the capacity, at least 1 and at most 1 048 575 (a number outside is taken as the
    /// nearest). Raising it lets waiting submits in. After lowering it nothing is admitted until
    /// enough has drained; until then [`in_flight`](Self::in_flight) may be above it.
    pub fn set_capacity(&self, slots: usize) {
        if !self.core.is_forked() {
            self.core.set_capacity(slots.clamp(1, MAX_CAPACITY));
        }
    }

    /// Refuses new work from now on; what was accepted still runs. Permits not yet used are void, and
    /// whoever waits for a slot is let go. In a forked child it does nothing.
    pub fn close(&self) {
        if !self.core.is_forked() {
            self.core.close();
        }
    }

    /// Whether the pool refuses new work for good.
    pub fn is_closed(&self) -> bool {
        self.core.ledger.is_closed()
    }

    /// Closes the pool, then waits until every accepted job has ended and the threads have run their
    /// stop hooks, but no longer than `limit` of real time in all.
    ///
    /// May be called again, and from several threads: each returns what has become of the jobs
    /// that were in flight when the pool was closed. A later [`Shutdown::Discard`] takes the
    /// queued jobs from a [`Shutdown::Drain`] that still waits.
    ///
    /// On a worker of this pool it never waits: it closes, discards if asked, and returns with the
    /// rest as `still_running`, the calling job included. The same holds in a destructor of what a
    /// job captured while that job is cancelled, displaced or discarded, on whatever thread.
    ///
    /// Discarded closures are dropped on the calling thread. If their destructors take more than the
    /// limit and a quarter of a second, the rest is left to the workers; a destructor that is running
    /// is waited for. A panic in one is contained.
    ///
    /// ```
    /// use weirpool::Shutdown;
    ///
    /// let pool = weirpool::Pool::new(1, 8)?;
    /// for _ in 0..5 {
    ///     pool.try_spawn(|| ()).unwrap();
    /// }
    /// let report = pool.shutdown(Shutdown::Drain, None);
    /// assert_eq!((report.discarded, report.still_running), (0, 0));
    /// assert_eq!(pool.snapshot().completed, 5);
    /// # Ok::<(), weirpool::BuildError>(())
    /// ```
    pub fn shutdown(&self, how: Shutdown, limit: Option<Duration>) -> ShutdownReport {
        self.core.shutdown(how, limit)
    }

    /// As [`shutdown`](Self::shutdown), for async callers on any runtime. It begins at its first
    /// poll; dropping it stops the waiting, not the shutdown.
    ///
    /// With a `limit` it uses one short-lived thread to keep the time; if that can't be created, it
    /// waits without a limit.
    ///
    /// ```
    /// use weirpool::Shutdown;
    ///
    /// let pool = weirpool::Pool::new(1, 8)?;
    /// pool.try_spawn(|| ()).unwrap();
    /// let report = pollster::block_on(pool.shutdown_async(Shutdown::Drain, None));
    /// assert_eq!(report.still_running, 0);
    /// # Ok::<(), weirpool::BuildError>(())
    /// ```
    pub fn shutdown_async(
        &self,
        how: Shutdown,
        limit: Option<Duration>,
    ) -> impl Future<Output = ShutdownReport> + Send + use<> {
        let mut shutdown = ShutdownWait::new(Arc::clone(&self.core), how, limit);
        poll_fn(move |context| shutdown.poll(context))
    }

    /// As [`wait_idle`](Self::wait_idle), for async callers on any runtime.
    pub fn wait_idle_async(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut idle = IdleWait::new(Arc::clone(&self.core));
        poll_fn(move |context| idle.poll(context))
    }

    /// Waits until nothing is queued or running, and all handles have resolved. Does not close the
    /// pool, so that new work may come in by the time it returns. On a worker of this pool, and in a
    /// destructor of what a job captured while that job is cancelled or discarded, it returns at
    /// once.
    pub fn wait_idle(&self) {
        if !self.core.is_forked() && !is_inside(&self.core) {
            self.core.wait_idle_until(None);
        }
    }

    /// How many jobs may be queued plus running.
    pub fn capacity(&self) -> usize {
        self.core.ledger.capacity()
    }

    /// Slots in use: permits, queued and running jobs. Never above [`capacity`](Self::capacity),
    /// unless that was lowered and has not drained yet.
    pub fn in_flight(&self) -> usize {
        self.core.ledger.word().in_flight()
    }

    /// Jobs waiting to start. Exact at rest.
    pub fn queued(&self) -> usize {
        self.core.queued_and_running().0
    }

    /// Jobs started and not ended. Exact at rest.
    pub fn running(&self) -> usize {
        self.core.queued_and_running().1
    }

    /// Worker threads.
    pub fn workers(&self) -> usize {
        self.core.settings.workers
    }

    /// All figures at this moment.
    pub fn snapshot(&self) -> Snapshot {
        self.core.snapshot()
    }

    /// How loaded the pool is.
    pub fn load(&self) -> Load {
        self.core.load()
    }
}

impl Clone for Pool {
    fn clone(&self) -> Self {
        Self::of(&self.core)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.core.let_go();
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("name", &self.core.settings.name)
            .field("workers", &self.workers())
            .field("slots", &self.core.ledger.word())
            .finish_non_exhaustive()
    }
}

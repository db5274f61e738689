//! Everything by which a job gets into the pool.

use std::fmt;
use std::time::{Duration, Instant};

use crate::admission::ledger::Slot;
use crate::admission::{Ask, Checks, Membership, partition};
use crate::error::{Refusal, Rejected};
use crate::handle::JobHandle;
use crate::job::{JobRef, Receiver};
use crate::pool::Pool;
use crate::priority::{Class, Priority};
use crate::schedule::{Core, Worker};
use crate::sense::clock::NO_DEADLINE;
use crate::sync::Arc;
use crate::wait::Submit;

/// What is asked for one job beyond the defaults, from [`Pool::job`].
///
/// What isn't set is inherited if this is called inside a body of the same pool: the priority, the
/// deadline, the partition and the class of the running job.
///
/// ```
/// use std::time::Duration;
/// use weirpool::Priority;
///
/// let pool = weirpool::Pool::new(1, 4)?;
/// let urgent = pool.job().priority(Priority::High).timeout(Duration::from_secs(1));
/// // A spec is `Copy`: use it for as many jobs as you like.
/// let (a, b) = (urgent.try_submit(|| 1).unwrap(), urgent.try_submit(|| 2).unwrap());
/// assert_eq!(a.join().unwrap() + b.join().unwrap(), 3);
/// # Ok::<(), weirpool::BuildError>(())
/// ```
#[derive(Clone, Copy)]
#[must_use = "a spec does nothing until a job is submitted with it"]
pub struct JobSpec<'a> {
    pool: &'a Pool,
    priority: Option<Priority>,
    class: Option<Class>,
    deadline: Option<Instant>,
    timeout: Option<Duration>,
    partition: Option<PartitionId>,
    bytes: u64,
}

impl<'a> JobSpec<'a> {
    #[inline]
    pub(crate) fn new(pool: &'a Pool) -> Self {
        Self {
            pool,
            priority: None,
            class: None,
            deadline: None,
            timeout: None,
            partition: None,
            bytes: 0,
        }
    }

    pub(crate) fn pool(&self) -> &'a Pool {
        self.pool
    }

    /// How urgent the job is; default [`Priority::Normal`].
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// What kind of work the job is, so that its cost is learned with others of its kind.
    pub fn class(mut self, class: Class) -> Self {
        self.class = Some(class);
        self
    }

    /// The instant from which on the job must not start any more. It says nothing about the body,
    /// once that has begun. An expired job is shed when a worker comes to it, at the latest.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// A deadline of this long after the submit; of both the earlier holds. One that overflows the
    /// clock is none.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The partition whose slots the job uses, from [`Pool::partition`]. One of another pool is
    /// refused with [`Reason::Partition`](crate::Reason::Partition).
    pub fn partition(mut self, partition: PartitionId) -> Self {
        self.partition = Some(partition);
        self
    }

    /// How much of the pool's budget of bytes ([`Builder::max_bytes`](crate::Builder::max_bytes))
    /// the job holds until it ends. Default 0; not inherited.
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }

    /// See [`Pool::try_submit`].
    ///
    /// # Errors
    /// [`Rejected`] with the job if it is refused.
    #[inline]
    pub fn try_submit<F, T>(self, f: F) -> Result<JobHandle<T>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        try_submit(self.pool.core(), self.ask(), f)
    }

    /// See [`Pool::try_spawn`].
    ///
    /// # Errors
    /// [`Rejected`] with the job if it is refused.
    #[inline]
    pub fn try_spawn<F>(self, f: F) -> Result<(), Rejected<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        try_spawn(self.pool.core(), self.ask(), f)
    }

    /// See [`Pool::submit`].
    pub fn submit<F, T>(self, f: F) -> Submit<F, T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        Submit::new(self.pool.clone(), self.ask(), f)
    }

    /// See [`Pool::submit_blocking`].
    ///
    /// # Errors
    /// [`Rejected`] with the job if it is refused.
    pub fn submit_blocking<F, T>(self, f: F) -> Result<JobHandle<T>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit(f).block_until(None)
    }

    /// See [`Pool::submit_timeout`].
    ///
    /// # Errors
    /// [`Rejected`] with the job if it is refused, or the reason it waited on if the time is up.
    pub fn submit_timeout<F, T>(self, f: F, limit: Duration) -> Result<JobHandle<T>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match Instant::now().checked_add(limit) {
            // A limit that overflows the clock is none.
            None => self.submit_blocking(f),
            until => self.submit(f).block_until(until),
        }
    }

    /// See [`Pool::try_reserve`]. The permit keeps the spec: a timeout counts from now.
    ///
    /// # Errors
    /// [`Refusal`] if there is no slot.
    pub fn try_reserve(self) -> Result<Permit, Refusal> {
        let ask = self.ask();
        self.pool.core().reserve(&ask, 1)?;
        Ok(Permit { pool: Some(self.pool.clone()), ask })
    }

    /// See [`Pool::try_reserve_many`].
    ///
    /// # Errors
    /// [`Refusal`] if there are not so many slots; then none is taken.
    pub fn try_reserve_many(self, count: usize) -> Result<Vec<Permit>, Refusal> {
        let ask = self.ask();
        self.pool.core().reserve(&ask, count)?;
        Ok((0..count).map(|_| Permit { pool: Some(self.pool.clone()), ask }).collect())
    }

    /// What the door is asked: what was set, else what the running body hands down.
    #[inline]
    pub(crate) fn ask(&self) -> Ask {
        let core = self.pool.core();
        let inherited = inherited(core);
        let deadline_ns = match (self.deadline, self.timeout) {
            (None, None) => inherited.deadline_ns,
            (deadline, timeout) => deadline_ns(core, deadline, timeout),
        };
        Ask {
            priority: self.priority.unwrap_or(inherited.priority),
            class: self.class.unwrap_or(inherited.class),
            deadline_ns,
            partition: self.partition.map_or(inherited.partition, |named| Some(named.of(core))),
            bytes: self.bytes,
            checks: inherited.checks,
        }
    }
}

/// The earlier of both, on the pool's own timeline. Not a method: for that the whole spec would have to
/// lie in memory, also for a job without any.
#[cold]
fn deadline_ns(core: &Core, deadline: Option<Instant>, timeout: Option<Duration>) -> u64 {
    let deadline_ns = deadline.map_or(NO_DEADLINE, |instant| core.time.ns_at(instant));
    let timeout_ns = timeout
        .and_then(|timeout| u64::try_from(timeout.as_nanos()).ok())
        .map_or(NO_DEADLINE, |timeout_ns| core.time.now_ns().saturating_add(timeout_ns));
    deadline_ns.min(timeout_ns)
}

impl fmt::Debug for JobSpec<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobSpec")
            .field("priority", &self.priority)
            .field("class", &self.class)
            .field("deadline", &self.deadline)
            .field("timeout", &self.timeout)
            .field("partition", &self.partition)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// What a job asks that sets nothing itself: what the running body hands down, else the defaults.
#[inline]
pub(crate) fn inherited(core: &Core) -> Ask {
    let mut ask = Ask::plain(Priority::Normal, Checks::All);
    Worker::with_current(|worker| {
        let body = worker.filter(|worker| worker.is_of(core)).and_then(Worker::body);
        if let Some(body) = body {
            ask.priority = body.priority;
            ask.class = body.class;
            // Its work has begun: to refuse the rest of it would waste what was done.
            ask.checks = Checks::Bounds;
            ask.deadline_ns = body.deadline_ns;
            ask.partition = body.partition.map(Membership::Of);
        }
    });
    ask
}

/// Submits a job that asks so, or gives it back.
#[inline]
pub(crate) fn try_submit<F, T>(
    core: &Arc<Core>,
    ask: Ask,
    f: F,
) -> Result<JobHandle<T>, Rejected<F>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    match core.admit(&ask) {
        Ok(slot) => Ok(submit(core, slot, &ask, f)),
        Err(reason) => Err(Rejected::new(f, core.refuse(reason))),
    }
}

/// As [`try_submit`], with a body that is wrapped once it has its slot: a refused job comes back as it
/// was.
#[cfg(any(feature = "metrics", feature = "tracing"))]
pub(crate) fn try_submit_with<F, G, T>(
    job: JobSpec<'_>,
    f: F,
    wrap: impl FnOnce(F) -> G,
) -> Result<JobHandle<T>, Rejected<F>>
where
    G: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let (core, ask) = (job.pool.core(), job.ask());
    match core.admit(&ask) {
        Ok(slot) => Ok(submit(core, slot, &ask, wrap(f))),
        Err(reason) => Err(Rejected::new(f, core.refuse(reason))),
    }
}

/// As [`try_submit`], detached.
#[inline]
pub(crate) fn try_spawn<F>(core: &Arc<Core>, ask: Ask, f: F) -> Result<(), Rejected<F>>
where
    F: FnOnce() + Send + 'static,
{
    match core.admit(&ask) {
        Ok(slot) => {
            let job = JobRef::detached(f, Core::origin(core, &ask));
            core.push(slot, job);
            Ok(())
        }
        Err(reason) => Err(Rejected::new(f, core.refuse(reason))),
    }
}

/// Makes the job and queues it.
#[inline]
pub(crate) fn submit<F, T>(core: &Arc<Core>, slot: Slot<'_>, ask: &Ask, f: F) -> JobHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    // SAFETY: neither the body nor its result borrows anything.
    let (job, receiver) = unsafe { Receiver::new_job(f, Core::origin(core, ask)) };
    core.push(slot, job);
    JobHandle::new(receiver, core.born())
}

/// One partition of one pool, from [`Pool::partition`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PartitionId {
    index: partition::Index,
    pool: u64,
}

impl PartitionId {
    pub(crate) fn new(index: partition::Index, pool: u64) -> Self {
        Self { index, pool }
    }

    fn of(self, core: &Core) -> Membership {
        if self.pool == core.id() { Membership::Of(self.index) } else { Membership::Foreign }
    }
}

/// A slot taken before the job is known, from [`Pool::try_reserve`].
///
/// Take one before you read a request's body: if there is none, the refusal has cost nothing.
/// Dropping it returns the slot. It keeps the pool open, but not against
/// [`close`](Pool::close) and [`shutdown`](Pool::shutdown), which void it.
///
/// ```
/// let pool = weirpool::Pool::new(1, 1)?;
/// let permit = pool.try_reserve()?;
/// assert!(pool.try_reserve().is_err());
/// let body = "read only now, since there is a slot".to_owned();
/// let handle = permit.submit(move || body.len()).unwrap();
/// assert_eq!(handle.join().unwrap(), 36);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping the permit returns the slot"]
pub struct Permit {
    /// None once the slot went to a job.
    pool: Option<Pool>,
    ask: Ask,
}

impl Permit {
    /// Submits a job with this slot.
    ///
    /// # Errors
    /// [`Rejected`] with the job if the pool was closed since, or the process was forked.
    pub fn submit<F, T>(mut self, f: F) -> Result<JobHandle<T>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let pool = self.pool.take().expect("only taken by value");
        let core = pool.core();
        match core.redeem(self.ask.holding()) {
            Ok(slot) => Ok(submit(core, slot, &self.ask, f)),
            Err(refusal) => Err(Rejected::new(f, refusal)),
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // In a forked child the lines' lock may be held for ever by a thread that doesn't exist.
        if let Some(pool) = self.pool.as_ref().filter(|pool| !pool.core().is_forked()) {
            pool.core().ledger.cancel_permit(self.ask.holding());
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("priority", &self.ask.priority).finish_non_exhaustive()
    }
}

/// The pool's state is only reached through atomics and short locks that no user code runs under.
impl std::panic::UnwindSafe for Permit {}
impl std::panic::RefUnwindSafe for Permit {}

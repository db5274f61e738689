//! The handle of a job: wait for it, ask for its result, cancel it.

use std::fmt;
use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::error::JobError;
use crate::job::{JobRef, Receiver};
use crate::schedule::worker::InPlace;
use crate::schedule::{Core, Worker};
use crate::sense::fork::Generation;
use crate::sync::{Parker, spin_until};

/// A job's identity, unique within its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobId(u64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The handle of an accepted job: a future of its result for any runtime, or something to
/// [`join`](Self::join).
///
/// Dropping it detaches the job, which goes on and keeps its slot until it ends. A handle doesn't
/// keep the pool open, and may outlive it.
///
/// ```
/// let pool = weirpool::Pool::new(2, 8)?;
/// let handle = pool.try_submit(|| (1..=10).product::<u64>()).unwrap();
/// assert_eq!(handle.join().unwrap(), 3_628_800);
/// # Ok::<(), weirpool::BuildError>(())
/// ```
///
/// # Panics
/// [`join`](Self::join), [`try_take`](Self::try_take) and polling panic if the result was taken
/// before.
#[must_use = "dropping the handle detaches the job; `try_spawn` says so from the start"]
pub struct JobHandle<T> {
    receiver: Receiver<T>,
    born: Generation,
}

impl<T> Unpin for JobHandle<T> {}
impl<T> UnwindSafe for JobHandle<T> {}
impl<T> RefUnwindSafe for JobHandle<T> {}

impl<T> JobHandle<T> {
    pub(crate) fn new(receiver: Receiver<T>, born: Generation) -> Self {
        Self { receiver, born }
    }

    /// Waits for the job to end, and takes its result.
    ///
    /// On a worker of the same pool a job that is still queued is run in place: exactly that job,
    /// on top of the calling body, so that nested joins never wait for a free worker and never run
    /// strangers. While one that another worker runs goes on, jobs that it submitted, and those of
    /// its descendants, may be run on top of the calling body in the same way: so a body must not hold a
    /// lock across a join that one of them takes. If the stack is nearly used up the answer is [`JobError::TooDeep`] instead, and
    /// the job stays queued, detached.
    ///
    /// # Errors
    /// [`JobError`] if the job has no result.
    ///
    /// # Panics
    /// If the result was taken before, or if a body joins its own job. (Two bodies that join each
    /// other wait for ever, as two threads would.)
    pub fn join(mut self) -> Result<T, JobError> {
        if let Some(result) = self.ready() {
            return result;
        }
        let in_place = Worker::with_current(|worker| match worker {
            Some(worker) if worker.core_is_owner_of(self.receiver.job()) => {
                Some(worker.join_in_place(self.receiver.job()))
            }
            _ => None,
        });
        if in_place == Some(InPlace::TooDeep) {
            return Err(JobError::TooDeep);
        }
        match self.block_until(None) {
            Some(result) => result,
            None => unreachable!("without a limit it waits until there is a result"),
        }
    }

    /// Waits for the job to end, but no longer than `limit` of real time; gives the handle back if
    /// that came first. Never runs the job in place.
    ///
    /// # Errors
    /// The handle, if the time is up.
    ///
    /// # Panics
    /// If the result was taken before.
    pub fn join_timeout(mut self, limit: Duration) -> Result<Result<T, JobError>, Self> {
        // A limit that overflows the clock is none.
        let until = Instant::now().checked_add(limit);
        self.ready().or_else(|| self.block_until(until)).ok_or(self)
    }

    /// Takes the result if the job has ended.
    ///
    /// # Panics
    /// If the result was taken before.
    pub fn try_take(&mut self) -> Option<Result<T, JobError>> {
        self.ready()
    }

    /// Whether the job has ended. Its slot has returned by then.
    pub fn is_finished(&self) -> bool {
        self.receiver.is_finished()
    }

    /// Cancels the job: true if this call ended it, so that it never runs.
    ///
    /// Its closure is dropped on the calling thread, its slot has returned and this handle has
    /// resolved to [`JobError::Cancelled`] before the call returns, even if all workers are busy.
    /// False means that the job has started or ended; a started one is asked to stop, which it
    /// learns from [`is_cancelled`](crate::is_cancelled) if it asks.
    pub fn cancel(&self) -> bool {
        cancel(self.receiver.job(), self.born)
    }

    /// Something that cancels this job from elsewhere, also after the handle is gone.
    pub fn canceller(&self) -> Canceller {
        Canceller { job: self.receiver.job().another(), born: self.born }
    }

    /// The job's identity.
    pub fn id(&self) -> JobId {
        JobId(self.receiver.job().place())
    }

    /// Ties the job to the handle: dropping that cancels it. For request handlers whose client may
    /// hang up.
    ///
    /// ```
    /// # let pool = weirpool::Pool::new(1, 4)?;
    /// # let (open, gate) = std::sync::mpsc::channel::<()>();
    /// # pool.try_spawn(move || gate.recv().unwrap()).unwrap();
    /// let answer = pool.try_submit(|| "a page").unwrap().cancel_on_drop();
    /// drop(answer); // The client hung up: the job never runs, its slot is back.
    /// assert_eq!(pool.snapshot().cancelled, 1);
    /// # open.send(()).unwrap();
    /// # Ok::<(), weirpool::BuildError>(())
    /// ```
    pub fn cancel_on_drop(self) -> CancelOnDrop<T> {
        CancelOnDrop { handle: Some(self) }
    }

    /// The result if it is there, or if it can never be: a forked child has no workers.
    fn ready(&mut self) -> Option<Result<T, JobError>> {
        let result = self.receiver.try_take();
        if result.is_none() && self.born.is_past() {
            return Some(Err(JobError::Discarded));
        }
        result
    }

    /// Blocks until there is a result or `until` has come.
    fn block_until(&mut self, until: Option<Instant>) -> Option<Result<T, JobError>> {
        if spin_until(|| self.receiver.is_finished()) {
            return self.ready();
        }
        let parker = Parker::of_this_thread();
        let waker = parker.waker();
        loop {
            if let Poll::Ready(result) = self.receiver.poll(&waker) {
                return Some(result);
            }
            if !parker.park_until(until) {
                return self.ready();
            }
        }
    }
}

impl<T> Future for JobHandle<T> {
    type Output = Result<T, JobError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.ready() {
            Some(result) => Poll::Ready(result),
            None => self.receiver.poll(context.waker()),
        }
    }
}

impl<T> fmt::Debug for JobHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobHandle")
            .field("id", &self.id())
            .field("state", self.receiver.job().state())
            .finish()
    }
}

fn cancel(job: &JobRef, born: Generation) -> bool {
    // In a forked child the queues' locks may be held for ever by threads that don't exist.
    !born.is_past() && Core::cancel(job)
}

/// Cancels one job, from [`JobHandle::canceller`]. As many as you like, on any thread.
pub struct Canceller {
    job: JobRef,
    born: Generation,
}

impl UnwindSafe for Canceller {}
impl RefUnwindSafe for Canceller {}

impl Canceller {
    /// See [`JobHandle::cancel`].
    pub fn cancel(&self) -> bool {
        cancel(&self.job, self.born)
    }

    /// The job's identity.
    pub fn id(&self) -> JobId {
        JobId(self.job.place())
    }
}

impl Clone for Canceller {
    fn clone(&self) -> Self {
        Self { job: self.job.another(), born: self.born }
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canceller").field("id", &self.id()).finish_non_exhaustive()
    }
}

/// A handle that cancels its job when it is dropped, from [`JobHandle::cancel_on_drop`].
///
/// A job that runs already is asked to stop and keeps its slot until it ends.
#[must_use = "dropping it cancels the job"]
pub struct CancelOnDrop<T> {
    /// None only while it is being taken apart.
    handle: Option<JobHandle<T>>,
}

impl<T> CancelOnDrop<T> {
    fn handle(&self) -> &JobHandle<T> {
        self.handle.as_ref().expect("only taken by value")
    }

    /// Unties the job again.
    #[allow(clippy::return_self_not_must_use)]
    pub fn detach(mut self) -> JobHandle<T> {
        self.handle.take().expect("only taken by value")
    }

    /// See [`JobHandle::join`].
    ///
    /// # Errors
    /// [`JobError`] if the job has no result.
    pub fn join(self) -> Result<T, JobError> {
        self.detach().join()
    }

    /// See [`JobHandle::cancel`].
    pub fn cancel(&self) -> bool {
        self.handle().cancel()
    }

    /// See [`JobHandle::is_finished`].
    pub fn is_finished(&self) -> bool {
        self.handle().is_finished()
    }

    /// See [`JobHandle::id`].
    pub fn id(&self) -> JobId {
        self.handle().id()
    }
}

impl<T> Drop for CancelOnDrop<T> {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            handle.cancel();
        }
    }
}

impl<T> Future for CancelOnDrop<T> {
    type Output = Result<T, JobError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let handle = self.handle.as_mut().expect("only taken by value");
        Pin::new(handle).poll(context)
    }
}

impl<T> fmt::Debug for CancelOnDrop<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CancelOnDrop").field(self.handle()).finish()
    }
}

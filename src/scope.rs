//! Jobs that borrow.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::contain::{Payload, contain, drop_contained, drop_payload};
use crate::error::{JobError, Panic, Rejected};
use crate::handle::{Canceller, JobHandle, JobId};
use crate::job::{JobRef, Origin, Receiver};
use crate::pool::Pool;
use crate::schedule::Core;
use crate::submit::JobSpec;
use crate::sync::Arc;
use crate::sync::stat::{AtomicU64, Mutex, Relaxed};

impl Pool {
    /// Runs `f` with a scope whose jobs may borrow what outlives this call; returns when all of
    /// them have ended.
    ///
    /// Nothing waits for a slot: a job that is refused comes back to you, like any other. Whatever
    /// happens, also if `f` panics, this call does not return before every job of the scope has
    /// ended. On a worker of this pool the jobs still queued are run in place.
    ///
    /// ```
    /// let pool = weirpool::Pool::new(2, 16)?;
    /// let mut numbers = [1, 2, 3, 4];
    /// pool.scope(|scope| {
    ///     for half in numbers.chunks_mut(2) {
    ///         let times_ten = move || half.iter_mut().for_each(|number| *number *= 10);
    ///         if let Err(rejected) = scope.try_submit(times_ten) {
    ///             rejected.run_here();
    ///         }
    ///     }
    /// });
    /// assert_eq!(numbers, [10, 20, 30, 40]);
    /// # Ok::<(), weirpool::BuildError>(())
    /// ```
    ///
    /// What is borrowed must outlive the call:
    ///
    /// ```compile_fail
    /// let pool = weirpool::Pool::new(1, 1).unwrap();
    /// pool.scope(|scope| {
    ///     let inside = String::from("gone before the scope ends");
    ///     let _ = scope.try_submit(|| inside.len());
    /// });
    /// ```
    ///
    /// and nothing of the scope may leave it:
    ///
    /// ```compile_fail
    /// let pool = weirpool::Pool::new(1, 1).unwrap();
    /// let text = String::from("borrowed");
    /// let handle = pool.scope(|scope| scope.try_submit(|| text.as_str()).unwrap());
    /// drop(text);
    /// println!("{}", handle.join().unwrap());
    /// ```
    ///
    /// # Panics
    /// If `f` panics, with that; else if a job panicked whose panic nobody took by joining it, with
    /// what the first such carried. Only after every job of the scope has ended.
    ///
    /// # Soundness
    /// A job is made to look as if it borrowed nothing. That is sound because what it borrows
    /// outlives this call, and this call returns only when every job of the scope has ended: its
    /// closure is gone by then, and its result is gone too or lies with its handle, which can't
    /// leave `f`. A handle may be leaked: then its result is never touched again, nor waited for.
    pub fn scope<'env, R>(
        &'env self,
        f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
    ) -> R {
        let scope = Scope {
            pool: self,
            jobs: Mutex::default(),
            panics: Mutex::default(),
            numbers: AtomicU64::new(0),
            scope: PhantomData,
            env: PhantomData,
        };
        let returned = contain(|| f(&scope));
        scope.wait_for_all();
        let panics = std::mem::take(&mut *scope.panics.lock());
        let mut panics = panics.into_iter().map(|(_, payload)| payload);
        let first = match (returned, panics.next()) {
            (Ok(value), None) => return value,
            (Ok(value), Some(payload)) => {
                drop_contained(value);
                payload
            }
            (Err(payload), of_a_job) => {
                of_a_job.into_iter().for_each(drop_payload);
                payload
            }
        };
        panics.for_each(drop_payload);
        resume_unwind(first)
    }
}

/// Where jobs that borrow are submitted, from [`Pool::scope`].
///
/// `'scope` lasts until [`Pool::scope`] returns; `'env` is what outlives that.
pub struct Scope<'scope, 'env: 'scope> {
    pool: &'env Pool,
    /// The jobs that may not have ended yet.
    jobs: Mutex<Vec<JobRef>>,
    /// What the panics of jobs carried, each with its job's number, unless it was taken by joining.
    panics: Mutex<Vec<(u64, Payload)>>,
    numbers: AtomicU64,
    // Both invariant, as in `std::thread::Scope`: were `'scope` allowed to shrink, a job could
    // borrow what ends before the scope.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Submits a job that may borrow, see [`Pool::try_submit`].
    ///
    /// # Errors
    /// [`Rejected`] with the job and the reason.
    pub fn try_submit<F, T>(&'scope self, f: F) -> Result<ScopedHandle<'scope, T>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.try_submit_with(self.pool.job(), f)
    }

    /// As [`try_submit`](Self::try_submit), with a priority, a deadline and so on.
    ///
    /// ```
    /// use weirpool::Priority;
    ///
    /// let pool = weirpool::Pool::new(1, 4)?;
    /// let text = String::from("borrowed");
    /// pool.scope(|scope| {
    ///     let urgent = pool.job().priority(Priority::High);
    ///     let length = scope.try_submit_with(urgent, || text.len()).unwrap().join().unwrap();
    ///     assert_eq!(length, 8);
    /// });
    /// # Ok::<(), weirpool::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// [`Rejected`] with the job and the reason.
    ///
    /// # Panics
    /// If `spec` is one of another pool.
    pub fn try_submit_with<F, T>(
        &'scope self,
        spec: JobSpec<'_>,
        f: F,
    ) -> Result<ScopedHandle<'scope, T>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let core = self.pool.core();
        assert!(Arc::ptr_eq(core, spec.pool().core()), "the spec is one of another pool");
        let ask = spec.ask();
        let slot = match core.admit(&ask) {
            Ok(slot) => slot,
            Err(reason) => return Err(Rejected::new(f, core.refuse(reason))),
        };
        let number = self.numbers.fetch_add(1, Relaxed);
        // The payload of a panic is kept here, for whoever joins or else for the scope's own end; what
        // goes on through the pool is only a sign that there was one.
        let body = move || {
            contain(f).unwrap_or_else(|payload| {
                self.panics.lock().push((number, payload));
                resume_unwind(Box::new(()))
            })
        };
        let origin = Origin { scoped: true, ..Core::origin(core, &ask) };
        // SAFETY: what the body and its result borrow outlives `Pool::scope`, which returns only
        // when the job has ended (`wait_for_all`). By then the body is gone, and the result is gone
        // or belongs to the handle, which carries `'scope`.
        let (job, receiver) = unsafe { Receiver::new_job(body, origin) };
        self.remember(&job);
        core.push(slot, job);
        let handle = JobHandle::new(receiver, core.born());
        Ok(ScopedHandle { handle, panics: &self.panics, number })
    }

    /// Notes a job, forgetting those that have ended now and then.
    fn remember(&self, job: &JobRef) {
        let mut jobs = self.jobs.lock();
        if jobs.len() == jobs.capacity() {
            jobs.retain(|job| job.state().outcome().is_none());
        }
        jobs.push(job.another());
    }

    /// Returns when every job of the scope has ended.
    fn wait_for_all(&self) {
        let core = self.pool.core();
        // The scope's own closure has returned, and a job may submit more to the scope only before
        // it ends: once the list is empty after a wait, it stays so.
        loop {
            let jobs = std::mem::take(&mut *self.jobs.lock());
            if jobs.is_empty() {
                return;
            }
            // First what this thread can do itself: what runs elsewhere may need it done.
            jobs.iter().for_each(|job| core.finish_in_place(job));
            jobs.iter().for_each(|job| core.wait_for_scoped(job));
        }
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("pool", self.pool).finish_non_exhaustive()
    }
}

/// The handle of a job of a [`Scope`]. Dropping it detaches the job from it, not from the scope.
#[must_use = "the scope waits for the job all the same; its result is dropped with the handle"]
pub struct ScopedHandle<'scope, T> {
    handle: JobHandle<T>,
    panics: &'scope Mutex<Vec<(u64, Payload)>>,
    number: u64,
}

impl<T> ScopedHandle<'_, T> {
    /// See [`JobHandle::join`]. A panic that comes out here is not the scope's any more.
    ///
    /// # Errors
    /// [`JobError`] if the job has no result.
    pub fn join(self) -> Result<T, JobError> {
        let Self { handle, panics, number } = self;
        claim_panic(panics, number, handle.join())
    }

    /// See [`JobHandle::try_take`].
    pub fn try_take(&mut self) -> Option<Result<T, JobError>> {
        let result = self.handle.try_take()?;
        Some(claim_panic(self.panics, self.number, result))
    }

    /// See [`JobHandle::is_finished`].
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// See [`JobHandle::cancel`].
    pub fn cancel(&self) -> bool {
        self.handle.cancel()
    }

    /// See [`JobHandle::canceller`].
    pub fn canceller(&self) -> Canceller {
        self.handle.canceller()
    }

    /// See [`JobHandle::id`].
    pub fn id(&self) -> JobId {
        self.handle.id()
    }
}

/// Puts what the job's panic carried in the place of the sign that there was one.
fn claim_panic<T>(
    panics: &Mutex<Vec<(u64, Payload)>>,
    number: u64,
    result: Result<T, JobError>,
) -> Result<T, JobError> {
    if !result.as_ref().is_err_and(JobError::is_panic) {
        return result;
    }
    let mut panics = panics.lock();
    let at = panics.iter().position(|(of, _)| *of == number).expect("noted before the job ended");
    Err(JobError::Panicked(Panic::new(panics.remove(at).1)))
}

impl<T> Future for ScopedHandle<'_, T> {
    type Output = Result<T, JobError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let result = std::task::ready!(Pin::new(&mut self.handle).poll(context));
        Poll::Ready(claim_panic(self.panics, self.number, result))
    }
}

impl<T> fmt::Debug for ScopedHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ScopedHandle").field(&self.handle).finish()
    }
}

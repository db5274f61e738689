//! The handle's half of the protocol: who waits for the result, and who takes it.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::task::{Poll, Waker};

use super::raw::{JobRef, Origin};
use super::state::{HandleGone, Outcome};
use crate::contain::{drop_contained, drop_payload};
use crate::error::{JobError, Panic};

/// The one owner of a job's result-to-be. Going out of scope detaches the job.
pub(crate) struct Receiver<T> {
    job: JobRef,
    taken: bool,
    result: PhantomData<fn() -> T>,
}

// SAFETY: a receiver moves a `T` to the thread that takes it, so `T: Send`; the job itself may be
// reached from anywhere.
unsafe impl<T: Send> Send for Receiver<T> {}
// SAFETY: through a shared reference only the state word can be reached, never a `T`.
unsafe impl<T: Send> Sync for Receiver<T> {}

impl<T> Receiver<T> {
    /// Makes a queued job and its receiver.
    ///
    /// # Safety
    /// What the body and its result borrow lives until the job has ended, and what the result
    /// borrows until the receiver is gone.
    #[inline]
    pub(crate) unsafe fn new_job<F>(body: F, origin: Origin) -> (JobRef, Self)
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        // SAFETY: the caller's promise.
        let (queued, job) = unsafe { JobRef::with_handle(body, origin) };
        (queued, Self { job, taken: false, result: PhantomData })
    }

    pub(crate) fn job(&self) -> &JobRef {
        &self.job
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.job.state.outcome().is_some()
    }

    /// The result, if the job has ended.
    ///
    /// # Panics
    /// If the result was taken before.
    #[inline]
    pub(crate) fn try_take(&mut self) -> Option<Result<T, JobError>> {
        assert!(!self.taken, "the result of this job was already taken");
        let outcome = self.job.state.outcome()?;
        self.taken = true;
        Some(match outcome {
            Outcome::Completed => {
                let mut result = MaybeUninit::<T>::uninit();
                // SAFETY: this is the handle, the outcome says so, and `taken` was false; the
                // address is that of a `T`, which is what this job's body returned by `new_job`.
                unsafe { self.job.take_result(result.as_mut_ptr().cast()) };
                // SAFETY: just written.
                Ok(unsafe { result.assume_init() })
            }
            Outcome::Panicked => {
                // SAFETY: as above, for a panic.
                let payload = unsafe { self.job.take_panic() };
                Err(JobError::Panicked(Panic::new(payload)))
            }
            Outcome::Cancelled => Err(JobError::Cancelled),
            Outcome::Discarded => Err(JobError::Discarded),
            Outcome::Shed(reason) => Err(JobError::Shed(reason)),
        })
    }

    /// The result, or `waker` is woken when there is one. Only the last waker is.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Result<T, JobError>> {
        if let Some(result) = self.try_take() {
            return Poll::Ready(result);
        }
        // User code: before anything is changed, so that its panic changes nothing.
        let fresh = waker.clone();
        // The cell is ours while `WAITER` is clear. A waker left earlier is taken back first; if
        // the job ends meanwhile the cell stays the publisher's and the result is there.
        let state = &self.job.state;
        let ours = !state.has_waiter() || state.unset_waiter().is_ok();
        if ours {
            // SAFETY: `WAITER` is clear and only this receiver sets it, so the cell is ours.
            let old = self.job.waiter.with_mut(|cell| unsafe { (*cell).replace(fresh) });
            drop_contained(old);
            if state.set_waiter().is_ok() {
                return Poll::Pending;
            }
            self.empty_waiter();
        }
        Poll::Ready(self.try_take().expect("no waiter can be left only once the job is done"))
    }

    /// Drops what is in the waiter cell, which is this receiver's.
    fn empty_waiter(&self) {
        // SAFETY: the callers have just learned that `WAITER` is clear, and only they set it.
        let waiter = self.job.waiter.with_mut(|cell| unsafe { (*cell).take() });
        drop_contained(waiter);
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        match self.job.state.drop_handle() {
            HandleGone::BeforeEnd { waiter: true } => self.empty_waiter(),
            HandleGone::AfterEnd(Outcome::Completed) if !self.taken => {
                // SAFETY: this is the handle, the outcome says so, and it was not taken. A panic
                // in its destructor is contained: dropping a handle never panics.
                unsafe { self.job.drop_result() };
            }
            HandleGone::AfterEnd(Outcome::Panicked) if !self.taken => {
                // SAFETY: as above, for a panic's payload.
                drop_payload(unsafe { self.job.take_panic() });
            }
            HandleGone::BeforeEnd { .. } | HandleGone::AfterEnd(_) => {}
        }
    }
}

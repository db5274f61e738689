//! A place for one job's reference, which any thread may take out.

use std::ptr::{NonNull, null_mut};

use super::raw::{Header, JobRef};
use crate::sync::{AtomicPtr, Ordering, prefetch_to_write};

/// One reference to a job, or none. One thread puts them in, all may take them out.
pub(crate) struct JobCell(AtomicPtr<Header>);

impl JobCell {
    pub(crate) fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// Puts a job into an empty cell. One thread alone does so.
    ///
    /// Release pairs with the Acquire of [`take`](Self::take): who takes the job out sees its block as
    /// this thread has seen it. Without it a thief could read a header that was never written.
    #[inline]
    pub(crate) fn put(&self, job: JobRef) {
        debug_assert!(self.is_empty(), "a job would be lost");
        self.0.store(job.into_raw().as_ptr(), Ordering::Release);
    }

    /// Takes out what is in there.
    #[inline]
    pub(crate) fn take(&self) -> Option<JobRef> {
        // A look first: an empty cell's cache line stays where it is.
        if self.is_empty() {
            return None;
        }
        let job = NonNull::new(self.0.swap(null_mut(), Ordering::Acquire))?;
        // SAFETY: it was put in by `put`, and whoever swaps it out is the one thread that has it.
        Some(unsafe { JobRef::from_raw(job) })
    }

    /// Asks for the header of what is in there: it is going to be started soon, and another core has
    /// written it.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch_to_write(self.0.load(Ordering::Relaxed));
    }

    /// Whether there is nothing in there. A hint, but for the fences of the sleep protocol.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_null()
    }
}

impl Drop for JobCell {
    fn drop(&mut self) {
        drop(self.take());
    }
}

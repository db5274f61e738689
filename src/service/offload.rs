//! Handlers that only compute, on the pool's threads.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tower_service::Service;

use super::RequestClass;
use super::error::ServiceError;
use super::parts::{Classify, Fail, Respond, Unclassified};
use crate::error::Rejected;
use crate::handle::{CancelOnDrop, JobHandle};
use crate::pool::Pool;
use crate::submit::JobSpec;
use crate::sync::stat::Arc;

/// Runs `f` on a pool for a request whose client may hang up: submitted now, and cancelled if the
/// future is dropped.
///
/// A job that is still queued then never runs, and its slot is back at once; one that runs is asked
/// to stop, which it learns from [`is_cancelled`](crate::is_cancelled). A job that waits for its slot
/// or has one already (a [`Permit`](crate::Permit)) makes an [`Offloaded`] by [`From`].
///
/// ```
/// # pollster::block_on(async {
/// use weirpool::service::offload;
///
/// let pool = weirpool::Pool::new(1, 8)?;
/// let sum = offload(pool.job(), || (1..=100).sum::<u32>()).await?;
/// assert_eq!(sum, 5050);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub fn offload<F, T>(job: JobSpec<'_>, f: F) -> Offloaded<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    job.try_submit(f).into()
}

/// The result of an offloaded job, or why there is none. Dropping it cancels the job.
///
/// ```
/// # pollster::block_on(async {
/// use weirpool::service::Offloaded;
///
/// let pool = weirpool::Pool::new(1, 8)?;
/// let permit = pool.try_reserve()?;
/// let body = "read only now, since there is a slot";
/// let length = Offloaded::from(permit.submit(|| body.len())).await?;
/// assert_eq!(length, 36);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// # Panics
/// If it is polled after it has ended.
#[must_use = "dropping it cancels the job"]
pub struct Offloaded<T>(Submitted<T>);

enum Submitted<T> {
    Accepted(CancelOnDrop<T>),
    /// None once it was told.
    Refused(Option<ServiceError>),
}

impl<F, T> From<Result<JobHandle<T>, Rejected<F>>> for Offloaded<T> {
    fn from(submitted: Result<JobHandle<T>, Rejected<F>>) -> Self {
        Self(match submitted {
            Ok(handle) => Submitted::Accepted(handle.cancel_on_drop()),
            Err(rejected) => Submitted::Refused(Some(rejected.refusal().into())),
        })
    }
}

impl<T> Future for Offloaded<T> {
    type Output = Result<T, ServiceError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Submitted::Accepted(handle) => {
                Pin::new(handle).poll(context).map_err(ServiceError::Unfinished)
            }
            Submitted::Refused(error) => {
                Poll::Ready(Err(error.take().expect("polled after it has ended")))
            }
        }
    }
}

impl<T> fmt::Debug for Offloaded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Submitted::Accepted(handle) => f.debug_tuple("Accepted").field(handle).finish(),
            Submitted::Refused(error) => f.debug_tuple("Refused").field(error).finish(),
        }
    }
}

/// A service whose handler only computes: each request is a job of the pool, cancelled if its
/// response future is dropped, as [`offload`] does it.
///
/// The handler gets a request that is there in full; read its body before. It is shared by all
/// clones, and runs on as many workers as there are.
///
/// It is always ready, and takes the job's slot in `call`. A refusal, and a job without a result, is a
/// [`ServiceError`]; with [`respond`](Self::respond) it is a response, and there are no errors.
///
/// ```
/// use tower_service::Service;
/// use weirpool::service::Offload;
///
/// let pool = weirpool::Pool::new(2, 16)?;
/// let mut square = Offload::new(pool, |n: u64| n * n);
/// assert_eq!(pollster::block_on(square.call(12))?, 144);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Why there is no layer that runs other services on the pool: their futures wait, and a worker that
/// waits serves nobody.
pub struct Offload<F, C = Unclassified, A = Fail> {
    pool: Pool,
    handler: Arc<F>,
    classify: C,
    answer: A,
}

impl<F> Offload<F> {
    /// A service that answers with what `handler` returns.
    pub fn new(pool: Pool, handler: F) -> Self {
        Self { pool, handler: Arc::new(handler), classify: Unclassified, answer: Fail }
    }
}

impl<F, C, A> Offload<F, C, A> {
    /// Jobs are submitted as `classify` says of their requests.
    #[must_use]
    pub fn classify<Request, K>(self, classify: K) -> Offload<F, K, A>
    where
        K: Fn(&Request) -> RequestClass,
    {
        let Self { pool, handler, answer, .. } = self;
        Offload { pool, handler, classify, answer }
    }

    /// What wasn't served is answered by this response instead of an error.
    #[must_use]
    pub fn respond<Response, R>(self, respond: R) -> Offload<F, C, Respond<R>>
    where
        R: Fn(ServiceError) -> Response,
    {
        let Self { pool, handler, classify, .. } = self;
        Offload { pool, handler, classify, answer: Respond(respond) }
    }
}

impl<Request, Response, F, C, A> Service<Request> for Offload<F, C, A>
where
    Request: Send + 'static,
    Response: Send + 'static,
    F: Fn(Request) -> Response + Send + Sync + 'static,
    C: Classify<Request>,
    A: Conclude<Response> + Clone,
{
    type Response = Response;
    type Error = A::Error;
    type Future = OffloadFuture<Response, A>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), A::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let job = self.classify.classify(&request).job(&self.pool);
        let handler = Arc::clone(&self.handler);
        OffloadFuture {
            offloaded: offload(job, move || handler(request)),
            answer: self.answer.clone(),
        }
    }
}

impl<F, C: Clone, A: Clone> Clone for Offload<F, C, A> {
    fn clone(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            handler: Arc::clone(&self.handler),
            classify: self.classify.clone(),
            answer: self.answer.clone(),
        }
    }
}

impl<F, C, A> fmt::Debug for Offload<F, C, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offload").field("pool", &self.pool).finish_non_exhaustive()
    }
}

/// The response of an [`Offload`] service. Dropping it cancels the job.
#[must_use = "dropping it cancels the job"]
pub struct OffloadFuture<T, A> {
    offloaded: Offloaded<T>,
    answer: A,
}

// Nothing in it is pinned: what answers is called, not polled.
impl<T, A> Unpin for OffloadFuture<T, A> {}

impl<T, A: Conclude<T>> Future for OffloadFuture<T, A> {
    type Output = Result<T, A::Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let result = Pin::new(&mut self.offloaded).poll(context);
        result.map(|result| result.or_else(|error| self.answer.conclude(error)))
    }
}

impl<T, A> fmt::Debug for OffloadFuture<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OffloadFuture").field(&self.offloaded).finish()
    }
}

/// What becomes of a request that was not served.
pub trait Conclude<Response> {
    /// The service's type of error.
    type Error;

    /// The answer, or the error passed on.
    fn conclude(&self, error: ServiceError) -> Result<Response, Self::Error>;
}

impl<Response> Conclude<Response> for Fail {
    type Error = ServiceError;

    fn conclude(&self, error: ServiceError) -> Result<Response, ServiceError> {
        Err(error)
    }
}

impl<Response, F: Fn(ServiceError) -> Response> Conclude<Response> for Respond<F> {
    type Error = Infallible;

    fn conclude(&self, error: ServiceError) -> Result<Response, Infallible> {
        Ok((self.0)(error))
    }
}

//! The layer that lets requests in.

use std::fmt;
use std::marker::PhantomData;
use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use super::RequestClass;
#[cfg(feature = "http")]
use super::body::UntilBodyEnd;
use super::future::AdmissionFuture;
use super::held::{Gatekeeper, RequestCounts, RequestSlot};
use super::parts::{
    Classify, Fail, HandOver, Hold, Keep, Lend, Refuse, Respond, Unclassified, UntilResponse,
};
use crate::error::Refusal;
use crate::pool::Pool;
use crate::sync::stat::Arc;

/// Lets a request in if the pool has a slot for it, before its body is read; refuses it at once if
/// not.
///
/// ```
/// use tower_layer::Layer;
/// use tower_service::Service;
/// use weirpool::service::{AdmissionLayer, Offload, ServiceError};
/// use weirpool::{Pool, Reason};
///
/// # pollster::block_on(async {
/// let slots = Pool::new(1, 1)?;
/// let cpu = Pool::new(2, 16)?;
/// let layer = AdmissionLayer::new(slots.clone());
/// // Any service will do; this one computes.
/// let mut service = layer.layer(Offload::new(cpu, |n: u64| n * 2));
///
/// let first = service.call(21); // It has the only slot, from here on.
/// let error = service.call(0).await.unwrap_err();
/// let refusal = ServiceError::find(&*error).and_then(ServiceError::refusal).unwrap();
/// assert_eq!(refusal.reason(), Reason::Full);
/// assert_eq!(first.await?, 42);
/// assert_eq!(slots.in_flight(), 0);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// # }).unwrap();
/// ```
///
/// # When the slot is taken
///
/// In `call`, for each request, by [`Pool::try_reserve`]. Never in `poll_ready`, which only asks the
/// inner service: readiness is no promise to call, and a slot that waits for a call that never comes
/// is a slot lost. So a service that is full is *ready*, and its answer is the refusal; it makes
/// nobody wait. A call that is refused leaves the inner service as ready as it was.
///
/// # When it returns
///
/// | | the slot returns | for |
/// |---|---|---|
/// | default ([`UntilResponse`]) | when the inner future has ended and is gone | answers whose body is there at once |
/// | [`until_body_end`](Self::until_body_end) | when the response's body has ended, too | bodies that are computed or streamed after the headers |
///
/// And whenever the future or the body is dropped: before the first poll, half-way, by a panic; once
/// in each case. A future that has ended and is kept holds nothing.
///
/// # Whose limit it is
///
/// The pool's. All clones of a layer share it, all services that it is applied to and all
/// connections for which those are made anew; so do all layers on clones of one `Pool`. For a limit
/// per service or route give each a pool of its own, or a [`Partition`](crate::Partition) of one
/// pool, named by the [classifier](Self::classify).
///
/// Such a request holds a slot without being a job: workers don't run it, and nothing is learned of its
/// service time. A pool that does nothing else can do with one worker and
/// [`batch`](crate::Builder::batch), or with an adaptive [`Limit`](crate::Limit) only if jobs are run
/// on it. To run the request's work on the same pool with the same slot, see
/// [`hand_over`](Self::hand_over); a second slot for it could be refused while the first is held.
///
/// The layer keeps the pool open. [`Pool::close`] refuses further requests; those inside go on, and
/// neither [`Pool::shutdown`] nor [`Pool::wait_idle`] waits for them, which is the server's own task.
///
/// # Errors
///
/// A refusal is a [`ServiceError::Refused`](super::ServiceError::Refused) in a
/// [`BoxError`](super::BoxError); errors of the inner service are passed on. With
/// [`respond`](Self::respond) a refusal is a response, and the errors are the inner service's own type.
///
/// # Panics
///
/// A panic in a closure given here, or in the inner service, is the caller's; the slot is back.
#[derive(Clone)]
#[must_use = "a layer does nothing until it is applied"]
pub struct AdmissionLayer<C = Unclassified, A = Fail, H = UntilResponse, G = Keep> {
    gatekeeper: Arc<Gatekeeper>,
    classify: C,
    answer: A,
    hand_over: G,
    hold: PhantomData<fn() -> H>,
}

impl AdmissionLayer {
    /// A layer whose requests hold slots of `pool`.
    pub fn new(pool: Pool) -> Self {
        Self {
            gatekeeper: Arc::new(Gatekeeper::new(pool)),
            classify: Unclassified,
            answer: Fail,
            hand_over: Keep,
            hold: PhantomData,
        }
    }
}

impl<C, A, H, G> AdmissionLayer<C, A, H, G> {
    /// Requests are treated as `classify` says: called for each, before the door. Cloned with the
    /// layer.
    pub fn classify<Request, F>(self, classify: F) -> AdmissionLayer<F, A, H, G>
    where
        F: Fn(&Request) -> RequestClass,
    {
        let Self { gatekeeper, answer, hand_over, hold, .. } = self;
        AdmissionLayer { gatekeeper, classify, answer, hand_over, hold }
    }

    /// A refusal is answered by this response instead of an error. Cloned with the layer.
    ///
    /// With the feature `http`, [`http::answer`](super::http::answer) is one for every response
    /// whose body has a default.
    pub fn respond<Request, Response, F>(self, respond: F) -> AdmissionLayer<C, Respond<F>, H, G>
    where
        F: Fn(&Request, Refusal) -> Response,
    {
        let Self { gatekeeper, classify, hand_over, hold, .. } = self;
        AdmissionLayer { gatekeeper, classify, answer: Respond(respond), hand_over, hold }
    }

    /// Hands the slot to the request, to be taken by its handler: `hand_over` is called once the slot
    /// is there and puts it where the handler finds it, such as the request's extensions. Cloned with
    /// the layer. See [`RequestSlot`] for an example.
    pub fn hand_over<Request, F>(self, hand_over: F) -> AdmissionLayer<C, A, H, Lend<F>>
    where
        F: Fn(&mut Request, RequestSlot),
    {
        let Self { gatekeeper, classify, answer, hold, .. } = self;
        AdmissionLayer { gatekeeper, classify, answer, hand_over: Lend(hand_over), hold }
    }

    /// Holds each slot until the response's body has ended. Responses are then
    /// `http::Response<`[`HeldBody`](super::HeldBody)`>`. With the features `tower` and `http`.
    #[cfg(feature = "http")]
    pub fn until_body_end(self) -> AdmissionLayer<C, A, UntilBodyEnd, G> {
        let Self { gatekeeper, classify, answer, hand_over, .. } = self;
        AdmissionLayer { gatekeeper, classify, answer, hand_over, hold: PhantomData }
    }

    /// What has become of the requests, over all clones.
    pub fn counts(&self) -> RequestCounts {
        self.gatekeeper.counts()
    }

    /// The pool whose slots are held.
    pub fn pool(&self) -> &Pool {
        &self.gatekeeper.pool
    }
}

impl<S, C: Clone, A: Clone, H, G: Clone> Layer<S> for AdmissionLayer<C, A, H, G> {
    type Service = Admission<S, C, A, H, G>;

    fn layer(&self, inner: S) -> Self::Service {
        let Self { gatekeeper, classify, answer, hand_over, hold } = self;
        let layer = AdmissionLayer {
            gatekeeper: Arc::clone(gatekeeper),
            classify: classify.clone(),
            answer: answer.clone(),
            hand_over: hand_over.clone(),
            hold: *hold,
        };
        Admission { inner, layer }
    }
}

impl<C, A, H, G> fmt::Debug for AdmissionLayer<C, A, H, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionLayer")
            .field("pool", self.pool())
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

/// A service that lets requests in, made by an [`AdmissionLayer`].
#[derive(Clone)]
pub struct Admission<S, C = Unclassified, A = Fail, H = UntilResponse, G = Keep> {
    inner: S,
    layer: AdmissionLayer<C, A, H, G>,
}

impl<S, C, A, H, G> Admission<S, C, A, H, G> {
    /// The service behind the door.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// The layer that it was made by, for its counts and its pool.
    pub fn layer(&self) -> &AdmissionLayer<C, A, H, G> {
        &self.layer
    }
}

impl<Request, S, C, A, H, G> Service<Request> for Admission<S, C, A, H, G>
where
    S: Service<Request>,
    C: Classify<Request>,
    A: Refuse<Request, S::Response, S::Error>,
    H: Hold<S::Response>,
    G: HandOver<Request>,
{
    type Response = H::Held;
    type Error = A::Error;
    type Future = AdmissionFuture<S::Future, A, H, S::Response, A::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), A::Error>> {
        self.inner.poll_ready(context).map_err(A::pass_on)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let AdmissionLayer { gatekeeper, classify, answer, hand_over, .. } = &self.layer;
        match gatekeeper.admit(classify.classify(&request)) {
            Ok(mut held) => {
                hand_over.hand_over(&mut request, &mut held);
                AdmissionFuture::called(self.inner.call(request), held)
            }
            Err(refusal) => AdmissionFuture::refused(answer.refuse(&request, refusal)),
        }
    }
}

impl<S: fmt::Debug, C, A, H, G> fmt::Debug for Admission<S, C, A, H, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").field("inner", &self.inner).field("layer", &self.layer).finish()
    }
}

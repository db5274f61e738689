//! What an admission layer is put together from: who classifies, who answers for a refusal, until
//! when a slot is held, who gets to see it.

use std::fmt;

use super::RequestClass;
use super::error::{BoxError, ServiceError};
use super::held::{End, Held, RequestSlot};
use crate::error::Refusal;

/// Says how a request is to be treated: every `Fn(&Request) -> RequestClass`, or [`Unclassified`].
pub trait Classify<Request> {
    /// How `request` is to be treated.
    fn classify(&self, request: &Request) -> RequestClass;
}

impl<Request, F: Fn(&Request) -> RequestClass> Classify<Request> for F {
    fn classify(&self, request: &Request) -> RequestClass {
        self(request)
    }
}

/// All requests are treated alike.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unclassified;

impl<Request> Classify<Request> for Unclassified {
    fn classify(&self, _request: &Request) -> RequestClass {
        RequestClass::new()
    }
}

/// What becomes of the inner service's own errors. Sealed.
pub trait PassOn<Inner>: sealed::Sealed {
    /// The service's type of error.
    type Error;

    /// The inner service's error, as the service's.
    fn pass_on(error: Inner) -> Self::Error;
}

/// What becomes of a refusal. Sealed: [`Fail`] or [`Respond`].
pub trait Refuse<Request, Response, Inner>: PassOn<Inner> {
    /// The answer to a request that got no slot.
    ///
    /// # Errors
    /// The refusal, where it is not made a response.
    fn refuse(&self, request: &Request, refusal: Refusal) -> Result<Response, Self::Error>;
}

/// A refusal is an error: [`ServiceError::Refused`], boxed as tower's middleware does it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fail;

impl<Inner: Into<BoxError>> PassOn<Inner> for Fail {
    type Error = BoxError;

    fn pass_on(error: Inner) -> BoxError {
        error.into()
    }
}

impl<Request, Response, Inner: Into<BoxError>> Refuse<Request, Response, Inner> for Fail {
    fn refuse(&self, _request: &Request, refusal: Refusal) -> Result<Response, BoxError> {
        Err(ServiceError::Refused(refusal).into())
    }
}

/// A refusal is a response, and the only errors are those of the inner service.
#[derive(Clone, Copy)]
pub struct Respond<F>(pub(super) F);

impl<F, Inner> PassOn<Inner> for Respond<F> {
    type Error = Inner;

    fn pass_on(error: Inner) -> Inner {
        error
    }
}

impl<Request, Response, Inner, F> Refuse<Request, Response, Inner> for Respond<F>
where
    F: Fn(&Request, Refusal) -> Response,
{
    fn refuse(&self, request: &Request, refusal: Refusal) -> Result<Response, Inner> {
        Ok((self.0)(request, refusal))
    }
}

impl<F> fmt::Debug for Respond<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Respond").finish()
    }
}

/// Until when a slot is held. Sealed: [`UntilResponse`], or `UntilBodyEnd` with the feature `http`.
pub trait Hold<Response>: sealed::Sealed {
    /// The response, with the slot where that is still held.
    type Held;

    /// The inner future has given its response and is gone. `held` is none for a refusal's answer.
    fn hold(response: Response, held: Option<Held>) -> Self::Held;
}

/// The slot returns when the response is there: when the inner service's future has ended. The
/// default.
#[derive(Clone, Copy, Debug, Default)]
pub struct UntilResponse;

impl<Response> Hold<Response> for UntilResponse {
    type Held = Response;

    fn hold(response: Response, held: Option<Held>) -> Response {
        if let Some(held) = held {
            held.end(End::Finished);
        }
        response
    }
}

/// Whether the handler gets to see the slot. Sealed: [`Keep`] or [`Lend`].
pub trait HandOver<Request>: sealed::Sealed {
    /// Called between the door and the inner service.
    fn hand_over(&self, request: &mut Request, held: &mut Held);
}

/// The slot stays with the layer. The default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep;

impl<Request> HandOver<Request> for Keep {
    fn hand_over(&self, _request: &mut Request, _held: &mut Held) {}
}

/// The request carries its slot along, and the handler may take it.
#[derive(Clone, Copy)]
pub struct Lend<F>(pub(super) F);

impl<Request, F: Fn(&mut Request, RequestSlot)> HandOver<Request> for Lend<F> {
    fn hand_over(&self, request: &mut Request, held: &mut Held) {
        (self.0)(request, held.lend());
    }
}

impl<F> fmt::Debug for Lend<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lend").finish()
    }
}

mod sealed {
    pub trait Sealed {}

    impl Sealed for super::Fail {}
    impl<F> Sealed for super::Respond<F> {}
    impl Sealed for super::UntilResponse {}
    impl Sealed for super::Keep {}
    impl<F> Sealed for super::Lend<F> {}
    #[cfg(feature = "http")]
    impl Sealed for crate::service::UntilBodyEnd {}
}

//! What is answered, from what happened.

use std::error::Error;
use std::time::Duration;

use http::header::{CONNECTION, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version};

use crate::breaker::Open;
use crate::client::RetryAfter;
use crate::error::{JobError, Reason, Refusal, ShedReason};
use crate::service::error::{ServiceError, find};

/// The answer to a request that was not served, as HTTP and gRPC put it; see the [module](super) for
/// which is which.
///
/// From a [`Refusal`], with its hint when to try again; from a [`Reason`], [`ShedReason`],
/// [`JobError`], [`ServiceError`] or a breaker's [`Open`]; or from any [error](Self::of_error) that
/// has one of them as its cause.
///
/// ```
/// use http::Version;
/// use weirpool::service::http::Answer;
///
/// let pool = weirpool::Pool::new(1, 1)?;
/// let permit = pool.try_reserve()?;
/// let refusal = pool.try_reserve().unwrap_err();
/// let response = Answer::from(refusal).into_response(Version::HTTP_11, "busy, sorry");
/// assert_eq!(response.status(), 503);
/// assert_eq!(response.headers()["retry-after"], "1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub(super) cause: Cause,
    /// When to try again, if that is known.
    pub(super) hint: Option<Duration>,
}

/// What happened, as far as answers tell it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The server has too much to do, or what it depends on is away.
    Overloaded,
    /// The caller has used up what it may have.
    Quota,
    /// The answer would come too late.
    TooLate,
    /// The server goes away.
    Closing,
    Cancelled,
    Broken,
}

impl Answer {
    /// The answer for an error of a service: if it, or one of its causes, says that the request was
    /// not served for a reason of this crate. None for a service's own errors, which are not ours to
    /// answer.
    ///
    /// Errors are found inside boxes, shared pointers and [`std::io::Error`], and as the source of
    /// others.
    ///
    /// ```
    /// use weirpool::service::http::Answer;
    ///
    /// let pool = weirpool::Pool::new(1, 1)?;
    /// pool.close();
    /// let refused = std::io::Error::other(pool.try_spawn(|| ()).unwrap_err());
    /// assert_eq!(Answer::of_error(&refused).unwrap().status(), 503);
    /// assert_eq!(Answer::of_error(&std::fmt::Error), None);
    /// # Ok::<(), weirpool::BuildError>(())
    /// ```
    pub fn of_error(error: &(dyn Error + 'static)) -> Option<Self> {
        let whole = || find::<ServiceError>(error).map(Self::from);
        let refusal = || find::<Refusal>(error).map(|refusal| Self::from(*refusal));
        let job = || find::<JobError>(error).map(Self::from);
        let open = || find::<Open>(error).map(|open| Self::from(*open));
        whole().or_else(refusal).or_else(job).or_else(open)
    }

    /// The status of an HTTP answer.
    pub fn status(&self) -> StatusCode {
        match self.cause {
            Cause::Overloaded | Cause::Closing | Cause::Cancelled => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Cause::Quota => StatusCode::TOO_MANY_REQUESTS,
            Cause::TooLate => StatusCode::GATEWAY_TIMEOUT,
            Cause::Broken => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The value of `Retry-After`: at least one second, or none where trying again can't help here.
    pub fn retry_after(&self) -> Option<RetryAfter> {
        match self.cause {
            Cause::Overloaded | Cause::Quota => {
                Some(RetryAfter::after(self.hint.unwrap_or_default()))
            }
            Cause::TooLate | Cause::Closing | Cause::Cancelled | Cause::Broken => None,
        }
    }

    /// Whether the connection is to be closed, since the server goes away.
    pub fn closes_connection(&self) -> bool {
        self.cause == Cause::Closing
    }

    /// Adds the header fields that belong to it: `Retry-After`, and `Connection: close` before
    /// HTTP/2, which has no such field.
    pub fn write_headers(&self, version: Version, headers: &mut HeaderMap) {
        if let Some(RetryAfter::Seconds(seconds)) = self.retry_after() {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.closes_connection() && version < Version::HTTP_2 {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }

    /// The answer with this body, to a request of this version of HTTP.
    pub fn into_response<B>(self, version: Version, body: B) -> Response<B> {
        let mut response = Response::new(body);
        *response.status_mut() = self.status();
        self.write_headers(version, response.headers_mut());
        response
    }

    fn without_hint(cause: Cause) -> Self {
        Self { cause, hint: None }
    }
}

impl From<Reason> for Answer {
    fn from(reason: Reason) -> Self {
        Self::without_hint(match reason {
            Reason::Full | Reason::Limit | Reason::QueueDelay | Reason::Cpu | Reason::Bytes => {
                Cause::Overloaded
            }
            Reason::Partition => Cause::Quota,
            Reason::Deadline => Cause::TooLate,
            Reason::Closed | Reason::Forked => Cause::Closing,
        })
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Self { hint: refusal.retry_after(), ..Self::from(refusal.reason()) }
    }
}

impl From<ShedReason> for Answer {
    fn from(reason: ShedReason) -> Self {
        Self::without_hint(match reason {
            ShedReason::QueueDelay | ShedReason::Displaced => Cause::Overloaded,
            ShedReason::Deadline => Cause::TooLate,
        })
    }
}

impl From<&JobError> for Answer {
    fn from(error: &JobError) -> Self {
        match error {
            JobError::Shed(reason) => Self::from(*reason),
            JobError::Discarded => Self::without_hint(Cause::Closing),
            JobError::Cancelled => Self::without_hint(Cause::Cancelled),
            JobError::Panicked(_) | JobError::TooDeep => Self::without_hint(Cause::Broken),
        }
    }
}

impl From<&ServiceError> for Answer {
    fn from(error: &ServiceError) -> Self {
        match error {
            ServiceError::Refused(refusal) => Self::from(*refusal),
            ServiceError::Unfinished(error) => Self::from(error),
        }
    }
}

impl From<Open> for Answer {
    fn from(open: Open) -> Self {
        Self { cause: Cause::Overloaded, hint: open.retry_after() }
    }
}

/// Answers a refusal with an empty body: the responder for
/// [`AdmissionLayer::respond`](crate::service::AdmissionLayer::respond), where the body's type has a
/// default (as have axum's and those of `http-body-util`).
///
/// ```
/// use http::Request;
/// use weirpool::service::http::answer;
///
/// let pool = weirpool::Pool::new(1, 1)?;
/// pool.close();
/// let refusal = pool.try_reserve().unwrap_err();
/// let response = answer::<_, String>(&Request::new(()), refusal);
/// assert_eq!((response.status().as_u16(), response.body().as_str()), (503, ""));
/// assert_eq!(response.headers()["connection"], "close");
/// # Ok::<(), weirpool::BuildError>(())
/// ```
pub fn answer<Q, B: Default>(request: &Request<Q>, refusal: Refusal) -> Response<B> {
    Answer::from(refusal).into_response(request.version(), B::default())
}

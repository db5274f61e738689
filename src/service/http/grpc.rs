//! The same answers as gRPC puts them.

use std::fmt;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response};

use super::Answer;
use super::answer::Cause;
use crate::load::{GRPC_RETRY_PUSHBACK_MS, RetryPushback};

/// The status codes of gRPC that an [`Answer`] has.
///
/// ```
/// use weirpool::Reason;
/// use weirpool::service::http::{Answer, GrpcCode};
///
/// let code = Answer::from(Reason::Full).grpc_code();
/// assert_eq!((code, code.value(), code.to_string().as_str()), (GrpcCode::Unavailable, 14, "UNAVAILABLE"));
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GrpcCode {
    /// 1: the job was cancelled.
    Cancelled,
    /// 4: it could not begin in time.
    DeadlineExceeded,
    /// 8: the caller has used up what it may have.
    ResourceExhausted,
    /// 13: the job panicked.
    Internal,
    /// 14: the server is overloaded, or goes away.
    Unavailable,
}

impl GrpcCode {
    /// The number that travels in `grpc-status`.
    pub fn value(self) -> i32 {
        match self {
            Self::Cancelled => 1,
            Self::DeadlineExceeded => 4,
            Self::ResourceExhausted => 8,
            Self::Internal => 13,
            Self::Unavailable => 14,
        }
    }
}

impl fmt::Display for GrpcCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cancelled => "CANCELLED",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::Internal => "INTERNAL",
            Self::Unavailable => "UNAVAILABLE",
        })
    }
}

impl Answer {
    /// The status code of a gRPC answer.
    pub fn grpc_code(&self) -> GrpcCode {
        match self.cause {
            Cause::Overloaded | Cause::Closing => GrpcCode::Unavailable,
            Cause::Quota => GrpcCode::ResourceExhausted,
            Cause::TooLate => GrpcCode::DeadlineExceeded,
            Cause::Cancelled => GrpcCode::Cancelled,
            Cause::Broken => GrpcCode::Internal,
        }
    }

    /// What a gRPC client is told about retries: when, or not at all. None leaves it to the client's
    /// own backoff.
    pub fn grpc_pushback(&self) -> Option<RetryPushback> {
        match self.cause {
            Cause::Overloaded | Cause::Quota => self.hint.map(RetryPushback::After),
            Cause::TooLate => Some(RetryPushback::DoNotRetry),
            Cause::Closing | Cause::Cancelled | Cause::Broken => None,
        }
    }

    /// Adds the trailers that belong to it: `grpc-status`, `grpc-message` and, if there is one,
    /// `grpc-retry-pushback-ms`.
    pub fn write_grpc_trailers(&self, trailers: &mut HeaderMap) {
        trailers.insert("grpc-status", HeaderValue::from(self.grpc_code().value()));
        trailers.insert("grpc-message", HeaderValue::from_static(self.message()));
        if let Some(pushback) = self.grpc_pushback() {
            let ms = match pushback {
                RetryPushback::DoNotRetry => HeaderValue::from_static("-1"),
                // The text is a number.
                RetryPushback::After(_) => HeaderValue::from_str(&pushback.to_string())
                    .unwrap_or(HeaderValue::from_static("-1")),
            };
            trailers.insert(GRPC_RETRY_PUSHBACK_MS, ms);
        }
    }

    /// The whole gRPC answer in headers alone ("trailers-only"), which is an HTTP answer 200.
    ///
    /// ```
    /// use weirpool::Reason;
    /// use weirpool::service::http::Answer;
    ///
    /// let response = Answer::from(Reason::Partition).into_grpc_response(());
    /// assert_eq!(response.status(), 200);
    /// assert_eq!(response.headers()["grpc-status"], "8");
    /// ```
    pub fn into_grpc_response<B>(self, empty_body: B) -> Response<B> {
        let mut response = Response::new(empty_body);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        self.write_grpc_trailers(headers);
        response
    }

    /// Without characters that would have to be encoded.
    fn message(&self) -> &'static str {
        match self.cause {
            Cause::Overloaded => "overloaded",
            Cause::Quota => "quota used up",
            Cause::TooLate => "could not begin in time",
            Cause::Closing => "shutting down",
            Cause::Cancelled => "cancelled",
            Cause::Broken => "internal error",
        }
    }
}

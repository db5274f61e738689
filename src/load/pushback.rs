//! gRPC's wait hint.

use std::fmt;
use std::time::Duration;

use crate::client::Hint;

/// Name of the metadata that a [`RetryPushback`] travels in, with a failed call's trailers.
pub const GRPC_RETRY_PUSHBACK_MS: &str = "grpc-retry-pushback-ms";

/// What a gRPC server says about retries (gRFC A6, "Pushback").
///
/// The value is a whole number of milliseconds in 32 bits, with a sign. What is negative, or can't be
/// read at all, asks for no retry. So reading can't fail.
///
/// ```
/// use std::time::Duration;
/// use weirpool::load::RetryPushback;
///
/// assert_eq!(RetryPushback::parse("250"), RetryPushback::After(Duration::from_millis(250)));
/// assert_eq!(RetryPushback::parse("-1"), RetryPushback::DoNotRetry);
/// assert_eq!(RetryPushback::parse("soon"), RetryPushback::DoNotRetry);
/// assert_eq!(RetryPushback::After(Duration::from_micros(1)).to_string(), "1");
/// assert_eq!(RetryPushback::DoNotRetry.to_string(), "-1");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RetryPushback {
    /// Retry after so long. Written in whole milliseconds, rounded up, at most 2³¹ − 1 (24 days).
    After(Duration),
    /// Don't retry.
    DoNotRetry,
}

impl RetryPushback {
    /// Reads the value of `grpc-retry-pushback-ms`.
    pub fn parse(value: &str) -> Self {
        match value.parse::<i32>().map(u64::try_from) {
            Ok(Ok(ms)) => Self::After(Duration::from_millis(ms)),
            _ => Self::DoNotRetry,
        }
    }
}

impl fmt::Display for RetryPushback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(wait) => {
                let ms = wait.as_nanos().div_ceil(1_000_000);
                i32::try_from(ms).unwrap_or(i32::MAX).fmt(f)
            }
            Self::DoNotRetry => f.pad("-1"),
        }
    }
}

impl From<RetryPushback> for Hint {
    /// As [`Pacer::refused`](crate::client::Pacer::refused) takes it.
    fn from(pushback: RetryPushback) -> Self {
        match pushback {
            RetryPushback::After(wait) => Self::After(wait),
            RetryPushback::DoNotRetry => Self::DoNotRetry,
        }
    }
}

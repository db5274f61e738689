//! How long a client waits, from its header fields.

use std::time::Duration;

use http::HeaderMap;
use http::header::AsHeaderName;

/// The unit of a timeout in a header field, for [`timeout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeUnit {
    /// As in `x-envoy-expected-rq-timeout-ms`.
    Milliseconds,
    /// As in `Prefer: wait`, and many fields of one's own.
    Seconds,
}

/// The timeout in the header field `grpc-timeout`: at most eight digits and a unit, `H`, `M`, `S`,
/// `m` (milliseconds), `u` or `n`.
///
/// None if there is no such field, or if its value makes no sense: what can't be read is no reason to
/// refuse. It is for the [classifier](crate::service::AdmissionLayer::classify), and counts from there:
///
/// ```
/// use std::time::Duration;
/// use http::Request;
/// use weirpool::service::http::grpc_timeout;
///
/// let request = Request::builder().header("grpc-timeout", "250m").body(())?;
/// assert_eq!(grpc_timeout(request.headers()), Some(Duration::from_millis(250)));
/// # Ok::<(), http::Error>(())
/// ```
pub fn grpc_timeout(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    if !(1..=8).contains(&digits.len()) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    // Eight digits of hours are less than 2^64 seconds.
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

/// The timeout in a header field of your choice: digits in that unit, with or without decimals.
///
/// None if there is no such field, or if its value makes no sense.
///
/// ```
/// use std::time::Duration;
/// use http::Request;
/// use weirpool::service::http::{TimeUnit, timeout};
///
/// let request = Request::builder().header("x-request-timeout", "0.25").body(())?;
/// let limit = timeout(request.headers(), "x-request-timeout", TimeUnit::Seconds);
/// assert_eq!(limit, Some(Duration::from_millis(250)));
/// # Ok::<(), http::Error>(())
/// ```
pub fn timeout(headers: &HeaderMap, name: impl AsHeaderName, unit: TimeUnit) -> Option<Duration> {
    let value = headers.get(name)?.to_str().ok()?.trim_matches([' ', '\t']);
    // Neither a sign nor an exponent, NaN or infinity.
    if !value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let number: f64 = value.parse().ok()?;
    let seconds = match unit {
        TimeUnit::Milliseconds => number / 1000.0,
        TimeUnit::Seconds => number,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

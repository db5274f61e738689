//! Reading a request's body within bounds of size and time, and throwing one away.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::http::StatusCode;
use tokio::time::timeout;

pub(crate) const MAX_BYTES: usize = 4 << 20;

/// A refused body up to this size is read and thrown away, which keeps the connection alive. A larger
/// one isn't read: the connection is closed behind the answer.
const SMALL_BYTES: u64 = 64 << 10;
const DISCARD_TIME: Duration = Duration::from_millis(50);

/// What the body may need at most, as its sender declares, or the bound for all.
pub(crate) fn most_bytes(body: &Body) -> Result<u64, StatusCode> {
    let most = body.size_hint().upper().unwrap_or(MAX_BYTES as u64);
    if most > MAX_BYTES as u64 { Err(StatusCode::PAYLOAD_TOO_LARGE) } else { Ok(most) }
}

/// A slot is held meanwhile, so a slow sender must not have it for long.
pub(crate) async fn read(body: Body, time: Duration) -> Result<Bytes, StatusCode> {
    let read = timeout(time, to_bytes(body, MAX_BYTES)).await;
    let whole = read.map_err(|_late| StatusCode::REQUEST_TIMEOUT)?;
    // Too large without having said so, or broken off, in which case nobody reads the answer.
    whole.map_err(|_error| StatusCode::PAYLOAD_TOO_LARGE)
}

pub(crate) async fn discard(body: Body) {
    let is_small = body.size_hint().upper().is_some_and(|most| most <= SMALL_BYTES);
    if is_small && !body.is_end_stream() {
        let _ = timeout(DISCARD_TIME, to_bytes(body, MAX_BYTES)).await;
    }
}

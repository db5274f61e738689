//! How the outcome of a job becomes an HTTP answer.

use axum::extract::{Request, State};
use axum::http::header::{HeaderName, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use weirpool::load::{ENDPOINT_LOAD_METRICS, LoadReport};
use weirpool::{JobError, Reason, ShedReason};

use crate::App;
use crate::engine::Failure;

/// The whole seconds of `Retry-After`; 0 would ask for a retry at once.
const MIN_RETRY_S: u64 = 1;

/// Tells the two kinds of 503 apart: refused before anything was done, or dropped after a wait.
const REASON: HeaderName = HeaderName::from_static("x-weirpool-reason");

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        match self {
            Self::Refused(refusal) if refusal.reason() == Reason::Closed => {
                busy("refused", "the server is ending", MIN_RETRY_S)
            }
            Self::Refused(refusal) => {
                let wait = refusal.retry_after().unwrap_or_default();
                let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
                busy("refused", &refusal.reason().to_string(), seconds.max(MIN_RETRY_S))
            }
            Self::Job(JobError::Shed(ShedReason::Deadline)) => {
                (StatusCode::GATEWAY_TIMEOUT, "it could not be begun in time\n").into_response()
            }
            Self::Job(error) if error.is_panic() => internal(),
            // Shed for its wait, displaced, or discarded at the end of the server.
            Self::Job(error) => busy("shed", &error.to_string(), MIN_RETRY_S),
            Self::Panicked => internal(),
        }
    }
}

/// 503, not 429: it is the server that is busy, not this caller that asks too much.
fn busy(what: &str, why: &str, retry_after_s: u64) -> Response {
    let why = format!("{what}: {why}");
    let mut response = (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response();
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(retry_after_s));
    if let Ok(why) = HeaderValue::try_from(why) {
        response.headers_mut().insert(REASON, why);
    }
    response
}

fn internal() -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, "the work failed\n").into_response()
}

/// Tells balancers and pacing clients, with each answer, how loaded this server is.
pub(crate) async fn report_load(State(app): State<App>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let Some(pool) = app.engine.pool() else { return response };
    let latest = app.watch.latest();
    let report = LoadReport {
        // What Envoy's and gRPC's weighted round robin divide by the utilization.
        rps_fractional: latest.as_ref().map(|sample| sample.served.iter().sum()),
        ..LoadReport::from(pool.load())
    };
    if let Some(value) = report.to_text().and_then(|text| HeaderValue::try_from(text).ok()) {
        response.headers_mut().insert(HeaderName::from_static(ENDPOINT_LOAD_METRICS), value);
    }
    response
}

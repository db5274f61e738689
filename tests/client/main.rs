//! The client's limiters, one by one. Time is a `ManualClock`, or an instant that the test counts on.

use std::time::Duration;

use weirpool::client::{AdaptiveThrottle, Backoff, Pacer, RetryAfter, RetryBudget, TokenBucket};

mod adaptive_throttle;
mod backoff;
mod pacer;
mod retry_after;
mod retry_budget;
mod token_bucket;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// Numbers that a careless caller may hand in, two plain ones among them.
const ODD: [f64; 9] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    -1.0,
    0.0,
    1.0,
];

#[test]
fn what_is_shared_can_be_shared() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<TokenBucket>();
    shared::<AdaptiveThrottle>();
    shared::<RetryBudget>();
    shared::<Backoff>();
    shared::<RetryAfter>();
    shared::<Pacer>();
}

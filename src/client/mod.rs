//! The client's side: sending a server no more than it can do.
//!
//! A server that refuses early is half of overload control; clients that don't hammer it are the other
//! half. [`Pacer`] is all of it together; the parts can be used alone.
//!
//! | for | see |
//! |---|---|
//! | so many requests a second | [`TokenBucket`] |
//! | not sending what would be refused | [`AdaptiveThrottle`] |
//! | a bound on retries | [`RetryBudget`] |
//! | a wait before a retry | [`Backoff`] |
//! | what a server asks for | [`RetryAfter`], and the formats of [`load`](crate::load) |
//! | all of it, following the server | [`Pacer`] |
//!
//! Nothing here reads a clock, sleeps or does input and output: time is an argument ([`Instant`], or
//! [`SystemTime`] where a header carries a date), and a random number is an argument or comes from a
//! generator that you seed. So it fits threads and any async runtime, and every test of yours can
//! replay an overload in virtual time. Where limiters are shared between threads they are `Sync`, with
//! a short lock inside.
//!
//! No number makes anything here panic, overflow or get stuck: not NaN, infinity or zero, and not a
//! clock that is set back.
//!
//! For most of these there are crates: `governor` (rate limiting), `backoff`, `backon` and
//! `retry-policies` (backoff), `httpdate` (HTTP dates), `tower` (a retry budget). They are good;
//! weirpool doesn't use them because its core dependencies are fixed, and because `Pacer` needs parts
//! that can be driven by a clock of the caller's and changed at each answer.
//!
//! [`Instant`]: std::time::Instant
//! [`SystemTime`]: std::time::SystemTime

mod adaptive_throttle;
mod backoff;
mod http_date;
mod level;
mod pacer;
mod retry_after;
mod retry_budget;
mod time;
mod token_bucket;
mod window;

pub use adaptive_throttle::AdaptiveThrottle;
pub use backoff::{Backoff, Delays};
pub use pacer::{Decision, GiveUp, Hint, NoRetry, Pacer, Retry, Turn};
pub use retry_after::{RetryAfter, RetryAfterError};
pub use retry_budget::RetryBudget;
pub use token_bucket::{BucketError, Reservation, TokenBucket};

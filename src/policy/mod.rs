//! Pure arithmetic: no thread, no lock, no clock. Time comes in as an argument, in nanoseconds
//! since the pool was built, and so do random numbers.
//!
//! Nothing in here names the rest of the crate. The overload stories in `tests/overload` rely on
//! that: they compile this folder by itself and play whole floods on it in virtual time.

pub(crate) mod ageing;
pub(crate) mod contention;
pub(crate) mod delay;
pub(crate) mod ema;
pub(crate) mod graded;
mod interval;
pub(crate) mod limit;
pub(crate) mod meter;
pub(crate) mod ramp;
mod rfc8289;
pub(crate) mod service;

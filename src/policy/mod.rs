//! Pure arithmetic: no thread, no lock, no clock. Time comes in as an argument, in nanoseconds
//! since the pool was built, and so would random numbers.

pub(crate) mod ageing;
pub(crate) mod service;

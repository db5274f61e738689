//! The work itself: what the service would do with or without a pool that protects it.

mod password;
mod thumbnail;

pub(crate) use password::Passwords;
pub(crate) use thumbnail::{Album, thumbnail};

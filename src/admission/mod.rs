//! Decides before anything is allocated whether a job gets a slot.

mod bytes;
mod door;
pub(crate) mod ledger;
mod notes;
pub(crate) mod partition;
pub(crate) mod pressure;
mod slot;
mod taking;
#[cfg(all(test, not(loom)))]
mod tests;
pub(crate) mod waiters;
mod word;

pub(crate) use door::{Ask, Checks, Door, Membership, reason};

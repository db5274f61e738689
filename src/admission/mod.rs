//! Decides before anything is allocated whether a job gets a slot.

mod bytes;
mod door;
pub(crate) mod ledger;
pub(crate) mod partition;
pub(crate) mod waiters;

pub(crate) use door::{Ask, Door, Membership, reason};

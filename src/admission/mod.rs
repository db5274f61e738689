//! Decides before anything is allocated whether a job gets a slot.

mod door;
pub(crate) mod ledger;

pub(crate) use door::{Ask, admit, reserve};

//! One job: one allocation, one state word, one owner at a time.
//!
//! See the README of this folder for the states, who may touch what in each, and why no closure,
//! result or block is ever touched by two.

mod block;
mod cell;
mod raw;
mod receiver;
mod state;

pub(crate) use block::Reservation;
pub(crate) use cell::JobCell;
pub(crate) use raw::{Ended, JobRef, JobView, Origin, Running, Seized, UNPLACED};
pub(crate) use receiver::Receiver;
pub(crate) use state::Outcome;

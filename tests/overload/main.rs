//! Whole overload stories in virtual time: the pool's own policies, in a queue with workers that
//! exists only as numbers. Minutes of flood take milliseconds, nothing depends on the machine's
//! speed, and each run replays exactly.
//!
//! The policies are compiled from their folder by themselves: that this works shows that they
//! import nothing, read no clock and draw no random number.
//!
//! Each story is a table of figures with the ranges they must lie in; to see them all:
//! `cargo test --test overload -- --nocapture`. Loads are in multiples of what the workers can do, an
//! answer is *in time* 25 ms after the job came, and *good* is the share of the workers' time that went
//! into such answers.

#[allow(dead_code, unreachable_pub)]
#[path = "../../src/policy/mod.rs"]
mod policy;

// The simulator, and how stories are told.
mod check;
mod lanes;
mod load;
mod outcome;
mod sim;

// The stories.
mod ageing;
mod changes;
mod floods;
mod goodput;
mod laws;
mod odd;
mod patience;
mod priorities;
mod theory;
mod tiny;

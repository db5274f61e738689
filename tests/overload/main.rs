//! Whole overload stories in virtual time: the pool's own policies, in a queue with servers that
//! exists only as numbers. Minutes of flood take milliseconds, and each run replays exactly.
//!
//! The policies are compiled from their folder by themselves: that this works shows that they
//! import nothing, read no clock and draw no random number.

#[allow(dead_code, unreachable_pub)]
#[path = "../../src/policy/mod.rs"]
mod policy;

mod door;
mod load;
mod sim;

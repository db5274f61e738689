//! Closing refused connections later, so that refusing stays cheap.
//!
//! A server that says no and closes at once pays for the close in the middle of the peak, and its
//! client comes back at once. Held for a while instead, the connection costs a place in a ring: the
//! closing moves out of the peak, and an aggressive client, which waits for its answer's end, is
//! slowed down. What is held is bounded, in number and in bytes, and one thread at most takes care
//! of all of it; there is none while nothing is held.
//!
//! | to hold | use |
//! |---|---|
//! | anything that can be dropped, for a fixed time | [`RejectionHold`] |
//! | TCP connections until their client has read the answer | [`TcpRefusal`] (Unix) |
//! | the accept loop, while there are no descriptors left | [`AcceptBackoff`] |
//!
//! They know nothing of pools: no slot is taken while something is held.
//!
//! ```
//! use std::time::Duration;
//! use weirpool::Pool;
//! use weirpool::hold::RejectionHold;
//!
//! # struct Connection;
//! # impl Connection { fn answer_503(&mut self) {} fn serve(self) {} }
//! # let mut connections = vec![Connection];
//! let pool = Pool::new(2, 64)?;
//! let hold = RejectionHold::builder().hold_time(Duration::from_secs(10)).max_items(256).build()?;
//!
//! for mut connection in connections.drain(..) {
//!     match pool.try_reserve() {
//!         Ok(permit) => drop(permit.submit(move || connection.serve())),
//!         Err(_) => {
//!             connection.answer_503();
//!             hold.hold(connection);
//!         }
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What was weighed
//!
//! Timer wheels (tokio-util's `DelayQueue`, `hierarchical_hash_wheel_timer`): all items wait
//! equally long, so the oldest is always due first and a ring does. polling and mio: a registration
//! per socket and readiness for tens of thousands of them; what is held here are hundreds, all by
//! one thread, for which one `poll` with a list suffices, also on each Unix, without another
//! dependency. socket2: of its options only `SO_LINGER` is needed, which is one call.
//! `tokio::spawn` and `sleep` per connection: a task each, with no bound, and only on that runtime.

mod accept;
mod builder;
mod keeper;
mod rejection;
mod ring;
mod settings;
mod shelf;
#[cfg(unix)]
mod tcp;

pub use accept::{AcceptBackoff, AcceptNext};
pub use builder::HoldBuilder;
pub use rejection::{HoldReport, HoldSnapshot, RejectionHold};
#[cfg(unix)]
pub use tcp::{Answer, TcpRefusal, TcpRefusalBuilder, TcpRefusalReport, TcpRefusalSnapshot};

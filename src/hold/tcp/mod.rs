//! Refused TCP connections: answered, half-closed, drained, closed.

mod answer;
mod attend;
mod builder;
mod connection;
mod roster;
mod system;

use std::fmt;
use std::net::TcpStream;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::{Duration, Instant};

use self::attend::{Desk, Lingering, attend_until, look, round};
use self::connection::Connection;
use super::keeper::{Duty, Keeper, Owner, Why};
use crate::error::BuildError;
use crate::sync::Arc;

pub use answer::Answer;
pub use builder::TcpRefusalBuilder;

/// Answers refused TCP connections, and closes them only when their client can have read the
/// answer.
///
/// Who writes "503" and closes while input is unread (the request's body, say) makes the system
/// reset the connection, and the client, instead of the answer, gets an error. So each connection
/// is taken through the close that RFC 9112, section 9.6, asks for: the answer is written, our side
/// is closed, input is read and thrown away until the client closes its side, and only then is the
/// socket closed.
///
/// ```
/// use std::io::{Read, Write};
/// use std::net::{TcpListener, TcpStream};
/// use std::time::Duration;
/// use weirpool::hold::{Answer, TcpRefusal};
///
/// let refusal = TcpRefusal::builder().linger(Duration::from_secs(2)).build()?;
/// let busy = Answer::from("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n");
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let mut client = TcpStream::connect(listener.local_addr()?)?;
/// client.write_all(&[b'x'; 64 << 10])?;
///
/// let (connection, _) = listener.accept()?;
/// refusal.refuse(connection, busy.clone());
///
/// let mut answer = String::new();
/// client.read_to_string(&mut answer)?;
/// assert!(answer.starts_with("HTTP/1.1 503"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # When a connection ends
///
/// - The client closes its side: as soon as the answer is written. A client that has only closed
///   its sending side gets the whole answer.
/// - It breaks: at once.
/// - [`linger`](TcpRefusalBuilder::linger) after the end of the answer: on Linux when the client's
///   system has all of it, which is noticed within an eighth of that time (10 ms to 1 s); elsewhere
///   when our system has.
/// - [`write_timeout`](TcpRefusalBuilder::write_timeout) after the last progress of an answer that
///   has not come to its end. So a slow reader gets all of it, however short the linger time. (The
///   two differ because a client's system tells ours of what was read in large steps only.)
/// - [`longest`](TcpRefusalBuilder::longest) after the refusal, so that nobody stays by reading
///   byte by byte.
/// - There is no room for more: the oldest is cut.
///
/// Input beyond [`max_drain`](TcpRefusalBuilder::max_drain) is not read: the client's system holds
/// it back, and the connection lingers to its time. Before a cut, up to 256 KiB of input are thrown
/// away, so that the answer has the best chance to be read.
///
/// # Cost
///
/// [`refuse`](Self::refuse) makes the socket non-blocking and writes what it takes at once, for
/// most answers all: four system calls, and sometimes one that wakes the thread. The rest is done
/// by one thread for all connections, by `poll`. It is created when the first comes and exits when
/// none is left; it rests at least 1 ms between two rounds. If it can't be created, the connections
/// are closed at once, on the thread that brought the last one. Each holds its descriptor, and no
/// slot of any pool; two more descriptors wake the thread.
///
/// # The end
///
/// A handle on shared state: clone it freely. When the last is dropped, that thread cuts all
/// connections; [`shutdown`](Self::shutdown) lets them linger for a while. In a forked child
/// nothing is answered: what is given to [`refuse`](Self::refuse) is dropped.
///
/// TLS is not spoken here: over TLS the answer has to be encrypted by its session first.
#[derive(Clone)]
pub struct TcpRefusal {
    owner: Arc<Owner<Lingering>>,
}

// The connections are only reached through a short lock that no user code runs under.
impl UnwindSafe for TcpRefusal {}
impl RefUnwindSafe for TcpRefusal {}

impl TcpRefusal {
    fn of(keeper: Arc<Keeper<Lingering>>) -> Self {
        Self { owner: Arc::new(Owner::new(keeper)) }
    }

    /// The default settings: 10 s, at most 60 s, 256 connections, 16 MiB of answers, 1 MiB of input
    /// drained from each.
    ///
    /// # Errors
    /// [`BuildError::Spawn`] if there are no descriptors left for waking the thread, or no memory.
    pub fn new() -> Result<Self, BuildError> {
        Self::builder().build()
    }

    /// All settings.
    pub fn builder() -> TcpRefusalBuilder {
        TcpRefusalBuilder::new()
    }

    /// Answers, and closes when the client has read it. Never waits.
    ///
    /// After [`shutdown`](Self::shutdown) the answer is written as far as the system takes it, and
    /// the connection closed at once.
    pub fn refuse(&self, connection: TcpStream, answer: impl Into<Answer>) {
        let keeper = self.owner.keeper();
        if keeper.is_forked() {
            return;
        }
        let Ok(mut connection) = Connection::new(connection, answer.into()) else {
            keeper.book().held.refuse_broken();
            return;
        };
        let (outgoing, ring) = Keeper::take_in(keeper, |book, now_ns| {
            if book.closed {
                book.held.refuse_late(connection.is_answered());
                return (vec![connection], false);
            }
            connection.start(now_ns);
            let outgoing = book.held.put(connection, now_ns, &keeper.duty.limits);
            (outgoing, !std::mem::replace(&mut book.held.rung, true))
        });
        if ring {
            keeper.duty.wake();
        }
        keeper.release_each(outgoing);
    }

    /// Does once what can be done without waiting, on the calling thread; how many connections are
    /// left.
    ///
    /// Needed [without a thread](TcpRefusalBuilder::without_thread), and after moving a clock of
    /// your own. Otherwise the thread does it.
    pub fn step(&self) -> usize {
        let keeper = self.owner.keeper();
        if keeper.is_forked() {
            return 0;
        }
        let mut desk = Desk::default();
        look(keeper, &mut desk, Some(Duration::ZERO));
        round(keeper, &mut desk);
        let left = keeper.book().held.len();
        // The bell was emptied, and what is to be waited for may have changed.
        keeper.duty.wake();
        left
    }

    /// Takes no connections any more, and lets those held linger on for at most `limit` or
    /// [`linger`](TcpRefusalBuilder::linger), whichever is shorter (real time); then cuts the rest.
    ///
    /// None are held when it returns.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let refusal = weirpool::hold::TcpRefusal::new()?;
    /// let report = refusal.shutdown(Some(Duration::from_secs(1)));
    /// assert_eq!((report.ended, report.cut), (0, 0));
    /// # Ok::<(), weirpool::BuildError>(())
    /// ```
    pub fn shutdown(&self, limit: Option<Duration>) -> TcpRefusalReport {
        let keeper = self.owner.keeper();
        if keeper.is_forked() {
            return TcpRefusalReport { ended: 0, cut: 0 };
        }
        let linger = Duration::from_nanos(keeper.duty.limits.linger_ns);
        let limit = limit.map_or(linger, |limit| limit.min(linger));
        let until = Instant::now().checked_add(limit);
        keeper.close();
        if keeper.has_thread() {
            keeper.wait_settled(until);
        } else {
            attend_until(keeper, until);
        }
        let (rest, report) = {
            let mut book = keeper.book();
            let rest = Lingering::take_all(&mut book.held, Why::Shutdown);
            let cut = book.held.cut_at_end();
            (rest, TcpRefusalReport { ended: book.at_close - cut, cut })
        };
        keeper.duty.wake();
        keeper.release_each(rest);
        // Others who wait in here have nothing left to wait for.
        keeper.settled.ring();
        report
    }

    /// The figures at this moment, exact and of one moment. All zero in a forked child.
    pub fn snapshot(&self) -> TcpRefusalSnapshot {
        let keeper = self.owner.keeper();
        if keeper.is_forked() {
            return TcpRefusalSnapshot::default();
        }
        keeper.book().held.snapshot()
    }
}

impl fmt::Debug for TcpRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpRefusal").field("snapshot", &self.snapshot()).finish_non_exhaustive()
    }
}

/// The figures of a [`TcpRefusal`] at one moment.
///
/// Always `accepted == held + closed_by_peer + broken + cut_by_time + cut_by_bound +
/// cut_by_shutdown + cut_without_thread`.
///
/// ```
/// let refusal = weirpool::hold::TcpRefusal::new()?;
/// assert_eq!(refusal.snapshot().held, 0);
/// # Ok::<(), weirpool::BuildError>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpRefusalSnapshot {
    /// Connections held.
    pub held: usize,
    /// Bytes of answers that the system has not taken yet.
    pub unwritten_bytes: u64,
    /// Connections ever given to it.
    pub accepted: u64,
    /// Of those that have ended: connections whose answer the system had taken in full.
    pub answered: u64,
    /// Closed because the client had closed its side.
    pub closed_by_peer: u64,
    /// Closed because of an error, such as a reset.
    pub broken: u64,
    /// Cut because their time had passed.
    pub cut_by_time: u64,
    /// Cut because there was no room.
    pub cut_by_bound: u64,
    /// Cut by [`TcpRefusal::shutdown`], or because they came after it.
    pub cut_by_shutdown: u64,
    /// Cut because the thread could not be created.
    pub cut_without_thread: u64,
}

/// What became of the connections that were held when a [`TcpRefusal`] was shut down.
///
/// ```
/// let report = weirpool::hold::TcpRefusal::new()?.shutdown(None);
/// assert_eq!(report.cut, 0);
/// # Ok::<(), weirpool::BuildError>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpRefusalReport {
    /// Ended before the time was up.
    pub ended: usize,
    /// Cut when it was, by this or an earlier shutdown.
    pub cut: usize,
}

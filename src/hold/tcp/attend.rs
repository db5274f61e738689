//! What is done for the refused connections, by the hold's thread or by a caller.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::connection::{Connection, Limits};
use super::roster::Roster;
use super::system;
use crate::hold::keeper::{Duty, Keeper, Why};
use crate::sync::{Parker, system_now};

/// For throwing input away.
const BUFFER_BYTES: usize = 16 << 10;

/// Between two rounds in which something happened: a client that sends byte by byte must not make
/// the thread look through all connections for each.
const BREATH: Duration = Duration::from_millis(1);

/// After a failed `poll`, which has no reason to fail.
const LONG_BREATH: Duration = Duration::from_millis(20);

/// What the keeper does for a [`TcpRefusal`](super::TcpRefusal).
pub(super) struct Lingering {
    pub(super) limits: Limits,
    pub(super) grain: Duration,
    /// A byte in here ends the thread's wait.
    pub(super) bell: UnixStream,
    pub(super) hearing: UnixStream,
    /// Nobody unparks it.
    pub(super) pause: Parker,
}

/// What whoever attends keeps from one round to the next.
pub(super) struct Desk {
    list: Vec<libc::pollfd>,
    ids: Vec<u64>,
    ready: Vec<u64>,
    buffer: Vec<u8>,
    busy: bool,
}

impl Default for Desk {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            ids: Vec::new(),
            ready: Vec::new(),
            buffer: vec![0; BUFFER_BYTES],
            busy: false,
        }
    }
}

impl Duty for Lingering {
    type Held = Roster;
    type Item = Connection;
    type Scratch = Desk;

    fn is_empty(held: &Roster) -> bool {
        held.len() == 0
    }

    fn unsettled(held: &Roster) -> usize {
        held.len()
    }

    fn take_all(held: &mut Roster, why: Why) -> Vec<Connection> {
        held.take_all(why)
    }

    fn release(_: &Keeper<Self>, connection: Connection) {
        connection.part(&mut [0; BUFFER_BYTES]);
    }

    fn round(keeper: &Keeper<Self>, desk: &mut Desk) {
        round(keeper, desk);
    }

    fn wait(keeper: &Keeper<Self>, desk: &mut Desk) {
        if desk.busy {
            keeper.duty.pause.park_until(system_now().checked_add(BREATH));
        }
        look(keeper, desk, None);
    }

    fn wake(&self) {
        // If there is no room, there are bytes enough in it; a child's end of it may be gone.
        let _ = (&self.bell).write(&[1]);
    }
}

/// Waits until a connection is ready or due, at most for `limit`, and notes which are ready.
pub(super) fn look(keeper: &Keeper<Lingering>, desk: &mut Desk, limit: Option<Duration>) {
    let wait = fill_list(keeper, desk);
    let wait = [wait, limit].into_iter().flatten().min();
    if system::poll(&mut desk.list, wait).is_err() {
        keeper.duty.pause.park_until(system_now().checked_add(LONG_BREATH));
    }
    let Some((hearing, sockets)) = desk.list.split_first() else { return };
    if hearing.revents != 0 {
        keeper.duty.hear();
    }
    let ready = sockets.iter().zip(&desk.ids).filter(|(socket, _)| socket.revents != 0);
    desk.ready.extend(ready.map(|(_, id)| *id));
}

/// Lists what to wait for; for how long at most.
///
/// What comes in later rings, since the flag is taken down here, before the lock is left.
fn fill_list(keeper: &Keeper<Lingering>, desk: &mut Desk) -> Option<Duration> {
    desk.list.clear();
    desk.ids.clear();
    let hearing = keeper.duty.hearing.as_raw_fd();
    desk.list.push(libc::pollfd { fd: hearing, events: libc::POLLIN, revents: 0 });
    let (mut book, now_ns) = keeper.book_now();
    book.held.rung = false;
    let mut first_ns = u64::MAX;
    for entry in book.held.entries() {
        first_ns = first_ns.min(entry.look_at_ns);
        let Some(connection) = &entry.connection else { continue };
        let read = if entry.interest.read { libc::POLLIN } else { 0 };
        let events = read | if entry.interest.write { libc::POLLOUT } else { 0 };
        // `poll` reports a hang-up also to who asks for nothing, again and again.
        let fd = if events == 0 { -1 } else { connection.fd() };
        desk.list.push(libc::pollfd { fd, events, revents: 0 });
        desk.ids.push(entry.id);
    }
    match first_ns {
        u64::MAX => None,
        due_ns if due_ns <= now_ns => Some(Duration::ZERO),
        // At least the grain, so that a clock that stands still doesn't make the thread spin.
        due_ns => Some(Duration::from_nanos(due_ns - now_ns).max(keeper.duty.grain)),
    }
}

/// Works on all connections that are ready or due.
pub(super) fn round(keeper: &Keeper<Lingering>, desk: &mut Desk) {
    let (book, now_ns) = keeper.book_now();
    let due = book.held.entries().filter(|entry| entry.look_at_ns <= now_ns);
    desk.ready.extend(due.map(|entry| entry.id));
    drop(book);
    desk.busy = !desk.ready.is_empty();
    while let Some(id) = desk.ready.pop() {
        attend_one(keeper, id, now_ns, &mut desk.buffer);
    }
}

fn attend_one(keeper: &Keeper<Lingering>, id: u64, now_ns: u64, buffer: &mut [u8]) {
    let limits = &keeper.duty.limits;
    // It is nobody else's while it is checked out, and the lock is free.
    let Some(mut connection) = keeper.book().held.check_out(id) else { return };
    let parting = match connection.work(now_ns, limits, buffer) {
        Some(end) => {
            keeper.book().held.end(id, end, connection.is_answered());
            Some(connection)
        }
        None => keeper.book().held.check_in(id, connection, now_ns, limits),
    };
    if let Some(connection) = parting {
        connection.part(buffer);
    }
}

/// Attends on the calling thread until nothing is left, at most until `until` (real time).
pub(super) fn attend_until(keeper: &Keeper<Lingering>, until: Option<Instant>) {
    let mut desk = Desk::default();
    while keeper.book().held.len() > 0 {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return;
        }
        look(keeper, &mut desk, left);
        round(keeper, &mut desk);
    }
}

impl Lingering {
    /// Empties the bell.
    fn hear(&self) {
        let mut bytes = [0; 64];
        loop {
            match (&self.hearing).read(&mut bytes) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }
}

//! Refusals for the tests, what must add up in each, and clients that several tests have.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use weirpool::hold::{TcpRefusal, TcpRefusalBuilder, TcpRefusalSnapshot};
use weirpool::test::ManualClock;

use crate::common::eventually;
use crate::net::{Loopback, read_all, wait_flushed};

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const MIB: usize = 1 << 20;
pub(crate) const BUSY: &str =
    "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 3\r\nConnection: close\r\n\r\n";

/// Linger 100 ms on a manual clock, driven by `step` alone.
pub(crate) fn by_hand() -> (TcpRefusalBuilder, ManualClock) {
    let clock = ManualClock::new();
    let builder = TcpRefusal::builder().linger(100 * MS);
    (builder.clock(clock.clone()).without_thread(), clock)
}

/// With a thread, and times that are no part of the test.
pub(crate) fn patient() -> TcpRefusalBuilder {
    TcpRefusal::builder().linger(Duration::MAX)
}

/// Steps until the figures are right.
#[track_caller]
pub(crate) fn step_until(
    refusal: &TcpRefusal,
    what: &str,
    right: impl Fn(&TcpRefusalSnapshot) -> bool,
) {
    eventually(what, || {
        refusal.step();
        right(&refusal.snapshot())
    });
}

#[track_caller]
pub(crate) fn check_adds_up(now: &TcpRefusalSnapshot) {
    let ended = now.closed_by_peer
        + now.broken
        + now.cut_by_time
        + now.cut_by_bound
        + now.cut_by_shutdown
        + now.cut_without_thread;
    assert_eq!(now.accepted, now.held as u64 + ended, "{now:?}");
    assert!(now.answered <= ended, "{now:?}");
}

/// A client that sends 64 KiB at once, before it is refused or meanwhile, and then reads; whether
/// it got all of the answer.
pub(crate) fn sends_much_then_reads(
    net: &Loopback,
    before: bool,
    refuse: impl FnOnce(TcpStream),
) -> bool {
    let (mut client, server) = net.connect();
    let send = move || client.write_all(&[b'x'; 64 << 10]).map(|()| client);
    let read = |client: TcpStream| {
        let mut answer = Vec::new();
        (&client).read_to_end(&mut answer).is_ok() && answer == BUSY.as_bytes()
    };
    if before {
        let client = send();
        refuse(server);
        client.is_ok_and(read)
    } else {
        let sender = thread::spawn(move || send().is_ok_and(read));
        refuse(server);
        sender.join().unwrap()
    }
}

/// A client that has read all of its answer and never closes; the refusal has taken note of the end
/// of the flush.
pub(crate) fn refuse_and_flush(refusal: &TcpRefusal) -> TcpStream {
    let (client, server) = Loopback::new().connect();
    let same = server.try_clone().unwrap();
    refusal.refuse(server, BUSY);
    assert_eq!(read_all(&client), BUSY.as_bytes());
    wait_flushed(&same);
    drop(same);
    refusal.step();
    client
}

//! Refused clients read their whole answer: those who send much, read slowly, have closed their
//! sending side, or read only when they have sent everything.

use std::cell::{Cell, RefCell};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::thread;

use crate::common::{elsewhere, eventually, rounds_in, watchdog};
use crate::net::{Loopback, read_all, reset_on_close, set_buffer};
use crate::refusals::{
    BUSY, MIB, MS, by_hand, check_adds_up, patient, sends_much_then_reads, step_until,
};

#[test]
fn a_client_that_sends_64_kib_at_once_reads_the_whole_503() {
    let _watchdog = watchdog();
    let tries = rounds_in(100, 1_000);
    // None is cut for another, however late the thread comes to those that have ended.
    let refusal = patient().max_connections(tries).build().unwrap();
    let net = Loopback::new();
    let refuse = |server| refusal.refuse(server, BUSY);
    let complete = (0..tries).filter(|n| sends_much_then_reads(&net, n % 2 == 0, refuse)).count();
    assert_eq!(complete, tries);
    eventually("all have ended", || refusal.snapshot().held == 0);
    let now = refusal.snapshot();
    assert_eq!((now.answered, now.closed_by_peer), (tries as u64, tries as u64), "{now:?}");
    check_adds_up(&now);
}

#[test]
fn delayed_close_cuts_off_data_still_to_be_written() {
    // A slow reader of 1 MiB gets all of it, over seconds, with 100 ms of linger.
    let _watchdog = watchdog();
    let (builder, clock) = by_hand();
    let (net, refusal) = (Loopback::new(), builder.build().unwrap());
    let (client, server) = net.connect_narrow();
    let sent: Vec<u8> = (0..MIB).map(|at| (at / 7) as u8).collect();
    refusal.refuse(server, sent.clone());
    assert!(refusal.snapshot().unwritten_bytes > 0, "more than the system takes");
    // It never blocks in a read: nobody else would go on with the answer.
    client.set_nonblocking(true).unwrap();
    let (received, total) = (RefCell::new(vec![0; MIB]), Cell::new(0));
    for piece in 1..=64 {
        // 16 KiB in 15.6 ms.
        let end = piece * MIB / 64;
        step_until(&refusal, "the next piece comes", |_| {
            let mut received = received.borrow_mut();
            let read = (&client).read(&mut received[total.get()..end]);
            total.set(total.get() + read.unwrap_or(0));
            total.get() == end
        });
        clock.advance(15 * MS);
        refusal.step();
    }
    assert!(received.into_inner() == sent);
    let is_over = |_: &_| (&client).read(&mut [0]).is_ok_and(|bytes| bytes == 0);
    step_until(&refusal, "and the end", is_over);
    drop(client);
    step_until(&refusal, "it has ended", |now| now.held == 0);
    // Once the client's system had all of it, the client had 100 ms to close, as any other.
    let now = refusal.snapshot();
    assert_eq!((now.answered, now.broken, now.closed_by_peer + now.cut_by_time), (1, 0, 1));
}

#[test]
fn a_slow_reader_in_real_time_gets_all_of_it() {
    let _watchdog = watchdog();
    let net = Loopback::new();
    // The reader pauses as often as it likes: it is the test's threads that must keep up.
    let refusal = patient().build().unwrap();
    let (mut client, server) = net.connect_narrow();
    refusal.refuse(server, vec![7_u8; MIB]);
    let reader = elsewhere(move || {
        let mut piece = vec![0; 16 << 10];
        let mut total = 0;
        loop {
            match client.read(&mut piece).unwrap() {
                0 => return total,
                bytes => {
                    total += bytes;
                    thread::park_timeout(MS);
                }
            }
        }
    });
    assert_eq!(reader.wait(), MIB);
    eventually("it has ended", || refusal.snapshot().closed_by_peer == 1);
}

#[test]
fn a_client_that_has_only_closed_its_sending_side_gets_the_whole_answer() {
    let _watchdog = watchdog();
    let (net, refusal) = (Loopback::new(), patient().build().unwrap());
    let (mut client, server) = net.connect_narrow();
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    refusal.refuse(server, vec![7_u8; MIB]);
    assert_eq!(read_all(&client).len(), MIB);
    eventually("done", || refusal.snapshot().closed_by_peer == 1);
}

#[test]
fn a_client_that_sends_as_much_as_it_is_sent_does_not_deadlock() {
    let _watchdog = watchdog();
    let (net, refusal) = (Loopback::new(), patient().build().unwrap());
    let (mut client, server) = net.connect_narrow();
    set_buffer(&client, libc::SO_SNDBUF);
    refusal.refuse(server, vec![7_u8; MIB]);
    let answer = elsewhere(move || {
        // It reads only when it has sent everything.
        client.write_all(&vec![b'x'; MIB - 1]).unwrap();
        read_all(&client).len()
    });
    assert_eq!(answer.wait(), MIB);
    eventually("done", || refusal.snapshot().held == 0);
}

#[test]
fn a_socket_set_to_reset_on_close_keeps_its_answer_all_the_same() {
    let (builder, _clock) = by_hand();
    let (net, refusal) = (Loopback::new(), builder.build().unwrap());
    let (client, server) = net.connect();
    // As some servers do, to be rid of sockets quickly.
    reset_on_close(&server);
    refusal.refuse(server, BUSY);
    drop(refusal);
    assert_eq!(read_all(&client), BUSY.as_bytes());
}

#[test]
fn an_empty_answer_is_a_plain_close() {
    let _watchdog = watchdog();
    let (net, refusal) = (Loopback::new(), patient().build().unwrap());
    let (client, server) = net.connect();
    refusal.refuse(server, "");
    assert_eq!(read_all(&client), b"");
    drop(client);
    eventually("done", || refusal.snapshot().closed_by_peer == 1);
}

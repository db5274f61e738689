//! Nobody lingers for longer than allowed: peers that never close, never read, read byte by byte or
//! send for ever are cut in time, and those that close or reset are done at once.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use weirpool::hold::TcpRefusal;

use crate::common::clocks::JumpyClock;
use crate::common::{elsewhere, eventually, give_way, rounds_in, watchdog};
use crate::net::{Loopback, is_cut, read_all, reset};
use crate::refusals::{
    BUSY, MIB, MS, by_hand, check_adds_up, patient, refuse_and_flush, step_until,
};

#[test]
fn delayed_close_a_peer_that_never_closes_is_cut_a_linger_after_the_flush() {
    let (builder, clock) = by_hand();
    let refusal = builder.build().unwrap();
    let client = refuse_and_flush(&refusal);
    clock.advance(100 * MS - Duration::from_nanos(1));
    assert_eq!(refusal.step(), 1);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(refusal.step(), 0);
    let now = refusal.snapshot();
    assert_eq!((now.cut_by_time, now.answered, now.held), (1, 1, 0));
    eventually("the socket is closed", || is_cut(&client));
}

#[test]
fn a_peer_that_never_reads_is_cut_some_time_after_the_last_progress() {
    let (builder, clock) = by_hand();
    let (net, refusal) = (Loopback::new(), builder.write_timeout(100 * MS).build().unwrap());
    let (client, server) = net.connect_narrow();
    refusal.refuse(server, vec![7_u8; 4 * MIB]);
    // What the systems' buffers take is progress, and then there is none.
    let stalled = || {
        refusal.step();
        let before = refusal.snapshot().unwritten_bytes;
        give_way(100);
        refusal.step();
        refusal.snapshot().unwritten_bytes == before
    };
    eventually("nothing moves", stalled);
    clock.advance(60 * MS);
    refusal.step();
    // It reads once more: its time begins anew.
    let before = refusal.snapshot().unwritten_bytes;
    step_until(&refusal, "it goes on", |now| {
        (&client).read_exact(&mut [0; 4096]).unwrap();
        now.unwritten_bytes < before
    });
    eventually("nothing moves", stalled);
    clock.advance(99 * MS);
    assert_eq!(refusal.step(), 1);
    // The client's system may take its time to say what it has taken: each time that is progress.
    eventually("it is cut", || {
        clock.advance(100 * MS);
        refusal.step() == 0
    });
    let now = refusal.snapshot();
    assert_eq!((now.cut_by_time, now.answered, now.unwritten_bytes), (1, 0, 0));
}

#[test]
fn a_peer_that_reads_byte_by_byte_is_cut_in_the_end() {
    let (builder, clock) = by_hand();
    let (net, refusal) =
        (Loopback::new(), builder.write_timeout(100 * MS).longest(1_000 * MS).build().unwrap());
    let (client, server) = net.connect_narrow();
    client.set_nonblocking(true).unwrap();
    refusal.refuse(server, vec![7_u8; 16 * MIB]);
    for round in 0..20 {
        assert_eq!(refusal.snapshot().held, 1, "in round {round}");
        let before = refusal.snapshot().unwritten_bytes;
        step_until(&refusal, "there is some progress", |now| {
            let _ = (&client).read(&mut [0; 4096]);
            now.unwritten_bytes < before
        });
        clock.advance(50 * MS - Duration::from_nanos(1));
        refusal.step();
    }
    clock.advance(Duration::from_nanos(20));
    assert_eq!((refusal.step(), refusal.snapshot().cut_by_time), (0, 1));
}

#[test]
fn a_peer_that_sends_for_ever_is_cut_and_drained_within_bounds() {
    let _watchdog = watchdog();
    let (builder, clock) = by_hand();
    let (net, refusal) = (Loopback::new(), builder.max_drain(100_000).build().unwrap());
    let (client, server) = net.connect();
    refusal.refuse(server, BUSY);
    let mut sending = client.try_clone().unwrap();
    let sent = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&sent);
    let sender = elsewhere(move || {
        while sending.write_all(&[b'x'; 4096]).is_ok() {
            count.fetch_add(4096, SeqCst);
        }
    });
    assert_eq!(read_all(&client), BUSY.as_bytes());
    // It comes to a stop, as soon as its system and ours hold no more: it is held back.
    eventually("the client is held back", || {
        refusal.step();
        let before = sent.load(SeqCst);
        thread::park_timeout(50 * MS);
        before == sent.load(SeqCst) && before > 100_000
    });
    assert_eq!(refusal.snapshot().held, 1);
    clock.advance(100 * MS);
    step_until(&refusal, "it is cut", |now| now.cut_by_time == 1);
    sender.wait();
}

#[test]
fn a_peer_that_closes_at_once_is_done_at_once() {
    let _watchdog = watchdog();
    let net = Loopback::new();
    for threaded in [true, false] {
        let builder = patient();
        let builder = if threaded { builder } else { builder.without_thread() };
        let refusal = builder.build().unwrap();
        let (client, server) = net.connect();
        drop(client);
        refusal.refuse(server, BUSY);
        // No clock of this test's moves, and the linger time is for ever.
        eventually("done", || {
            if !threaded {
                refusal.step();
            }
            let now = refusal.snapshot();
            now.held == 0 && now.closed_by_peer + now.broken == 1
        });
    }
}

#[test]
fn streams_reset_by_the_peer_end_at_once() {
    let _watchdog = watchdog();
    // Bounds that are never met: how many resets are still unnoticed is a matter of scheduling.
    let builder = patient().max_connections(1_000).max_bytes(u64::MAX);
    let (net, refusal) = (Loopback::new(), builder.build().unwrap());
    let resets = rounds_in(100, 500);
    for round in 0..resets {
        let (mut client, server) = net.connect_narrow();
        // Before the refusal, or in the middle of the answer.
        if round % 2 == 0 {
            reset(client);
            refusal.refuse(server, BUSY);
        } else {
            refusal.refuse(server, vec![7_u8; MIB]);
            client.read_exact(&mut [0; 1000]).unwrap();
            reset(client);
        }
    }
    eventually("all have ended", || refusal.snapshot().held == 0);
    let now = refusal.snapshot();
    assert_eq!(
        (now.broken + now.closed_by_peer, now.unwritten_bytes),
        (resets as u64, 0),
        "{now:?}"
    );
    // Those in the middle of an answer, which is more than the systems' buffers hold.
    assert!(now.broken >= resets as u64 / 2, "{now:?}");
    check_adds_up(&now);
}

#[test]
fn a_clock_that_goes_back_delays_nothing() {
    let clock = JumpyClock::new();
    let refusal = TcpRefusal::builder().linger(100 * MS).clock(clock.clone()).without_thread();
    let refusal = refusal.build().unwrap();
    let _client = refuse_and_flush(&refusal);
    clock.jump_back(10_000_000 * MS);
    assert_eq!(refusal.step(), 1);
    clock.advance(100 * MS);
    assert_eq!(refusal.step(), 0);
}

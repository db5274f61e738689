//! How many are held at most, and how many bytes: who is cut for a newer one, settings that are
//! refused, and callers by the dozen. No slot of a pool is held.

use std::io::Write;
use std::thread;
use std::time::Duration;

use weirpool::hold::{Answer, TcpRefusal, TcpRefusalBuilder};

use crate::common::settings::check_refused;
use crate::common::{eventually, rounds_in, watchdog};
use crate::net::{Loopback, is_cut, read_all, reset};
use crate::refusals::{BUSY, MIB, MS, by_hand, check_adds_up, patient};

#[test]
fn a_full_refusal_cuts_the_oldest() {
    let (builder, _clock) = by_hand();
    let (net, refusal) = (Loopback::new(), builder.max_connections(3).build().unwrap());
    let mut clients = Vec::new();
    for _ in 0..5 {
        let (mut client, server) = net.connect();
        client.write_all(b"a request").unwrap();
        refusal.refuse(server, BUSY);
        clients.push(client);
        assert!(refusal.snapshot().held <= 3);
    }
    let now = refusal.snapshot();
    assert_eq!((now.held, now.cut_by_bound, now.answered), (3, 2, 2));
    for client in &clients {
        assert_eq!(read_all(client), BUSY.as_bytes(), "also those that were cut");
    }
    for client in &clients[..2] {
        eventually("the oldest are closed", || is_cut(client));
    }
    check_adds_up(&now);
}

#[test]
fn a_refusal_full_of_bytes_cuts_the_oldest_with_something_to_write() {
    let (builder, _clock) = by_hand();
    let (net, refusal) = (Loopback::new(), builder.max_bytes(8 * MIB as u64).build().unwrap());
    let answer = |bytes: usize| Answer::from(vec![7_u8; bytes]);
    let ends: Vec<_> = (0..4).map(|_| net.connect_narrow()).collect();
    let (_clients, mut servers): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
    let mut refuse = |answer| refusal.refuse(servers.pop().unwrap(), answer);
    refuse(answer(10));
    refuse(answer(5 * MIB));
    refuse(answer(5 * MIB));
    let now = refusal.snapshot();
    assert_eq!((now.held, now.cut_by_bound, now.answered), (2, 1, 0), "the small one stays");
    assert!(now.unwritten_bytes <= 8 * MIB as u64);
    refuse(answer(100 * MIB));
    let now = refusal.snapshot();
    assert_eq!((now.held, now.cut_by_bound), (2, 2), "what never fits drives nothing out");
    check_adds_up(&now);
}

#[test]
fn delayed_close_holds_no_slots() {
    let _watchdog = watchdog();
    let (net, refusal) = (Loopback::new(), patient().build().unwrap());
    let pool = weirpool::Pool::new(1, 2).unwrap();
    let lingering: Vec<_> = (0..50)
        .map(|_| {
            let (client, server) = net.connect();
            let handle = refusal.clone();
            pool.try_submit(move || handle.refuse(server, BUSY)).unwrap().join().unwrap();
            client
        })
        .collect();
    assert_eq!((refusal.snapshot().held, pool.in_flight()), (50, 0));
    assert!(pool.try_reserve_many(2).is_ok());
    drop(lingering);
}

#[test]
fn zero_read_as_unlimited() {
    type Build = fn(TcpRefusalBuilder) -> TcpRefusalBuilder;
    let cases: [(&str, Build); 10] = [
        ("linger = 0ns: must be above zero", |b| b.linger(Duration::ZERO)),
        ("write_timeout = 0ns: must be above", |b| b.write_timeout(Duration::ZERO)),
        ("longest = 0ns: must be at least the linger time", |b| b.longest(Duration::ZERO)),
        ("longest = 1s: must be at least", |b| b.longest(1_000 * MS)),
        ("max_connections = 0: must be from 1 to 16384", |b| b.max_connections(0)),
        ("max_connections = 16385: must be", |b| b.max_connections(16_385)),
        ("max_bytes = 0: must be from 1", |b| b.max_bytes(0)),
        ("max_drain = 0: must be from 1", |b| b.max_drain(0)),
        ("stack_size = 1: must be from 65536", |b| b.stack_size(1)),
        ("name = \"\\0\": must be free of NUL bytes", |b| b.name("\0")),
    ];
    for (expected, set) in cases {
        check_refused(set(TcpRefusal::builder()).build().unwrap_err(), expected);
    }
}

#[test]
fn many_threads_refuse_while_clients_come_and_go() {
    let _watchdog = watchdog();
    let (net, refusal) = (Loopback::new(), patient().max_connections(8).build().unwrap());
    let each = rounds_in(50, 500);
    thread::scope(|scope| {
        for worker in 0..4 {
            let (net, refusal) = (&net, &refusal);
            scope.spawn(move || {
                let mut kept = Vec::new();
                for round in 0..each {
                    let (client, server) = net.connect();
                    refusal.refuse(server, BUSY);
                    assert!(refusal.snapshot().held <= 8);
                    match (worker + round) % 3 {
                        0 => kept.push(client),
                        1 => drop(client),
                        _ => reset(client),
                    }
                }
            });
        }
    });
    eventually("all have ended", || refusal.snapshot().held == 0);
    let now = refusal.snapshot();
    assert_eq!((now.accepted, now.cut_by_time), (4 * each as u64, 0));
    check_adds_up(&now);
}

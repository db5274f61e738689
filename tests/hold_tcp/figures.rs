//! What refusing in this way costs, and what it does for clients. Not a test: it prints, and judges
//! nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use weirpool::hold::TcpRefusal;

use crate::common::process::cpu_used;
use crate::net::Loopback;
use crate::refusals::{BUSY, MIB, MS, patient, sends_much_then_reads};

/// Not a test: prints how many of 1000 clients that send 64 KiB at once read all of their answer, with
/// and without `TcpRefusal`, and what lingering connections cost. Run it in a release build:
/// `cargo test --release --test hold_tcp figures -- --ignored --nocapture`.
#[test]
#[ignore = "prints figures, judges nothing"]
fn figures() {
    let (net, refusal) = (Loopback::new(), patient().build().unwrap());
    for before in [true, false] {
        let refuse = |server| refusal.refuse(server, BUSY);
        let complete = (0..1_000).filter(|_| sends_much_then_reads(&net, before, refuse)).count();
        println!("complete answers: {complete} of 1000; sent before: {before}");
        let close = |mut server: TcpStream| drop(server.write_all(BUSY.as_bytes()));
        let complete = (0..1_000).filter(|_| sends_much_then_reads(&net, before, close)).count();
        println!("written and closed at once: {complete} of 1000; sent before: {before}");
    }

    let refusal = TcpRefusal::builder().linger(100 * MS).build().unwrap();
    let (mut client, server) = net.connect();
    refusal.refuse(server, vec![7_u8; MIB]);
    let (begin, mut piece, mut total) = (Instant::now(), [0; 16 << 10], 0);
    while let bytes @ 1.. = client.read(&mut piece).unwrap() {
        total += bytes;
        // 1 MiB/s.
        let due = Duration::from_secs_f64(total as f64 / MIB as f64);
        while begin.elapsed() < due {
            thread::park_timeout(due.saturating_sub(begin.elapsed()));
        }
    }
    println!("read at 1 MiB/s: {total} bytes in {:?}, linger 100 ms", begin.elapsed());
    while refusal.snapshot().held > 0 {
        thread::park_timeout(MS);
    }
    let (client, server) = net.connect();
    let begin = Instant::now();
    refusal.refuse(server, BUSY);
    while refusal.snapshot().held > 0 {
        thread::park_timeout(MS / 10);
    }
    println!("never closes: cut after {:?}, linger 100 ms", begin.elapsed());
    drop(client);
    let (clients, servers): (Vec<_>, Vec<_>) = (0..50).map(|_| net.connect()).unzip();
    for server in servers {
        refusal.refuse(server, BUSY);
    }
    let begin = Instant::now();
    let report = refusal.shutdown(Some(50 * MS));
    println!("shutdown with 50 lingering, limit 50 ms: {:?}, {report:?}", begin.elapsed());
    drop(clients);

    let refusal = patient().max_connections(5_000).build().unwrap();
    let (clients, servers): (Vec<_>, Vec<_>) = (0..5_000).map(|_| net.connect()).unzip();
    let (begin, cpu) = (Instant::now(), cpu_used());
    for server in servers {
        refusal.refuse(server, BUSY);
    }
    println!("5000 refused: {:?}, {} µs of CPU", begin.elapsed(), (cpu_used() - cpu).as_micros());
    let (begin, cpu) = (Instant::now(), cpu_used());
    while begin.elapsed() < 3_000 * MS {
        thread::park_timeout(100 * MS);
    }
    println!("5000 held for {:?}: {} µs of CPU", begin.elapsed(), (cpu_used() - cpu).as_micros());
    let (begin, cpu) = (Instant::now(), cpu_used());
    drop(clients);
    while refusal.snapshot().held > 0 {
        thread::park_timeout(MS);
    }
    println!(
        "5000 closed by their peers: {:?}, {} µs of CPU",
        begin.elapsed(),
        (cpu_used() - cpu).as_micros()
    );
}

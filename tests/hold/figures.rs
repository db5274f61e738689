//! What holding costs. Not a test: it prints, and judges nothing.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use weirpool::hold::RejectionHold;

use crate::common::process::cpu_used;
use crate::holds::SECOND;

/// Not a test: what holding costs. Run it in a release build:
/// `cargo test --release --test hold figures -- --ignored --nocapture`.
#[test]
#[ignore = "prints figures, judges nothing"]
fn figures() {
    fn resident_kib() -> u64 {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4
    }
    fn each_ns(cpu: Duration, items: usize) -> u128 {
        cpu.as_nanos() / items as u128
    }
    const ITEMS: usize = 100_000;
    let hold_time = 3 * SECOND;
    let hold = RejectionHold::builder().hold_time(hold_time).max_items(ITEMS).build().unwrap();
    let (memory, cpu, begin) = (resident_kib(), cpu_used(), Instant::now());
    for item in 0..ITEMS {
        hold.hold(item as u64);
    }
    let (took, work) = (begin.elapsed(), cpu_used() - cpu);
    let held = resident_kib() - memory;
    println!("{ITEMS} items in: {took:?}, {} ns of CPU each, {held} KiB", each_ns(work, ITEMS));
    let (cpu, begin) = (cpu_used(), Instant::now());
    while hold.snapshot().held == ITEMS {
        thread::park_timeout(Duration::from_millis(20));
    }
    println!("held for {:?}: {} µs of CPU", begin.elapsed(), (cpu_used() - cpu).as_micros());
    let (cpu, begin) = (cpu_used(), Instant::now());
    while hold.snapshot().held > 0 {
        thread::yield_now();
    }
    println!("released in {:?}", begin.elapsed());
    let cpu = each_ns(cpu_used() - cpu, ITEMS);
    println!(
        "at most {cpu} ns of CPU each; left over {} KiB",
        resident_kib().saturating_sub(memory)
    );
    let (cpu, begin) = (cpu_used(), Instant::now());
    for item in 0..10 * ITEMS {
        hold.hold(item as u64);
    }
    let each = each_ns(cpu_used() - cpu, 10 * ITEMS);
    println!("{} items at a full hold: {:?}, {each} ns of CPU each", 10 * ITEMS, begin.elapsed());
    let stopped = AtomicBool::new(hold.shutdown(None).remaining == 0);
    assert!(stopped.load(SeqCst));
}

//! Who does not meet a gate that refuses all it can, what is said instead of its refusal, and that
//! a panic leaves it as it was.

use std::time::Duration;

use weirpool::test::{ManualClock, ManualCpu};
use weirpool::{Clock, JobSpec, Partition, Permit, Pool, Priority, QueueDelay, Reason};

use crate::bench::{Bench, MS, SAMPLE, always, bench};
use crate::common::{Busy, assert_adds_up, eventually, fail, hold, resolve, watchdog};

/// A pool whose gate refuses all that it can, and the job that it is busy with.
fn shut() -> (Bench, Busy) {
    let bench = bench(always());
    let held = hold(&bench.pool, 1);
    bench.measure(1.0);
    assert!(bench.is_shut());
    (bench, held)
}

#[test]
fn work_begun_and_work_that_waits_do_not_meet_the_gate() {
    let _watchdog = watchdog();
    let (bench, held) = shut();
    let (pool, own) = (&bench.pool, bench.pool.clone());
    let nested = pool.submit_blocking(move || own.try_submit(|| 1).unwrap().join().unwrap());
    let in_time = pool.submit_timeout(|| 2, Duration::ZERO).unwrap();
    assert_eq!(pool.try_reserve().unwrap_err().reason, Reason::Cpu);
    assert_eq!(pool.try_reserve_many(2).unwrap_err().reason, Reason::Cpu);
    held.free();
    assert_eq!(resolve(nested.unwrap()).unwrap(), 1);
    assert_eq!(resolve(in_time).unwrap(), 2);

    let (bench, permit, held) = bench_open_then_shut();
    assert!(permit.submit(|| ()).is_ok(), "its slot was taken before");
    held.free();
    bench.pool.wait_idle();
}

fn bench_open_then_shut() -> (Bench, Permit, Busy) {
    let bench = bench(always());
    let permit = bench.pool.try_reserve().unwrap();
    let held = hold(&bench.pool, 1);
    bench.measure(1.0);
    assert!(bench.is_shut());
    (bench, permit, held)
}

#[test]
fn the_first_reason_in_the_order_is_reported() {
    let (cpu, clock) = (ManualCpu::new(), ManualClock::new());
    let pool = Pool::builder().workers(1).capacity(3).clock(clock.clone()).max_bytes(10);
    let pool = pool.partition("a", Partition::new().max(1)).queue_delay(QueueDelay::graded(MS));
    let pool = pool.cpu_gate(always().source(cpu.clone())).build().unwrap();
    for _ in 0..60 {
        let time = clock.clone();
        resolve(pool.try_submit(move || time.advance(10 * MS)).unwrap()).unwrap();
    }
    eventually("the door is up", || pool.snapshot().queue_delay.door_jobs.is_some());
    let of_a = pool.job().partition(pool.partition("a").unwrap()).bytes(10);
    let held = hold(&pool, 1);
    of_a.try_spawn(|| ()).unwrap();
    pool.set_capacity(2);
    let (past, reason) =
        (clock.now(), |job: JobSpec<'_>| job.try_spawn(|| ()).unwrap_err().reason());
    clock.advance(MS);
    pool.set_capacity(64);
    (0..3).for_each(|_| pool.try_spawn(|| ()).unwrap());
    pool.set_capacity(5);
    // Full, out of bytes, the partition at its maximum, and four jobs of 10 ms wait.
    assert_eq!(reason(of_a), Reason::QueueDelay);
    cpu.set(1.0);
    clock.advance(SAMPLE);
    let critical = pool.job().priority(Priority::Critical);
    pool.set_capacity(6);
    critical.try_spawn(|| ()).unwrap();
    assert_eq!(reason(of_a), Reason::Cpu);
    assert_eq!(reason(of_a.deadline(past)), Reason::Deadline);
    assert_eq!(reason(of_a.timeout(MS)), Reason::Deadline, "the wait alone takes longer");
    pool.close();
    assert_eq!(reason(of_a.deadline(past)), Reason::Closed);
    assert_eq!(reason(of_a), Reason::Closed);
    held.free();
    pool.wait_idle();
    assert_adds_up(&pool);
}

#[test]
fn a_panic_of_a_body_leaves_the_gate_as_it_was() {
    let (bench, held) = shut();
    let job = bench.pool.submit_blocking(fail).unwrap();
    held.free();
    assert!(resolve(job).unwrap_err().is_panic());
    assert!(bench.is_shut());
}

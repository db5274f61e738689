//! Queue delay beside all else that can refuse a job, and the settings that are refused, or are
//! extreme.

use std::time::Duration;

use weirpool::{Builder, Clock, JobSpec, Partition, Pool, Priority, QueueDelay, Reason};

use crate::common::{assert_at_rest, hold, resolve};
use crate::pools::{MS, fill, graded, taught, taught_with};

#[test]
fn the_first_reason_in_the_order_is_reported() {
    let set = |builder: Builder| {
        builder.capacity(22).partition("a", Partition::new().max(1)).max_bytes(10)
    };
    let (pool, clock) = taught_with(graded(), set);
    let of_a = pool.job().partition(pool.partition("a").unwrap());
    let held = hold(&pool, 1);
    let job = of_a.bytes(10).try_submit(|| ()).unwrap();
    assert_eq!(fill(pool.job()), (19, Reason::QueueDelay));
    let past = clock.now();
    clock.advance(MS);
    let reason = |job: JobSpec<'_>| job.try_spawn(|| ()).unwrap_err().reason();
    assert_eq!(reason(of_a.bytes(1).deadline(past)), Reason::Deadline);
    assert_eq!(reason(of_a.bytes(1)), Reason::QueueDelay);
    // High work meets no queue.
    let of_a = of_a.priority(Priority::High);
    assert_eq!(reason(of_a.bytes(1)), Reason::Partition);
    let high = pool.job().priority(Priority::High);
    assert_eq!(reason(high.bytes(1)), Reason::Bytes);
    high.try_spawn(|| ()).unwrap();
    assert_eq!(reason(high), Reason::Full);
    assert_eq!(reason(high.bytes(1)), Reason::Bytes);
    pool.close();
    assert_eq!(reason(of_a.bytes(1).deadline(past)), Reason::Closed);
    held.free();
    drop(job);
    pool.wait_idle();
    assert_at_rest(&pool);
}

#[test]
fn nonsense_is_refused_by_name_when_the_pool_is_built() {
    let said = |law| {
        let error = Pool::builder().queue_delay(law).build().unwrap_err();
        error.to_string()
    };
    let zero = Duration::ZERO;
    for law in
        [QueueDelay::graded(zero), QueueDelay::codel(zero, MS), QueueDelay::rfc8289(zero, MS)]
    {
        assert!(said(law).starts_with("queue_delay.target = 0ns"), "{}", said(law));
    }
    for law in [QueueDelay::codel(MS, zero), QueueDelay::rfc8289(MS, zero)] {
        assert!(said(law).starts_with("queue_delay.interval = 0ns"), "{}", said(law));
    }
    assert!(said(QueueDelay::cutoff(zero)).starts_with("queue_delay.max = 0ns"));
    for law in [
        QueueDelay::graded(Duration::MAX),
        QueueDelay::codel(Duration::MAX, Duration::MAX),
        QueueDelay::rfc8289(Duration::MAX, Duration::MAX),
        QueueDelay::cutoff(Duration::MAX),
    ] {
        let (pool, clock) = taught(law);
        let held = hold(&pool, 1);
        let job = pool.try_submit(|| 1).unwrap();
        clock.advance(900 * MS);
        held.free();
        assert_eq!(resolve(job).unwrap(), 1, "{law:?}: no wait is too long");
        let _ = (format!("{:?}", pool.snapshot()), pool.load());
    }
}

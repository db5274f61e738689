//! A deadline limits the start of a job: expired work is never run, work that runs is never cut.
//!
//! Time is a `ManualClock`: it passes only where a test says so.

mod common;

use std::time::{Duration, Instant};

use common::{Busy, Count, Drops, hold, resolve};
use weirpool::test::ManualClock;
use weirpool::{Clock, JobError, Pool, Priority, Reason, ShedReason, Shutdown};

const SECOND: Duration = Duration::from_secs(1);

/// A pool of one worker on a clock of its own.
fn pool(capacity: usize) -> (Pool, ManualClock) {
    let clock = ManualClock::new();
    let builder = Pool::builder().batch().workers(1).capacity(capacity).clock(clock.clone());
    (builder.build().unwrap(), clock)
}

/// The same, with its worker held.
fn held(capacity: usize) -> (Pool, ManualClock, Busy) {
    let (pool, clock) = pool(capacity);
    let held = hold(&pool, 1);
    (pool, clock, held)
}

fn is_expired<T>(outcome: &Result<T, JobError>) -> bool {
    matches!(outcome, Err(JobError::Shed(ShedReason::Deadline)))
}

#[test]
fn expired_work_is_not_run_and_fresh_work_is() {
    let (pool, clock, held) = held(128);
    let (ran, dropped) = (Count::new(), Drops::new());
    let submit = |many| -> Vec<_> {
        let submit = |_| {
            let (ran, ghost) = (ran.clone(), dropped.tracked());
            let body = move || {
                let _ghost = ghost;
                ran.add();
            };
            pool.job().timeout(SECOND).try_submit(body).unwrap()
        };
        (0..many).map(submit).collect()
    };
    let expiring = submit(100);
    clock.advance(10 * SECOND);
    let fresh = submit(5);
    held.free();

    for job in fresh {
        resolve(job).unwrap();
    }
    for mut job in expiring {
        assert!(is_expired(&job.try_take().expect("all went in one sweep")));
    }
    assert_eq!((ran.get(), dropped.count(), pool.in_flight()), (5, 105, 0));
    let seen = pool.snapshot();
    assert_eq!((seen.shed.get(ShedReason::Deadline), seen.shed.total()), (100, 100));
    assert_eq!((seen.accepted, seen.completed), (106, 6));
}

#[test]
fn a_body_that_started_in_time_runs_to_its_end() {
    let (pool, clock, held) = held(4);
    let time = clock.clone();
    let long = pool.job().timeout(SECOND).try_submit(move || {
        time.advance(5 * SECOND);
        assert!(!weirpool::is_cancelled());
        weirpool::context().unwrap().queued_for()
    });
    let waited = SECOND * 9 / 10;
    clock.advance(waited);
    held.free();
    assert_eq!(resolve(long.unwrap()).unwrap(), waited);
}

#[test]
fn slots_of_expired_jobs_are_back_when_the_worker_has_passed_them() {
    let (pool, clock, held) = held(4);
    let kept = pool.job().timeout(SECOND).try_submit(|| ()).unwrap();
    for _ in 0..2 {
        pool.job().timeout(SECOND).try_spawn(|| ()).unwrap();
    }
    clock.advance(2 * SECOND);
    held.free();
    assert!(is_expired(&resolve(kept)));
    common::eventually("detached ones too", || pool.in_flight() == 0);
    hold(&pool, 1).free();
    assert_eq!(pool.snapshot().shed.get(ShedReason::Deadline), 3);
}

/// Whether a job is still run `seconds` after its submission.
fn runs_after(seconds: u32, deadline: Option<u32>, timeout: Option<Duration>) -> bool {
    let (pool, clock, held) = held(4);
    let begun = clock.now();
    let spec = pool.job();
    let spec = deadline.map_or(spec, |at| spec.deadline(begun + at * SECOND));
    let spec = timeout.map_or(spec, |timeout| spec.timeout(timeout));
    let job = spec.try_submit(|| ()).unwrap();
    clock.advance(seconds * SECOND);
    held.free();
    let outcome = resolve(job);
    assert!(outcome.is_ok() || is_expired(&outcome));
    outcome.is_ok()
}

#[test]
fn the_earlier_of_deadline_and_timeout_holds() {
    let cases = [
        // (deadline, timeout), runs after so many seconds, not after so many
        (Some(10), None, 9, 11),
        (None, Some(10), 9, 11),
        (Some(10), Some(20), 9, 11),
        (Some(20), Some(10), 9, 11),
        (Some(10), Some(10), 9, 11),
    ];
    for (deadline, timeout, in_time, late) in cases {
        let timeout = timeout.map(|timeout: u32| timeout * SECOND);
        assert!(runs_after(in_time, deadline, timeout), "{deadline:?} {timeout:?}");
        assert!(!runs_after(late, deadline, timeout), "{deadline:?} {timeout:?}");
    }
}

#[test]
fn the_order_of_the_settings_does_not_matter() {
    let (pool, clock) = pool(8);
    let seen = || weirpool::context().unwrap().deadline();
    let (soon, late) = (clock.now() + SECOND, clock.now() + 9 * SECOND);
    let spec = pool.job();
    for spec in [
        spec.deadline(soon).timeout(9 * SECOND),
        spec.timeout(9 * SECOND).deadline(soon),
        spec.deadline(late).timeout(SECOND),
        spec.timeout(SECOND).deadline(late),
    ] {
        assert_eq!(resolve(spec.try_submit(seen).unwrap()).unwrap(), Some(soon));
    }
}

#[test]
fn a_timeout_beyond_all_time_is_no_deadline() {
    let seen = || weirpool::context().unwrap().deadline();
    let (pool, clock) = pool(8);
    for endless in [Duration::MAX, Duration::from_secs(u64::MAX)] {
        let job = pool.job().timeout(endless).try_submit(seen).unwrap();
        assert_eq!(resolve(job).unwrap(), None);
        assert!(runs_after(u32::MAX, None, Some(endless)));

        let soon = clock.now() + SECOND;
        let job = pool.job().timeout(endless).deadline(soon).try_submit(seen).unwrap();
        assert_eq!(resolve(job).unwrap(), Some(soon));
        assert!(!runs_after(11, Some(10), Some(endless)));
    }
}

#[test]
fn a_timeout_counts_from_each_submit_not_from_the_setting() {
    let (pool, clock) = pool(8);
    let spec = pool.job().timeout(SECOND);
    for _ in 0..3 {
        let job = spec.try_submit(|| weirpool::context().unwrap().deadline());
        assert_eq!(resolve(job.unwrap()).unwrap(), Some(clock.now() + SECOND));
        clock.advance(5 * SECOND);
    }
}

#[test]
fn expired_at_the_door_is_refused_and_changes_nothing() {
    for priority in [Priority::Low, Priority::Normal, Priority::High, Priority::Critical] {
        let (pool, clock) = pool(2);
        let past = clock.now();
        clock.advance(SECOND);
        let spec = pool.job().priority(priority).deadline(past);
        let dropped = Drops::new();
        let ghost = dropped.tracked();
        let refused = spec.try_submit(move || drop(ghost)).map(drop).unwrap_err();
        assert_eq!((refused.reason(), dropped.count()), (Reason::Deadline, 0));
        drop(refused.into_job());
        assert_eq!(dropped.count(), 1);
        assert_eq!(spec.try_spawn(|| ()).unwrap_err().reason(), Reason::Deadline);
        assert_eq!(spec.try_reserve().map(drop).unwrap_err().reason(), Reason::Deadline);
        let seen = pool.snapshot();
        assert_eq!((seen.in_flight, seen.accepted), (0, 0));
        assert_eq!(seen.rejected.get(Reason::Deadline), 3);
        assert_eq!(seen.rejected.total(), 3);
    }
}

#[test]
fn the_reason_reported_is_closed_before_deadline_before_full() {
    let (pool, clock, held) = held(1);
    let spec = pool.job().deadline(clock.now());
    clock.advance(SECOND);
    assert_eq!(pool.try_spawn(|| ()).unwrap_err().reason(), Reason::Full);
    assert_eq!(spec.try_spawn(|| ()).unwrap_err().reason(), Reason::Deadline);
    pool.close();
    assert_eq!(spec.try_spawn(|| ()).unwrap_err().reason(), Reason::Closed);
    held.free();
}

#[test]
fn the_door_and_the_worker_judge_the_very_moment_alike() {
    let (pool, clock, held) = held(4);
    let deadline = clock.now() + SECOND;
    let queued = pool.job().deadline(deadline).try_submit(|| ()).unwrap();
    clock.advance(SECOND);
    let at_the_door = pool.job().deadline(deadline).try_spawn(|| ()).is_ok();
    held.free();
    assert_eq!(resolve(queued).is_ok(), at_the_door);
}

#[test]
fn joined_in_place_after_its_time_it_is_shed() {
    let (pool, clock) = pool(4);
    let (own, dropped, ran) = (pool.clone(), Drops::new(), Count::new());
    let (ghost, ran_there) = (dropped.tracked(), ran.clone());
    let parent = pool.try_submit(move || {
        let child = own.job().timeout(SECOND).try_submit(move || {
            let _ghost = ghost;
            ran_there.add();
        });
        clock.advance(2 * SECOND);
        (child.unwrap().join(), own.in_flight())
    });
    let (outcome, in_flight) = resolve(parent.unwrap()).unwrap();
    assert!(is_expired(&outcome), "{outcome:?}");
    assert_eq!((dropped.count(), ran.get(), in_flight), (1, 0, 1));
}

#[test]
fn an_inherited_deadline_holds_at_the_door_too() {
    let (pool, clock) = pool(4);
    let (own, begun) = (pool.clone(), clock.now());
    let parent = pool.job().timeout(SECOND).try_submit(move || {
        clock.advance(2 * SECOND);
        let plain = own.try_spawn(|| ()).unwrap_err().reason();
        let later = own.job().deadline(begun + 9 * SECOND).try_submit(|| 1).unwrap();
        (plain, later.join().unwrap())
    });
    assert_eq!(resolve(parent.unwrap()).unwrap(), (Reason::Deadline, 1));
}

#[test]
fn an_expired_job_still_in_the_queue_may_be_cancelled_or_discarded() {
    let (pool, clock, held) = held(4);
    let spec = pool.job().timeout(SECOND);
    let (cancelled, discarded) = (spec.try_submit(|| ()).unwrap(), spec.try_submit(|| ()).unwrap());
    clock.advance(2 * SECOND);
    assert!(cancelled.cancel());
    let report = pool.shutdown(Shutdown::Discard, Some(Duration::ZERO));
    assert_eq!(report.discarded, 1);
    assert!(resolve(cancelled).unwrap_err().is_cancelled());
    assert!(resolve(discarded).unwrap_err().is_discarded());
    held.free();
}

#[test]
fn a_panic_in_the_destructor_of_an_expired_closure_is_contained() {
    let (pool, clock, held) = held(4);
    let bomb = common::on_drop(|| common::quiet_panic());
    let body = move || {
        let _bomb = &bomb;
    };
    let job = pool.job().timeout(SECOND).try_submit(body).unwrap();
    let next = pool.try_submit(|| 5).unwrap();
    clock.advance(2 * SECOND);
    held.free();
    assert!(is_expired(&resolve(job)));
    assert_eq!(resolve(next).unwrap(), 5);
    assert_eq!(pool.in_flight(), 0);
}

#[test]
fn an_instant_long_past_is_a_deadline_like_any() {
    let pool = Pool::new(1, 2).unwrap();
    let past = Instant::now().checked_sub(Duration::from_nanos(1)).unwrap();
    let refused = pool.job().deadline(past).try_spawn(|| ()).unwrap_err();
    assert_eq!(refused.reason(), Reason::Deadline, "on the real clock");
}

/// A clock that falls back by a second whenever it is read.
struct Backwards(Instant, Count);

impl Clock for Backwards {
    fn now(&self) -> Instant {
        let reads = u64::try_from(self.1.next()).unwrap();
        self.0.checked_sub(Duration::from_secs(reads)).unwrap_or(self.0)
    }
}

#[test]
fn a_clock_that_runs_backwards_loses_no_job() {
    let start = Instant::now() + Duration::from_secs(100_000);
    let clock = Backwards(start, Count::new());
    let pool = Pool::builder().batch().workers(1).capacity(4).clock(clock);
    let pool = pool.build().unwrap();
    for _ in 0..100 {
        let job = pool.job().deadline(start + SECOND).try_submit(|| {
            assert_eq!(weirpool::context().unwrap().queued_for(), Duration::ZERO);
        });
        resolve(job.unwrap()).unwrap();
    }
    assert_eq!((pool.in_flight(), pool.snapshot().completed), (0, 100));
}

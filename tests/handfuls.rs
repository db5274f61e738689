//! Very short jobs that a worker takes several at a time: in what order they are served, and what can
//! still be done with those that it has in hand.
//!
//! The clock stands still unless a body moves it, so that how many are taken is exact.

mod common;

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use common::short::{self, SHORT};
use common::{
    Count, Drops, Gate, Log, OnDrop, assert_at_rest, elsewhere, eventually, hold, on_drop, recv,
    resolve, rounds_in, watchdog,
};
use weirpool::test::ManualClock;
use weirpool::{
    Builder, JobError, JobHandle, Pool, Priority, QueueDelay, Reason, ShedReason, Shutdown,
};

/// So many are in a hand, besides the one that runs.
const IN_HAND: usize = 31;

/// A pool that knows that its jobs are short.
fn taught(builder: Builder) -> (Pool, ManualClock) {
    short::taught(builder.capacity(8_192))
}

fn batch(workers: usize) -> (Pool, ManualClock) {
    taught(Pool::builder().batch().workers(workers))
}

fn wait_idle(pool: &Pool) {
    let pool = pool.clone();
    elsewhere(move || pool.wait_idle()).wait();
}

/// A worker inside a body, and behind that in its hand all that was submitted by `submit`.
struct Hand<T> {
    gate: Gate,
    long: JobHandle<()>,
    others: T,
}

/// Where all other workers are held.
fn hand<T>(pool: &Pool, submit: impl FnOnce() -> T) -> Hand<T> {
    let first = hold(pool, 1);
    let (gate, (started, starts)) = (Gate::new(), mpsc::channel());
    let long = {
        let gate = gate.clone();
        pool.try_submit(move || {
            started.send(()).unwrap();
            gate.wait();
        })
    };
    let others = submit();
    first.free();
    recv(&starts);
    Hand { gate, long: long.unwrap(), others }
}

impl<T> Hand<T> {
    fn free(self) -> T {
        self.gate.open();
        resolve(self.long).unwrap();
        self.others
    }
}

#[test]
fn first_come_first_served_and_higher_lanes_first() {
    let (pool, clock) = batch(1);
    let (held, log) = (hold(&pool, 1), Log::new());
    for nth in 0..200 {
        let (log, clock, inner) = (log.clone(), clock.clone(), pool.clone());
        pool.try_spawn(move || {
            log.push((Priority::Normal, nth));
            clock.advance(SHORT);
            if nth % 50 == 3 {
                let log = log.clone();
                let urgent = move || log.push((Priority::High, nth));
                inner.job().priority(Priority::High).try_spawn(urgent).unwrap();
            }
        })
        .unwrap();
    }
    held.free();
    wait_idle(&pool);
    let mut expected = Vec::new();
    for nth in 0..200 {
        expected.push((Priority::Normal, nth));
        if nth % 50 == 3 {
            expected.push((Priority::High, nth));
        }
    }
    assert_eq!(log.entries(), expected);
    assert_at_rest(&pool);
}

/// Submits itself again and again, for so many rounds.
fn again(pool: Pool, rounds: usize, each: Arc<dyn Fn() + Send + Sync>) {
    each();
    if rounds > 0 {
        let next = pool.clone();
        pool.try_spawn(move || again(next, rounds - 1, each)).unwrap();
    }
}

#[test]
fn a_job_below_two_that_submit_each_other_is_served_beside_a_flood() {
    let (pool, clock) = batch(1);
    let (held, log, seen) = (hold(&pool, 1), Count::new(), Arc::new(Count::new()));
    {
        // The oldest of the worker's deque, and one above it that goes on and on.
        let (inner, log, seen, clock) =
            (pool.clone(), log.clone(), Arc::clone(&seen), clock.clone());
        pool.try_spawn(move || {
            let (below, before) = (Arc::clone(&seen), log.clone());
            inner.try_spawn(move || (0..before.get()).for_each(|_| below.add())).unwrap();
            let each = Arc::new(move || {
                log.add();
                clock.advance(SHORT);
            });
            again(inner, 3_000, each);
        })
        .unwrap();
    }
    for _ in 0..2_000 {
        let clock = clock.clone();
        pool.try_spawn(move || clock.advance(SHORT)).unwrap();
    }
    held.free();
    wait_idle(&pool);
    assert!((1..=200).contains(&seen.get()), "after {} rounds", seen.get());
}

#[test]
fn what_is_in_hand_is_served_in_time_beside_a_flood_in_the_own_deque() {
    let (pool, clock) = batch(1);
    let (held, began, waited) = (hold(&pool, 1), Count::new(), Log::new());
    {
        let (inner, began, clock) = (pool.clone(), began.clone(), clock.clone());
        pool.try_spawn(move || {
            let each = Arc::new(move || {
                began.add();
                clock.advance(Duration::from_millis(100));
            });
            again(inner, 500, each);
        })
        .unwrap();
    }
    for _ in 0..3 {
        let (began, waited) = (began.clone(), waited.clone());
        pool.try_spawn(move || waited.push(began.get())).unwrap();
    }
    held.free();
    wait_idle(&pool);
    // An ageing bound of a second is ten rounds, and every eighth pick looks.
    let waited = waited.entries();
    assert!(waited.iter().zip(1..).all(|(&rounds, nth)| rounds <= 20 * nth), "{waited:?}");
}

#[test]
fn an_idle_worker_takes_what_lies_behind_a_long_one() {
    let (pool, _clock) = batch(2);
    let other = hold(&pool, 1);
    let behind = hand(&pool, || {
        (0..IN_HAND).map(|nth| pool.try_submit(move || nth).unwrap()).collect::<Vec<_>>()
    });
    assert_eq!((pool.running(), pool.queued()), (2, IN_HAND));
    other.free();
    for (nth, job) in behind.others.into_iter().enumerate() {
        assert_eq!(resolve(job).unwrap(), nth);
    }
    behind.gate.open();
    resolve(behind.long).unwrap();
    wait_idle(&pool);
    assert_at_rest(&pool);
}

#[test]
fn jobs_in_hand_are_cancelled_displaced_and_discarded_like_others() {
    let (pool, _clock) = batch(1);
    let drops = Drops::new();
    let submit = || {
        let tracked = drops.tracked();
        pool.try_submit(move || drop(tracked)).unwrap()
    };
    let hand = hand(&pool, || (0..IN_HAND).map(|_| submit()).collect::<Vec<_>>());
    pool.set_capacity(1 + IN_HAND);
    let now = pool.snapshot();
    assert_eq!((now.in_flight, now.queued, now.running), (1 + IN_HAND, IN_HAND, 1));
    assert_eq!(pool.try_spawn(|| ()).unwrap_err().reason(), Reason::Full);

    // Cancelled: the slot is back at once.
    assert!(hand.others[3].cancel() && !hand.others[3].cancel());
    assert_eq!((drops.count(), pool.in_flight()), (1, IN_HAND));
    let filled = pool.try_submit(|| ()).unwrap();

    // Displaced: one of them gives way, and each only once.
    let critical = pool.job().priority(Priority::Critical);
    let urgent: Vec<_> = (0..IN_HAND).map(|_| critical.try_submit(|| ()).unwrap()).collect();
    assert_eq!(critical.try_spawn(|| ()).unwrap_err().reason(), Reason::Full);
    assert_eq!(drops.count(), IN_HAND);
    assert!(matches!(resolve(filled), Err(JobError::Shed(ShedReason::Displaced))));
    assert_eq!(pool.in_flight(), 1 + IN_HAND);

    // Discarded.
    let report = pool.shutdown(Shutdown::Discard, Some(Duration::ZERO));
    assert_eq!((report.discarded, report.still_running), (IN_HAND, 1));
    for job in urgent {
        assert!(matches!(resolve(job), Err(JobError::Discarded)));
    }
    let ends: Vec<_> = hand.free().into_iter().map(resolve).collect();
    let cancelled = ends.iter().filter(|end| matches!(end, Err(JobError::Cancelled))).count();
    let is_displaced =
        |end: &&Result<_, _>| matches!(end, Err(JobError::Shed(ShedReason::Displaced)));
    assert_eq!((cancelled, ends.iter().filter(is_displaced).count()), (1, IN_HAND - 1));
    wait_idle(&pool);
    assert_at_rest(&pool);
}

#[test]
fn what_is_in_hand_is_discarded_with_the_rest() {
    let (pool, _clock) = batch(2);
    let other = hold(&pool, 1);
    let ran = Count::new();
    let hand = hand(&pool, || {
        let submit = |_| {
            let ran = ran.clone();
            pool.try_submit(move || ran.add()).unwrap()
        };
        (0..IN_HAND).map(submit).collect::<Vec<_>>()
    });
    let report = pool.shutdown(Shutdown::Discard, Some(Duration::ZERO));
    assert_eq!((report.discarded, report.still_running), (IN_HAND, 2));
    for job in hand.free() {
        assert!(matches!(resolve(job), Err(JobError::Discarded)));
    }
    other.free();
    wait_idle(&pool);
    assert_eq!(ran.get(), 0);
    assert_at_rest(&pool);
}

#[test]
fn a_deadline_and_a_cut_off_hold_for_jobs_in_hand() {
    let ms = Duration::from_millis;
    let builder = Pool::builder().workers(1).no_cpu_gate().queue_delay(QueueDelay::cutoff(ms(20)));
    let (pool, clock) = taught(builder);
    let dated = pool.job().timeout(ms(10));
    let hand = hand(&pool, || [dated.try_submit(|| ()).unwrap(), pool.try_submit(|| ()).unwrap()]);
    clock.advance(ms(15));
    let late = pool.try_submit(|| ()).unwrap();
    clock.advance(ms(15));
    let [dated, waited] = hand.free();
    assert!(matches!(resolve(dated), Err(JobError::Shed(ShedReason::Deadline))));
    assert!(matches!(resolve(waited), Err(JobError::Shed(ShedReason::QueueDelay))));
    resolve(late).unwrap();
}

#[test]
fn bytes_of_a_job_in_hand_return_with_it() {
    let (pool, _clock) = taught(Pool::builder().batch().workers(1).max_bytes(100));
    let heavy = || pool.job().bytes(40);
    let hand =
        hand(&pool, || [heavy().try_submit(|| ()).unwrap(), heavy().try_submit(|| ()).unwrap()]);
    assert_eq!(heavy().try_spawn(|| ()).unwrap_err().reason(), Reason::Bytes);
    assert!(hand.others[1].cancel());
    assert_eq!(pool.snapshot().bytes, 40);
    let [first, second] = hand.free();
    resolve(first).unwrap();
    assert!(matches!(resolve(second), Err(JobError::Cancelled)));
    wait_idle(&pool);
    assert_eq!(pool.snapshot().bytes, 0);
}

#[test]
fn jobs_in_hand_end_when_the_last_pool_goes() {
    let (pool, _clock) = batch(1);
    let (ran, drops) = (Count::new(), Drops::new());
    let hand = hand(&pool, || {
        for _ in 0..IN_HAND {
            let (ran, tracked) = (ran.clone(), drops.tracked());
            pool.try_spawn(move || {
                ran.add();
                drop(tracked);
            })
            .unwrap();
        }
    });
    drop(pool);
    hand.free();
    eventually("all have run", || drops.count() == IN_HAND);
    assert_eq!(ran.get(), IN_HAND);
}

#[test]
fn a_body_joins_what_its_worker_has_in_hand() {
    let (pool, _clock) = batch(1);
    let first = hold(&pool, 1);
    let (sender, handles) = mpsc::channel::<JobHandle<usize>>();
    let parent = pool.try_submit(move || {
        // The newest first.
        let handles: Vec<_> = handles.iter().collect();
        handles.into_iter().rev().map(|handle| handle.join().unwrap()).collect::<Vec<_>>()
    });
    for nth in 0..IN_HAND {
        sender.send(pool.try_submit(move || nth).unwrap()).unwrap();
    }
    drop(sender);
    first.free();
    let expected: Vec<_> = (0..IN_HAND).rev().collect();
    assert_eq!(resolve(parent.unwrap()).unwrap(), expected);
    wait_idle(&pool);
    assert_at_rest(&pool);
}

#[test]
fn a_destructor_of_a_job_in_hand_may_submit_and_panic() {
    let (pool, _clock) = batch(1);
    let ran = Count::new();
    let hand = hand(&pool, || {
        let submit = |nth: usize| {
            let (inner, ran) = (pool.clone(), ran.clone());
            let last_act: OnDrop<_> = on_drop(move || {
                inner.try_spawn(move || ran.add()).unwrap();
                if nth % 2 == 0 {
                    common::quiet_panic();
                }
            });
            pool.try_submit(move || drop(last_act)).unwrap()
        };
        (0..IN_HAND).map(submit).collect::<Vec<_>>()
    });
    assert!(hand.others.iter().all(JobHandle::cancel));
    let contained = pool.snapshot().contained_panics;
    assert_eq!(contained, (IN_HAND as u64).div_ceil(2));
    hand.free();
    wait_idle(&pool);
    assert_eq!(ran.get(), IN_HAND);
    assert_at_rest(&pool);
}

#[test]
fn what_lies_behind_a_long_job_is_served_beside_a_flood() {
    let (pool, clock) = batch(2);
    let (other, began, waited) = (hold(&pool, 1), Count::new(), Log::new());
    let behind = hand(&pool, || {
        for _ in 0..IN_HAND {
            let (began, waited) = (began.clone(), waited.clone());
            pool.try_spawn(move || waited.push(began.get())).unwrap();
        }
    });
    for _ in 0..4_000 {
        let (began, clock) = (began.clone(), clock.clone());
        pool.try_spawn(move || {
            began.add();
            clock.advance(Duration::from_millis(1));
        })
        .unwrap();
    }
    other.free();
    eventually("all have begun", || began.get() == 4_000 && waited.entries().len() == IN_HAND);
    behind.free();
    // Every eighth job that comes from the lane lets one of them go first.
    let waited = waited.entries();
    assert!(waited.iter().zip(1..).all(|(&before, nth)| before <= 40 + 10 * nth), "{waited:?}");
}

/// What the submitters of a storm have counted.
#[derive(Default)]
struct Ghosts {
    accepted: Count,
    ran: Count,
    drops: Drops,
}

/// Submits short jobs of all priorities and gives them up in every way.
fn storm(pool: &Pool, ghosts: &Ghosts, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    for nth in 0..rounds_in(4_000, 40_000) {
        let (ran, tracked) = (ghosts.ran.clone(), ghosts.drops.tracked());
        let is_long = random.u32(..20_000) == 0;
        let body = move || {
            let _tracked = tracked;
            (0..if is_long { 50_000 } else { 0 }).for_each(|_| std::hint::spin_loop());
            ran.add();
        };
        let priority = match random.u8(..20) {
            0 => Priority::Low,
            1 => Priority::High,
            2 => Priority::Critical,
            _ => Priority::Normal,
        };
        let mut spec = pool.job().priority(priority);
        if random.u8(..10) == 0 {
            spec = spec.timeout(Duration::from_micros(random.u64(..200)));
        }
        if let Ok(job) = spec.try_submit(body) {
            ghosts.accepted.add();
            match random.u8(..6) {
                0 => _ = job.cancel(),
                1 => drop(job.cancel_on_drop()),
                2 => {
                    let canceller = job.canceller();
                    drop(job);
                    canceller.cancel();
                }
                3 if nth % 32 == 0 => _ = job.join(),
                _ => drop(job),
            }
        }
        if nth % 500 == 0 {
            pool.set_capacity(random.usize(1..=256));
        }
    }
}

#[test]
fn a_storm_of_short_jobs_loses_none_and_every_snapshot_adds_up() {
    let _watchdog = watchdog();
    for workers in [1, 2, 4] {
        let pool = Pool::builder().batch().workers(workers).capacity(256).build().unwrap();
        let (ghosts, over) = (Ghosts::default(), AtomicBool::new(false));
        thread::scope(|s| {
            let (pool, ghosts, over) = (&pool, &ghosts, &over);
            s.spawn(move || {
                while !over.load(SeqCst) {
                    let now = pool.snapshot();
                    assert_eq!(now.in_flight, now.reserved + now.queued + now.running);
                    assert!(now.in_flight <= 256, "{now:?}");
                }
            });
            let storms: Vec<_> =
                (0..3).map(|seed| s.spawn(move || storm(pool, ghosts, seed))).collect();
            let ended: Vec<_> = storms.into_iter().map(thread::ScopedJoinHandle::join).collect();
            over.store(true, SeqCst);
            assert!(ended.iter().all(Result::is_ok));
        });
        wait_idle(&pool);
        let now = pool.snapshot();
        assert_eq!(now.accepted as usize, ghosts.accepted.get());
        assert_eq!(now.completed as usize, ghosts.ran.get());
        let ends = now.completed + now.panicked + now.cancelled + now.shed.total() + now.discarded;
        assert_eq!(now.accepted, ends);
        assert_eq!(ghosts.drops.count(), 3 * rounds_in(4_000, 40_000));
        assert_at_rest(&pool);
    }
}

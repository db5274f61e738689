//! Memory: a refusal allocates nothing, a job once, and what is cancelled leaves nothing behind.
//!
//! A test binary of its own, with one test, so that nothing else disturbs the counts.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use common::{occupy, watchdog};
use weirpool::test::ManualClock;
use weirpool::{Clock as _, JobHandle, Pool, Priority, Reason};

/// Bytes allocated and not freed, in the whole process.
static LIVE_BYTES: AtomicIsize = AtomicIsize::new(0);

thread_local! {
    /// Allocations made by this thread.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

impl Counting {
    fn note(bytes: isize) {
        LIVE_BYTES.fetch_add(bytes, SeqCst);
        if bytes > 0 {
            let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        }
    }
}

// SAFETY: everything is left to the system's allocator; the counters neither allocate nor unwind.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Counting::note(layout.size() as isize);
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        Counting::note(-(layout.size() as isize));
        // SAFETY: the caller keeps the promises of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations that this thread makes in `f`.
fn allocations<T>(f: impl FnOnce() -> T) -> (usize, T) {
    let before = ALLOCATIONS.get();
    let output = f();
    (ALLOCATIONS.get() - before, output)
}

fn live_bytes() -> isize {
    LIVE_BYTES.load(SeqCst)
}

#[test]
fn memory_stays_within_its_bounds() {
    let _watchdog = watchdog();
    a_refusal_allocates_nothing();
    a_job_allocates_once_on_the_submitting_thread_and_never_on_the_worker();
    a_backlog_allocates_once_for_each_job();
    submit_and_cancel_behind_blocked_workers_leaves_nothing();
    nested_submit_and_cancel_behind_blocked_workers_leaves_nothing();
}

fn a_refusal_allocates_nothing() {
    fn check(reason: Reason, refuse: impl Fn() -> Reason) {
        for round in 0..100 {
            let (count, seen) = allocations(&refuse);
            assert_eq!((seen, count), (reason, 0), "{reason:?}, round {round}");
        }
    }
    let clock = ManualClock::new();
    for builder in [Pool::builder(), Pool::builder().batch()] {
        let pool = builder.workers(1).capacity(1).clock(clock.clone()).build().unwrap();
        let big = [7_u8; 1024];
        let all_doors = |reason| {
            check(reason, || pool.try_submit(move || big[0]).unwrap_err().reason());
            check(reason, || {
                pool.try_spawn(move || assert_eq!(big[0], 7)).unwrap_err().refusal().reason()
            });
            check(reason, || pool.try_reserve().unwrap_err().reason());
            check(reason, || {
                pool.job()
                    .priority(Priority::Critical)
                    .try_submit(move || big)
                    .unwrap_err()
                    .reason()
            });
        };
        let full = pool.try_reserve().unwrap();
        all_doors(Reason::Full);
        drop(full);

        let past = clock.now();
        clock.advance(Duration::from_secs(1));
        check(Reason::Deadline, || {
            pool.job().deadline(past).try_submit(move || big[0]).unwrap_err().reason()
        });
        pool.close();
        all_doors(Reason::Closed);
    }
}

/// The most allocations of this thread in one submit, and all of them in submit and join together.
fn submit_and_join<F: FnOnce() -> T + Send + 'static, T: Send + 'static>(
    pool: &Pool,
    jobs: usize,
    body: impl Fn() -> F,
) -> (usize, usize) {
    let (mut most, mut all) = (0, 0);
    for _ in 0..jobs {
        let (submit, job) = allocations(|| pool.try_submit(body()).unwrap());
        let (join, _) = allocations(|| job.join().unwrap());
        most = most.max(submit);
        all += submit + join;
    }
    (most, all)
}

fn a_job_allocates_once_on_the_submitting_thread_and_never_on_the_worker() {
    let pool = Pool::new(1, 4).unwrap();
    let (numbers, big) = ([1_usize, 2, 3], [5_u8; 10 << 10]);
    submit_and_join(&pool, 1_000, || || ());
    let jobs = 1_000;
    let cases = [
        ("no captures", submit_and_join(&pool, jobs, || || ())),
        ("a few captures", submit_and_join(&pool, jobs, || move || numbers.len())),
        ("10 KiB of captures", submit_and_join(&pool, jobs, || move || big[17])),
        ("a result of 10 KiB", submit_and_join(&pool, jobs, || move || big)),
    ];
    for (case, (most, all)) in cases {
        assert!(most <= 1, "{case}: {most} allocations in one submit");
        assert!(all <= jobs, "{case}: {all} allocations for {jobs} jobs");
    }

    // The worker's own count, read in each body: all that lies between two bodies is the pool's.
    let read = |_| pool.try_submit(|| ALLOCATIONS.get()).unwrap().join().unwrap();
    let counts: Vec<_> = (0..jobs).map(read).collect();
    assert_eq!(counts[jobs - 1] - counts[0], 0, "allocations of the worker for {jobs} jobs");
}

fn a_backlog_allocates_once_for_each_job() {
    let jobs = 1_000;
    let pool = Pool::new(1, 1 + jobs).unwrap();
    for fill in ["first", "second"] {
        let busy = occupy(&pool);
        let mut handles: Vec<JobHandle<usize>> = Vec::with_capacity(jobs);
        let mut most = 0;
        let (all, ()) = allocations(|| {
            for number in 0..jobs {
                let (count, job) = allocations(|| pool.try_submit(move || number).unwrap());
                most = most.max(count);
                handles.push(job);
            }
        });
        println!(
            "{fill} fill of the queue: {all} allocations for {jobs} jobs, at most {most} in one submit"
        );
        busy.free();
        let sum: usize = handles.into_iter().map(|job| job.join().unwrap()).sum();
        assert_eq!(sum, jobs * (jobs - 1) / 2);
        assert!(
            all <= jobs && most <= 1,
            "{fill} fill of the queue: {all} allocations for {jobs} jobs, {most} in one submit"
        );
    }
}

/// Submits and cancels in batches, over and over, while all workers are blocked; returns by how much live memory grew, at most.
fn churn(pool: &Pool, batch: usize, rounds: usize) -> isize {
    let mut jobs: Vec<JobHandle<()>> = Vec::with_capacity(batch);
    let token = Arc::new(AtomicUsize::new(0));
    let mut once = |round: usize| {
        for number in 0..batch {
            let ran = token.clone();
            let body = move || {
                ran.fetch_add(1, SeqCst);
            };
            let lane = [Priority::Normal, Priority::Low, Priority::High][(round + number) % 3];
            jobs.push(
                pool.job().priority(lane).try_submit(body).expect("cancelled jobs hold slots"),
            );
        }
        // The newest first, or the oldest.
        if round % 2 == 0 {
            jobs.reverse();
        }
        for job in jobs.drain(..) {
            assert!(job.cancel());
        }
    };
    (0..1_000).for_each(&mut once);
    let before = live_bytes();
    let mut most = 0;
    for round in 0..rounds / batch {
        once(round);
        most = most.max(live_bytes() - before);
    }
    assert_eq!((Arc::strong_count(&token), token.load(SeqCst)), (1, 0));
    most
}

const CHURN_ROUNDS: usize = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };

/// A few KiB: what may lie in the queue of jobs that are gone, whatever their number was.
const CHURN_BYTES: isize = 16 << 10;

fn submit_and_cancel_behind_blocked_workers_leaves_nothing() {
    for (batch, waiting) in [(1, false), (8, false), (1, true), (8, true)] {
        let pool = Pool::new(2, 16).unwrap();
        let busy = occupy(&pool);
        // With a living job at the head of each lane, the dead ones behind it cannot just be popped.
        let lanes = [Priority::Low, Priority::Normal, Priority::High];
        let heads =
            lanes.map(|lane| waiting.then(|| pool.job().priority(lane).try_submit(|| ()).unwrap()));
        let grown = churn(&pool, batch, CHURN_ROUNDS);
        busy.free();
        heads.into_iter().flatten().for_each(|head| head.join().unwrap());
        assert!(grown <= CHURN_BYTES, "batches of {batch}, living heads: {waiting}: {grown} bytes");
        assert_eq!(pool.in_flight(), 0);
    }
}

fn nested_submit_and_cancel_behind_blocked_workers_leaves_nothing() {
    for (batch, waiting) in [(1, false), (8, false), (1, true), (8, true)] {
        let pool = Pool::new(2, 16).unwrap();
        let hold = common::Gate::new();
        let (wait, (started, starts)) = (hold.clone(), std::sync::mpsc::channel());
        let other = pool.try_submit(move || {
            started.send(()).unwrap();
            wait.wait();
        });
        common::recv(&starts);
        let inner = pool.clone();
        let outer = pool.try_submit(move || {
            let head = waiting.then(|| inner.try_submit(|| ()).unwrap());
            let grown = churn(&inner, batch, CHURN_ROUNDS);
            drop(head);
            grown
        });
        let grown = outer.unwrap().join().unwrap();
        hold.open();
        other.unwrap().join().unwrap();
        pool.wait_idle();
        assert!(
            grown <= CHURN_BYTES,
            "nested, batches of {batch}, a living head: {waiting}: {grown} bytes"
        );
        assert_eq!(pool.in_flight(), 0);
    }
}

//! What is counted: a few jobs' ways through the pool, each over and over, the same for each run.
//!
//! One worker, which is held in a body while the queue fills and then finds work until all is done:
//! nobody spins, and how often threads change places changes no count. Time stands still, so that
//! nothing is done because it is due; what the clock itself costs is not counted.

use std::hint::black_box;
use std::sync::mpsc;
use std::time::Instant;

use weirpool::test::ManualClock;
use weirpool::{JobHandle, Pool};

/// Jobs that are in flight at most.
pub(crate) const WAVE: usize = 1024;

/// One way through the pool.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Goes it so many times.
    pub(crate) run: fn(usize),
}

pub(crate) const CASES: &[Case] = &[
    Case { name: "spawn_and_finish", run: |jobs| spawn(&service(), jobs) },
    Case { name: "spawn_and_finish_bare", run: |jobs| spawn(&bare(), jobs) },
    Case { name: "submit_finish_and_join", run: |jobs| join(&service(), jobs) },
    Case { name: "submit_finish_and_join_bare", run: |jobs| join(&bare(), jobs) },
    Case { name: "nested_spawn_and_finish", run: |jobs| nested(&service(), jobs) },
    Case { name: "nested_submit_and_join_in_place", run: |jobs| in_place(&service(), jobs) },
    Case { name: "submit_and_cancel", run: |jobs| cancel(&service(), jobs) },
    Case { name: "reserve_and_give_back", run: |jobs| reserve(&service(), jobs) },
    Case { name: "refuse_full", run: |jobs| refuse_full(&service(), jobs) },
    Case { name: "refuse_closed", run: |jobs| refuse_closed(&service(), jobs) },
    Case { name: "refuse_deadline", run: refuse_deadline },
];

fn builder() -> weirpool::Builder {
    Pool::builder().workers(1).capacity(WAVE + 1).clock(ManualClock::new()).seed(1)
}

fn service() -> Pool {
    builder().build().expect("the settings make sense")
}

fn bare() -> Pool {
    builder().batch().build().expect("the settings make sense")
}

/// Holds the worker until the sender is dropped.
fn hold(pool: &Pool) -> mpsc::Sender<()> {
    let (hold, held) = mpsc::channel::<()>();
    let (started, starts) = mpsc::channel();
    let body = move || {
        let _ = started.send(());
        let _ = held.recv();
    };
    pool.try_spawn(body).expect("there is room");
    starts.recv().expect("the worker is free");
    hold
}

/// Calls for waves of jobs, at the ends of which the pool is idle.
fn waves(pool: &Pool, jobs: usize, mut wave: impl FnMut()) {
    assert_eq!(jobs % WAVE, 0, "whole waves");
    for _ in 0..jobs / WAVE {
        let hold = hold(pool);
        wave();
        drop(hold);
        pool.wait_idle();
    }
}

/// As real closures do, it captures something.
fn job(number: usize) -> impl FnOnce() -> usize + Send + 'static {
    move || black_box(number)
}

fn detached_job(number: usize) -> impl FnOnce() + Send + 'static {
    move || {
        black_box(number);
    }
}

fn spawn(pool: &Pool, jobs: usize) {
    waves(pool, jobs, || {
        for number in 0..WAVE {
            pool.try_spawn(detached_job(number)).expect("there is room");
        }
    });
}

fn join(pool: &Pool, jobs: usize) {
    let mut handles: Vec<JobHandle<usize>> = Vec::with_capacity(WAVE);
    let join_all = |handles: &mut Vec<JobHandle<usize>>| {
        for handle in handles.drain(..) {
            black_box(handle.join().expect("it completes"));
        }
    };
    for _ in 0..jobs / WAVE {
        waves(pool, WAVE, || {
            handles.extend(
                (0..WAVE).map(|number| pool.try_submit(job(number)).expect("there is room")),
            );
        });
        join_all(&mut handles);
    }
}

fn nested(pool: &Pool, jobs: usize) {
    for _ in 0..jobs / WAVE {
        let inner = pool.clone();
        let body = move || {
            for number in 0..WAVE {
                inner.try_spawn(detached_job(number)).expect("there is room");
            }
        };
        pool.try_spawn(body).expect("there is room");
        pool.wait_idle();
    }
}

fn in_place(pool: &Pool, jobs: usize) {
    let inner = pool.clone();
    let body = move || {
        for number in 0..jobs {
            let child = inner.try_submit(job(number)).expect("there is room");
            black_box(child.join().expect("it completes"));
        }
    };
    pool.try_submit(body).expect("there is room").join().expect("it completes");
}

fn cancel(pool: &Pool, jobs: usize) {
    let hold = hold(pool);
    for number in 0..jobs {
        assert!(pool.try_submit(job(number)).expect("there is room").cancel());
    }
    drop(hold);
}

fn reserve(pool: &Pool, jobs: usize) {
    for _ in 0..jobs {
        drop(black_box(pool.try_reserve()));
    }
}

fn refuse(jobs: usize, refused: impl Fn(usize) -> bool) {
    for number in 0..jobs {
        assert!(black_box(refused(number)));
    }
}

fn refuse_full(pool: &Pool, jobs: usize) {
    let _all = pool.try_reserve_many(pool.capacity()).expect("it is empty");
    refuse(jobs, |number| pool.try_submit(job(number)).is_err());
}

fn refuse_closed(pool: &Pool, jobs: usize) {
    pool.close();
    refuse(jobs, |number| pool.try_submit(job(number)).is_err());
}

fn refuse_deadline(jobs: usize) {
    // Before the clock of the pool begins.
    let past = Instant::now();
    let pool = service();
    refuse(jobs, |number| pool.job().deadline(past).try_submit(job(number)).is_err());
}

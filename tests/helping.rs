//! What a worker does while a body on it joins a job that another worker runs: it runs the descendants
//! of that job, and nothing else.

mod common;

use std::cell::Cell;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use common::{Gate, Log, assert_at_rest, eventually, give_way, hold, quiet_panic, recv, resolve};
use weirpool::test::ManualClock;
use weirpool::{Class, JobError, JobHandle, Pool, Priority, ShedReason, Shutdown};

thread_local! {
    /// Whether a body below on this stack joins.
    static JOINING: Cell<bool> = const { Cell::new(false) };
}

fn two() -> Pool {
    Pool::new(2, 64).unwrap()
}

/// One of two workers is inside `parent`, which has said that it is ready; the other runs `joiner` next,
/// with the parent's handle.
fn beside<A: Send + 'static, B: Send + 'static>(
    pool: &Pool,
    parent: impl FnOnce(&Pool, &Sender<()>) -> A + Send + 'static,
    joiner: impl FnOnce(JobHandle<A>) -> B + Send + 'static,
) -> JobHandle<B> {
    let (other, (ready, readies)) = (hold(pool, 1), mpsc::channel());
    let own = pool.clone();
    let parent = pool.try_submit(move || parent(&own, &ready)).unwrap();
    recv(&readies);
    let joiner = pool.job().class(Class(1)).try_submit(move || joiner(parent)).unwrap();
    other.free();
    joiner
}

fn worker() -> usize {
    weirpool::context().expect("in a body").worker_index()
}

#[test]
fn a_child_that_nobody_else_can_run_is_run_by_who_joins_its_parent() {
    let clock = ManualClock::new();
    let pool = Pool::builder().batch().workers(2).capacity(64).clock(clock.clone());
    let pool = pool.build().unwrap();
    let time = clock.clone();
    let joiner = beside(
        &pool,
        move |pool, ready| {
            let (own, open) = (pool.clone(), Gate::new());
            let opened = open.clone();
            let spec = pool.job().class(Class(2)).timeout(Duration::from_secs(60));
            let child = spec.try_submit(move || {
                let context = weirpool::context().unwrap();
                let deadline = context.deadline();
                assert!(deadline.is_some() && !weirpool::is_cancelled());
                time.advance(Duration::from_secs(1));
                let grandchild = own.job().class(Class(3)).try_submit(move || {
                    let context = weirpool::context().unwrap();
                    (context.priority(), context.deadline() == deadline, worker())
                });
                let inherited = grandchild.unwrap().join().unwrap();
                assert_eq!(weirpool::context().unwrap().deadline(), deadline);
                open.open();
                (inherited, worker())
            });
            ready.send(()).unwrap();
            // Both workers are in a body that waits.
            opened.wait();
            (worker(), child.unwrap().join().unwrap())
        },
        |parent| {
            let before = weirpool::context().unwrap();
            let (parents, (inherited, childs)) = parent.join().unwrap();
            let after = weirpool::context().unwrap();
            assert_eq!(before.deadline(), after.deadline());
            assert_eq!(before.priority(), after.priority());
            assert_eq!(inherited, (Priority::Normal, true, childs));
            assert_eq!((childs, parents), (worker(), 1 - worker()));
        },
    );
    resolve(joiner).unwrap();
    pool.wait_idle();
    let now = pool.snapshot();
    let mean = |class| now.class(Class(class)).mean_service_time;
    assert_eq!((mean(1), mean(2)), (Some(Duration::ZERO), Some(Duration::from_secs(1))));
    assert_at_rest(&pool);
}

#[test]
fn what_a_stranger_left_that_the_joined_job_ran_in_place_is_not_run() {
    for round in 0..common::rounds_in(20, 200) {
        let pool = two();
        let (other, open) = (hold(&pool, 1), Gate::new());
        let (queued, queue) = mpsc::channel::<JobHandle<()>>();
        let (ready, readies) = mpsc::channel();
        let opened = open.clone();
        let parent = pool.try_submit(move || {
            queue.recv().unwrap().join().unwrap();
            ready.send(()).unwrap();
            opened.wait();
        });
        // It is joined in place by one who didn't make it, and leaves a job behind.
        let (left, leaves) = mpsc::channel();
        let own = pool.clone();
        let stranger = pool.try_submit(move || {
            let leaf = own.try_submit(|| JOINING.get());
            left.send(leaf.unwrap()).unwrap();
        });
        queued.send(stranger.unwrap()).unwrap();
        recv(&readies);
        let leaf = recv(&leaves);
        let joiner = pool.try_submit(move || {
            JOINING.set(true);
            parent.unwrap().join().unwrap();
            JOINING.set(false);
        });
        other.free();
        eventually("both wait", || pool.running() == 2);
        give_way(50 * (round % 10));
        open.open();
        resolve(joiner.unwrap()).unwrap();
        assert!(!resolve(leaf).unwrap(), "it ran on the stack of one that may hold its lock");
    }
}

#[test]
fn helping_meets_every_kind_of_end() {
    let clock = ManualClock::new();
    let pool = Pool::builder().batch().workers(2).capacity(64).clock(clock.clone());
    let pool = pool.build().unwrap();
    let joiner = beside(
        &pool,
        move |pool, ready| {
            let open = Gate::new();
            let opened = open.clone();
            let dated = pool.job().timeout(Duration::from_secs(1)).try_submit(|| ()).unwrap();
            clock.advance(Duration::from_secs(2));
            let cancelled = pool.try_submit(|| ()).unwrap();
            let panics = pool.try_submit(|| -> () { quiet_panic() }).unwrap();
            let scoped = {
                let pool = pool.clone();
                pool.clone().try_submit(move || {
                    let mut sums = [0; 8];
                    pool.scope(|scope| {
                        for sum in &mut sums {
                            drop(scope.try_submit(move || *sum = worker() + 1).unwrap());
                        }
                    });
                    assert!(sums.iter().all(|&sum| sum > 0));
                })
            };
            let last = pool.try_submit(move || open.open()).unwrap();
            assert!(cancelled.cancel());
            ready.send(()).unwrap();
            opened.wait();
            let _: () = last.join().unwrap();
            (dated, cancelled, panics, scoped.unwrap())
        },
        |parent| parent.join().unwrap(),
    );
    let (dated, cancelled, panics, scoped) = resolve(joiner).unwrap();
    assert!(matches!(resolve(dated), Err(JobError::Shed(ShedReason::Deadline))));
    assert!(matches!(resolve(cancelled), Err(JobError::Cancelled)));
    assert!(resolve::<()>(panics).unwrap_err().is_panic());
    resolve(scoped).unwrap();
    pool.wait_idle();
    assert_at_rest(&pool);
}

#[test]
fn a_helper_passes_detached_jobs_on_and_does_not_run_them() {
    let pool = two();
    let log = Log::new();
    let (open, logs) = (Gate::new(), log.clone());
    let opened = open.clone();
    let joiner = beside(
        &pool,
        move |pool, ready| {
            let log = logs.clone();
            pool.try_spawn(move || log.push("detached")).unwrap();
            ready.send(()).unwrap();
            opened.wait();
            logs.push("parent");
        },
        |parent| parent.join().unwrap(),
    );
    eventually("both wait", || pool.running() == 2);
    give_way(1_000);
    open.open();
    resolve(joiner).unwrap();
    pool.wait_idle();
    assert_eq!(log.entries(), ["parent", "detached"]);
    assert_at_rest(&pool);
}

#[test]
fn what_is_left_of_cancelled_children_does_not_end_the_helping() {
    let pool = two();
    let joiner = beside(
        &pool,
        |pool, ready| {
            let open = Gate::new();
            let opened = open.clone();
            for _ in 0..10 {
                drop(pool.try_submit(|| ()).unwrap().cancel_on_drop());
            }
            let last = pool.try_submit(move || open.open()).unwrap();
            ready.send(()).unwrap();
            // Both workers are in a body that waits.
            opened.wait();
            last.join().unwrap();
        },
        |parent| parent.join().unwrap(),
    );
    resolve(joiner).unwrap();
    pool.wait_idle();
    assert_at_rest(&pool);
}

#[test]
fn discarding_ends_what_helpers_hold() {
    for _ in 0..common::rounds_in(50, 500) {
        let pool = two();
        let closer = pool.clone();
        let joiner = beside(
            &pool,
            move |pool, ready| {
                let jobs: Vec<_> = (0..20)
                    .map(|nth| {
                        let job = pool.try_submit(move || nth).unwrap();
                        // Some are detached.
                        (nth % 3 > 0).then_some(job)
                    })
                    .collect();
                ready.send(()).unwrap();
                jobs.into_iter().flatten().map(JobHandle::join).filter(Result::is_ok).count()
            },
            |parent| parent.join(),
        );
        let report = closer.shutdown(Shutdown::Discard, None);
        assert_eq!(report.still_running, 0);
        match resolve(joiner) {
            Ok(Ok(_)) | Err(JobError::Discarded) | Ok(Err(JobError::Discarded)) => {}
            end => panic!("{end:?}"),
        }
        assert_at_rest(&pool);
    }
}

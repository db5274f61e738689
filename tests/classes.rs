//! What is learned of each class of jobs: its service time and its cost in CPU time.

mod common;

use std::time::Duration;

use common::{Gate, assert_adds_up, eventually, fail_quietly, hold, resolve, watchdog};
use weirpool::test::ManualClock;
use weirpool::{Class, ClassFigures, JobSpec, Pool, QueueDelay};

const MS: Duration = Duration::from_millis(1);

fn pool() -> (Pool, ManualClock) {
    let clock = ManualClock::new();
    let pool = Pool::builder().workers(1).capacity(64).clock(clock.clone()).no_cpu_gate();
    (pool.queue_delay(QueueDelay::off()).build().unwrap(), clock)
}

/// Runs one job that takes so long.
fn run(job: JobSpec<'_>, clock: &ManualClock, service: Duration) {
    let time = clock.clone();
    resolve(job.try_submit(move || time.advance(service)).unwrap()).unwrap();
}

/// What was learned of a class when so many of its jobs have been measured.
#[track_caller]
fn learned(pool: &Pool, class: Class, jobs: u64) -> ClassFigures {
    eventually("they are measured", || pool.snapshot().class(class).jobs >= jobs);
    let figures = pool.snapshot().class(class);
    assert_eq!(figures.jobs, jobs, "{class:?}");
    figures
}

/// Whether the mean is this one, but for rounding.
#[track_caller]
fn assert_mean(figures: ClassFigures, expected: Duration) {
    let mean = figures.mean_service_time.expect("some were measured");
    assert!(mean.abs_diff(expected) < Duration::from_micros(1), "{mean:?}, not {expected:?}");
}

#[test]
fn each_class_has_its_own_mean() {
    let (pool, clock) = pool();
    assert_eq!(pool.snapshot().class(Class(1)), ClassFigures::default());
    assert_eq!(pool.snapshot().mean_service_time, None);
    for nth in 0..30 {
        run(pool.job().class(Class(1)), &clock, MS);
        run(pool.job().class(Class(2)), &clock, 9 * MS + 2 * MS * (nth % 2));
        run(pool.job(), &clock, 4 * MS);
    }
    assert_mean(learned(&pool, Class(1), 30), MS);
    assert_mean(learned(&pool, Class(2), 30), 10 * MS);
    assert_mean(learned(&pool, Class::default(), 30), 4 * MS);
    for class in (3..=255).map(Class) {
        assert_eq!(pool.snapshot().class(class), ClassFigures::default(), "{class:?}");
    }
    let shown = format!("{:?}", pool.snapshot());
    assert_eq!(shown.matches("ClassFigures").count(), 3, "only those in use: {shown}");
    let all = pool.snapshot().mean_service_time.unwrap();
    assert!((4 * MS..=6 * MS).contains(&all), "of all together: {all:?}");
}

#[test]
fn numbers_above_63_count_as_63() {
    let (pool, clock) = pool();
    for class in [63, 64, 200, 255] {
        run(pool.job().class(Class(class)), &clock, 2 * MS);
    }
    for class in [63, 64, 200, 255] {
        assert_mean(learned(&pool, Class(class), 4), 2 * MS);
    }
}

#[test]
fn nested_jobs_are_of_their_parents_class_unless_they_say_otherwise() {
    let _watchdog = watchdog();
    let (pool, clock) = pool();
    let own = pool.clone();
    let parent = pool.job().class(Class(5)).try_submit(move || {
        let body = {
            let time = clock.clone();
            move || time.advance(3 * MS)
        };
        let time = move || body.clone();
        own.try_submit(time()).unwrap().join().unwrap();
        own.job().try_spawn(time()).unwrap();
        own.job().class(Class(6)).try_spawn(time()).unwrap();
        own.scope(|scope| drop(scope.try_submit(time()).unwrap()));
        let inner = own.clone();
        let grandchild = own.try_submit(move || inner.try_submit(time()).unwrap().join().unwrap());
        grandchild.unwrap().join().unwrap();
        clock.advance(MS);
    });
    resolve(parent.unwrap()).unwrap();
    pool.wait_idle();
    // The parent, its child, the one it spawned, the one of its scope, and two generations.
    // What was run in place is no part of the time of whom it was run for.
    assert_mean(learned(&pool, Class(5), 6), (1 + 3 * 4) * MS / 6);
    assert_mean(learned(&pool, Class(6), 1), 3 * MS);
    assert_eq!(pool.snapshot().class(Class::default()).jobs, 0);
}

#[test]
fn a_permit_and_a_waiting_submit_keep_the_class() {
    let (pool, clock) = pool();
    let permit = pool.job().class(Class(8)).try_reserve().unwrap();
    let time = clock.clone();
    resolve(permit.submit(move || time.advance(MS)).unwrap()).unwrap();
    let time = clock.clone();
    let job = pool.job().class(Class(8)).submit_blocking(move || time.advance(3 * MS));
    resolve(job.unwrap()).unwrap();
    assert_mean(learned(&pool, Class(8), 2), 2 * MS);
}

#[test]
fn only_jobs_that_returned_are_measured() {
    let clock = ManualClock::new();
    let pool = Pool::builder().workers(1).capacity(8).clock(clock.clone()).no_cpu_gate();
    let pool = pool.queue_delay(QueueDelay::cutoff(MS)).build().unwrap();
    let job = pool.job().class(Class(9));
    let held = hold(&pool, 1);
    let cancelled = job.try_submit(|| ()).unwrap();
    let shed = job.try_submit(|| ()).unwrap();
    clock.advance(10 * MS);
    assert!(cancelled.cancel());
    held.free();
    assert!(resolve(shed).unwrap_err().is_shed());
    for _ in 0..10 {
        let time = clock.clone();
        let fails = job.try_submit(move || {
            time.advance(10 * MS);
            fail_quietly();
        });
        assert!(resolve(fails.unwrap()).unwrap_err().is_panic());
    }
    run(job, &clock, 2 * MS);
    assert_mean(learned(&pool, Class(9), 1), 2 * MS);
    // They took a worker's time all the same, for which others wait.
    assert!(pool.snapshot().mean_service_time.unwrap() > 5 * MS);
    assert_adds_up(&pool);
}

#[test]
fn a_batch_pool_learns_as_well() {
    let pool = Pool::new(2, 64).unwrap();
    for _ in 0..20 {
        resolve(pool.job().class(Class(1)).try_submit(|| ()).unwrap()).unwrap();
    }
    let figures = learned(&pool, Class(1), 20);
    assert!(figures.mean_service_time.is_some());
    assert!(pool.snapshot().mean_service_time.is_some());
}

/// Uses CPU time until the thread's account shows it, however long that takes.
#[cfg(target_os = "linux")]
fn burn(cpu: Duration) {
    let until = common::process::thread_cpu_used() + cpu;
    while common::process::thread_cpu_used() < until {
        std::hint::black_box((0..10_000_u64).sum::<u64>());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_computes_costs_more_cpu_time_than_what_waits() {
    // By this clock each takes a hundred milliseconds, so each is worth measuring.
    let (pool, clock) = pool();
    let (computes, waits) = (Class(1), Class(2));
    for _ in 0..10 {
        let time = clock.clone();
        let job = pool.job().class(computes).try_submit(move || {
            time.advance(100 * MS);
            burn(20 * MS);
        });
        resolve(job.unwrap()).unwrap();
        let (time, gate) = (clock.clone(), Gate::new());
        let wait = gate.clone();
        let job = pool.job().class(waits).try_submit(move || {
            time.advance(100 * MS);
            wait.wait();
        });
        gate.open();
        resolve(job.unwrap()).unwrap();
    }
    let cpu = |class| learned(&pool, class, 10).mean_cpu_time.expect("it was measured");
    // What is taken from the outside is more than what the body saw of itself.
    assert!(cpu(computes) >= 20 * MS, "{:?}", cpu(computes));
    assert!(cpu(computes) > cpu(waits), "{:?} {:?}", cpu(computes), cpu(waits));
}

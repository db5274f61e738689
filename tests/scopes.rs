//! Jobs that borrow: whatever happens to them, the scope returns only when each has ended and nothing touches what was
//! borrowed afterwards.
//!
//! Destructors in here write to the borrowed, so that a memory checker sees one that comes too late.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, mpsc};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use common::{
    Gate, assert_all_slots_free, assert_all_workers_live, assert_at_rest, block_on, eventually,
    fail_quietly, occupy, on_drop, poll, recv, rounds, waker, watchdog,
};
use weirpool::test::ManualClock;
use weirpool::{
    Canceller, JobError, Partition, Pool, Priority, Reason, Scope, ScopedHandle, ShedReason,
    Shutdown,
};

/// Adds to what it borrows when it is dropped.
struct Touch<'a>(&'a AtomicUsize);

impl Drop for Touch<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Leaks it, where a leak checker still finds it: this is on purpose.
fn leak<T>(value: T) {
    static LEAKED: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    LEAKED.lock().unwrap().push((&raw const *Box::leak(Box::new(value))).addr());
}

/// What a scope panicked with.
#[track_caller]
fn panic_of<R>(scope: impl FnOnce() -> R) -> String {
    let Err(payload) = catch_unwind(AssertUnwindSafe(scope)) else { panic!("it did not panic") };
    match payload.downcast::<&'static str>() {
        Ok(text) => (*text).to_owned(),
        Err(payload) => *payload.downcast::<String>().expect("a text"),
    }
}

// ── Borrowing ───────────────────────────────────────────────────────────────────────────────────

#[test]
fn jobs_work_on_pieces_of_one_buffer() {
    let _watchdog = watchdog();
    for (workers, capacity) in [(1, 1), (2, 4), (4, 64)] {
        let pool = Pool::new(workers, capacity).unwrap();
        let mut numbers: Vec<usize> = (0..10_000).collect();
        let refused = pool.scope(|scope| {
            let mut refused = 0;
            for piece in numbers.chunks_mut(97) {
                let triple = move || piece.iter_mut().for_each(|number| *number *= 3);
                if let Err(rejected) = scope.try_submit(triple) {
                    assert_eq!(rejected.reason(), Reason::Full);
                    refused += 1;
                    rejected.run_here();
                }
            }
            refused
        });
        assert!(numbers.iter().enumerate().all(|(at, number)| *number == 3 * at));
        assert_eq!(pool.snapshot().rejected.get(Reason::Full), refused);
        assert_all_slots_free(&pool);
    }
}

#[test]
fn results_may_borrow_and_outlive_the_scope_with_what_they_borrow() {
    let pool = Pool::new(2, 8).unwrap();
    let text = String::from("the quick brown fox");
    let words: Vec<&str> = pool.scope(|scope| {
        let jobs: Vec<_> = text
            .split(' ')
            .map(|word| scope.try_submit(move || &word[..word.len() - 1]).unwrap())
            .collect();
        jobs.into_iter().map(|job| job.join().unwrap()).collect()
    });
    assert_eq!(words, ["th", "quic", "brow", "fo"]);
    assert_all_slots_free(&pool);
}

/// Sums by halving, each half in a scope of its own.
fn sum(pool: &Pool, numbers: &[u64]) -> u64 {
    if numbers.len() <= 3 {
        return numbers.iter().sum();
    }
    let (left, right) = numbers.split_at(numbers.len() / 2);
    pool.scope(|scope| match scope.try_submit(|| sum(pool, left)) {
        Ok(left) => sum(pool, right) + left.join().unwrap(),
        Err(rejected) => rejected.run_here() + sum(pool, right),
    })
}

#[test]
fn scopes_in_scopes_on_few_workers_do_not_deadlock() {
    let _watchdog = watchdog();
    let numbers: Vec<u64> = (0..2_000).collect();
    for (workers, capacity) in [(1, 1), (1, 4), (1, 1_000), (2, 3), (3, 1_000)] {
        let pool = Pool::new(workers, capacity).unwrap();
        assert_eq!(sum(&pool, &numbers), 1_999_000);
        let inside = pool.clone();
        let borrowed = numbers.clone();
        let job = pool.try_submit(move || sum(&inside, &borrowed));
        assert_eq!(job.unwrap().join().unwrap(), 1_999_000);
        assert_all_slots_free(&pool);
        assert_all_workers_live(&pool);
    }
}

#[test]
fn on_the_only_worker_the_jobs_run_in_place() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 8).unwrap();
    let inner = pool.clone();
    let body = pool.try_submit(move || {
        let here = thread::current().id();
        let (ran, depth) = (AtomicUsize::new(0), AtomicUsize::new(0));
        inner.scope(|scope| {
            for priority in [Priority::Low, Priority::Normal, Priority::Critical] {
                let job = || {
                    assert_eq!(thread::current().id(), here);
                    ran.fetch_add(1, SeqCst);
                    // The outer three have their slots until they end.
                    inner.scope(|deeper| match deeper.try_submit(|| depth.fetch_add(1, SeqCst)) {
                        Ok(job) => drop(job),
                        Err(rejected) => drop(rejected.run_here()),
                    });
                };
                drop(scope.try_submit_with(inner.job().priority(priority), job).unwrap());
            }
            assert_eq!(ran.load(SeqCst), 0);
        });
        (ran.into_inner(), depth.into_inner())
    });
    assert_eq!(body.unwrap().join().unwrap(), (3, 3));
    assert_all_slots_free(&pool);
}

#[test]
fn on_a_worker_what_is_queued_is_run_before_it_waits_for_what_runs() {
    let _watchdog = watchdog();
    let pool = Pool::new(2, 8).unwrap();
    let (arrived, arrivals) = mpsc::channel();
    let peer_gate = Gate::new();
    let peer = {
        let (arrived, wait) = (arrived.clone(), peer_gate.clone());
        pool.try_submit(move || {
            arrived.send(()).unwrap();
            wait.wait();
        })
    };
    recv(&arrivals);
    let inner = pool.clone();
    let body = pool.try_submit(move || {
        let signal = Gate::new();
        inner.scope(|scope| {
            drop(scope.try_submit(|| signal.open()).unwrap());
            let urgent = inner.job().priority(Priority::High);
            let waits = scope.try_submit_with(urgent, || {
                arrived.send(()).unwrap();
                signal.wait();
            });
            drop(waits.unwrap());
            // The other worker takes the urgent one, which waits for the one that only this worker can run.
            peer_gate.open();
            recv(&arrivals);
        });
    });
    assert!(body.unwrap().join().is_ok(), "what was queued was not run in place");
    peer.unwrap().join().unwrap();
    assert_all_slots_free(&pool);
}

fn grow<'scope>(scope: &'scope Scope<'scope, '_>, leaves: &'scope AtomicUsize, depth: usize) {
    if depth == 0 {
        leaves.fetch_add(1, SeqCst);
        return;
    }
    for _ in 0..2 {
        let branch = move || grow(scope, leaves, depth - 1);
        match scope.try_submit(branch) {
            Ok(job) => drop(job),
            Err(rejected) => rejected.run_here(),
        }
    }
}

#[test]
fn jobs_submit_more_jobs_to_their_scope() {
    let _watchdog = watchdog();
    for (workers, capacity) in [(1, 2), (2, 10), (3, 5_000)] {
        let pool = Pool::new(workers, capacity).unwrap();
        for _ in 0..rounds(20) {
            let leaves = AtomicUsize::new(0);
            pool.scope(|scope| grow(scope, &leaves, 8));
            assert_eq!((leaves.into_inner(), pool.in_flight()), (256, 0));
        }
        let inner = pool.clone();
        let inside = pool.try_submit(move || {
            let leaves = AtomicUsize::new(0);
            inner.scope(|scope| grow(scope, &leaves, 8));
            leaves.into_inner()
        });
        assert_eq!(inside.unwrap().join().unwrap(), 256);
        assert_all_slots_free(&pool);
    }
}

#[test]
fn a_scope_that_is_alone_leaves_an_empty_pool() {
    let _watchdog = watchdog();
    let pool = Pool::new(2, 16).unwrap();
    for round in 0..rounds(2_000) {
        let ran = AtomicUsize::new(0);
        pool.scope(|scope| {
            for number in 0..round % 7 {
                let job = scope.try_submit(|| ran.fetch_add(1, SeqCst)).unwrap();
                match (round + number) % 3 {
                    0 => drop(job),
                    1 => drop(job.join().unwrap()),
                    _ => drop(block_on(job).unwrap()),
                }
            }
        });
        assert_eq!(pool.in_flight(), 0, "round {round}");
        assert_eq!(ran.into_inner(), round % 7);
    }
    assert_eq!(pool.scope(|_| 7), 7, "one without any job");
    assert_all_slots_free(&pool);
}

#[test]
fn many_threads_have_scopes_on_one_pool_at_once() {
    let _watchdog = watchdog();
    let pool = Pool::new(2, 12).unwrap();
    thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                let mut total = 0_u64;
                for round in 0..rounds(500) as u64 {
                    let mut parts = [0; 5];
                    pool.scope(|scope| {
                        for part in &mut parts {
                            match scope.try_submit(move || *part += round) {
                                Ok(job) => drop(job),
                                Err(rejected) => rejected.run_here(),
                            }
                        }
                    });
                    assert_eq!(parts, [round; 5]);
                    total += round;
                }
                total
            });
        }
    });
    assert_all_slots_free(&pool);
}

// ── Panics ──────────────────────────────────────────────────────────────────────────────────────

/// Runs a scope that is going to panic while one of its jobs still writes; tells what that panic said, after having
/// made sure that the job had ended before it came out.
#[track_caller]
fn while_a_job_still_writes(
    pool: &Pool,
    rest: impl for<'scope> FnOnce(&'scope Scope<'scope, '_>),
) -> String {
    let (gate, came_out) = (Gate::new(), AtomicBool::new(false));
    let (started, starts) = mpsc::channel();
    let mut buffer = vec![0_u8; 4_096];
    thread::scope(|s| {
        s.spawn(|| {
            // Time enough for a scope that does not wait, and none at all for one that does.
            for _ in 0..1_000 {
                if came_out.load(SeqCst) {
                    break;
                }
                thread::yield_now();
            }
            gate.open();
        });
        let text = panic_of(|| {
            pool.scope(|scope| {
                let writes = scope.try_submit(|| {
                    started.send(()).unwrap();
                    gate.wait();
                    buffer.fill(7);
                });
                drop(writes.unwrap());
                recv(&starts);
                rest(scope);
            });
        });
        came_out.store(true, SeqCst);
        assert!(buffer.iter().all(|&byte| byte == 7), "it came out while a job was writing");
        text
    })
}

#[test]
fn a_panic_comes_out_of_the_scope_only_when_all_jobs_have_ended() {
    let _watchdog = watchdog();
    let pool = Pool::new(2, 8).unwrap();
    let text = while_a_job_still_writes(&pool, |_| resume_unwind(Box::new("the scope's own")));
    assert_eq!(text, "the scope's own");
    while_a_job_still_writes(&pool, |scope| drop(scope.try_submit(fail_quietly).unwrap()));
    let both = while_a_job_still_writes(&pool, |scope| {
        drop(scope.try_submit(fail_quietly).unwrap());
        eventually("it ends", || pool.in_flight() == 1);
        resume_unwind(Box::new("the scope's own"));
    });
    assert_eq!(both, "the scope's own", "the first one to be answered for");
    let queued = while_a_job_still_writes(&pool, |scope| {
        let busy = pool.in_flight();
        (0..4).for_each(|_| drop(scope.try_submit(fail_quietly).unwrap()));
        assert!(pool.in_flight() >= busy);
    });
    assert!(!queued.is_empty());
    assert_eq!(pool.snapshot().contained_panics, 0);
    assert_all_slots_free(&pool);
    assert_all_workers_live(&pool);
}

#[test]
fn the_panic_of_a_job_comes_out_with_what_it_carried() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 4).unwrap();
    let text = panic_of(|| {
        pool.scope(|scope| {
            drop(scope.try_submit(|| panic_any("carried")).unwrap());
            eventually("it ends", || pool.in_flight() == 0);
        });
    });
    assert_eq!(text, "carried");
}

#[test]
fn a_panic_that_was_taken_is_not_raised_again() {
    let _watchdog = watchdog();
    let pool = Pool::new(2, 16).unwrap();
    type Take = fn(ScopedHandle<'_, ()>) -> bool;
    let ways: [(&str, Take); 4] = [
        ("join", |job| job.join().unwrap_err().is_panic()),
        ("join, when it has ended", |job| {
            eventually("it ends", || job.is_finished());
            job.join().unwrap_err().is_panic()
        }),
        ("await", |job| block_on(job).unwrap_err().is_panic()),
        ("try_take", |mut job| {
            eventually("it ends", || job.is_finished());
            job.try_take().unwrap().unwrap_err().is_panic()
        }),
    ];
    for (name, take) in ways {
        // Many, so that the scope forgets those that have ended now and then.
        let taken =
            pool.scope(|scope| (0..50).all(|_| take(scope.try_submit(fail_quietly).unwrap())));
        assert!(taken, "{name}");
        // One left is one too many.
        let one_left = panic_of(|| {
            pool.scope(|scope| {
                let left = scope.try_submit(fail_quietly).unwrap();
                let all = (0..50).all(|_| take(scope.try_submit(fail_quietly).unwrap()));
                drop(left);
                assert!(all, "{name}");
            });
        });
        assert!(!one_left.is_empty());
    }
    // In a body that runs the job in place, too.
    let inner = pool.clone();
    let body = pool.try_submit(move || {
        inner.scope(|scope| scope.try_submit(fail_quietly).unwrap().join().unwrap_err().is_panic())
    });
    assert!(body.unwrap().join().unwrap());
    assert_all_slots_free(&pool);
}

#[test]
fn one_of_eight_panics_and_seven_end_well() {
    let _watchdog = watchdog();
    let pool = Pool::new(2, 8).unwrap();
    let mut squares = [0; 8];
    let results = pool.scope(|scope| {
        let jobs: Vec<_> = squares
            .iter_mut()
            .enumerate()
            .map(|(number, square)| {
                let job = scope.try_submit(move || {
                    if number == 3 {
                        fail_quietly();
                    }
                    *square = number * number;
                });
                job.unwrap()
            })
            .collect();
        jobs.into_iter().map(|job| job.join().is_ok()).collect::<Vec<_>>()
    });
    assert_eq!(results.iter().filter(|ok| **ok).count(), 7);
    assert!(!results[3]);
    assert_eq!(squares, [0, 1, 4, 0, 16, 25, 36, 49]);
}

#[test]
fn what_the_scope_would_have_returned_is_dropped_once_when_a_job_panicked() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 2).unwrap();
    let drops = AtomicUsize::new(0);
    let text = panic_of(|| {
        pool.scope(|scope| {
            drop(scope.try_submit(fail_quietly).unwrap());
            Touch(&drops)
        })
    });
    assert!(!text.is_empty());
    assert_eq!(drops.load(SeqCst), 1);
    let bomb = panic_of(|| {
        pool.scope(|scope| {
            drop(scope.try_submit(fail_quietly).unwrap());
            on_drop(fail_quietly)
        })
    });
    assert!(!bomb.is_empty());
    assert_all_slots_free(&pool);
}

// ── Handles and results ─────────────────────────────────────────────────────────────────────────

#[test]
fn every_result_that_borrows_is_dropped_before_the_scope_returns_unless_it_was_leaked() {
    let _watchdog = watchdog();
    type Use = for<'a> fn(ScopedHandle<'a, Touch<'a>>, &Gate);
    let uses: [(&str, usize, Use); 8] = [
        ("dropped before the end", 1, |job, gate| {
            drop(job);
            gate.open();
        }),
        ("dropped after the end", 1, |job, gate| {
            gate.open();
            eventually("it ends", || job.is_finished());
            drop(job);
        }),
        ("dropped at the end", 1, |job, gate| {
            gate.open();
            drop(job);
        }),
        ("joined", 1, |job, gate| {
            gate.open();
            drop(job.join().unwrap());
        }),
        ("taken", 1, |mut job, gate| {
            assert!(job.try_take().is_none());
            gate.open();
            eventually("it ends", || job.is_finished());
            drop(job.try_take().unwrap());
        }),
        ("polled, then dropped", 1, |mut job, gate| {
            assert!(poll(&mut job, Waker::noop()).is_pending());
            drop(job);
            gate.open();
        }),
        ("leaked before the end", 0, |job, gate| {
            leak(job);
            gate.open();
        }),
        ("leaked after the end", 0, |job, gate| {
            gate.open();
            eventually("it ends", || job.is_finished());
            leak(job);
        }),
    ];
    for inside in [false, true] {
        for (name, expected, use_up) in uses {
            let pool = Pool::new(2, 2).unwrap();
            let scope_on = pool.clone();
            let run = move || {
                let (dropped, gate) = (AtomicUsize::new(0), Gate::new());
                let (started, starts) = mpsc::channel();
                scope_on.scope(|scope| {
                    let job = scope.try_submit(|| {
                        started.send(()).unwrap();
                        gate.wait();
                        Touch(&dropped)
                    });
                    recv(&starts);
                    use_up(job.unwrap(), &gate);
                });
                dropped.into_inner()
            };
            let dropped =
                if inside { pool.try_submit(run).unwrap().join().unwrap() } else { run() };
            assert_eq!(dropped, expected, "{name}");
            pool.wait_idle();
            assert_all_slots_free(&pool);
        }
    }
}

#[test]
fn handles_may_travel_into_other_jobs_and_results() {
    let _watchdog = watchdog();
    let pool = Pool::new(2, 8).unwrap();
    for round in 0..rounds(300) {
        let dropped = AtomicUsize::new(0);
        pool.scope(|scope| {
            let first = scope.try_submit(|| Touch(&dropped)).unwrap();
            let second = scope.try_submit(|| Touch(&dropped)).unwrap();
            // Joined in one job, dropped in the captures of another, and brought out in the result of a third.
            let joins = scope.try_submit(|| drop(first.join().unwrap())).unwrap();
            let drops = scope.try_submit(|| drop(second)).unwrap();
            let third = scope.try_submit(|| Touch(&dropped)).unwrap();
            let brings = scope.try_submit(|| (third, Touch(&dropped))).unwrap();
            match round % 3 {
                0 => drop((joins, drops, brings)),
                1 => drop(brings.join().unwrap()),
                _ => drop(brings.join().unwrap().0.join().unwrap()),
            }
        });
        assert_eq!((dropped.into_inner(), pool.in_flight()), (4, 0), "round {round}");
    }
    // One that never runs drops the handle it was given.
    let busy = occupy(&pool);
    let dropped = AtomicUsize::new(0);
    pool.scope(|scope| {
        let inner = scope.try_submit(|| Touch(&dropped)).unwrap();
        let canceller = inner.canceller();
        let outer = scope.try_submit(|| drop(inner.join())).unwrap();
        assert!(outer.cancel() && canceller.cancel());
    });
    assert_eq!(dropped.into_inner(), 0);
    busy.free();
    assert_all_slots_free(&pool);
}

#[test]
fn a_scoped_handle_is_a_future_and_may_be_given_up() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 2).unwrap();
    let busy = occupy(&pool);
    let number = 20;
    let (woken, wakes) = mpsc::channel();
    pool.scope(|scope| {
        let mut job = scope.try_submit(|| number + 1).unwrap();
        let wake = waker(move || woken.send(()).unwrap());
        assert!(poll(&mut job, &wake).is_pending() && !job.is_finished());
        busy.free();
        recv(&wakes);
        assert_eq!(block_on(&mut job).unwrap(), 21);

        let mut given_up = scope.try_submit(|| number + 2).unwrap();
        let _ = poll(&mut given_up, Waker::noop());
        drop(given_up);
        let ids = [(); 2].map(|()| scope.try_submit(|| ()).map(|job| job.id()));
        assert!(ids[0].as_ref().ok() != ids[1].as_ref().ok());
        assert!(format!("{scope:?} {job:?}").contains("Scope"));
    });
    assert_all_slots_free(&pool);
}

// ── Jobs that never run ─────────────────────────────────────────────────────────────────────────

#[test]
fn a_refused_job_comes_back_with_what_it_borrows() {
    let pool = Pool::new(1, 1).unwrap();
    let mut text = String::from("borrowed");
    for (reason, held) in
        [(Reason::Full, Some(pool.try_reserve().unwrap())), (Reason::Closed, None)]
    {
        if held.is_none() {
            pool.close();
        }
        pool.scope(|scope| {
            let rejected = scope.try_submit(|| text.push('!')).unwrap_err();
            assert_eq!(rejected.reason(), reason);
            let (refusal, job) = rejected.into_parts();
            assert_eq!(refusal.reason(), reason);
            job();
        });
    }
    assert_eq!(text, "borrowed!!");
    assert_eq!(pool.in_flight(), 0);
}

#[test]
fn a_cancelled_job_drops_what_it_captured_and_its_canceller_outlives_the_scope() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 4).unwrap();
    let busy = occupy(&pool);
    let (dropped, ran) = (AtomicUsize::new(0), AtomicBool::new(false));
    let cancellers: Vec<Canceller> = pool.scope(|scope| {
        let jobs = [(); 3].map(|()| {
            let capture = Touch(&dropped);
            let job = scope.try_submit(|| {
                ran.store(true, SeqCst);
                drop(capture);
            });
            job.unwrap()
        });
        let cancellers = jobs.each_ref().map(ScopedHandle::canceller);
        let [by_handle, by_canceller, forgotten] = jobs;
        assert!(by_handle.cancel() && by_handle.is_finished());
        assert!(cancellers[1].cancel());
        assert_eq!((dropped.load(SeqCst), pool.in_flight()), (2, 2));
        assert!(matches!(by_handle.join(), Err(JobError::Cancelled)));
        drop(by_canceller);
        leak(forgotten);
        assert!(cancellers[2].cancel());
        cancellers.into()
    });
    assert_eq!((dropped.into_inner(), pool.in_flight()), (3, 1));
    assert!(!cancellers.iter().any(Canceller::cancel));
    busy.free();
    assert!(!ran.load(SeqCst));
    assert_all_slots_free(&pool);
}

#[test]
fn a_shutdown_in_the_middle_of_a_scope_ends_its_jobs() {
    let _watchdog = watchdog();
    let cases = [(false, Some(Duration::ZERO)), (true, None), (true, Some(Duration::ZERO))];
    for how in [Shutdown::Drain, Shutdown::Discard] {
        for (inside, limit) in cases {
            let pool = Pool::new(1, 6).unwrap();
            let scope_on = pool.clone();
            // Inside a body the only worker is the one that has the scope; outside it is kept busy.
            let busy = (!inside).then(|| occupy(&pool));
            let run = move || {
                let (ran, dropped) = (AtomicUsize::new(0), AtomicUsize::new(0));
                let late = scope_on.scope(|scope| {
                    for _ in 0..4 {
                        let capture = Touch(&dropped);
                        let job = scope.try_submit(|| {
                            drop(capture);
                            ran.fetch_add(1, SeqCst);
                        });
                        drop(job.unwrap());
                    }
                    scope_on.shutdown(how, limit);
                    let late = scope.try_submit(|| ()).unwrap_err().reason();
                    drop(busy);
                    late
                });
                (late, ran.into_inner(), dropped.into_inner())
            };
            let seen = if inside { pool.try_submit(run).unwrap().join().unwrap() } else { run() };
            let ran = if how == Shutdown::Discard { 0 } else { 4 };
            assert_eq!(seen, (Reason::Closed, ran, 4), "{how:?}, {limit:?}, inside: {inside}");
            let end = pool.shutdown(Shutdown::Drain, None);
            assert_eq!((end.still_running, pool.snapshot().discarded), (0, 4 - ran as u64));
            assert_at_rest(&pool);
        }
    }
}

#[test]
fn a_shutdown_at_any_moment_of_a_scope_leaves_nothing_behind() {
    let _watchdog = watchdog();
    for round in 0..rounds(300) {
        let pool = Pool::new(2, 64).unwrap();
        let (ran, dropped) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let made = thread::scope(|s| {
            s.spawn(|| {
                (0..round % 40).for_each(|_| thread::yield_now());
                let how = if round % 2 == 0 { Shutdown::Drain } else { Shutdown::Discard };
                pool.shutdown(how, None)
            });
            pool.scope(|scope| {
                let mut made = 0;
                for number in 0..40 {
                    let capture = Touch(&dropped);
                    made += 1;
                    let job = scope.try_submit(|| {
                        ran.fetch_add(1, SeqCst);
                        drop(capture);
                    });
                    if let (Ok(job), true) = (job, number % 8 == 0) {
                        let discarded = |error: &JobError| error.is_discarded();
                        assert!(job.join().as_ref().err().is_none_or(discarded));
                    }
                }
                made
            })
        });
        assert_eq!(dropped.into_inner(), made, "round {round}");
        let end = pool.snapshot();
        assert_eq!((end.completed, end.panicked), (ran.into_inner() as u64, 0), "round {round}");
        assert_at_rest(&pool);
    }
}

#[test]
fn displaced_and_expired_jobs_of_a_scope_drop_what_they_borrow_in_time() {
    let _watchdog = watchdog();
    let clock = ManualClock::new();
    let pool = Pool::builder().workers(1).capacity(3).batch().clock(clock.clone());
    let pool = pool.build().unwrap();
    let busy = occupy(&pool);
    let dropped = AtomicUsize::new(0);
    let urgent = pool.scope(|scope| {
        let low = pool.job().priority(Priority::Low);
        let impatient = pool.job().timeout(Duration::from_secs(1));
        let [low, impatient] = [low, impatient].map(|spec| {
            let capture = Touch(&dropped);
            scope.try_submit_with(spec, || drop(capture)).unwrap()
        });
        let displaces = pool.job().priority(Priority::Critical).try_submit(|| ()).unwrap();
        assert_eq!(dropped.load(SeqCst), 1);
        assert!(matches!(low.join(), Err(JobError::Shed(ShedReason::Displaced))));
        clock.advance(Duration::from_secs(1));
        busy.free();
        assert!(matches!(impatient.join(), Err(JobError::Shed(ShedReason::Deadline))));
        displaces
    });
    urgent.join().unwrap();
    assert_eq!(dropped.into_inner(), 2);

    // On a worker, too, where the scope itself meets the expired one.
    let (inner, clock) = (pool.clone(), clock.clone());
    let body = pool.try_submit(move || {
        let dropped = AtomicUsize::new(0);
        inner.scope(|scope| {
            let capture = Touch(&dropped);
            let impatient = inner.job().timeout(Duration::from_secs(1));
            drop(scope.try_submit_with(impatient, || drop(capture)).unwrap());
            clock.advance(Duration::from_secs(1));
        });
        dropped.into_inner()
    });
    assert_eq!(body.unwrap().join().unwrap(), 1);
    assert_eq!(pool.snapshot().shed.get(ShedReason::Deadline), 2);
    assert_all_slots_free(&pool);
}

#[test]
fn a_spec_may_say_everything_but_another_pool() {
    let _watchdog = watchdog();
    let pool = Pool::builder().workers(1).capacity(4).max_bytes(10).batch();
    let pool = pool.partition("one", Partition::new().max(1)).build().unwrap();
    let busy = occupy(&pool);
    let order = Mutex::new(Vec::new());
    pool.scope(|scope| {
        let log = |entry| {
            let order = &order;
            move || order.lock().unwrap().push(entry)
        };
        let one = pool.job().partition(pool.partition("one").unwrap()).bytes(8);
        drop(scope.try_submit_with(one.priority(Priority::Low), log("low")).unwrap());
        let again = scope.try_submit_with(one, log("never"));
        assert_eq!(again.unwrap_err().reason(), Reason::Partition);
        let large = scope.try_submit_with(pool.job().bytes(3), log("never"));
        assert_eq!(large.unwrap_err().reason(), Reason::Bytes);
        let high = pool.job().bytes(2).priority(Priority::High);
        drop(scope.try_submit_with(high, log("high")).unwrap());
        busy.free();
    });
    assert_eq!(*order.lock().unwrap(), ["high", "low"]);
    assert_eq!((pool.in_flight(), pool.snapshot().bytes), (0, 0));

    let other = Pool::new(1, 1).unwrap();
    let ran = AtomicBool::new(false);
    let text = panic_of(|| {
        pool.scope(|scope| {
            drop(scope.try_submit(|| ran.store(true, SeqCst)).unwrap());
            drop(scope.try_submit_with(other.job(), || ()));
        });
    });
    assert!(text.contains("another pool") && ran.load(SeqCst));
    assert_eq!((pool.in_flight(), other.in_flight()), (0, 0));
}

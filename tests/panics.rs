//! Panics of user code: wherever they happen, the pool loses no worker, no slot and no handle, and no thread meets a panic of a
//! job whose result it did not ask for.

mod common;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Wake, Waker};
use std::thread;
use std::time::Duration;

use common::{
    Gate, Rendezvous, STEP, assert_all_slots_free, assert_all_workers_live, block_on, eventually,
    fail, fail_quietly, occupy, on_drop, poll, recv, waker, watchdog,
};
use weirpool::test::ManualClock;
use weirpool::{Clock as _, JobError, JobHandle, Panic, Pool, Priority, Shutdown};

/// A value whose drop panics.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !thread::panicking() {
            panic!("a destructor panicked");
        }
    }
}

/// A job that waits at the gate and then does `body`.
fn gated<T: Send + 'static>(
    pool: &Pool,
    body: impl FnOnce() -> T + Send + 'static,
) -> (Gate, JobHandle<T>) {
    let gate = Gate::new();
    let wait = gate.clone();
    let job = pool.try_submit(move || {
        wait.wait();
        body()
    });
    (gate, job.expect("a slot is free"))
}

/// Joins a job that has ended, so that the join cannot take the place of the waker which is to be woken.
fn join_when_ended<T>(job: JobHandle<T>) -> Result<T, JobError> {
    eventually("it ends", || job.is_finished());
    job.join()
}

/// Waits until the job has ended, then drops its handle.
fn drop_when_ended<T>(job: JobHandle<T>) {
    eventually("it ends", || job.is_finished());
    drop(job);
}

/// One story, and what the pool counts afterwards.
struct Case {
    story: &'static str,
    play: fn(&Pool),
    panicked: u64,
    contained: u64,
}

/// Plays each story on a pool with one worker, checks that the pool is whole, and tells all that it has counted wrong.
fn check(cases: &[Case], build: impl Fn() -> Pool) {
    let _watchdog = watchdog();
    let mut wrong = Vec::new();
    for Case { story, play, panicked, contained } in cases {
        let pool = build();
        let reached = catch_unwind(AssertUnwindSafe(|| play(&pool)));
        assert!(reached.is_ok(), "{story}: a panic reached the caller");
        pool.wait_idle();
        if !pool.is_closed() {
            // The one worker has put everything before this behind it.
            assert_all_workers_live(&pool);
            assert_all_slots_free(&pool);
        }
        let end = pool.snapshot();
        assert_eq!(end.in_flight, 0, "{story}: {end:?}");
        let counted = (end.panicked, end.contained_panics);
        if counted != (*panicked, *contained) {
            wrong.push(format!("{story}: {counted:?} and not {:?}", (panicked, contained)));
        }
    }
    assert!(wrong.is_empty(), "panicked bodies and contained panics: {wrong:#?}");
}

#[test]
fn a_body_that_panics_takes_nothing_with_it() {
    check(
        &[
            Case {
                story: "joined",
                play: |pool| assert!(pool.try_submit(fail).unwrap().join().unwrap_err().is_panic()),
                panicked: 1,
                contained: 0,
            },
            Case {
                story: "awaited",
                play: |pool| {
                    assert!(block_on(pool.try_submit(fail).unwrap()).unwrap_err().is_panic())
                },
                panicked: 1,
                contained: 0,
            },
            Case {
                story: "detached from birth",
                play: |pool| pool.try_spawn(fail).unwrap(),
                panicked: 1,
                contained: 0,
            },
            Case {
                story: "handle dropped before the end",
                play: |pool| {
                    let (gate, job) = gated(pool, fail);
                    drop(job);
                    gate.open();
                },
                panicked: 1,
                contained: 0,
            },
            Case {
                story: "handle dropped after the end",
                play: |pool| drop_when_ended(pool.try_submit(fail).unwrap()),
                panicked: 1,
                contained: 0,
            },
            Case {
                story: "from a permit",
                play: |pool| {
                    assert!(
                        pool.try_reserve()
                            .unwrap()
                            .submit(fail)
                            .unwrap()
                            .join()
                            .unwrap_err()
                            .is_panic()
                    )
                },
                panicked: 1,
                contained: 0,
            },
            Case {
                story: "with a capture whose drop panics as the body ends",
                play: |pool| {
                    let bomb = Bomb;
                    let job = pool.try_submit(move || {
                        let _bomb = &bomb;
                        "a result that nobody sees"
                    });
                    assert!(job.unwrap().join().unwrap_err().is_panic());
                },
                panicked: 1,
                contained: 0,
            },
            Case {
                story: "nested and joined in place",
                play: |pool| {
                    let inner = pool.clone();
                    let outer =
                        pool.try_submit(move || inner.try_submit(fail).unwrap().join().is_err());
                    assert!(outer.unwrap().join().unwrap());
                },
                panicked: 1,
                contained: 0,
            },
        ],
        || Pool::new(1, 2).unwrap(),
    );
}

#[test]
fn a_payload_whose_drop_panics_is_contained() {
    check(
        &[
            Case {
                story: "handle dropped before the end",
                play: |pool| {
                    let (gate, job) = gated(pool, || panic_any(Bomb));
                    drop(job);
                    gate.open();
                },
                panicked: 1,
                contained: 1,
            },
            Case {
                story: "handle dropped after the end",
                play: |pool| {
                    let (gate, job) = gated(pool, || panic_any(Bomb));
                    gate.open();
                    drop_when_ended(job);
                },
                panicked: 1,
                contained: 0,
            },
            Case {
                story: "detached from birth",
                play: |pool| {
                    pool.try_spawn(|| panic_any(Bomb)).unwrap();
                },
                panicked: 1,
                contained: 1,
            },
            Case {
                story: "taken by the one who joined",
                play: |pool| {
                    let (gate, job) = gated(pool, || panic_any(Bomb));
                    gate.open();
                    let Err(JobError::Panicked(panic)) = job.join() else { panic!("it panicked") };
                    std::mem::forget(panic.into_inner());
                },
                panicked: 1,
                contained: 0,
            },
        ],
        || Pool::new(1, 1).unwrap(),
    );
}

#[test]
fn a_result_whose_drop_panics_is_contained() {
    check(
        &[
            Case {
                story: "handle dropped before the end",
                play: |pool| {
                    let (gate, job) = gated(pool, || Bomb);
                    drop(job);
                    gate.open();
                },
                panicked: 0,
                contained: 1,
            },
            Case {
                story: "handle dropped after the end",
                play: |pool| drop_when_ended(pool.try_submit(|| Bomb).unwrap()),
                panicked: 0,
                contained: 0,
            },
            Case {
                story: "cancel-on-drop handle dropped after the end",
                play: |pool| {
                    let job = pool.try_submit(|| Bomb).unwrap();
                    eventually("it ends", || job.is_finished());
                    drop(job.cancel_on_drop());
                },
                panicked: 0,
                contained: 0,
            },
            Case {
                story: "taken by the one who joined",
                play: |pool| std::mem::forget(pool.try_submit(|| Bomb).unwrap().join().unwrap()),
                panicked: 0,
                contained: 0,
            },
        ],
        || Pool::new(1, 1).unwrap(),
    );
}

/// A job whose capture panics when it is dropped.
fn armed(pool: &Pool) -> JobHandle<()> {
    let bomb = Bomb;
    pool.try_submit(move || drop(bomb)).expect("a slot is free")
}

#[test]
fn a_capture_whose_drop_panics_outside_the_body_is_contained() {
    check(
        &[
            Case {
                story: "cancelled while queued",
                play: |pool| {
                    let busy = occupy(pool);
                    let job = armed(pool);
                    assert!(job.cancel());
                    assert_eq!(pool.in_flight(), 1);
                    assert!(matches!(job.join(), Err(JobError::Cancelled)));
                    busy.free();
                },
                panicked: 0,
                contained: 1,
            },
            Case {
                story: "cancelled by dropping its handle",
                play: |pool| {
                    let busy = occupy(pool);
                    drop(armed(pool).cancel_on_drop());
                    assert_eq!(pool.in_flight(), 1);
                    busy.free();
                },
                panicked: 0,
                contained: 1,
            },
            Case {
                story: "discarded at shutdown",
                play: |pool| {
                    let busy = occupy(pool);
                    let job = armed(pool);
                    let stop = pool.clone();
                    let shutdown =
                        thread::spawn(move || stop.shutdown(Shutdown::Discard, Some(STEP)));
                    assert!(job.join().unwrap_err().is_discarded());
                    busy.free();
                    let report =
                        shutdown.join().expect("a panic reached the thread that shuts down");
                    assert_eq!((report.discarded, report.still_running), (1, 0));
                },
                panicked: 0,
                contained: 1,
            },
        ],
        || Pool::new(1, 2).unwrap(),
    );
}

#[test]
fn an_expired_job_whose_capture_panics_does_not_kill_the_worker() {
    let _watchdog = watchdog();
    let clock = ManualClock::new();
    let pool = Pool::builder().batch().workers(1).capacity(2).clock(clock.clone()).build().unwrap();
    let busy = occupy(&pool);
    let bomb = Bomb;
    let job = pool
        .job()
        .deadline(clock.now() + Duration::from_secs(1))
        .try_submit(move || drop(bomb))
        .unwrap();
    clock.advance(Duration::from_secs(2));
    busy.free();
    assert!(job.join().unwrap_err().is_shed());
    assert_all_workers_live(&pool);
    assert_eq!(pool.snapshot().contained_panics, 1);
    assert_all_slots_free(&pool);
}

/// A waker whose wake or whose drop panics.
enum BadWaker {
    Wakes,
    Drops,
}

impl Wake for BadWaker {
    fn wake(self: Arc<Self>) {
        if matches!(*self, BadWaker::Wakes) {
            panic!("a waker panicked");
        }
    }
}

impl Drop for BadWaker {
    fn drop(&mut self) {
        if matches!(self, BadWaker::Drops) && !thread::panicking() {
            panic!("the drop of a waker panicked");
        }
    }
}

/// Polls with a bad waker, whose last clone then is the pool's.
fn poll_with<T>(job: &mut JobHandle<T>, bad: BadWaker) {
    let bad: Waker = Arc::new(bad).into();
    assert!(poll(job, &bad).is_pending());
    drop(catch_unwind(AssertUnwindSafe(|| drop(bad))));
}

#[test]
fn a_waker_that_panics_is_contained() {
    check(
        &[
            Case {
                story: "woken by a worker",
                play: |pool| {
                    let (gate, mut job) = gated(pool, || 9);
                    poll_with(&mut job, BadWaker::Wakes);
                    gate.open();
                    assert_eq!(join_when_ended(job).unwrap(), 9);
                },
                panicked: 0,
                contained: 1,
            },
            Case {
                story: "dropped after it was woken by a worker",
                play: |pool| {
                    let (gate, mut job) = gated(pool, || 9);
                    poll_with(&mut job, BadWaker::Drops);
                    gate.open();
                    assert_eq!(join_when_ended(job).unwrap(), 9);
                },
                panicked: 0,
                contained: 1,
            },
            Case {
                story: "woken because the body panicked",
                play: |pool| {
                    let (gate, mut job) = gated(pool, fail);
                    poll_with(&mut job, BadWaker::Wakes);
                    gate.open();
                    assert!(join_when_ended(job).unwrap_err().is_panic());
                },
                panicked: 1,
                contained: 1,
            },
            Case {
                story: "woken by a cancel",
                play: |pool| {
                    let busy = occupy(pool);
                    let mut job = pool.try_submit(|| ()).unwrap();
                    poll_with(&mut job, BadWaker::Wakes);
                    assert!(job.cancel());
                    assert!(matches!(job.join(), Err(JobError::Cancelled)));
                    busy.free();
                },
                panicked: 0,
                contained: 1,
            },
            Case {
                story: "dropped with the handle",
                play: |pool| {
                    let (gate, mut job) = gated(pool, || 9);
                    poll_with(&mut job, BadWaker::Drops);
                    drop(job);
                    gate.open();
                },
                panicked: 0,
                contained: 0,
            },
        ],
        || Pool::new(1, 2).unwrap(),
    );
}

#[test]
fn everything_about_one_job_panics() {
    check(
        &[Case {
            story: "a waker, then the result",
            play: |pool| {
                let (gate, mut job) = gated(pool, || Bomb);
                poll_with(&mut job, BadWaker::Wakes);
                gate.open();
                drop_when_ended(job);
            },
            panicked: 0,
            contained: 1,
        }],
        || Pool::new(1, 1).unwrap(),
    );
}

#[test]
fn thread_hooks_that_panic_cost_no_worker() {
    let _watchdog = watchdog();
    let pool = Pool::builder()
        .batch()
        .workers(3)
        .capacity(3)
        .on_thread_start(fail)
        .on_thread_stop(fail)
        .build()
        .unwrap();
    assert_all_workers_live(&pool);
    assert_eq!(pool.snapshot().contained_panics, 3);
    pool.shutdown(Shutdown::Drain, Some(STEP));
    eventually("the panics of the stop hooks are counted", || {
        pool.snapshot().contained_panics == 6
    });
}

#[test]
fn a_panic_handler_that_panics_costs_no_worker() {
    check(
        &[
            Case {
                story: "after a detached panic",
                play: |pool| pool.try_spawn(fail).unwrap(),
                panicked: 1,
                contained: 1,
            },
            Case {
                story: "never asked",
                play: |pool| assert!(pool.try_submit(fail).unwrap().join().is_err()),
                panicked: 1,
                contained: 0,
            },
        ],
        || {
            Pool::builder()
                .batch()
                .workers(1)
                .capacity(1)
                .panic_handler(|_| fail())
                .build()
                .unwrap()
        },
    );
}

#[test]
fn the_panic_handler_hears_each_detached_panic_once_and_no_other() {
    let _watchdog = watchdog();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let notes = heard.clone();
    let handler = move |panic: Panic| {
        notes.lock().unwrap().push((panic.to_string(), thread::current().name().map(str::to_owned)))
    };
    let pool =
        Pool::builder().batch().workers(1).capacity(8).panic_handler(handler).build().unwrap();

    pool.try_spawn(|| panic!("spawned")).unwrap();
    let (gate, dropped) = gated(&pool, || -> u8 { panic!("dropped before the end") });
    drop(dropped);
    gate.open();
    assert!(pool.try_submit(|| -> u8 { panic!("joined") }).unwrap().join().is_err());
    assert!(block_on(pool.try_submit(|| -> u8 { panic!("awaited") }).unwrap()).is_err());
    assert!(
        pool.try_submit(|| -> u8 { panic!("joined in time") })
            .unwrap()
            .join_timeout(STEP)
            .unwrap()
            .is_err()
    );
    pool.try_spawn(|| ()).unwrap();
    assert_all_workers_live(&pool);

    let heard = heard.lock().unwrap();
    let heard: Vec<_> = heard.iter().map(|(panic, _)| panic.as_str()).collect();
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert!(
        heard[0].contains("spawned") && heard[1].contains("dropped before the end"),
        "{heard:?}"
    );
    assert_eq!(pool.snapshot().panicked, 5);
}

#[test]
fn a_panic_shows_its_message_and_hands_its_payload_over() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 1).unwrap();
    let panic_of = |body: fn()| match pool.try_submit(body).unwrap().join() {
        Err(JobError::Panicked(panic)) => panic,
        other => panic!("{other:?}"),
    };

    assert!(panic_of(|| panic!("a plain message")).to_string().contains("a plain message"));
    assert!(
        panic_of(|| panic!("message {}", std::hint::black_box(7)))
            .to_string()
            .contains("message 7")
    );
    assert!(
        panic_of(|| panic_any(String::from("an owned message")))
            .to_string()
            .contains("an owned message")
    );
    assert!(!panic_of(|| panic_any(7_u64)).to_string().is_empty());
    assert!(!format!("{:?}", panic_of(|| panic_any(7_u64))).is_empty());

    assert_eq!(*panic_of(|| panic_any(7_u64)).into_inner().downcast::<u64>().unwrap(), 7);
    assert_eq!(*panic_of(|| panic!("plain")).into_inner().downcast::<&str>().unwrap(), "plain");
    let resumed =
        catch_unwind(AssertUnwindSafe(|| panic_of(|| panic_any(8_u64)).resume())).unwrap_err();
    assert_eq!(*resumed.downcast::<u64>().unwrap(), 8);
}

#[test]
fn the_users_panic_hook_is_used_and_left_in_place() {
    let _watchdog = watchdog();
    const MARK: &str = "seen by the user's own hook";
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    let before = std::panic::take_hook();
    let before = Arc::new(before);
    let others = before.clone();
    let hook: Box<dyn Fn(&std::panic::PanicHookInfo<'_>) + Send + Sync> =
        Box::new(move |info| match info.payload().downcast_ref::<&str>() {
            Some(&MARK) => {
                count.fetch_add(1, SeqCst);
            }
            _ => others(info),
        });
    let address = (&raw const *hook).cast::<()>();
    std::panic::set_hook(hook);

    let pool = Pool::builder()
        .batch()
        .workers(2)
        .capacity(8)
        .on_thread_start(|| ())
        .panic_handler(|_| ())
        .build()
        .unwrap();
    for _ in 0..4 {
        assert!(pool.try_submit(|| panic_any(MARK)).unwrap().join().is_err());
        drop(pool.try_submit(|| panic_any(MARK)).unwrap());
        pool.try_spawn(|| panic_any(MARK)).unwrap();
    }
    pool.wait_idle();
    assert_all_workers_live(&pool);
    pool.shutdown(Shutdown::Drain, Some(STEP));

    let after = std::panic::take_hook();
    let same = (&raw const *after).cast::<()>() == address;
    drop(after);
    std::panic::set_hook(Box::new(move |info| before(info)));
    assert!(same, "the pool replaced the hook");
    assert_eq!(seen.load(SeqCst), 12);
}

#[test]
fn a_hundred_panics_lose_no_worker() {
    let _watchdog = watchdog();
    let pool = Pool::new(2, 4).unwrap();
    let panicked = AtomicUsize::new(0);
    thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..25 {
                    // Four submitters and four slots, each freed before its handle resolves: never full.
                    let job = pool.try_submit(fail).expect("a false Full");
                    assert!(job.join().unwrap_err().is_panic());
                    panicked.fetch_add(1, SeqCst);
                }
            });
        }
    });
    assert_eq!((panicked.load(SeqCst), pool.snapshot().panicked), (100, 100));
    for _ in 0..10 {
        assert_all_workers_live(&pool);
    }
    assert_eq!(pool.workers(), 2);
    assert_all_slots_free(&pool);
}

#[test]
fn one_of_eight_panics_and_seven_end_well() {
    let _watchdog = watchdog();
    let pool = Pool::new(2, 8).unwrap();
    let jobs: Vec<_> = (0..8)
        .map(|number| {
            pool.try_submit(move || {
                if number == 3 {
                    fail();
                }
                number
            })
            .unwrap()
        })
        .collect();
    let ends: Vec<_> = jobs.into_iter().map(|job| job.join().ok()).collect();
    assert_eq!(ends, [Some(0), Some(1), Some(2), None, Some(4), Some(5), Some(6), Some(7)]);
}

#[test]
fn an_idle_worker_holds_nothing_of_its_last_job() {
    let _watchdog = watchdog();
    let pool = Pool::new(2, 2).unwrap();
    for _ in 0..500 {
        let token = Arc::new(());
        let capture = token.clone();
        pool.try_submit(move || drop(capture)).unwrap().join().unwrap();
        assert_eq!(Arc::strong_count(&token), 1, "a capture");

        let capture = token.clone();
        let result = pool.try_submit(move || capture).unwrap().join().unwrap();
        assert_eq!(Arc::strong_count(&result), 2, "a result");
        drop(result);

        let capture = token.clone();
        let payload = move || -> () { std::panic::resume_unwind(Box::new(capture)) };
        let Err(JobError::Panicked(panic)) = pool.try_submit(payload).unwrap().join() else {
            panic!("it panicked")
        };
        assert!(panic.into_inner().is::<Arc<()>>());
        assert_eq!(Arc::strong_count(&token), 1, "a payload");

        let capture = token.clone();
        pool.try_spawn(move || drop(capture)).unwrap();
        pool.wait_idle();
        assert_eq!(Arc::strong_count(&token), 1, "a detached job's capture");

        let capture = token.clone();
        drop(pool.try_submit(move || capture).unwrap());
        pool.wait_idle();
        eventually("an unwanted result is dropped", || Arc::strong_count(&token) == 1);
    }
}

#[test]
fn a_panic_leaves_no_state_for_the_next_job() {
    let _watchdog = watchdog();
    let clock = ManualClock::new();
    let pool = Pool::builder().batch().workers(1).capacity(2).clock(clock.clone()).build().unwrap();
    let marked =
        pool.job().priority(Priority::High).deadline(clock.now() + Duration::from_secs(60));
    let (started, starts) = mpsc::channel();
    let (hand_over, go) = mpsc::channel::<()>();
    let failing = marked
        .try_submit(move || {
            let context = weirpool::context().unwrap();
            started.send((context.priority(), context.deadline().is_some())).unwrap();
            recv(&go);
            assert!(!weirpool::is_cancelled(), "asked to stop");
        })
        .unwrap();
    assert_eq!(recv(&starts), (Priority::High, true));
    assert!(!failing.cancel());
    hand_over.send(()).unwrap();
    assert!(failing.join().unwrap_err().is_panic());

    let next = pool.try_submit(|| {
        let context = weirpool::context().unwrap();
        (
            context.priority(),
            context.deadline(),
            context.is_cancelled(),
            weirpool::is_cancelled(),
            thread::panicking(),
        )
    });
    assert_eq!(next.unwrap().join().unwrap(), (Priority::Normal, None, false, false, false));
}

#[test]
fn a_panicking_destructor_in_each_of_many_rounds_never_costs_a_slot() {
    let _watchdog = watchdog();
    let pool = Pool::new(2, 3).unwrap();
    for _ in 0..100 {
        let quiet = || on_drop(|| std::panic::resume_unwind(Box::new("a destructor panicked")));
        let (on_run, on_result) = (quiet(), quiet());
        let run = pool.try_submit(move || drop(on_run)).expect("a slot was lost");
        let (gate, detached) = gated(&pool, move || on_result);
        drop(detached);
        gate.open();
        assert!(run.join().unwrap_err().is_panic());
        assert!(pool.try_submit(fail_quietly).expect("a slot was lost").join().is_err());
        pool.wait_idle();
    }
    let end = pool.snapshot();
    assert_eq!((end.panicked, end.completed, end.contained_panics), (200, 100, 100));
    assert_all_workers_live(&pool);
    assert_all_slots_free(&pool);
}

#[test]
fn a_thread_blocked_in_join_meets_the_error_and_not_the_panic() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 1).unwrap();
    let (gate, job) = gated(&pool, fail);
    let start = Rendezvous::new(2);
    let ready = start.clone();
    let joins = thread::spawn(move || {
        ready.meet();
        job.join().map_err(|error| error.is_panic())
    });
    start.meet();
    gate.open();
    assert_eq!(joins.join().expect("a panic reached the thread that joins"), Err(true));

    let (gate, mut job) = gated(&pool, fail);
    let (woken, wakes) = mpsc::channel();
    let woken = Mutex::new(woken);
    let waits = waker(move || woken.lock().unwrap().send(()).unwrap());
    assert!(poll(&mut job, &waits).is_pending());
    gate.open();
    recv(&wakes);
    assert!(job.try_take().expect("it has ended").unwrap_err().is_panic());
}

#[test]
fn taking_a_result_twice_is_the_callers_own_panic() {
    let _watchdog = watchdog();
    type Again = fn(JobHandle<u8>);
    let again: [(&str, Again); 2] = [
        ("join", |job| drop(job.join())),
        ("poll", |mut job| assert!(poll(&mut job, &waker(|| ())).is_ready())),
    ];
    let pool = Pool::new(1, 1).unwrap();
    for (how, again) in again {
        let mut job = pool.try_submit(|| 1).unwrap();
        eventually("it ends", || job.is_finished());
        assert_eq!(job.try_take().unwrap().unwrap(), 1);
        let end: Result<(), Box<dyn Any + Send>> = catch_unwind(AssertUnwindSafe(|| again(job)));
        assert!(end.is_err(), "{how} after the result was taken");
    }
    assert_all_slots_free(&pool);
}

#[test]
fn a_displaced_job_whose_capture_panics_is_contained() {
    check(
        &[Case {
            story: "displaced by a critical job",
            play: |pool| {
                let busy = occupy(pool);
                let victim = armed(pool);
                let critical = pool
                    .job()
                    .priority(Priority::Critical)
                    .try_submit(|| 5)
                    .expect("it displaces the victim");
                assert!(victim.join().unwrap_err().is_shed());
                busy.free();
                assert_eq!(critical.join().unwrap(), 5);
            },
            panicked: 0,
            contained: 1,
        }],
        || Pool::new(1, 2).unwrap(),
    );
}

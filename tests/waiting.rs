//! Waiting for a slot: in turn, under any runtime or none, and gone without a trace once given up.
//!
//! Who holds a slot is mostly a permit, or a job queued behind a worker that is held in a body: both are given back by the
//! test's own thread, so that what a return must bring about can be looked at right after it.

mod common;

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use common::{
    Count, Gate, Peak, Rendezvous, assert_all_slots_free, assert_all_workers_live, block_on,
    counting_waker, eventually, fail_quietly, occupy, on_drop, poll, recv, rounds, waker, watchdog,
};
use weirpool::test::ManualClock;
use weirpool::{
    Clock, JobHandle, JobSpec, Partition, Permit, Pool, Priority, Reason, Rejected, Shutdown,
    Submit,
};

type Answer<F, T> = Result<JobHandle<T>, Rejected<F>>;

/// A submit that has taken its place in line.
struct Waiter<F, T> {
    submit: Submit<F, T>,
    waker: Waker,
    wakes: Count,
}

/// Polls the submit once; it must have to wait.
#[track_caller]
fn in_line<F, T>(mut submit: Submit<F, T>) -> Waiter<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let (waker, wakes) = counting_waker();
    assert!(poll(&mut submit, &waker).is_pending(), "it did not have to wait");
    Waiter { submit, waker, wakes }
}

impl<F, T> Waiter<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    fn wakes(&self) -> usize {
        self.wakes.get()
    }

    fn is_woken(&self) -> bool {
        self.wakes() > 0
    }

    fn poll(&mut self) -> Poll<Answer<F, T>> {
        poll(&mut self.submit, &self.waker)
    }

    #[track_caller]
    fn answer(mut self) -> Answer<F, T> {
        match self.poll() {
            Poll::Ready(answer) => answer,
            Poll::Pending => panic!("it still waits, woken {} times", self.wakes()),
        }
    }

    /// The handle of a submit that has had its turn.
    #[track_caller]
    fn accepted(self) -> JobHandle<T> {
        self.answer().expect("it was its turn")
    }

    /// The reason and the job of a submit that was refused.
    #[track_caller]
    fn refused(self) -> (Reason, F) {
        refused(self.answer())
    }
}

#[track_caller]
fn refused<F, T>(answer: Answer<F, T>) -> (Reason, F) {
    let (refusal, job) = answer.expect_err("there was no slot for it").into_parts();
    (refusal.reason(), job)
}

/// The reason of a refusal, and the result of the job that came back.
#[track_caller]
fn give_back<T>(answer: Answer<impl FnOnce() -> T, T>) -> (Reason, T) {
    let (reason, job) = refused(answer);
    (reason, job())
}

/// A pool of one worker whose slots all are permits.
fn full(capacity: usize) -> (Pool, Vec<Permit>) {
    let pool = Pool::new(1, capacity).unwrap();
    let permits = pool.try_reserve_many(capacity).unwrap();
    (pool, permits)
}

/// Polls once, for what must answer at once.
#[track_caller]
fn at_once<T>(mut future: impl Future<Output = T> + Unpin) -> T {
    match poll(&mut future, Waker::noop()) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("it had to answer at once"),
    }
}

// ── Under any runtime ───────────────────────────────────────────────────────────────────────────

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

fn on_tokio(mut builder: tokio::runtime::Builder, task: Task) {
    builder.build().unwrap().block_on(async { tokio::spawn(task).await.unwrap() });
}

#[test]
fn a_submit_is_awaited_under_any_runtime() {
    let _watchdog = watchdog();
    type Run = fn(Task);
    let runtimes: [(&str, Run); 4] = [
        ("tokio, many threads", |task| {
            on_tokio(tokio::runtime::Builder::new_multi_thread(), task);
        }),
        ("tokio, one thread", |task| {
            on_tokio(tokio::runtime::Builder::new_current_thread(), task);
        }),
        ("pollster", |task| pollster::block_on(task)),
        ("a bare waker", |task| block_on(task)),
    ];
    for (runtime, run) in runtimes {
        let pool = Pool::new(2, 2).unwrap();
        let (held, inside) = (pool.clone(), Arc::new(Peak::default()));
        let peak = inside.clone();
        run(Box::pin(async move {
            // A permit keeps one slot, so that the second submit of each round has to wait for the first.
            let _permit = held.try_reserve().unwrap();
            for round in 0..100 {
                let job = |number| {
                    let inside = inside.clone();
                    held.submit(move || {
                        inside.visit(|| ());
                        number
                    })
                };
                let first = job(round).await.unwrap();
                let second = job(round + 1).await.unwrap();
                assert_eq!((first.await.unwrap(), second.await.unwrap()), (round, round + 1));
            }
        }));
        assert_eq!(peak.highest(), 1, "{runtime}: two jobs shared one slot");
        assert_eq!(pool.snapshot().rejected.total(), 0, "{runtime}: waiting was no refusal");
        assert_all_slots_free(&pool);
    }
}

#[test]
fn many_tasks_wait_at_once_and_each_has_its_turn() {
    let _watchdog = watchdog();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let pool = Pool::new(2, 2).unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..rounds(2_000))
        .map(|number| {
            let (pool, ran) = (pool.clone(), ran.clone());
            runtime.spawn(async move {
                let job = pool.submit(move || ran.fetch_add(1, SeqCst)).await;
                job.expect("nobody closes the pool").await.expect("it ends well");
                number
            })
        })
        .collect();
    for (number, task) in tasks.into_iter().enumerate() {
        assert_eq!(runtime.block_on(task).unwrap(), number);
    }
    assert_eq!(ran.load(SeqCst), rounds(2_000));
    assert_all_slots_free(&pool);
}

#[test]
fn a_submit_dropped_half_way_in_a_select_passes_its_turn_on() {
    let _watchdog = watchdog();
    for granted in [false, true] {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (pool, mut permits) = full(1);
        let answer = runtime.block_on(async {
            let mut given_up = pool.submit(|| unreachable!("nobody wants it"));
            tokio::select! {
                biased;
                _ = &mut given_up => panic!("there is no slot"),
                () = tokio::task::yield_now() => (),
            }
            let next = tokio::spawn(pool.submit(|| 7));
            tokio::task::yield_now().await;
            if granted {
                permits.clear();
                assert_eq!(pool.snapshot().reserved, 1, "the first in line was granted the slot");
            }
            drop(given_up);
            permits.clear();
            next.await.unwrap().expect("it was next").await
        });
        assert_eq!(answer.unwrap(), 7, "granted: {granted}");
        assert_all_slots_free(&pool);
    }
}

#[test]
fn a_submit_moves_between_threads_and_lives_as_long_as_you_like() {
    fn is_send_and_static<T: Send + 'static>(value: T) -> T {
        value
    }
    let (pool, permits) = full(1);
    // Neither the closure nor its result is `Sync`.
    let not_sync = Cell::new(5);
    let submit = is_send_and_static(pool.submit(move || Cell::new(not_sync.get() + 1)));
    let waiter = in_line(submit);
    let there = thread::spawn(move || {
        drop(permits);
        waiter.accepted().join().unwrap().get()
    });
    assert_eq!(there.join().unwrap(), 6);
}

#[test]
fn a_submit_that_has_answered_is_not_polled_again() {
    let pool = Pool::new(1, 1).unwrap();
    let mut submit = pool.submit(|| 1);
    assert_eq!(at_once(&mut submit).unwrap().join().unwrap(), 1);
    assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut submit, Waker::noop()))).is_err());
    drop(submit);
    assert_all_slots_free(&pool);
}

#[test]
fn a_submit_keeps_the_pool_open_and_the_last_one_lets_it_end() {
    let _watchdog = watchdog();
    let (exits, exited) = mpsc::channel();
    let pool = Pool::builder().workers(1).capacity(1).batch();
    let pool = pool.on_thread_stop(move || exits.send(()).unwrap()).build().unwrap();
    let gate = Gate::new();
    let wait = gate.clone();
    let running = pool.try_submit(move || wait.wait()).unwrap();
    let never_polled = pool.submit(|| ());
    let waiter = in_line(pool.submit(|| weirpool::context().unwrap().pool().is_closed()));
    drop(pool);
    gate.open();
    running.join().unwrap();
    eventually("the slot comes to the waiter", || waiter.is_woken());
    assert!(!waiter.accepted().join().unwrap(), "another submit keeps it open");
    drop(never_polled);
    recv(&exited);
}

// ── When a slot returns ─────────────────────────────────────────────────────────────────────────

type Release = Box<dyn FnOnce()>;

/// What takes all slots of the pool, and how they come back.
struct Way {
    name: &'static str,
    capacity: usize,
    hold: fn(&Pool, &ManualClock) -> Release,
}

const WAYS: [Way; 7] = [
    Way {
        name: "a permit is dropped",
        capacity: 1,
        hold: |pool, _| {
            let permit = pool.try_reserve().unwrap();
            Box::new(|| drop(permit))
        },
    },
    Way {
        name: "a body ends",
        capacity: 1,
        hold: |pool, _| {
            let busy = occupy(pool);
            Box::new(|| busy.free())
        },
    },
    Way {
        name: "the body of a job from a permit ends",
        capacity: 1,
        hold: |pool, _| {
            let gate = Gate::new();
            let wait = gate.clone();
            let permit = pool.try_reserve().unwrap();
            drop(permit.submit(move || wait.wait()).unwrap());
            Box::new(move || gate.open())
        },
    },
    Way {
        name: "a body panics",
        capacity: 1,
        hold: |pool, _| {
            let gate = Gate::new();
            let wait = gate.clone();
            let job = pool.try_submit(move || {
                wait.wait();
                fail_quietly();
            });
            let job = job.unwrap();
            Box::new(move || {
                gate.open();
                assert!(job.join().unwrap_err().is_panic());
            })
        },
    },
    Way {
        name: "a queued job is cancelled",
        capacity: 2,
        hold: |pool, _| {
            let busy = occupy(pool);
            let queued = pool.try_submit(|| ()).unwrap();
            Box::new(move || {
                assert!(queued.cancel());
                busy.free();
            })
        },
    },
    Way {
        name: "an expired job is shed",
        capacity: 2,
        hold: |pool, clock| {
            let busy = occupy(pool);
            let impatient = pool.job().timeout(Duration::from_secs(1)).try_submit(|| ()).unwrap();
            let clock = clock.clone();
            Box::new(move || {
                clock.advance(Duration::from_secs(2));
                busy.free();
                assert!(impatient.join().unwrap_err().is_shed());
            })
        },
    },
    Way {
        name: "a handle that cancels is dropped",
        capacity: 2,
        hold: |pool, _| {
            let busy = occupy(pool);
            let queued = pool.try_submit(|| ()).unwrap().cancel_on_drop();
            Box::new(move || {
                drop(queued);
                busy.free();
            })
        },
    },
];

#[test]
fn a_slot_that_returns_in_whatever_way_wakes_who_waits_for_it() {
    let _watchdog = watchdog();
    type Blocking = fn(&Pool) -> u32;
    let blocking: [Blocking; 2] = [
        |pool| pool.submit_blocking(|| 1).unwrap().join().unwrap(),
        |pool| pool.submit_timeout(|| 1, Duration::MAX).unwrap().join().unwrap(),
    ];
    for Way { name, capacity, hold } in WAYS {
        let clock = ManualClock::new();
        let builder = Pool::builder().workers(1).capacity(capacity).batch();
        let pool = builder.clock(clock.clone()).build().unwrap();

        let release = hold(&pool, &clock);
        let waiter = in_line(pool.submit(|| 1));
        assert_eq!((waiter.wakes(), pool.in_flight()), (0, capacity), "{name}");
        release();
        eventually(name, || waiter.is_woken());
        assert_eq!(waiter.wakes(), 1, "{name}");
        assert_eq!(waiter.accepted().join().unwrap(), 1, "{name}");

        for submit in blocking {
            pool.wait_idle();
            let release = hold(&pool, &clock);
            thread::scope(|s| {
                let blocked = s.spawn(|| submit(&pool));
                release();
                assert_eq!(blocked.join().unwrap(), 1, "{name}");
            });
        }
        pool.wait_idle();
        assert_all_slots_free(&pool);
    }
}

#[test]
fn one_return_is_one_wake_of_the_waker_last_seen() {
    let (pool, mut permits) = full(2);
    let mut waiter = in_line(pool.submit(|| ()));
    let (waker, last) = counting_waker();
    let replaced = waiter.wakes.clone();
    waiter.waker = waker;
    for _ in 0..3 {
        assert!(waiter.poll().is_pending());
    }
    assert_eq!((replaced.get(), last.get()), (0, 0), "while full nobody is woken");
    permits.clear();
    assert_eq!((replaced.get(), last.get()), (0, 1));
    waiter.accepted().join().unwrap();
}

#[test]
fn a_thread_blocked_in_a_submit_is_woken_after_each_panic() {
    let _watchdog = watchdog();
    let pool = Pool::new(2, 4).unwrap();
    let submitters = 4;
    thread::scope(|s| {
        for _ in 0..submitters {
            s.spawn(|| {
                let jobs: Vec<_> =
                    (0..25).map(|_| pool.submit_blocking(fail_quietly).unwrap()).collect();
                for job in jobs {
                    assert!(job.join().unwrap_err().is_panic());
                }
            });
        }
    });
    assert_eq!((pool.snapshot().panicked, pool.workers()), (100, 2));
    let good: Vec<_> =
        (0..10).map(|number| pool.submit_blocking(move || number).unwrap()).collect();
    for (number, job) in good.into_iter().enumerate() {
        assert_eq!(job.join().unwrap(), number);
    }
    assert_all_workers_live(&pool);
    assert_all_slots_free(&pool);
}

// ── In turn ─────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_submit_takes_its_place_at_its_first_poll() {
    let (pool, mut permits) = full(2);
    let (made_first, never) = (pool.submit(|| "made first"), pool.submit(|| "never polled"));
    let polled_first = in_line(pool.submit(|| "polled first"));
    let made_first = in_line(made_first);
    permits.pop();
    assert_eq!((polled_first.wakes(), made_first.wakes()), (1, 0));
    permits.pop();
    assert_eq!((polled_first.wakes(), made_first.wakes()), (1, 1));
    drop(never);
    assert_eq!(polled_first.accepted().join().unwrap(), "polled first");
    assert_eq!(made_first.accepted().join().unwrap(), "made first");
    assert_all_slots_free(&pool);
}

#[test]
fn first_come_first_served_within_a_partition_and_class() {
    let _watchdog = watchdog();
    let classes = [Priority::Low, Priority::Normal, Priority::High, Priority::Critical];
    let pool = Pool::builder().workers(1).capacity(24).batch();
    let pool = pool.partition("a", Partition::new()).partition("b", Partition::new());
    let pool = pool.build().unwrap();
    let partitions = [pool.partition("a"), pool.partition("b"), None];
    let kinds: Vec<_> = partitions
        .into_iter()
        .flat_map(|partition| classes.map(|class| (partition, class)))
        .collect();
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..rounds(100) {
        let mut permits = pool.try_reserve_many(24).unwrap();
        let mut kinds: Vec<_> = kinds.iter().chain(&kinds).copied().collect();
        random.shuffle(&mut kinds);
        let mut line: Vec<_> = kinds
            .into_iter()
            .map(|kind| {
                let (partition, class) = kind;
                let spec = pool.job().priority(class);
                let spec = partition.into_iter().fold(spec, JobSpec::partition);
                (kind, in_line(spec.submit(|| ())))
            })
            .collect();
        let mut served = vec![false; line.len()];
        while let Some(permit) = permits.pop() {
            drop(permit);
            let now: Vec<_> =
                (0..line.len()).filter(|&at| line[at].1.is_woken() && !served[at]).collect();
            assert_eq!(now.len(), 1, "one slot serves one");
            let ((kind, _), earlier) = (&line[now[0]], &line[..now[0]]);
            let waits = |at: &usize| earlier[*at].0 == *kind && !served[*at];
            assert_eq!((0..earlier.len()).find(waits), None, "{kind:?} overtook one of its kind");
            served[now[0]] = true;
        }
        // Nobody has used the slot it was granted.
        line.clear();
        assert_eq!(pool.in_flight(), 0);
    }
    assert_all_slots_free(&pool);
}

#[test]
fn a_try_submit_does_not_overtake_who_waits_in_its_class() {
    let _watchdog = watchdog();
    let hammers = 3;
    for _ in 0..rounds(200) {
        let (pool, mut permits) = full(1);
        let waiter = in_line(pool.submit(|| 1));
        let (over, start) = (AtomicBool::new(false), Rendezvous::new(hammers + 1));
        thread::scope(|s| {
            for class in [Priority::Normal, Priority::Normal, Priority::Low] {
                let (pool, over, start) = (&pool, &over, &start);
                s.spawn(move || {
                    start.meet();
                    while !over.load(SeqCst) {
                        let refused = pool.job().priority(class).try_submit(|| 2);
                        assert_eq!(refused.unwrap_err().reason(), Reason::Full);
                        let refused = pool.job().priority(class).try_reserve_many(1);
                        assert_eq!(refused.unwrap_err().reason(), Reason::Full);
                    }
                });
            }
            start.meet();
            permits.clear();
            eventually("it is granted the slot", || waiter.is_woken());
            over.store(true, SeqCst);
        });
        assert_eq!(waiter.accepted().join().unwrap(), 1);
        assert_all_slots_free(&pool);
    }
}

/// A pool with slots enough, whose budget of bytes is used up but for `left`.
fn short_of_bytes(max: u64, left: u64) -> (Pool, Permit) {
    let builder = Pool::builder().workers(1).capacity(16).max_bytes(max).batch();
    let builder = builder.partition("other", Partition::new());
    let pool = builder.build().unwrap();
    let permit = pool.job().bytes(max - left).try_reserve().unwrap();
    (pool, permit)
}

#[test]
fn a_large_waiter_blocks_the_small_ones_of_its_own_partition_only() {
    let (pool, held) = short_of_bytes(10, 5);
    let normal = pool.job().bytes(1);
    let large = in_line(pool.job().bytes(8).submit(|| "large"));
    let small = in_line(normal.submit(|| "small"));

    // Behind it, in its class or a lower one.
    assert!(normal.try_submit(|| ()).is_err());
    assert!(normal.try_reserve().is_err());
    assert!(normal.priority(Priority::Low).try_submit(|| ()).is_err());
    assert!(normal.submit_timeout(|| (), Duration::ZERO).is_err());
    // A higher class may pass, and another partition is not concerned.
    let high = normal.priority(Priority::High).try_submit(|| ()).expect("a higher class may");
    high.join().unwrap();
    let other = pool.partition("other").unwrap();
    normal.partition(other).try_submit(|| ()).expect("another line").join().unwrap();
    in_line_or_accepted(normal.partition(other).submit(|| ())).join().unwrap();
    assert_eq!((large.wakes(), small.wakes()), (0, 0));

    drop(held);
    assert_eq!((large.wakes(), small.wakes()), (1, 1));
    assert_eq!(pool.snapshot().bytes, 9);
    assert_eq!(large.accepted().join().unwrap(), "large");
    assert_eq!(small.accepted().join().unwrap(), "small");
    assert_eq!(pool.snapshot().bytes, 0);
    assert_all_slots_free(&pool);
}

#[track_caller]
fn in_line_or_accepted<F, T>(submit: Submit<F, T>) -> JobHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    at_once(submit).expect("nothing stands in its way")
}

#[test]
fn when_the_front_waiter_gives_up_all_who_fit_behind_it_proceed() {
    let (pool, held) = short_of_bytes(3, 2);
    let front = in_line(pool.job().bytes(3).submit(|| 3));
    let behind = [1, 2].map(|number: u32| in_line(pool.job().bytes(1).submit(move || number)));
    let too_many = in_line(pool.job().bytes(1).submit(|| 3));
    assert!(behind.iter().all(|waiter| waiter.wakes() == 0));
    drop(front);
    assert!(behind.iter().all(|waiter| waiter.wakes() == 1), "both proceed at once");
    assert_eq!((too_many.wakes(), pool.snapshot().bytes), (0, 3));
    for (number, waiter) in [1, 2].into_iter().zip(behind) {
        assert_eq!(waiter.accepted().join().unwrap(), number);
    }
    eventually("a byte for the last one", || too_many.is_woken());
    assert_eq!(too_many.accepted().join().unwrap(), 3);
    drop(held);
    assert_all_slots_free(&pool);
}

#[test]
fn who_is_kept_out_by_the_critical_reserve_does_not_hold_up_critical_work() {
    let pool = Pool::builder().workers(1).capacity(3).critical_reserve(1).batch();
    let pool = pool.build().unwrap();
    let mut held = pool.try_reserve_many(2).unwrap();
    let normal = in_line(pool.submit(|| ()));
    let critical = pool.job().priority(Priority::Critical);
    let reserve = critical.try_reserve().expect("the reserve is for it");
    let waits = in_line(critical.submit(|| ()));
    drop(reserve);
    assert_eq!((normal.wakes(), waits.wakes()), (0, 1));
    held.pop();
    assert_eq!(normal.wakes(), 0, "what critical work holds counts, too");
    drop(waits);
    assert_eq!(normal.wakes(), 1);
    drop((held, normal));
    assert_eq!(pool.in_flight(), 0);
}

// ── Giving up ───────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_permit_granted_to_a_waiter_that_has_already_given_up_goes_to_the_next() {
    let (pool, mut permits) = full(1);
    let first = in_line(pool.submit(|| 1));
    let second = in_line(pool.submit(|| 2));
    permits.pop();
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    drop(first);
    assert_eq!(second.wakes(), 1, "no other event is needed");
    assert_eq!(second.accepted().join().unwrap(), 2);
    assert_all_slots_free(&pool);
}

#[test]
fn waiters_that_all_time_out_leave_all_slots_free() {
    let _watchdog = watchdog();
    let (pool, permits) = full(8);
    let limits = [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(1)];
    thread::scope(|s| {
        for number in 0..8_usize {
            let (pool, limit) = (&pool, limits[number % limits.len()]);
            s.spawn(move || {
                let (reason, job) = refused(pool.submit_timeout(move || number, limit));
                assert_eq!((reason, job()), (Reason::Full, number));
            });
        }
    });
    let waiters: Vec<_> = (0..8).map(|_| in_line(pool.submit(|| ()))).collect();
    drop(waiters);
    drop(permits);
    assert_eq!((pool.in_flight(), pool.snapshot().rejected.get(Reason::Full)), (0, 8));
    assert_all_slots_free(&pool);

    // All of them granted, none of them used.
    let permits = pool.try_reserve_many(8).unwrap();
    let waiters: Vec<_> = (0..8).map(|_| in_line(pool.submit(|| ()))).collect();
    drop(permits);
    assert!(waiters.iter().all(|waiter| waiter.wakes() == 1));
    assert_eq!((pool.in_flight(), pool.snapshot().reserved), (8, 8));
    drop(waiters);
    assert_all_slots_free(&pool);
}

#[test]
fn a_timeout_returns_the_reason_it_waited_on_and_the_job() {
    let _watchdog = watchdog();
    let builder = Pool::builder().workers(1).capacity(4).max_bytes(10).batch();
    let pool = builder.partition("one", Partition::new().max(1)).build().unwrap();
    let one = pool.partition("one").unwrap();
    type Spec = for<'a> fn(JobSpec<'a>, weirpool::PartitionId) -> JobSpec<'a>;
    let cases: [(Reason, Spec, Spec); 3] = [
        (Reason::Partition, |spec, one| spec.partition(one), |spec, one| spec.partition(one)),
        (Reason::Bytes, |spec, _| spec.bytes(6), |spec, _| spec.bytes(5)),
        (Reason::Full, |spec, _| spec, |spec, _| spec),
    ];
    for (reason, hold, wait) in cases {
        let held: Vec<_> =
            std::iter::from_fn(|| hold(pool.job(), one).try_reserve().ok()).collect();
        assert!(!held.is_empty());
        let before = pool.snapshot().rejected.get(reason);
        for limit in [Duration::ZERO, Duration::from_millis(1)] {
            let token = Arc::new(());
            let captured = token.clone();
            let timed_out =
                wait(pool.job(), one).submit_timeout(move || Arc::strong_count(&captured), limit);
            let (found, job) = refused(timed_out);
            assert_eq!((found, job()), (reason, 2));
            assert_eq!(Arc::strong_count(&token), 1);
        }
        assert_eq!(pool.snapshot().rejected.get(reason) - before, 2);
        drop(held);
        // Nothing of them is left in line: nobody stands before this one.
        wait(pool.job(), one).try_submit(|| ()).unwrap().join().unwrap();
    }
    assert_all_slots_free(&pool);
}

/// Submits at random, and ends at random what came of them: jobs queued behind busy workers, which hold their slots
/// until they are cancelled, and waiters.
struct Crowd {
    pool: Pool,
    random: fastrand::Rng,
    held: Vec<JobHandle<()>>,
    line: Vec<Waiter<fn(), ()>>,
    seen: usize,
}

/// Jobs and permits held, slots granted and not yet used, waiters with nothing.
type Figures = (usize, usize, usize);

impl Crowd {
    fn new(pool: &Pool, seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self { pool: pool.clone(), random, held: Vec::new(), line: Vec::new(), seen: 0 }
    }

    fn step(&mut self) {
        let (held, line) = (self.held.len(), self.line.len());
        match self.random.u32(0..8) {
            0 => self.held.extend(self.pool.try_submit(|| ())),
            1..=3 if line < 40 => {
                self.seen += 1;
                let (submit, (waker, wakes)) =
                    (self.pool.submit((|| ()) as fn()), counting_waker());
                let mut waiter = Waiter { submit, waker, wakes };
                match waiter.poll() {
                    Poll::Ready(job) => self.held.push(job.unwrap()),
                    Poll::Pending => self.line.push(waiter),
                }
            }
            4 | 5 if held > 0 => {
                let job = self.held.swap_remove(self.random.usize(..held));
                assert!(job.cancel(), "nobody else ends it");
            }
            6 if line > 0 => drop(self.line.remove(self.random.usize(..line))),
            7 if line > 0 => {
                let at = self.random.usize(..line);
                let woken = self.line[at].is_woken();
                match self.line[at].poll() {
                    Poll::Ready(job) => {
                        self.held.push(job.unwrap());
                        drop(self.line.remove(at));
                    }
                    Poll::Pending => assert!(!woken, "woken for nothing"),
                }
            }
            _ => (),
        }
        assert!(self.pool.in_flight() <= self.pool.capacity());
    }

    fn figures(&self) -> Figures {
        let granted = self.line.iter().filter(|waiter| waiter.is_woken()).count();
        (self.held.len(), granted, self.line.len() - granted)
    }

    fn cancel_all(&mut self) {
        self.line.clear();
        for job in self.held.drain(..) {
            assert!(job.cancel());
        }
    }
}

/// At a quiet moment: the slots in use are those held and granted, and nobody waits beside a free one.
#[track_caller]
fn assert_quiet(pool: &Pool, busy: usize, (held, granted, waiting): Figures) {
    let now = pool.snapshot();
    assert_eq!((now.in_flight, now.reserved), (busy + held + granted, granted), "{now:?}");
    assert!(waiting == 0 || now.in_flight == now.capacity, "{waiting} wait in vain: {now:?}");
}

#[test]
fn slots_released_and_waiters_dropped_in_random_order_add_up_at_every_step() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 6).unwrap();
    let busy = occupy(&pool);
    let mut crowd = Crowd::new(&pool, 11);
    for _ in 0..rounds(60_000) {
        crowd.step();
        assert_quiet(&pool, 1, crowd.figures());
        // First come first served: nobody who waits came before one who was served.
        assert!(crowd.line.is_sorted_by_key(|waiter| !waiter.is_woken()));
    }
    assert!(crowd.seen >= rounds(60_000) / 10);
    crowd.cancel_all();
    busy.free();
    assert_all_slots_free(&pool);
}

#[test]
fn thousands_of_waiters_on_many_threads_add_up_at_every_quiet_moment() {
    let _watchdog = watchdog();
    let (threads, waves) = (4, rounds(120));
    let pool = Pool::new(1, 8).unwrap();
    let busy = occupy(&pool);
    let (meet, totals) = (Rendezvous::new(threads + 1), Mutex::new((0, 0, 0)));
    let seen = AtomicUsize::new(0);
    thread::scope(|s| {
        for seed in 0..threads {
            let (pool, meet, totals, seen) = (&pool, &meet, &totals, &seen);
            s.spawn(move || {
                let mut crowd = Crowd::new(pool, seed as u64);
                for _ in 0..waves {
                    (0..200).for_each(|_| crowd.step());
                    meet.meet();
                    let (held, granted, waiting) = crowd.figures();
                    let mut total = totals.lock().unwrap();
                    *total = (total.0 + held, total.1 + granted, total.2 + waiting);
                    drop(total);
                    meet.meet();
                    meet.meet();
                }
                crowd.cancel_all();
                seen.fetch_add(crowd.seen, SeqCst);
            });
        }
        for _ in 0..waves {
            meet.meet();
            meet.meet();
            assert_quiet(&pool, 1, std::mem::take(&mut *totals.lock().unwrap()));
            meet.meet();
        }
    });
    assert!(seen.load(SeqCst) >= waves * threads * 200 / 10, "{seen:?} waiters");
    busy.free();
    assert_all_slots_free(&pool);
}

// ── What waiting does not cure ──────────────────────────────────────────────────────────────────

#[test]
fn a_job_larger_than_the_whole_budget_is_refused_at_once() {
    let builder = Pool::builder().workers(1).capacity(2).max_bytes(4).batch();
    let pool = builder.build().unwrap();
    for used in [0, 4] {
        let _held = pool.job().bytes(used).try_reserve().unwrap();
        let five = pool.job().bytes(5);
        let answers = [
            at_once(five.submit(|| 5)).map(drop).map_err(|rejected| rejected.reason()),
            five.submit_blocking(|| 5).map(drop).map_err(|rejected| rejected.reason()),
            five.submit_timeout(|| 5, Duration::MAX).map(drop).map_err(|no| no.reason()),
            five.try_submit(|| 5).map(drop).map_err(|rejected| rejected.reason()),
        ];
        assert_eq!(answers, [Err(Reason::Bytes); 4]);
        // A head of line that can never be served would hold up this one.
        if used == 0 {
            pool.job().bytes(4).try_submit(|| ()).unwrap().join().unwrap();
        }
    }
    assert_all_slots_free(&pool);
}

#[test]
fn an_expired_deadline_is_refused_at_once_and_a_slot_that_comes_too_late_is_passed_on() {
    let clock = ManualClock::new();
    let builder = Pool::builder().workers(1).capacity(1).batch();
    let pool = builder.clock(clock.clone()).build().unwrap();
    let second = Duration::from_secs(1);

    let expires = pool.job().timeout(second).submit(|| "counted from the submit, not the poll");
    clock.advance(second);
    assert_eq!(refused(at_once(expires)).0, Reason::Deadline);
    let expired = pool.job().deadline(clock.now());
    let mut permit = None;
    for full in [false, true] {
        permit = full.then(|| pool.try_reserve().unwrap()).or(permit);
        assert_eq!(refused(at_once(expired.submit(|| ()))).0, Reason::Deadline);
        assert_eq!(refused(expired.submit_blocking(|| ())).0, Reason::Deadline);
        assert_eq!(refused(expired.submit_timeout(|| (), Duration::MAX)).0, Reason::Deadline);
        assert_eq!(pool.in_flight(), usize::from(full));
    }

    let impatient = in_line(pool.job().timeout(second).submit(|| "too late"));
    let patient = in_line(pool.job().timeout(3 * second).submit(|| "in time"));
    clock.advance(2 * second);
    drop(permit);
    assert_eq!((impatient.wakes(), patient.wakes()), (1, 0));
    let (reason, job) = impatient.refused();
    assert_eq!((reason, job()), (Reason::Deadline, "too late"));
    assert_eq!(patient.accepted().join().unwrap(), "in time");
    assert_eq!(pool.snapshot().rejected.get(Reason::Deadline), 8);
    assert_all_slots_free(&pool);
}

#[test]
fn closing_in_whatever_way_wakes_all_who_wait_and_gives_their_jobs_back() {
    let _watchdog = watchdog();
    type Close = fn(&Pool);
    let ways: [(&str, Close); 5] = [
        ("close", |pool| pool.close()),
        ("drain", |pool| _ = pool.shutdown(Shutdown::Drain, None)),
        ("discard", |pool| _ = pool.shutdown(Shutdown::Discard, None)),
        ("for async callers", |pool| {
            _ = block_on(Box::pin(pool.shutdown_async(Shutdown::Drain, None)));
        }),
        ("on a thread that waits itself", |pool| {
            let closer = pool.clone();
            let waits = in_line(pool.submit(|| ()));
            let closes = waker(move || closer.close());
            let mut on_wake = pool.submit(|| ());
            assert!(poll(&mut on_wake, &closes).is_pending());
            drop(waits);
            pool.close();
        }),
    ];
    for (name, close) in ways {
        let builder = Pool::builder().workers(1).capacity(2).max_bytes(4).batch();
        let pool = builder.partition("one", Partition::new().max(1)).build().unwrap();
        let one = pool.job().partition(pool.partition("one").unwrap());
        let mut permits = vec![one.bytes(4).try_reserve().unwrap(), pool.try_reserve().unwrap()];
        let line = [pool.job(), pool.job(), one, pool.job().bytes(1)];
        let mut line: Vec<_> = line.map(|spec| in_line(spec.submit(|| "mine"))).into();
        permits.pop();
        let granted = line.remove(0);
        assert_eq!((granted.wakes(), pool.snapshot().reserved), (1, 2), "{name}");
        thread::scope(|s| {
            let blocked = s.spawn(|| give_back(pool.submit_blocking(|| "mine")));
            let limited = s.spawn(|| give_back(pool.submit_timeout(|| "mine", Duration::MAX)));
            close(&pool);
            assert!(line.iter().all(|waiter| waiter.wakes() == 1), "{name}");
            for waiter in line.into_iter().chain([granted]) {
                let (reason, job) = waiter.refused();
                assert_eq!((reason, job()), (Reason::Closed, "mine"), "{name}");
            }
            for thread in [blocked, limited] {
                assert_eq!(thread.join().unwrap(), (Reason::Closed, "mine"), "{name}");
            }
        });
        assert_eq!(refused(at_once(pool.submit(|| ()))).0, Reason::Closed, "{name}");
        assert_eq!(pool.in_flight(), 0, "{name}: grants and permits are void");
        drop(permits);
        assert_eq!(pool.in_flight(), 0, "{name}");
    }
}

// ── On a worker ─────────────────────────────────────────────────────────────────────────────────

#[test]
fn on_a_worker_of_the_same_pool_the_blocking_forms_never_wait() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 2).unwrap();
    let inner = pool.clone();
    let outer = pool.try_submit(move || {
        let reason = |answer: Answer<_, _>| refused::<fn(), ()>(answer).0;
        let job = (|| ()) as fn();
        let taken = inner.submit_blocking(job).expect("there is a slot");
        let full =
            [reason(inner.submit_blocking(job)), reason(inner.submit_timeout(job, Duration::MAX))];
        assert!(taken.cancel());
        // Somebody waits: this one does not overtake, nor does it wait.
        let permit = inner.try_reserve().unwrap();
        let waiter = in_line(inner.submit(job));
        drop(permit);
        let behind = reason(inner.submit_blocking(job));
        drop(waiter);
        inner.submit_timeout(job, Duration::ZERO).expect("there is a slot").join().unwrap();
        inner.close();
        (full, behind, reason(inner.submit_blocking(job)))
    });
    let full = Reason::Full;
    assert_eq!(outer.unwrap().join().unwrap(), ([full, full], full, Reason::Closed));
    assert_eq!(pool.in_flight(), 0);
}

#[test]
fn on_a_worker_of_another_pool_they_wait_like_anybody() {
    let _watchdog = watchdog();
    let (pool, permits) = full(1);
    let other = Pool::new(1, 1).unwrap();
    let inner = pool.clone();
    let blocked = other.try_submit(move || inner.submit_blocking(|| 3).unwrap().join().unwrap());
    drop(permits);
    assert_eq!(blocked.unwrap().join().unwrap(), 3);
    assert_all_slots_free(&pool);
}

#[test]
fn a_callback_that_submits_and_would_block_finds_a_slot_or_is_refused_at_once() {
    let _watchdog = watchdog();
    let (tell, told) = mpsc::channel();
    let submits = |pool: &Pool| {
        let (pool, tell) = (pool.clone(), tell.clone());
        move || {
            let answer = pool.submit_blocking(|| ());
            tell.send(answer.map(drop).map_err(|rejected| rejected.reason())).unwrap();
        }
    };
    let gated = |pool: &Pool, last: Box<dyn FnOnce() + Send>| {
        let gate = Gate::new();
        let wait = gate.clone();
        let job = pool.try_submit(move || {
            wait.wait();
            last();
        });
        (job.unwrap(), gate)
    };

    // Called once the job has ended, so its slot is free.
    let pool = Pool::new(1, 1).unwrap();
    let (mut job, gate) = gated(&pool, Box::new(|| ()));
    assert!(poll(&mut job, &waker(submits(&pool))).is_pending());
    gate.open();
    assert_eq!(recv(&told), Ok(()), "on the completion of a job");
    pool.wait_idle();

    // Called while the job still has its slot.
    let (job, gate) = gated(
        &pool,
        Box::new({
            let at_the_end = on_drop(submits(&pool));
            move || drop(at_the_end)
        }),
    );
    gate.open();
    assert_eq!(recv(&told), Err(Reason::Full), "in a destructor");
    job.join().unwrap();

    // Called when the slot has gone over to who waited for it.
    let (job, gate) = gated(&pool, Box::new(|| ()));
    let mut waits = pool.submit(|| 5);
    assert!(poll(&mut waits, &waker(submits(&pool))).is_pending());
    gate.open();
    assert_eq!(recv(&told), Err(Reason::Full), "on the grant of the slot");
    job.join().unwrap();
    assert_eq!(at_once(waits).unwrap().join().unwrap(), 5);
    assert_all_slots_free(&pool);

    // The panic handler, too, comes after the slot's return.
    let (handler_pool, handler_tell) = (Arc::new(Mutex::new(None::<Pool>)), tell.clone());
    let seen = handler_pool.clone();
    let builder = Pool::builder().workers(1).capacity(1).batch();
    let pool = builder.panic_handler(move |_| {
        let answer = seen.lock().unwrap().take().unwrap().submit_blocking(|| ());
        let answer = answer.map(drop).map_err(|rejected| rejected.reason());
        handler_tell.send(answer).unwrap();
    });
    let pool = pool.build().unwrap();
    *handler_pool.lock().unwrap() = Some(pool.clone());
    pool.try_spawn(fail_quietly).unwrap();
    assert_eq!(recv(&told), Ok(()), "in the panic handler");
    pool.wait_idle();
    assert_all_slots_free(&pool);
}

// ── Wakers and destructors with a will of their own ─────────────────────────────────────────────

#[test]
fn a_waker_may_use_the_pool_while_a_slot_is_handed_over() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 3).unwrap();
    let busy = occupy(&pool);
    let queued = pool.try_submit(|| ()).unwrap();
    let permit = pool.try_reserve().unwrap();

    let given_up = Arc::new(Mutex::new(None));
    let sights = Arc::new(Mutex::new(Vec::new()));
    let wakes = {
        let (pool, given_up, sights) = (pool.clone(), given_up.clone(), sights.clone());
        let queued = queued.canceller();
        waker(move || {
            let refused = pool.try_submit(|| ()).unwrap_err().reason();
            let gave_up = given_up.lock().unwrap().take().is_some();
            let cancelled = queued.cancel();
            let mut one_more = pool.submit(|| ());
            let waits = poll(&mut one_more, Waker::noop()).is_pending();
            pool.set_capacity(3);
            sights.lock().unwrap().push((refused, gave_up, cancelled, waits, pool.in_flight()));
        })
    };
    let mut first = pool.submit(|| 1);
    assert!(poll(&mut first, &wakes).is_pending());
    *given_up.lock().unwrap() = Some(in_line(pool.submit((|| ()) as fn())));
    let third = in_line(pool.submit(|| 3));

    drop(permit);
    assert_eq!(*sights.lock().unwrap(), [(Reason::Full, true, true, true, 3)]);
    assert!(queued.is_finished());
    assert_eq!(third.wakes(), 1, "it got the slot of the cancelled job");
    assert_eq!((pool.in_flight(), pool.snapshot().reserved), (3, 2));
    busy.free();
    assert_eq!(at_once(first).unwrap().join().unwrap(), 1);
    assert_eq!(third.accepted().join().unwrap(), 3);
    assert_all_slots_free(&pool);
}

#[test]
fn a_destructor_may_use_the_pool_while_a_slot_is_handed_over() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 2).unwrap();
    let busy = occupy(&pool);
    let given_up = Arc::new(Mutex::new(None));
    let meddles = {
        let (pool, given_up) = (pool.clone(), given_up.clone());
        move || {
            let refused = pool.try_submit(|| ()).unwrap_err().reason();
            assert_eq!(refused, Reason::Full, "its job still has the slot");
            drop(given_up.lock().unwrap().take());
        }
    };
    let capture = on_drop(meddles.clone());
    let queued = pool.try_submit(move || drop(capture)).unwrap();
    let first = in_line(pool.submit(|| 1));
    *given_up.lock().unwrap() = Some(in_line(pool.submit((|| ()) as fn())));
    // One that owns such a value and gives up itself, before and after it was granted a slot.
    let capture = on_drop(meddles.clone());
    let waiting = in_line(pool.submit(move || drop(capture)));
    drop(waiting);
    assert!(given_up.lock().unwrap().is_none());
    let capture = on_drop(meddles);
    let granted = in_line(pool.submit(move || drop(capture)));
    let last = in_line(pool.submit(|| 4));

    assert!(queued.cancel());
    assert_eq!((first.wakes(), granted.wakes(), last.wakes()), (1, 0, 0));
    drop(first);
    assert_eq!((granted.wakes(), last.wakes()), (1, 0));
    *given_up.lock().unwrap() = Some(in_line(pool.submit((|| ()) as fn())));
    drop(granted);
    assert!(given_up.lock().unwrap().is_none());
    assert_eq!((last.wakes(), pool.in_flight()), (1, 2));
    busy.free();
    assert_eq!(last.accepted().join().unwrap(), 4);
    assert_all_slots_free(&pool);
}

/// A waker that panics when it is called, or when it is dropped.
struct Bad {
    when_woken: bool,
}

impl Wake for Bad {
    fn wake(self: Arc<Self>) {
        assert!(!self.when_woken, "a waker panicked");
    }
}

impl Drop for Bad {
    fn drop(&mut self) {
        assert!(self.when_woken, "the destructor of a waker panicked");
    }
}

/// Takes a place in line with a waker that the line alone holds.
fn in_line_with(submit: &mut Submit<fn(), ()>, bad: Bad) {
    let bad: Waker = Arc::new(bad).into();
    assert!(poll(submit, &bad).is_pending());
    let kept = catch_unwind(AssertUnwindSafe(|| drop(bad)));
    assert!(kept.is_ok(), "the line holds another");
}

#[test]
fn a_waker_that_panics_reaches_nobody_and_keeps_nobody_waiting() {
    let (pool, permits) = full(2);
    let mut first = pool.submit((|| ()) as fn());
    in_line_with(&mut first, Bad { when_woken: true });
    let second = in_line(pool.submit(|| 2));
    drop(permits);
    assert_eq!((second.wakes(), pool.snapshot().reserved), (1, 2));
    drop(first);
    assert_eq!(second.accepted().join().unwrap(), 2);
    assert_all_slots_free(&pool);

    let permits = pool.try_reserve_many(2).unwrap();
    let mut first = pool.submit((|| ()) as fn());
    in_line_with(&mut first, Bad { when_woken: true });
    let second = in_line(pool.submit(|| 2));
    pool.close();
    assert_eq!(second.refused().0, Reason::Closed);
    assert_eq!(refused(at_once(first)).0, Reason::Closed);
    drop(permits);
}

#[test]
fn a_waker_whose_destructor_panics_keeps_nobody_waiting() {
    let (pool, held) = short_of_bytes(3, 2);
    let mut front = pool.job().bytes(3).submit((|| ()) as fn());
    in_line_with(&mut front, Bad { when_woken: false });
    let behind = in_line(pool.job().bytes(1).submit(|| 1));
    let gave_up = catch_unwind(AssertUnwindSafe(|| drop(front)));
    assert_eq!(behind.wakes(), 1, "those behind it fit now");
    assert_eq!(behind.accepted().join().unwrap(), 1);
    assert!(gave_up.is_ok(), "giving up asked for no panic");
    drop(held);
    assert_all_slots_free(&pool);
}

#[test]
fn panics_of_wakers_in_line_are_counted_as_contained() {
    let (pool, permits) = full(1);
    let mut waits = pool.submit((|| ()) as fn());
    in_line_with(&mut waits, Bad { when_woken: true });
    drop(permits);
    assert_eq!(pool.snapshot().contained_panics, 1);
}

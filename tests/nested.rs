//! Submitting and joining from inside a body.
//!
//! A body may wait for the jobs that it made: they run in its place. Nothing else ever runs on its
//! stack, and nothing of it shows in the jobs that run there.

mod common;

use std::hint::black_box;
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use common::{
    Count, Elsewhere, Gate, Log, STEP, elsewhere, eventually, give_way, hold, quiet_panic, recv,
    resolve, rounds_in, watchdog,
};
use weirpool::test::ManualClock;
use weirpool::{Clock, JobError, JobHandle, Pool, Priority, Reason, Shutdown};

const PRIORITIES: [Priority; 4] =
    [Priority::Low, Priority::Normal, Priority::High, Priority::Critical];

/// Runs `body` as a job and gives its answer.
fn inside<T: Send + 'static>(pool: &Pool, body: impl FnOnce(&Pool) -> T + Send + 'static) -> T {
    let own = pool.clone();
    resolve(pool.try_submit(move || body(&own)).unwrap()).unwrap()
}

#[test]
fn nested_submit_and_blocking_join_on_a_full_pool_finishes() {
    let pool = Pool::new(1, 8).unwrap();
    let (outer, inner) = inside(&pool, |pool| {
        let inner = pool.try_submit(|| thread::current().id()).unwrap();
        (thread::current().id(), inner.join().unwrap())
    });
    assert_eq!(outer, inner, "the one worker runs it in place");
    assert_eq!(pool.in_flight(), 0);
}

#[test]
fn nested_submit_on_a_pool_of_one_slot_is_refused_at_once() {
    let pool = Pool::new(1, 1).unwrap();
    let reasons = inside(&pool, |pool| {
        let submit = pool.try_submit(|| ()).map(drop).unwrap_err();
        let spawn = pool.try_spawn(|| ()).unwrap_err();
        let reserve = pool.try_reserve().map(drop).unwrap_err();
        [submit.reason(), spawn.reason(), reserve.reason()]
    });
    assert_eq!(reasons, [Reason::Full; 3]);
    assert_eq!(inside(&pool, |_| 5), 5, "and nothing is lost by it");
}

#[test]
fn a_join_under_a_lock_does_not_run_a_stranger_that_wants_the_lock() {
    for workers in [1, 2] {
        let pool = Pool::new(workers, 8).unwrap();
        let lock = Arc::new(Mutex::new(()));
        let (entered, strangers) = (Gate::new(), Gate::new());
        let (own, locked, ready, queued) =
            (pool.clone(), Arc::clone(&lock), entered.clone(), strangers.clone());
        let parent = pool.try_submit(move || {
            let _locked = locked.lock().unwrap();
            ready.open();
            queued.wait();
            own.try_submit(|| 3).unwrap().join().unwrap()
        });
        entered.wait();
        let stranger = pool.try_submit(move || drop(lock.lock().unwrap())).unwrap();
        strangers.open();
        assert_eq!(resolve(parent.unwrap()).unwrap(), 3);
        resolve(stranger).unwrap();
    }
}

/// Two ways to join the two halves.
#[derive(Clone, Copy)]
enum Order {
    OldestFirst,
    NewestFirst,
}

fn fib(pool: &Pool, n: u64, order: Order) -> u64 {
    if n < 2 {
        return n;
    }
    let half = |n| {
        let own = pool.clone();
        pool.try_submit(move || fib(&own, n, order)).map_err(|refused| refused.run_here())
    };
    let (older, newer) = (half(n - 1), half(n - 2));
    let join = |half: Result<JobHandle<u64>, u64>| match half {
        Ok(job) => job.join().unwrap(),
        Err(here) => here,
    };
    match order {
        Order::OldestFirst => join(older) + join(newer),
        Order::NewestFirst => join(newer) + join(older),
    }
}

#[test]
fn joins_of_handles_made_in_the_same_body_never_deadlock() {
    for workers in [1, 2, 4] {
        for capacity in [4, 64, 4096] {
            for order in [Order::OldestFirst, Order::NewestFirst] {
                let pool = Pool::new(workers, capacity).unwrap();
                let root = pool.clone();
                let root = pool.try_submit(move || fib(&root, 15, order)).unwrap();
                assert_eq!(resolve(root).unwrap(), 610);
                assert_eq!(pool.in_flight(), 0);
            }
        }
    }
}

#[test]
fn a_child_may_join_the_handle_of_its_elder_sibling() {
    for workers in [1, 2, 3] {
        for _ in 0..rounds_in(200, 5000) {
            let pool = Pool::new(workers, 8).unwrap();
            let sum = inside(&pool, |pool| {
                let first = pool.try_submit(|| 1).unwrap();
                let second = pool.try_submit(move || first.join().unwrap() + 1).unwrap();
                let third = pool.try_submit(move || second.join().unwrap() + 1).unwrap();
                third.join().unwrap()
            });
            assert_eq!(sum, 3);
        }
    }
}

#[test]
fn a_join_runs_exactly_its_job_in_place_wherever_it_is_queued() {
    for priority in PRIORITIES {
        let pool = Pool::new(1, 16).unwrap();
        let log = Log::new();
        let logged = |name| {
            let log = log.clone();
            move || log.push((name, thread::current().id()))
        };
        let (handles, handle) = mpsc::channel::<JobHandle<()>>();
        let (parent_log, own) = (log.clone(), pool.clone());
        let parent = pool.try_submit(move || {
            let here = thread::current().id();
            parent_log.push(("parent begins", here));
            let target = recv(&handle);
            let nested_log = parent_log.clone();
            let nested = move || nested_log.push(("nested", thread::current().id()));
            own.job().priority(Priority::Critical).try_spawn(nested).unwrap();
            target.join().unwrap();
            parent_log.push(("parent ends", here));
        });
        eventually("the parent is in its body", || pool.running() == 1);
        for name in ["stranger", "stranger"] {
            pool.job().priority(priority).try_spawn(logged(name)).unwrap();
        }
        let target = pool.job().priority(priority).try_submit(logged("target")).unwrap();
        pool.job().priority(Priority::Critical).try_spawn(logged("stranger")).unwrap();
        handles.send(target).unwrap();
        resolve(parent.unwrap()).unwrap();
        pool.wait_idle();

        let entries = log.entries();
        let names: Vec<_> = entries.iter().map(|entry| entry.0).collect();
        assert_eq!(names[..3], ["parent begins", "target", "parent ends"], "{priority:?}");
        assert_eq!(entries.len(), 7);
        assert!(entries.iter().all(|entry| entry.1 == entries[0].1), "there is one worker");
    }
}

#[test]
fn a_join_of_a_running_job_runs_no_stranger_meanwhile() {
    for round in 0..rounds_in(100, 2000) {
        let pool = Pool::new(2, 16).unwrap();
        let gate = Gate::new();
        let (pass, own) = (gate.clone(), pool.clone());
        let running = pool.try_submit(move || pass.wait()).unwrap();
        eventually("it runs", || pool.running() == 1);
        let log: Log<(&str, ThreadId)> = Log::new();
        let logs = log.clone();
        let parent = pool.try_submit(move || {
            let here = thread::current().id();
            for _ in 0..3 {
                let log = logs.clone();
                own.try_spawn(move || log.push(("stranger", thread::current().id()))).unwrap();
            }
            logs.push(("joins", here));
            running.join().unwrap();
            logs.push(("joined", here));
        });
        eventually("both workers are busy", || pool.running() == 2);
        give_way(round % 100);
        gate.open();
        resolve(parent.unwrap()).unwrap();
        pool.wait_idle();

        let entries = log.entries();
        let here = entries.iter().find(|entry| entry.0 == "joins").unwrap().1;
        let on_the_stack: Vec<_> = entries.iter().filter(|entry| entry.1 == here).collect();
        assert_eq!((on_the_stack[0].0, on_the_stack[1].0), ("joins", "joined"));
        assert_eq!(entries.len(), 5);
    }
}

#[test]
fn a_join_of_another_pools_job_runs_nothing_in_place() {
    let (pool, other) = (Pool::new(1, 4).unwrap(), Pool::new(1, 7).unwrap());
    let far = other.clone();
    let (here, there, capacity) = inside(&pool, move |pool| {
        let job = far.try_submit(|| {
            let context = weirpool::context().unwrap();
            (thread::current().id(), context.pool().capacity())
        });
        let (there, capacity) = job.unwrap().join().unwrap();
        assert_eq!(weirpool::context().unwrap().pool().capacity(), pool.capacity());
        (thread::current().id(), there, capacity)
    });
    assert_ne!(here, there);
    assert_eq!(capacity, other.capacity(), "its context is of its own pool");
}

#[test]
fn two_pools_that_join_each_others_jobs_finish() {
    for workers in [1, 2] {
        let (here, there) = (Pool::new(workers, 64).unwrap(), Pool::new(workers, 64).unwrap());
        let far = there.clone();
        let answer = inside(&here, move |_| {
            let job = far.try_submit(|| {
                let own = weirpool::context().unwrap().pool();
                own.try_submit(|| 4).unwrap().join().unwrap()
            });
            job.unwrap().join().unwrap()
        });
        assert_eq!(answer, 4);
    }
}

#[test]
fn timed_joins_and_polls_run_nothing_in_place() {
    let pool = Pool::new(1, 8).unwrap();
    let ran = inside(&pool, |pool| {
        let ran = Count::new();
        let there = ran.clone();
        let job = pool.try_submit(move || there.add()).unwrap();
        let job = job.join_timeout(Duration::ZERO).expect_err("queued behind this body");
        let mut job = job.join_timeout(Duration::from_millis(1)).expect_err("as before");
        assert!(job.try_take().is_none());
        let woken = futures_lite::future::block_on(futures_lite::future::poll_once(&mut job));
        assert!(woken.is_none());
        let before = ran.get();
        job.join().unwrap();
        (before, ran.get())
    });
    assert_eq!(ran, (0, 1));
}

#[test]
fn a_parent_and_the_child_in_its_place_are_both_running() {
    let pool = Pool::new(1, 8).unwrap();
    let counts = inside(&pool, |pool| {
        let own = pool.clone();
        let child = pool.try_submit(move || (own.running(), own.queued(), own.in_flight()));
        child.unwrap().join().unwrap()
    });
    assert_eq!(counts, (2, 0, 2));
}

/// What a body sees of itself.
#[derive(Debug, PartialEq)]
struct View {
    priority: Priority,
    deadline: Option<Instant>,
    queued_for: Duration,
    worker_index: usize,
    is_cancelled: bool,
}

fn view() -> View {
    let context = weirpool::context().expect("in a body");
    assert_eq!(context.is_cancelled(), weirpool::is_cancelled());
    View {
        priority: context.priority(),
        deadline: context.deadline(),
        queued_for: context.queued_for(),
        worker_index: context.worker_index(),
        is_cancelled: weirpool::is_cancelled(),
    }
}

#[test]
fn a_child_in_place_has_its_own_context_and_the_parents_is_restored() {
    const SECOND: Duration = Duration::from_secs(1);
    for child_panics in [false, true] {
        let clock = ManualClock::new();
        let builder = Pool::builder().batch().workers(1).capacity(8).clock(clock.clone());
        let pool = builder.build().unwrap();
        let begun = clock.now();
        let held = hold(&pool, 1);
        let (own, time, gate) = (pool.clone(), clock.clone(), Gate::new());
        let cancelled = gate.clone();
        let spec = pool.job().priority(Priority::High).deadline(begun + 60 * SECOND);
        let parent = spec.try_submit(move || {
            cancelled.wait();
            let before = view();
            let (seen, sees) = mpsc::channel();
            let spec = own.job().priority(Priority::Low).deadline(begun + 30 * SECOND);
            let child = spec.try_submit(move || {
                seen.send(view()).unwrap();
                if child_panics {
                    quiet_panic()
                }
            });
            time.advance(2 * SECOND);
            assert_eq!(child.unwrap().join().is_err(), child_panics);
            (before, sees.recv().unwrap(), view())
        });
        let parent = parent.unwrap();
        clock.advance(5 * SECOND);
        held.free();
        eventually("it runs", || pool.running() == 1);
        assert!(!parent.cancel(), "it has started, and is asked to stop");
        gate.open();

        let (before, child, after) = resolve(parent).unwrap();
        let expected = View {
            priority: Priority::High,
            deadline: Some(begun + 60 * SECOND),
            queued_for: 5 * SECOND,
            worker_index: 0,
            is_cancelled: true,
        };
        assert_eq!(before, expected);
        assert_eq!(after, expected, "restored, child_panics: {child_panics}");
        let expected = View {
            priority: Priority::Low,
            deadline: Some(begun + 30 * SECOND),
            queued_for: 2 * SECOND,
            worker_index: 0,
            is_cancelled: false,
        };
        assert_eq!(child, expected);
    }
}

#[test]
fn nested_submits_inherit_priority_and_deadline_unless_set() {
    let clock = ManualClock::new();
    let builder = Pool::builder().batch().workers(2).capacity(64).clock(clock.clone());
    let pool = builder.build().unwrap();
    let (soon, late) =
        (clock.now() + Duration::from_secs(5), clock.now() + Duration::from_secs(50));
    type Seen = (Priority, Option<Instant>);
    fn seen() -> Seen {
        let context = weirpool::context().unwrap();
        (context.priority(), context.deadline())
    }
    for priority in PRIORITIES {
        let own = pool.clone();
        let spec = pool.job().priority(priority).deadline(soon);
        let parent = spec.try_submit(move || {
            let plain = own.try_submit(seen).unwrap();
            let low = own.job().priority(Priority::Low).try_submit(seen).unwrap();
            let later = own.job().deadline(late).try_submit(seen).unwrap();
            let sooner = own.job().timeout(Duration::from_secs(1)).try_submit(seen).unwrap();
            let permit = own.try_reserve().unwrap().submit(seen).unwrap();
            let inner = own.clone();
            let grandchild =
                own.try_submit(move || inner.try_submit(seen).unwrap().join().unwrap()).unwrap();
            let (spawned, sees) = mpsc::channel();
            own.try_spawn(move || spawned.send(seen()).unwrap()).unwrap();
            let children = [plain, low, later, sooner, permit, grandchild];
            (children.map(|child| child.join().unwrap()), sees)
        });
        let (children, spawned) = resolve(parent.unwrap()).unwrap();
        let inherited = (priority, Some(soon));
        let sooner = clock.now() + Duration::from_secs(1);
        assert_eq!(
            children,
            [
                inherited,
                (Priority::Low, Some(soon)),
                (priority, Some(late)),
                (priority, Some(sooner)),
                inherited,
                inherited,
            ]
        );
        assert_eq!(recv(&spawned), inherited);
    }
    let outside = resolve(pool.try_submit(seen).unwrap()).unwrap();
    assert_eq!(outside, (Priority::Normal, None));
}

/// Joins a chain of children `depth` deep; counts bodies and joins that were refused.
fn dive(pool: &Pool, depth: u32, ran: &Count, too_deep: &Count) {
    let frame = black_box([0_u8; 512]);
    ran.add();
    if depth > 0 {
        let (own, ran, refused) = (pool.clone(), ran.clone(), too_deep.clone());
        let child = pool.try_submit(move || dive(&own, depth - 1, &ran, &refused)).unwrap();
        match child.join() {
            Ok(()) => {}
            Err(JobError::TooDeep) => too_deep.add(),
            Err(other) => panic!("{other:?}"),
        }
    }
    black_box(frame);
}

#[test]
fn joins_too_deep_for_the_stack_are_refused_and_their_jobs_still_run() {
    const DEPTH: u32 = 5000;
    for workers in [1, 2] {
        let (ran, too_deep, lost) = (Count::new(), Count::new(), Count::new());
        let in_handler = lost.clone();
        let builder = Pool::builder().batch().workers(workers).capacity(2 * DEPTH as usize);
        let builder = builder.stack_size(1 << 20).panic_handler(move |_| in_handler.add());
        let pool = builder.build().unwrap();
        let (own, bodies, refused) = (pool.clone(), ran.clone(), too_deep.clone());
        let root = pool.try_submit(move || dive(&own, DEPTH, &bodies, &refused)).unwrap();
        resolve(root).unwrap();
        elsewhere({
            let pool = pool.clone();
            move || pool.wait_idle()
        })
        .wait();
        assert_eq!(ran.get(), DEPTH as usize + 1, "each body runs, once");
        assert_eq!((lost.get(), pool.in_flight()), (0, 0));
        if workers == 1 {
            assert!(too_deep.get() > 0, "the stack has an end");
        }
    }
}

/// Tells a child process how large a stack to try, in bytes.
const STACK: &str = "WEIRPOOL_STACK_BYTES";

/// A chain of joins on a pool with such stacks, if the builder takes it.
fn dive_on_a_stack_of(bytes: usize) {
    let builder = Pool::builder().batch().workers(1).capacity(1000);
    let Ok(pool) = builder.stack_size(bytes).build() else {
        return;
    };
    fn chain(pool: &Pool, depth: u32) {
        if depth > 0 {
            let own = pool.clone();
            let child = pool.try_submit(move || chain(&own, depth - 1)).unwrap();
            assert!(matches!(child.join(), Ok(()) | Err(JobError::TooDeep)));
        }
    }
    let own = pool.clone();
    resolve(pool.try_submit(move || chain(&own, 900)).unwrap()).unwrap();
    pool.wait_idle();
    assert_eq!((pool.in_flight(), pool.snapshot().panicked), (0, 0));
    pool.shutdown(Shutdown::Drain, None);
}

#[test]
fn joins_overflow_no_stack_however_small_it_may_be() {
    if let Ok(bytes) = std::env::var(STACK) {
        return dive_on_a_stack_of(bytes.parse().unwrap());
    }
    let mut wrong = String::new();
    for kib in [8, 16, 24, 32, 64, 128, 512] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "joins_overflow_no_stack_however_small_it_may_be", "--nocapture"]);
        let output = command.env(STACK, (kib << 10_usize).to_string()).output().unwrap();
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            wrong += &format!("{kib} KiB: {}\n{said}\n", output.status);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn a_worker_that_waits_in_a_join_does_not_keep_its_queue_to_itself() {
    for priority in PRIORITIES {
        for _ in 0..rounds_in(50, 1000) {
            let pool = Pool::new(3, 16).unwrap();
            let gate = Gate::new();
            let (pass, open, own) = (gate.clone(), gate.clone(), pool.clone());
            let running = pool.try_submit(move || pass.wait()).unwrap();
            eventually("it runs", || pool.running() == 1);
            let parent = pool.try_submit(move || {
                own.job().priority(priority).try_spawn(move || open.open()).unwrap();
                running.join().unwrap();
            });
            resolve(parent.unwrap()).unwrap();
        }
    }
}

#[test]
fn a_peer_that_comes_free_takes_the_work_of_a_worker_in_a_join() {
    for _ in 0..rounds_in(100, 2000) {
        let pool = Pool::new(3, 16).unwrap();
        let peer = hold(&pool, 1);
        let (gate, queued) = (Gate::new(), Gate::new());
        let (pass, open, done, own) = (gate.clone(), gate.clone(), queued.clone(), pool.clone());
        let running = pool.try_submit(move || pass.wait()).unwrap();
        eventually("two run", || pool.running() == 2);
        let parent = pool.try_submit(move || {
            own.try_spawn(move || open.open()).unwrap();
            done.open();
            running.join().unwrap();
        });
        queued.wait();
        peer.free();
        resolve(parent.unwrap()).unwrap();
    }
}

#[test]
fn a_long_body_sees_its_child_start_on_an_idle_peer() {
    type Submit = fn(&Pool, mpsc::Sender<()>);
    let ways: [Submit; 4] = [
        |pool, started| pool.try_spawn(move || started.send(()).unwrap()).unwrap(),
        |pool, started| drop(pool.try_submit(move || started.send(()).unwrap()).unwrap()),
        |pool, started| {
            let permit = pool.try_reserve().unwrap();
            drop(permit.submit(move || started.send(()).unwrap()).unwrap());
        },
        |pool, started| {
            let spec = pool.job().priority(Priority::Low);
            spec.try_spawn(move || started.send(()).unwrap()).unwrap();
        },
    ];
    for workers in [2, 4] {
        let pool = Pool::new(workers, 16).unwrap();
        for round in 0..rounds_in(400, 10_000) {
            let submit = ways[round % ways.len()];
            let started = inside(&pool, move |pool| {
                let (sender, started) = mpsc::channel();
                submit(pool, sender);
                started.recv_timeout(STEP).is_ok()
            });
            assert!(started, "while its parent keeps running");
            give_way(round % 20);
        }
    }
}

/// A job that submits its like for ever, until told to stop.
#[derive(Clone)]
struct PingPong {
    pool: Pool,
    rounds: Count,
    stop: Count,
    at_round_ten: mpsc::Sender<mpsc::Sender<()>>,
}

impl PingPong {
    fn play(self) {
        let round = self.rounds.next();
        if round == 10 {
            let (resume, resumed) = mpsc::channel();
            self.at_round_ten.send(resume).unwrap();
            recv(&resumed);
        }
        if self.stop.get() == 0 && round < 1_000_000 {
            let next = self.clone();
            self.pool.try_spawn(move || next.play()).unwrap();
        }
    }
}

#[test]
fn two_ping_pong_jobs_starve_nothing_else() {
    const BOUND: usize = 1000;
    for nested in [false, true] {
        let pool = Pool::new(1, 16).unwrap();
        let (at_round_ten, reached) = mpsc::channel();
        let (rounds, stop) = (Count::new(), Count::new());
        let game = PingPong {
            pool: pool.clone(),
            rounds: rounds.clone(),
            stop: stop.clone(),
            at_round_ten,
        };
        let (third, thirds) = mpsc::channel();
        let bystander = move || third.send(rounds.get()).unwrap();
        let held = hold(&pool, 1);
        for _ in 0..2 {
            let game = game.clone();
            pool.try_spawn(move || game.play()).unwrap();
        }
        if nested {
            let own = pool.clone();
            pool.try_spawn(move || own.try_spawn(bystander).unwrap()).unwrap();
            held.free();
            recv(&reached).send(()).unwrap();
        } else {
            held.free();
            let resume = recv(&reached);
            pool.try_spawn(bystander).unwrap();
            resume.send(()).unwrap();
        }
        let round = thirds.recv_timeout(STEP);
        stop.add();
        let round = round.expect("it runs at all");
        assert!(round <= BOUND + 10, "nested: {nested}: only in round {round}");
    }
}

#[test]
fn there_is_no_context_outside_a_body() {
    let hooks = Log::new();
    let log = hooks.clone();
    let builder = Pool::builder().batch().workers(1).capacity(2);
    let pool =
        builder.on_thread_start(move || log.push(weirpool::context().is_none())).build().unwrap();
    assert!(weirpool::context().is_none());
    assert!(!weirpool::is_cancelled());
    assert!(inside(&pool, |_| weirpool::context().is_some()));
    assert!(inside(&pool, |_| elsewhere(|| weirpool::context().is_none()).wait()));
    let outside = pool.try_submit(|| weirpool::context().unwrap()).unwrap();
    let kept = resolve(outside).unwrap();
    assert!(weirpool::context().is_none(), "holding one does not put us inside");
    assert!(!kept.is_cancelled());
    drop(pool);
    assert_eq!(kept.pool().capacity(), 2, "an owned context outlives the body");
    assert_eq!(hooks.entries(), [true]);
}

#[test]
fn thread_local_state_never_leaks_into_the_next_job() {
    type Before = fn(&Pool);
    let befores: [(&str, Before); 5] = [
        ("a panic", |pool| {
            let spec = pool.job().priority(Priority::High).timeout(STEP);
            let job = spec.try_submit(|| -> () { quiet_panic() }).unwrap();
            assert!(resolve(job).unwrap_err().is_panic());
        }),
        ("a body asked to stop", |pool| {
            let (gate, spec) = (Gate::new(), pool.job().priority(Priority::Critical));
            let pass = gate.clone();
            let job = spec.try_submit(move || pass.wait()).unwrap();
            eventually("it runs", || pool.running() == 1);
            assert!(!job.cancel());
            gate.open();
            resolve(job).unwrap();
        }),
        ("a child that panicked in place", |pool| {
            let own = pool.clone();
            let job = pool.job().priority(Priority::Low).try_submit(move || {
                let spec = own.job().priority(Priority::High).timeout(STEP);
                let child = spec.try_submit(|| -> () { quiet_panic() }).unwrap();
                assert!(child.join().unwrap_err().is_panic());
            });
            resolve(job.unwrap()).unwrap();
        }),
        ("a parent and its child that both panicked", |pool| {
            let own = pool.clone();
            let job = pool.job().priority(Priority::High).try_submit(move || -> () {
                let child = own.try_submit(|| -> () { quiet_panic() }).unwrap();
                child.join().unwrap_err();
                quiet_panic()
            });
            assert!(resolve(job.unwrap()).unwrap_err().is_panic());
        }),
        ("a job that was cancelled in the queue", |pool| {
            let held = hold(pool, 1);
            let job = pool.job().priority(Priority::High).try_submit(|| ()).unwrap();
            assert!(job.cancel());
            held.free();
        }),
    ];
    let pool = Pool::new(1, 8).unwrap();
    for (name, before) in befores {
        before(&pool);
        let seen = inside(&pool, |_| {
            let view = view();
            (view.priority, view.deadline, view.is_cancelled)
        });
        assert_eq!(seen, (Priority::Normal, None, false), "after {name}");
    }
}

#[test]
fn a_context_pins_nothing_of_a_job() {
    let pool = Pool::new(1, 8).unwrap();
    let token = Arc::new(());
    let captured = Arc::clone(&token);
    let job = pool.try_submit(move || {
        let _captured = &captured;
        weirpool::context().unwrap()
    });
    let kept = resolve(job.unwrap()).unwrap();
    assert_eq!(Arc::strong_count(&token), 1);
    drop(kept);
}

#[test]
fn a_child_that_panics_in_place_harms_only_its_handle() {
    let pool = Pool::new(1, 8).unwrap();
    let (panicked, here, there) = inside(&pool, |pool| {
        let child = pool.try_submit(|| -> ThreadId { quiet_panic() }).unwrap();
        let error = child.join().unwrap_err();
        let next = pool.try_submit(|| thread::current().id()).unwrap();
        (error.is_panic(), thread::current().id(), next.join().unwrap())
    });
    assert!(panicked);
    assert_eq!(here, there);
    assert_eq!(pool.snapshot().panicked, 1);
}

#[test]
fn a_child_cancelled_before_it_is_joined_is_cancelled() {
    let pool = Pool::new(1, 8).unwrap();
    let (won, outcome, in_flight) = inside(&pool, |pool| {
        let child = pool.try_submit(|| ()).unwrap();
        let won = child.cancel();
        (won, child.join(), pool.in_flight())
    });
    assert!(won && matches!(outcome, Err(JobError::Cancelled)));
    assert_eq!(in_flight, 1, "its parent's slot");
}

#[test]
fn joins_on_many_threads_of_jobs_that_join_in_place() {
    let _watchdog = watchdog();
    let pool = Pool::new(2, 256).unwrap();
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let pool = pool.clone();
            elsewhere(move || {
                for _ in 0..rounds_in(50, 1000) {
                    let own = pool.clone();
                    let root = move || fib(&own, 6, Order::NewestFirst);
                    match pool.try_submit(root) {
                        Ok(job) => assert_eq!(job.join().unwrap(), 8),
                        Err(refused) => assert_eq!(refused.reason(), Reason::Full),
                    }
                }
            })
        })
        .collect();
    callers.into_iter().for_each(Elsewhere::wait);
    pool.wait_idle();
    assert_eq!(pool.in_flight(), 0);
}

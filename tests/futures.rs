//! Handles as futures: under any runtime, with any waker, awaited, dropped half-way or joined after.

mod common;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use common::{
    Count, CountsWakes, Gate, Log, STEP, counting_waker, elsewhere, eventually, hold, poll,
    quiet_panic, resolve, rounds_in, watchdog,
};
use weirpool::{CancelOnDrop, JobError, JobHandle, Pool, Reason, Shutdown};

type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An executor with nothing but a waker that unparks.
fn bare_block_on(future: Boxed) {
    struct Unparks(Thread, AtomicBool);
    impl Wake for Unparks {
        fn wake(self: Arc<Self>) {
            self.1.store(true, Ordering::SeqCst);
            self.0.unpark();
        }
    }
    let woken = Arc::new(Unparks(thread::current(), AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut future = pin!(future);
    loop {
        while !woken.1.swap(false, Ordering::SeqCst) {
            thread::park();
        }
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            return;
        }
    }
}

fn on_tokio(mut builder: tokio::runtime::Builder, future: Boxed) {
    builder.build().unwrap().block_on(async { tokio::spawn(future).await.unwrap() });
}

/// Runs a future to its end.
type Run = fn(Boxed);

/// Every way we have to do so.
const RUNTIMES: [(&str, Run); 5] = [
    ("tokio, many threads", |future| on_tokio(tokio::runtime::Builder::new_multi_thread(), future)),
    ("tokio, one thread", |future| on_tokio(tokio::runtime::Builder::new_current_thread(), future)),
    ("futures-lite", |future| futures_lite::future::block_on(future)),
    ("pollster", |future| pollster::block_on(future)),
    ("a bare waker", bare_block_on),
];

fn under_each_runtime(test: impl Fn() -> Boxed) {
    for (name, run) in RUNTIMES {
        println!("under {name}");
        let future = test();
        elsewhere(move || run(future)).wait();
    }
}

#[test]
fn results_arrive_under_every_runtime() {
    under_each_runtime(|| {
        Box::pin(async {
            let pool = Pool::new(2, 256).unwrap();
            let jobs: Vec<_> = (0..200).map(|i| pool.try_submit(move || i).unwrap()).collect();
            for (i, job) in jobs.into_iter().enumerate() {
                assert_eq!(job.await.unwrap(), i);
            }
            assert_eq!(pool.in_flight(), 0);
        })
    });
}

#[test]
fn every_way_to_end_arrives_under_every_runtime() {
    under_each_runtime(|| {
        Box::pin(async {
            let pool = Pool::new(1, 16).unwrap();
            let panicked = pool.try_submit(|| -> () { quiet_panic() }).unwrap().await;
            assert!(panicked.unwrap_err().is_panic());

            let mut held = hold(&pool, 1);
            let (cancelled, discarded) =
                (pool.try_submit(|| ()).unwrap(), pool.try_submit(|| ()).unwrap());
            assert!(cancelled.cancel());
            pool.shutdown(Shutdown::Discard, Some(Duration::ZERO));
            assert!(cancelled.await.unwrap_err().is_cancelled());
            assert!(discarded.await.unwrap_err().is_discarded());
            held.open();
            for handle in std::mem::take(&mut held.jobs) {
                handle.await.unwrap();
            }
        })
    });
}

#[test]
fn jobs_awaited_one_by_one_never_lose_a_wake() {
    under_each_runtime(|| {
        Box::pin(async {
            let pool = Pool::new(2, 4).unwrap();
            for i in 0..rounds_in(2000, 50_000) {
                assert_eq!(pool.try_submit(move || i).unwrap().await.unwrap(), i);
            }
        })
    });
}

#[test]
fn many_handles_awaited_at_once_in_tasks_of_their_own() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let pool = Pool::new(2, 1024).unwrap();
    let all = elsewhere(move || {
        runtime.block_on(async {
            let mut tasks = tokio::task::JoinSet::new();
            for i in 0..1000_u64 {
                let job = pool.try_submit(move || i).unwrap();
                tasks.spawn(async move { job.await.unwrap() });
            }
            let mut sum = 0;
            while let Some(answer) = tasks.join_next().await {
                sum += answer.unwrap();
            }
            (sum, pool.in_flight())
        })
    });
    assert_eq!(all.wait(), (999 * 1000 / 2, 0));
}

/// A job that has not ended, and what makes it end.
fn unfinished(pool: &Pool) -> (JobHandle<u32>, Gate) {
    let (gate, begun) = (Gate::new(), Gate::new());
    let (pass, begins) = (gate.clone(), begun.clone());
    let job = pool.try_submit(move || {
        begins.open();
        pass.wait();
        7
    });
    begun.wait();
    (job.unwrap(), gate)
}

#[test]
fn only_the_waker_of_the_last_poll_is_woken() {
    let pool = Pool::new(1, 4).unwrap();
    for polls in [2, 3, 10] {
        let (mut job, gate) = unfinished(&pool);
        let wakers: Vec<_> = (0..polls).map(|_| counting_waker()).collect();
        for (waker, _) in &wakers {
            assert!(poll(&mut job, waker).is_pending());
            assert!(poll(&mut job, waker).is_pending(), "also with the same again");
        }
        gate.open();
        let (last, earlier) = wakers.split_last().unwrap();
        eventually("the last one is woken", || last.1.get() == 1);
        assert!(earlier.iter().all(|(_, woken)| woken.get() == 0));
        assert!(matches!(poll(&mut job, &last.0), Poll::Ready(Ok(7))));
        assert_eq!(last.1.get(), 1);
    }
}

#[test]
fn a_waker_that_was_replaced_or_abandoned_is_let_go() {
    let pool = Pool::new(1, 4).unwrap();
    let (mut job, gate) = unfinished(&pool);
    let [first, second] = [Arc::new(CountsWakes::default()), Arc::new(CountsWakes::default())];
    assert!(poll(&mut job, &Waker::from(Arc::clone(&first))).is_pending());
    assert_eq!(Arc::strong_count(&first), 2);
    assert!(poll(&mut job, &Waker::from(Arc::clone(&second))).is_pending());
    assert_eq!(Arc::strong_count(&first), 1, "replaced");
    drop(job);
    gate.open();
    pool.wait_idle();
    eventually("abandoned", || Arc::strong_count(&second) == 1);
    assert_eq!(first.0.get(), 0);
}

#[test]
fn a_poll_that_races_with_the_end_is_ready_or_woken() {
    let pool = Pool::new(2, 8).unwrap();
    for round in 0..rounds_in(2000, 100_000) {
        let mut job = pool.try_submit(move || round).unwrap();
        let (waker, woken) = counting_waker();
        if let Poll::Ready(outcome) = poll(&mut job, &waker) {
            assert_eq!(outcome.unwrap(), round);
            continue;
        }
        let (waker, woken_again) = counting_waker();
        match poll(&mut job, &waker) {
            Poll::Ready(outcome) => assert_eq!(outcome.unwrap(), round),
            Poll::Pending => {
                eventually("the last waker is woken", || woken_again.get() == 1);
                assert_eq!(woken.get(), 0);
                let Poll::Ready(outcome) = poll(&mut job, &waker) else { panic!("woken early") };
                assert_eq!(outcome.unwrap(), round);
            }
        }
    }
}

#[test]
fn a_handle_dropped_half_way_gives_nothing_back_before_the_body_ends() {
    let pool = Pool::new(1, 1).unwrap();
    let (mut job, gate) = unfinished(&pool);
    assert!(poll(&mut job, &counting_waker().0).is_pending());
    drop(job);
    assert_eq!((pool.in_flight(), pool.running()), (1, 1));
    assert_eq!(pool.try_spawn(|| ()).unwrap_err().reason(), Reason::Full);
    gate.open();
    pool.wait_idle();
    assert_eq!(pool.in_flight(), 0);
}

#[test]
fn a_select_that_goes_the_other_way_detaches() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let pool = Pool::new(1, 4).unwrap();
    let (job, gate) = unfinished(&pool);
    runtime.block_on(async {
        tokio::select! {
            biased;
            _ = job => unreachable!("it is blocked"),
            () = std::future::ready(()) => {}
        }
    });
    assert_eq!(pool.running(), 1);
    gate.open();
    pool.wait_idle();
    assert_eq!(pool.snapshot().completed, 1);
}

#[test]
fn a_select_may_go_on_with_the_same_handle() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let pool = Pool::new(1, 4).unwrap();
    let (mut job, gate) = unfinished(&pool);
    let answer = runtime.block_on(async {
        for _ in 0..10 {
            tokio::select! {
                biased;
                _ = &mut job => unreachable!("it is blocked"),
                () = tokio::task::yield_now() => {}
            }
        }
        gate.open();
        job.await
    });
    assert_eq!(answer.unwrap(), 7);
}

/// Takes the result in some way.
type Take = fn(&mut JobHandle<u32>);

/// Asks again, in some way.
type Again = fn(JobHandle<u32>);

#[test]
fn joining_or_polling_after_the_result_was_taken_panics() {
    let takes: [(&str, Take); 2] = [
        ("try_take", |job| drop(job.try_take().expect("ended"))),
        ("poll", |job| assert!(poll(job, Waker::noop()).is_ready())),
    ];
    let agains: [(&str, Again); 3] = [
        ("poll", |mut job| drop(poll(&mut job, Waker::noop()))),
        ("join", |job| drop(job.join())),
        ("join_timeout", |job| drop(job.join_timeout(Duration::ZERO))),
    ];
    let pool = Pool::new(1, 4).unwrap();
    for (taken, take) in takes {
        for (asked, again) in agains {
            let mut job = pool.try_submit(|| 7).unwrap();
            eventually("it ends", || job.is_finished());
            take(&mut job);
            assert!(job.is_finished());
            assert!(!job.cancel());
            assert!(!format!("{job:?}").is_empty());
            let outcome = catch_unwind(AssertUnwindSafe(|| again(job)));
            assert!(outcome.is_err(), "{asked} after {taken}");
        }
    }
    assert_eq!(pool.in_flight(), 0);
}

#[test]
fn join_timeout_gives_the_handle_back() {
    let pool = Pool::new(1, 4).unwrap();
    let (job, gate) = unfinished(&pool);
    let id = job.id();
    let job = job.join_timeout(Duration::ZERO).expect_err("it is blocked");
    let job = job.join_timeout(Duration::from_nanos(1)).expect_err("it is blocked");
    let mut job = job.join_timeout(Duration::from_millis(2)).expect_err("it is blocked");
    assert_eq!(job.id(), id);
    assert!(!job.is_finished() && job.try_take().is_none());
    assert!(poll(&mut job, &counting_waker().0).is_pending());
    gate.open();
    let endless = elsewhere(move || job.join_timeout(Duration::MAX));
    assert_eq!(endless.wait().expect("in time").unwrap(), 7);
}

#[test]
fn try_take_takes_once() {
    let pool = Pool::new(1, 4).unwrap();
    let (mut job, gate) = unfinished(&pool);
    assert!(job.try_take().is_none());
    gate.open();
    eventually("it ends", || job.is_finished());
    assert_eq!(job.try_take().expect("it has ended").unwrap(), 7);
}

#[test]
fn a_handle_may_be_polled_here_and_joined_there() {
    let pool = Pool::new(1, 4).unwrap();
    let (mut job, gate) = unfinished(&pool);
    let (waker, woken) = counting_waker();
    assert!(poll(&mut job, &waker).is_pending());
    let joining = elsewhere(move || job.join());
    gate.open();
    assert_eq!(joining.wait().unwrap(), 7);
    assert!(woken.get() <= 1);

    let (mut job, gate) = unfinished(&pool);
    assert!(poll(&mut job, &waker).is_pending());
    let awaiting = elsewhere(move || pollster::block_on(job));
    gate.open();
    assert_eq!(awaiting.wait().unwrap(), 7);
}

/// Submits to the pool as soon as it is woken.
struct Resubmits {
    pool: Pool,
    outcomes: Log<Result<(), Reason>>,
}

impl Wake for Resubmits {
    fn wake(self: Arc<Self>) {
        let outcome = self.pool.try_spawn(|| ()).map_err(|refused| refused.reason());
        self.outcomes.push(outcome);
    }
}

#[test]
fn a_waker_finds_the_slot_free() {
    let pool = Pool::new(1, 1).unwrap();
    for _ in 0..rounds_in(100, 5000) {
        let (mut job, gate) = unfinished(&pool);
        let outcomes = Log::new();
        let waker = Arc::new(Resubmits { pool: pool.clone(), outcomes: outcomes.clone() });
        assert!(poll(&mut job, &Waker::from(waker)).is_pending());
        gate.open();
        eventually("it is woken", || outcomes.entries().len() == 1);
        assert_eq!(outcomes.entries(), [Ok(())]);
        assert_eq!(resolve(job).unwrap(), 7);
        pool.wait_idle();
    }
}

#[test]
fn a_cancel_wakes_on_the_cancelling_thread_and_its_waker_may_use_the_pool() {
    let pool = Pool::new(1, 2).unwrap();
    let held = hold(&pool, 1);
    let mut job = pool.try_submit(|| ()).unwrap();
    let outcomes = Log::new();
    let waker = Arc::new(Resubmits { pool: pool.clone(), outcomes: outcomes.clone() });
    assert!(poll(&mut job, &Waker::from(waker)).is_pending());
    let canceller = job.canceller();
    assert!(elsewhere(move || canceller.cancel()).wait());
    assert_eq!(outcomes.entries(), [Ok(())], "although the worker is busy");
    assert!(resolve(job).unwrap_err().is_cancelled());
    held.free();
}

/// Panics when woken or when dropped, but never in a panic.
#[derive(Clone, Copy)]
enum Bomb {
    OnWake,
    OnDrop,
}

/// A waker with a bomb in it; counts its end.
struct Explodes(Bomb, Count);

impl Wake for Explodes {
    fn wake(self: Arc<Self>) {
        if matches!(self.0, Bomb::OnWake) {
            quiet_panic()
        }
    }
}

impl Drop for Explodes {
    fn drop(&mut self) {
        self.1.add();
        if matches!(self.0, Bomb::OnDrop) {
            quiet_panic()
        }
    }
}

#[test]
fn a_waker_that_panics_loses_no_worker_slot_or_handle() {
    for bomb in [Bomb::OnWake, Bomb::OnDrop] {
        for dropped_before_the_end in [false, true] {
            let pool = Pool::new(1, 4).unwrap();
            let ((mut job, gate), gone) = (unfinished(&pool), Count::new());
            assert!(poll(&mut job, &Arc::new(Explodes(bomb, gone.clone())).into()).is_pending());
            let bystander = pool.try_submit(|| 5).unwrap();
            if dropped_before_the_end {
                drop(job);
                gate.open();
            } else {
                gate.open();
                eventually("the waker is gone", || gone.get() == 1);
                assert_eq!(resolve(job).unwrap(), 7);
            }
            assert_eq!(resolve(bystander).unwrap(), 5);
            eventually("the waker is gone", || gone.get() == 1);
            hold(&pool, 1).free();
            assert_eq!(pool.in_flight(), 0);
        }
    }
}

#[test]
fn a_panicking_waker_does_not_reach_the_thread_that_cancels() {
    for bomb in [Bomb::OnWake, Bomb::OnDrop] {
        let pool = Pool::new(1, 4).unwrap();
        let (held, gone) = (hold(&pool, 1), Count::new());
        let mut job = pool.try_submit(|| ()).unwrap();
        assert!(poll(&mut job, &Arc::new(Explodes(bomb, gone.clone())).into()).is_pending());
        assert!(job.cancel(), "and no panic");
        assert_eq!(gone.get(), 1);
        assert!(resolve(job).unwrap_err().is_cancelled());
        held.free();
        assert_eq!(pool.in_flight(), 0);
    }
}

/// A queued job behind a held worker, to be cancelled when its guard is dropped.
fn guarded(pool: &Pool, ran: &Count) -> CancelOnDrop<()> {
    let ran = ran.clone();
    pool.try_submit(move || ran.add()).unwrap().cancel_on_drop()
}

#[test]
fn cancel_on_drop_cancels_what_is_queued_in_whatever_way_it_is_dropped() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (pool, ran) = (Pool::new(1, 16).unwrap(), Count::new());
    let held = hold(&pool, 1);

    drop(guarded(&pool, &ran));
    assert_eq!(pool.in_flight(), 1, "dropped unpolled");

    let guard = guarded(&pool, &ran);
    runtime.block_on(async {
        tokio::select! {
            biased;
            _ = guard => unreachable!("it is queued"),
            () = std::future::ready(()) => {}
        }
    });
    assert_eq!(pool.in_flight(), 1, "dropped by a select");

    let guard = guarded(&pool, &ran);
    runtime.block_on(async {
        let task = tokio::spawn(guard);
        tokio::task::yield_now().await;
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    });
    assert_eq!(pool.in_flight(), 1, "dropped with its task");

    held.free();
    assert_eq!((ran.get(), pool.snapshot().cancelled), (0, 3));
}

#[test]
fn cancel_on_drop_asks_a_running_body_to_stop() {
    let pool = Pool::new(1, 4).unwrap();
    let seen = Log::new();
    let (log, arrived) = (seen.clone(), Gate::new());
    let here = arrived.clone();
    let job = pool.try_submit(move || {
        here.open();
        eventually("it is asked to stop", weirpool::is_cancelled);
        log.push(weirpool::context().unwrap().is_cancelled());
    });
    arrived.wait();
    drop(job.unwrap().cancel_on_drop());
    pool.wait_idle();
    assert_eq!(seen.entries(), [true]);
    assert_eq!(pool.snapshot().completed, 1, "it had started, and ended by itself");
}

#[test]
fn cancel_on_drop_is_a_future_joins_and_detaches() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 8).unwrap();
    let guard = pool.try_submit(|| 1).unwrap().cancel_on_drop();
    assert_eq!(pollster::block_on(guard).unwrap(), 1);
    let guard = pool.try_submit(|| 2).unwrap().cancel_on_drop();
    assert_eq!(guard.join().unwrap(), 2);

    let held = hold(&pool, 1);
    let detached = pool.try_submit(|| 3).unwrap().cancel_on_drop().detach();
    held.free();
    assert_eq!(resolve(detached).unwrap(), 3);

    let (job, gate) = unfinished(&pool);
    drop(job.cancel_on_drop().detach());
    gate.open();
    pool.wait_idle();
    assert_eq!((pool.snapshot().cancelled, pool.in_flight()), (0, 0));
}

#[test]
fn cancel_on_drop_after_the_end_does_nothing() {
    let pool = Pool::new(1, 4).unwrap();
    let job = pool.try_submit(|| 1).unwrap();
    eventually("it ends", || job.is_finished());
    drop(job.cancel_on_drop());
    let mut guard = pool.try_submit(|| 2).unwrap().cancel_on_drop();
    assert_eq!(pollster::block_on(&mut guard).unwrap(), 2);
    drop(guard);
    let seen = pool.snapshot();
    assert_eq!((seen.completed, seen.cancelled), (2, 0));
}

#[test]
fn handles_are_what_their_type_promises() {
    fn promises<T: Unpin + std::panic::UnwindSafe + std::fmt::Debug + Send + Sync>() {}
    promises::<JobHandle<u32>>();
    promises::<CancelOnDrop<u32>>();
    promises::<JobHandle<Vec<String>>>();
    fn always<T: Unpin + std::panic::UnwindSafe + std::fmt::Debug>() {}
    always::<JobHandle<*mut std::cell::Cell<dyn Fn()>>>();
    fn error<T: std::error::Error + Send + Sync + 'static>() {}
    error::<JobError>();
}

#[test]
fn an_await_inside_a_body_waits_for_a_peer() {
    let pool = Pool::new(2, 8).unwrap();
    let own = pool.clone();
    let outer = pool.try_submit(move || {
        let inner = own.try_submit(|| 4).unwrap();
        pollster::block_on(inner).unwrap()
    });
    let outer = outer.unwrap().join_timeout(STEP).expect("the peer runs it");
    assert_eq!(outer.unwrap(), 4);
}

/// An executor that polls again inside of the wake.
struct PollsAtOnce {
    job: Mutex<Option<JobHandle<u32>>>,
    answers: Log<Option<u32>>,
}

impl Wake for PollsAtOnce {
    fn wake(self: Arc<Self>) {
        let mut job = self.job.lock().unwrap().take().expect("woken once");
        let answer = match poll(&mut job, Waker::noop()) {
            Poll::Ready(outcome) => outcome.ok(),
            Poll::Pending => None,
        };
        self.answers.push(answer);
    }
}

#[test]
fn a_poll_inside_of_the_wake_finds_the_result() {
    let (pool, answers) = (Pool::new(1, 4).unwrap(), Log::new());
    let (job, gate) = unfinished(&pool);
    let executor = Arc::new(PollsAtOnce { job: Mutex::new(Some(job)), answers: answers.clone() });
    let waker = Waker::from(Arc::clone(&executor));
    assert!(poll(executor.job.lock().unwrap().as_mut().unwrap(), &waker).is_pending());
    gate.open();
    eventually("it is woken", || answers.entries().len() == 1);
    assert_eq!(answers.entries(), [Some(7)]);
    assert_eq!(pool.in_flight(), 0);
}

/// Wants an address of its own kind.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(512))]
struct Aligned(u64);

/// Sends `value` through a closure and back through its result.
fn round_trip<T: Copy + PartialEq + std::fmt::Debug + Send + 'static>(pool: &Pool, value: T) {
    let body = move || {
        let captured = std::hint::black_box(&value);
        assert_eq!(std::ptr::from_ref(captured).addr() % align_of::<T>(), 0);
        *captured
    };
    assert_eq!(resolve(pool.try_submit(body).unwrap()).unwrap(), value);
    let body = move || *std::hint::black_box(&value);
    assert_eq!(pollster::block_on(pool.try_submit(body).unwrap()).unwrap(), value);
}

#[test]
fn closures_and_results_of_any_size_and_alignment_come_through() {
    let pool = Pool::new(2, 8).unwrap();
    for i in 0..rounds_in(20, 200) {
        round_trip(&pool, ());
        round_trip(&pool, i as u8);
        round_trip(&pool, (i, 1_u8, 2_u128));
        round_trip(&pool, [i; 7]);
        round_trip(&pool, [i as u8; 60_000]);
        round_trip(&pool, Aligned(i as u64));
        round_trip(&pool, [Aligned(1), Aligned(i as u64)]);
    }
}

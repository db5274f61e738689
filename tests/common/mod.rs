//! Helpers shared by the black-box tests.
//!
//! Threads meet at a [`Gate`] or a [`Rendezvous`]; what settles on another thread is awaited with [`eventually`]. Time enters
//! only as a watchdog that turns a hang into a failure: no verdict depends on how long something took.

#![allow(dead_code)] // each test binary uses its own part of this file

pub(crate) mod clocks;
pub(crate) mod forking;
pub(crate) mod lockstep;
pub(crate) mod process;
pub(crate) mod settings;
pub(crate) mod short;

use std::future::Future;
use std::io::Write as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weirpool::{JobError, JobHandle, Pool, Reason, Snapshot};

/// How long one step may take before it counts as a hang, on a machine that is busy with other things.
pub(crate) const STEP: Duration = Duration::from_secs(120);

/// How long one whole test may take before it counts as a hang.
const WHOLE_TEST: Duration = Duration::from_secs(900);

/// Ends the process, naming the test, if it is not dropped in time: for tests in which a plain `join()` could hang.
pub(crate) struct Watchdog {
    _calm: Sender<()>,
}

/// Starts a [`Watchdog`] for the test that runs on this thread.
pub(crate) fn watchdog() -> Watchdog {
    let test = thread::current().name().unwrap_or("a test").to_owned();
    let (calm, alarm) = mpsc::channel();
    thread::spawn(move || {
        if alarm.recv_timeout(WHOLE_TEST) == Err(RecvTimeoutError::Timeout) {
            // Straight to the stream: the macros' output is captured, and lost with the process.
            let _ = writeln!(std::io::stderr(), "watchdog: {test} hangs");
            std::process::abort();
        }
    });
    Watchdog { _calm: calm }
}

/// Fewer rounds where an interpreter runs the tests.
pub(crate) fn rounds(full: usize) -> usize {
    if cfg!(miri) { (full / 500).max(3) } else { full }
}

/// So many rounds of a race in a debug build, so many in a release build.
pub(crate) fn rounds_in(debug: usize, release: usize) -> usize {
    rounds(if cfg!(debug_assertions) { debug } else { release })
}

/// Yields until the condition holds.
#[track_caller]
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + STEP;
    while !condition() {
        assert!(Instant::now() < end, "this never came true: {what}");
        thread::yield_now();
    }
}

/// Lets other threads go first, some times.
pub(crate) fn give_way(times: usize) {
    for _ in 0..times {
        thread::yield_now();
    }
}

/// Receives, with a watchdog.
#[track_caller]
pub(crate) fn recv<T>(channel: &Receiver<T>) -> T {
    channel.recv_timeout(STEP).expect("nothing came through the channel")
}

/// The outcome of a job that must end, with a watchdog.
#[track_caller]
pub(crate) fn resolve<T>(handle: JobHandle<T>) -> Result<T, JobError> {
    match handle.join_timeout(STEP) {
        Ok(outcome) => outcome,
        Err(handle) => panic!("never resolved: {handle:?}"),
    }
}

/// A thread whose answer is awaited with a watchdog.
pub(crate) struct Elsewhere<T> {
    answer: Receiver<T>,
    thread: JoinHandle<()>,
}

/// Runs `f` on a thread of its own.
pub(crate) fn elsewhere<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> Elsewhere<T> {
    let (sender, answer) = mpsc::channel();
    let thread = thread::spawn(move || drop(sender.send(f())));
    Elsewhere { answer, thread }
}

impl<T> Elsewhere<T> {
    /// The answer. A hang and a panic over there are a panic here.
    #[track_caller]
    pub(crate) fn wait(self) -> T {
        self.wait_for(STEP)
    }

    /// The same with a patience of one's own.
    #[track_caller]
    pub(crate) fn wait_for(self, patience: Duration) -> T {
        match self.answer.recv_timeout(patience) {
            Ok(answer) => {
                self.thread.join().expect("it has answered");
                answer
            }
            Err(RecvTimeoutError::Timeout) => panic!("hung: no answer within {patience:?}"),
            Err(RecvTimeoutError::Disconnected) => match self.thread.join() {
                Err(payload) => std::panic::resume_unwind(payload),
                Ok(()) => unreachable!("ended without an answer"),
            },
        }
    }

    /// Whether the answer is still to come.
    pub(crate) fn is_busy(&self) -> bool {
        !self.thread.is_finished()
    }
}

/// A door that bodies wait at until the test opens it.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub(crate) fn is_open(&self) -> bool {
        *self.0.0.lock().unwrap()
    }

    pub(crate) fn wait(&self) {
        let closed = self.0.0.lock().unwrap();
        let (open, _) = self.0.1.wait_timeout_while(closed, STEP, |open| !*open).unwrap();
        assert!(*open, "nobody opened the gate");
    }
}

/// A barrier with a watchdog: nobody passes before `parties` have come.
#[derive(Clone)]
pub(crate) struct Rendezvous {
    parties: usize,
    state: Arc<(Mutex<Meeting>, Condvar)>,
}

#[derive(Default)]
struct Meeting {
    waiting: usize,
    held: usize,
}

impl Rendezvous {
    pub(crate) fn new(parties: usize) -> Self {
        Self { parties, state: Arc::default() }
    }

    pub(crate) fn meet(&self) {
        let (meeting, changed) = &*self.state;
        let mut now = meeting.lock().unwrap();
        now.waiting += 1;
        if now.waiting == self.parties {
            now.waiting = 0;
            now.held += 1;
            changed.notify_all();
            return;
        }
        let mine = now.held;
        let (now, _) = changed.wait_timeout_while(now, STEP, |now| now.held == mine).unwrap();
        let met = now.held != mine;
        drop(now);
        assert!(met, "the others never came");
    }
}

/// Runs both at the same instant, on two threads.
pub(crate) fn race<A: Send, B>(
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B,
) -> (A, B) {
    let start = Rendezvous::new(2);
    thread::scope(|s| {
        let one = s.spawn(|| {
            start.meet();
            one()
        });
        start.meet();
        let other = other();
        (one.join().expect("one of the racers failed"), other)
    })
}

/// A count that many share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Count(Arc<AtomicUsize>);

impl Count {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn add(&self) {
        self.next();
    }

    /// Counts one more, and says how many there were before.
    pub(crate) fn next(&self) -> usize {
        self.0.fetch_add(1, SeqCst)
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(SeqCst)
    }
}

/// Counts the drops of the [`Tracked`] values it made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drops(Count);

impl Drops {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn tracked(&self) -> Tracked {
        Tracked(self.clone())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.get()
    }
}

/// A value whose drop is counted.
#[derive(Debug)]
pub(crate) struct Tracked(Drops);

impl Drop for Tracked {
    fn drop(&mut self) {
        self.0.0.add();
    }
}

/// What happened, in order, from several threads.
#[derive(Debug)]
pub(crate) struct Log<T>(Arc<Mutex<Vec<T>>>);

impl<T> Clone for Log<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Clone> Log<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    pub(crate) fn push(&self, entry: T) {
        self.0.lock().unwrap().push(entry);
    }

    pub(crate) fn entries(&self) -> Vec<T> {
        self.0.lock().unwrap().clone()
    }
}

/// A value that runs a closure when it is dropped, also on the way of a panic.
pub(crate) struct OnDrop<F: FnOnce()>(Option<F>);

pub(crate) fn on_drop<F: FnOnce()>(f: F) -> OnDrop<F> {
    OnDrop(Some(f))
}

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(f) = self.0.take() {
            f();
        }
    }
}

/// How many are inside at once, and the most there ever were: the test's own account of running bodies.
#[derive(Default)]
pub(crate) struct Peak {
    inside: AtomicUsize,
    highest: AtomicUsize,
}

impl Peak {
    pub(crate) fn visit(&self, stay: impl FnOnce()) {
        let _inside = self.enter();
        stay();
    }

    /// Inside until the value is dropped.
    pub(crate) fn enter(&self) -> OnDrop<impl FnOnce()> {
        let inside = self.inside.fetch_add(1, SeqCst) + 1;
        self.highest.fetch_max(inside, SeqCst);
        on_drop(|| {
            self.inside.fetch_sub(1, SeqCst);
        })
    }

    pub(crate) fn highest(&self) -> usize {
        self.highest.load(SeqCst)
    }
}

/// A body that panics.
pub(crate) fn fail() {
    panic!("the body failed");
}

/// A panic that the panic hook does not see.
pub(crate) fn quiet_panic() -> ! {
    std::panic::resume_unwind(Box::new("on purpose"))
}

/// A body that panics without the panic hook, for rounds by the thousand.
pub(crate) fn fail_quietly() {
    quiet_panic()
}

/// Workers of a pool held inside a body each; freed by [`Busy::free`], or at the latest when this is dropped.
pub(crate) struct Busy {
    gate: Gate,
    pub(crate) jobs: Vec<JobHandle<()>>,
}

/// Returns when every worker of the pool is inside a body that waits.
#[track_caller]
pub(crate) fn occupy(pool: &Pool) -> Busy {
    hold(pool, pool.workers())
}

/// Returns when so many workers of the pool are inside a body that waits.
#[track_caller]
pub(crate) fn hold(pool: &Pool, workers: usize) -> Busy {
    let gate = Gate::new();
    let (started, starts) = mpsc::channel();
    let jobs: Vec<_> = (0..workers)
        .map(|_| {
            let (gate, started) = (gate.clone(), started.clone());
            pool.try_submit(move || {
                started.send(()).unwrap();
                gate.wait();
            })
            .expect("a slot for every worker that is held")
        })
        .collect();
    for _ in &jobs {
        recv(&starts);
    }
    Busy { gate, jobs }
}

impl Busy {
    /// Lets the held bodies end.
    pub(crate) fn open(&self) {
        self.gate.open();
    }

    /// Frees the workers and returns when the held bodies have ended.
    #[track_caller]
    pub(crate) fn free(mut self) {
        self.open();
        for job in std::mem::take(&mut self.jobs) {
            resolve(job).expect("a held body ended badly");
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.gate.open();
    }
}

/// Asserts that as many bodies run at once as the pool has workers: none was lost.
#[track_caller]
pub(crate) fn assert_all_workers_live(pool: &Pool) {
    let all = Rendezvous::new(pool.workers());
    let jobs: Vec<_> = (0..pool.workers())
        .map(|_| {
            let all = all.clone();
            pool.try_submit(move || all.meet()).expect("a slot for every worker")
        })
        .collect();
    for job in jobs {
        job.join().expect("not all workers came: one was lost");
    }
}

/// Asserts that nothing is in flight and that the counters add up.
#[track_caller]
pub(crate) fn assert_at_rest(pool: &Pool) {
    assert_eq!((pool.in_flight(), pool.queued(), pool.running()), (0, 0, 0), "{pool:?}");
    let now = pool.snapshot();
    assert_eq!((now.in_flight, now.reserved, now.queued, now.running), (0, 0, 0, 0), "{now:?}");
    assert!(adds_up(&now), "{now:?}");
}

/// Whether each job that was accepted has ended in one way.
fn adds_up(now: &Snapshot) -> bool {
    let ended = now.completed + now.panicked + now.cancelled + now.discarded;
    now.accepted == ended + now.shed.total()
}

/// The same for a pool whose last jobs may still be about to end.
#[track_caller]
pub(crate) fn assert_adds_up(pool: &Pool) {
    eventually("the counts add up at rest", || {
        let now = pool.snapshot();
        now.in_flight == 0 && adds_up(&now)
    });
}

/// Asserts that exactly `capacity` slots can be had: none was lost, none was returned twice.
#[track_caller]
pub(crate) fn assert_all_slots_free(pool: &Pool) {
    assert_at_rest(pool);
    let all: Vec<_> =
        (0..pool.capacity()).map(|_| pool.try_reserve().expect("a slot was lost")).collect();
    let more = pool.try_reserve().err().map(|refusal| refusal.reason());
    assert_eq!(more, Some(Reason::Full), "a slot was returned twice");
    drop(all);
    assert_at_rest(pool);
}

struct Call<F>(F);

impl<F: Fn() + Send + Sync> Wake for Call<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

/// A waker that calls `f`.
pub(crate) fn waker(f: impl Fn() + Send + Sync + 'static) -> Waker {
    Arc::new(Call(f)).into()
}

/// A waker that counts how often it was woken.
#[derive(Default)]
pub(crate) struct CountsWakes(pub(crate) Count);

impl Wake for CountsWakes {
    fn wake(self: Arc<Self>) {
        self.0.add();
    }
}

/// A waker and how often it was woken.
pub(crate) fn counting_waker() -> (Waker, Count) {
    let wakes = CountsWakes::default();
    let count = wakes.0.clone();
    (Arc::new(wakes).into(), count)
}

/// Polls once.
pub(crate) fn poll<T>(future: &mut (impl Future<Output = T> + Unpin), waker: &Waker) -> Poll<T> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// Runs a future on this thread, with a watchdog.
#[track_caller]
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = Box::pin(future);
    let (woken, wakes) = mpsc::channel();
    let woken = Mutex::new(woken);
    let waker = waker(move || {
        let _ = woken.lock().unwrap().send(());
    });
    loop {
        if let Poll::Ready(output) = poll(&mut future, &waker) {
            return output;
        }
        recv(&wakes);
    }
}

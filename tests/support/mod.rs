//! Small tools that the black-box tests share: gates, watchdogs, ghost counters, logs.
#![allow(dead_code)] // each test file uses its own part of it

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex};
use std::task::Wake;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weirpool::{JobError, JobHandle, Pool};

/// How long a test waits for what must happen; only a hang ever takes this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The number of rounds of a race: fewer in a debug build.
pub(crate) const fn rounds(debug: usize, release: usize) -> usize {
    if cfg!(debug_assertions) { debug } else { release }
}

/// A thread whose answer is awaited for at most [`PATIENCE`].
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
    pub(crate) fn wait(self) -> T {
        self.wait_for(PATIENCE)
    }

    /// The same with a patience of one's own.
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

/// Runs `test` and turns a hang into a failure.
pub(crate) fn watched<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
    elsewhere(test).wait_for(4 * PATIENCE)
}

/// Waits until `condition` holds; it must within [`PATIENCE`].
#[track_caller]
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        thread::yield_now();
    }
}

/// Lets other threads go first, some times.
pub(crate) fn give_way(times: usize) {
    for _ in 0..times {
        thread::yield_now();
    }
}

/// The outcome of a job that must end.
#[track_caller]
pub(crate) fn resolve<T>(handle: JobHandle<T>) -> Result<T, JobError> {
    match handle.join_timeout(PATIENCE) {
        Ok(outcome) => outcome,
        Err(handle) => panic!("never resolved: {handle:?}"),
    }
}

/// A job's panic that the hook does not print.
pub(crate) fn quiet_panic() -> ! {
    std::panic::resume_unwind(Box::new("on purpose"))
}

/// Shut until opened; open for ever after.
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

    /// Waits until it is open.
    pub(crate) fn pass(&self) {
        let open = self.0.0.lock().unwrap();
        let (_open, timeout) = self.0.1.wait_timeout_while(open, PATIENCE, |open| !*open).unwrap();
        assert!(!timeout.timed_out(), "nobody opened the gate");
    }
}

/// Workers that sit in a body until told to go on.
pub(crate) struct Held {
    pub(crate) gate: Gate,
    pub(crate) handles: Vec<JobHandle<()>>,
}

/// Puts `workers` workers into a body each, and returns when all are there.
pub(crate) fn hold(pool: &Pool, workers: usize) -> Held {
    let gate = Gate::new();
    let (arrived, arrivals) = mpsc::channel();
    let handles = (0..workers)
        .map(|_| {
            let (gate, arrived) = (gate.clone(), arrived.clone());
            let body = move || {
                arrived.send(()).unwrap();
                gate.pass();
            };
            pool.try_submit(body).expect("room for those who hold the workers")
        })
        .collect();
    for _ in 0..workers {
        arrivals.recv_timeout(PATIENCE).expect("a free worker takes the job");
    }
    Held { gate, handles }
}

impl Held {
    /// Opens the gate and waits until all of them have ended.
    pub(crate) fn release(self) {
        self.gate.open();
        for handle in self.handles {
            resolve(handle).unwrap();
        }
    }
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
        self.0.fetch_add(1, Ordering::SeqCst)
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// A value whose drop counts.
    pub(crate) fn on_drop(&self) -> CountsDrop {
        CountsDrop(self.clone())
    }
}

/// Counts its own drop.
#[derive(Debug)]
pub(crate) struct CountsDrop(Count);

impl Drop for CountsDrop {
    fn drop(&mut self) {
        self.0.add();
    }
}

/// A waker that counts how often it was woken.
#[derive(Default)]
pub(crate) struct CountsWakes(pub(crate) Count);

impl Wake for CountsWakes {
    fn wake(self: Arc<Self>) {
        self.0.add();
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

/// Runs something when dropped, also on the way of a panic.
pub(crate) struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> OnDrop<F> {
    pub(crate) fn new(f: F) -> Self {
        Self(Some(f))
    }
}

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(f) = self.0.take() {
            f();
        }
    }
}

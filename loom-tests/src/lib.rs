//! What the models share: exploring one, saying how much was explored, noting what was seen, and
//! the ghosts that judge it.
#![cfg(loom)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize as Unseen, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use weirpool::loom;
use weirpool::loom::sync::atomic::AtomicUsize;
use weirpool::test::ManualClock;
use weirpool::{Builder, Pool, Shutdown};

/// Which outcomes a model met, over all its executions. Kept outside of what loom sees.
#[derive(Clone, Default)]
pub struct Seen(Arc<Mutex<BTreeMap<&'static str, usize>>>);

impl Seen {
    /// Notes that an execution met `outcome`.
    pub fn note(&self, outcome: &'static str) {
        *self.0.lock().unwrap().entry(outcome).or_default() += 1;
    }
}

/// A count of executions below which a model can't have interleaved what it is about: a primitive
/// that loom doesn't see shows as a single execution.
#[derive(Clone, Copy)]
pub struct AtLeast(pub usize);

/// Explores every execution of `model` with at most `preemptions` preemptions (none: all of them),
/// prints how many there were, and fails if they were fewer than `floor` or if one of the outcomes
/// in `must_see` never came about.
pub fn explore(
    name: &str,
    preemptions: Option<usize>,
    floor: AtLeast,
    must_see: &[&'static str],
    model: impl Fn(&Seen) + Send + Sync + 'static,
) {
    for cut in ["LOOM_MAX_DURATION", "LOOM_MAX_PERMUTATIONS"] {
        assert!(std::env::var_os(cut).is_none(), "{cut} would cut the proof off");
    }
    let executions = Arc::new(Unseen::new(0));
    let seen = Seen::default();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 20_000;
    let start = Instant::now();
    builder.check({
        let (executions, seen) = (Arc::clone(&executions), seen.clone());
        move || {
            executions.fetch_add(1, Relaxed);
            model(&seen);
        }
    });
    let (executions, seconds) = (executions.load(Relaxed), start.elapsed().as_secs_f64());
    let bound = preemptions.map_or("all".to_owned(), |bound| format!("at most {bound}"));
    let outcomes = seen.0.lock().unwrap();
    println!(
        "model {name}: {executions} executions, {bound} preemptions, {seconds:.1} s, \
         outcomes {outcomes:?}"
    );
    assert!(executions >= floor.0, "{name}: only {executions} executions, expected {}", floor.0);
    for outcome in must_see {
        assert!(outcomes.contains_key(outcome), "{name}: never saw \"{outcome}\"");
    }
}

/// A pool's settings for a model: everything that isn't decided by loom is fixed, since an
/// execution must run the same way each time. In particular time stands still.
pub fn builder(workers: usize, capacity: usize) -> Builder {
    Pool::builder().batch().workers(workers).capacity(capacity).clock(ManualClock::new()).seed(7)
}

/// A pool with these settings.
pub fn pool(workers: usize, capacity: usize) -> Pool {
    builder(workers, capacity).build().unwrap()
}

/// Calls `f` and lets every other thread run until it blocks, all in one order: so begins a model
/// that is about what comes later.
pub fn unexplored<R>(f: impl FnOnce() -> R) -> R {
    loom::stop_exploring();
    let result = f();
    loom::thread::yield_now();
    loom::explore();
    result
}

/// A pool whose workers have fallen asleep. The models that begin with [`pool`] have the workers'
/// first steps in them.
pub fn resting_pool(workers: usize, capacity: usize) -> Pool {
    unexplored(|| pool(workers, capacity))
}

/// Drains the pool and checks that all adds up. Not explored: it ends a model that is about
/// something else, and shutting down has models of its own.
pub fn finish(pool: Pool, accepted: u64) {
    loom::stop_exploring();
    let report = pool.shutdown(Shutdown::Drain, None);
    assert_eq!((report.discarded, report.still_running), (0, 0));
    check_at_rest(&pool, accepted);
}

/// What must hold once nothing is left: every accepted job ended in one way, every slot is back,
/// and no destructor or waker panicked (which the pool contains, so that a race that loom finds in
/// one of them shows here).
pub fn check_at_rest(pool: &Pool, accepted: u64) {
    let snapshot = pool.snapshot();
    let used = (snapshot.in_flight, snapshot.reserved, snapshot.queued, snapshot.running);
    assert_eq!(used, (0, 0, 0, 0), "a slot is missing: {snapshot:?}");
    let ended = snapshot.completed
        + snapshot.panicked
        + snapshot.cancelled
        + snapshot.shed.total()
        + snapshot.discarded;
    assert_eq!((snapshot.accepted, ended), (accepted, accepted), "{snapshot:?}");
    assert_eq!(snapshot.contained_panics, 0, "{snapshot:?}");
}

/// A ghost's number. Every access is a relaxed read-modify-write: it reads the latest value and
/// gives no thread an edge that the code under test would have to give, and loom, which sees it,
/// tries the accesses of two threads in both orders.
#[derive(Debug, Default)]
pub struct Ghost(AtomicUsize);

impl Ghost {
    /// Adds one; returns the number before.
    pub fn add(&self) -> usize {
        self.0.fetch_add(1, Relaxed)
    }

    /// Takes one away; returns the number before.
    pub fn sub(&self) -> usize {
        self.0.fetch_sub(1, Relaxed)
    }

    /// The number.
    pub fn get(&self) -> usize {
        self.0.fetch_add(0, Relaxed)
    }
}

/// Runs `mine` here and `theirs` on a thread of its own, and returns what both said.
///
/// Either may come first as a whole, which loom doesn't try by itself if both begin by loading the
/// same atomic: it remembers only the last load of each, and so doesn't relate one thread's load
/// to another's write if that thread has loaded in between. So both begin by a meeting.
pub fn against<A, B: 'static>(
    mine: impl FnOnce() -> A,
    theirs: impl FnOnce() -> B + Send + 'static,
) -> (A, B) {
    let meeting = Arc::new(Ghost::default());
    let other = {
        let meeting = Arc::clone(&meeting);
        loom::thread::spawn(move || {
            meeting.add();
            theirs()
        })
    };
    meeting.add();
    (mine(), other.join().unwrap())
}

/// A cell that only the owner of the one slot may touch: loom reports the race if the slot has two
/// owners at once, or if its return isn't visible to whoever takes it next.
#[derive(Default)]
pub struct Payload {
    touched: loom::cell::UnsafeCell<usize>,
    captures: Ghost,
}

// SAFETY: that is what the models show.
unsafe impl Sync for Payload {}
// SAFETY: numbers.
unsafe impl Send for Payload {}

impl Payload {
    /// To be called by the owner of the slot.
    pub fn touch(&self) {
        // SAFETY: loom checks it.
        self.touched.with_mut(|times| unsafe { *times += 1 });
    }

    /// Something for a body to capture, made by the owner of the slot.
    pub fn capture(self: &Arc<Self>) -> Captured {
        assert_eq!(self.captures.add(), 0, "more captures alive than slots");
        self.touch();
        Captured(Arc::clone(self))
    }

    /// How many captures are alive.
    pub fn captures(&self) -> usize {
        self.captures.get()
    }
}

/// What a body captures: its destructor, too, must run while the slot is its own.
pub struct Captured(Arc<Payload>);

impl Captured {
    /// To be called by the body.
    pub fn touch(&self) {
        self.0.touch();
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        self.0.touch();
        self.0.captures.sub();
    }
}

/// Something that user code waits for, by means that the pool knows nothing of.
#[derive(Default)]
pub struct Signal {
    given: loom::sync::Mutex<bool>,
    changed: loom::sync::Condvar,
}

impl Signal {
    /// Lets all who wait go on.
    pub fn give(&self) {
        *self.given.lock().unwrap() = true;
        self.changed.notify_all();
    }

    /// Blocks until it is given.
    pub fn wait(&self) {
        let mut given = self.given.lock().unwrap();
        while !*given {
            given = self.changed.wait(given).unwrap();
        }
    }
}

//! Everything at once, for as long as you like, with ghost counters that the pool does not see.
//!
//! ```text
//! cargo run --release --example stress -- --seconds 60 --seed 1 --submitters 8 --workers 4
//! ```
//!
//! Submitting threads do at random what users do: submit at any priority, join, cancel, drop the
//! handle, panic, set deadlines, reserve slots, submit and join inside bodies. A watcher looks at
//! the bound all the time. At the end no job may be lost, no slot, no thread: each closure that was
//! made was dropped once, each accepted job ended once, `in_flight()` is 0, the peak was never above
//! the capacity, and all workers still run side by side. Exit code 1 and a message if not.

use std::collections::VecDeque;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use weirpool::{
    JobError, JobHandle, JobSpec, Pool, Priority, Reason, Rejected, ShedReason, Shutdown,
};

const HELP: &str = "\
Puts a pool under random load and checks that nothing is lost.

Usage: cargo run --release --example stress -- [OPTIONS]

Options:
    --seconds N      how long to submit [default: 60]
    --seed N         where the random choices begin [default: random]
    --submitters N   threads that submit [default: 8]
    --workers N      workers of the pool [default: 4]
    --capacity N     slots of the pool [default: 64]
    --help           print this
";

/// After so long without any job ending, something hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// Handles that a submitter keeps before it settles the oldest.
const HANDLES_KEPT: usize = 32;

/// Bodies in bodies, at most.
const DEPTH: u32 = 3;

#[derive(Clone, Debug)]
struct Options {
    seconds: u64,
    seed: u64,
    submitters: usize,
    workers: usize,
    capacity: usize,
}

impl Options {
    /// From the command line; `None` if help is asked for.
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let (seconds, seed) = (60, Rng::new().u64(..));
        let mut options = Self { seconds, seed, submitters: 8, workers: 4, capacity: 64 };
        while let Some(name) = arguments.next() {
            if name == "--help" || name == "-h" {
                return Ok(None);
            }
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            let number: u64 = value.parse().map_err(|_| format!("{name} {value}: no number"))?;
            let size = || match usize::try_from(number) {
                Ok(size) if size > 0 => Ok(size),
                _ => Err(format!("{name} {value}: not a size")),
            };
            match name.as_str() {
                "--seconds" => options.seconds = number,
                "--seed" => options.seed = number,
                "--submitters" => options.submitters = size()?,
                "--workers" => options.workers = size()?,
                "--capacity" => options.capacity = size()?,
                _ => return Err(format!("{name}: no such option")),
            }
        }
        Ok(Some(options))
    }
}

/// What a closure has been through, as it says itself.
mod stage {
    pub(super) const MADE: u8 = 0;
    pub(super) const STARTED: u8 = 1;
    pub(super) const DROPPED_UNRUN: u8 = 2;
    pub(super) const DROPPED_AFTER_RUN: u8 = 3;
}

/// Counters that the pool does not see.
#[derive(Debug, Default)]
struct Ghosts {
    made: AtomicU64,
    dropped: AtomicU64,
    started: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
    /// Refused and then run by the caller.
    run_here: AtomicU64,
    /// Slots asked for and refused, before there was a closure.
    reserves_refused: AtomicU64,
    cancels_won: AtomicU64,
    peak: AtomicUsize,
    violations: Mutex<Vec<String>>,
}

impl Ghosts {
    fn violation(&self, what: impl Display) {
        let mut violations = self.violations.lock().expect("nobody panics in here");
        if violations.len() < 20 {
            eprintln!("VIOLATION: {what}");
            violations.push(what.to_string());
        }
    }

    fn check(&self, right: bool, what: impl Display) {
        if !right {
            self.violation(what);
        }
    }

    fn see(&self, pool: &Pool) {
        let in_flight = pool.in_flight();
        self.peak.fetch_max(in_flight, SeqCst);
        if in_flight > pool.capacity() {
            self.violation(format_args!("{in_flight} in flight of {}", pool.capacity()));
        }
    }
}

/// Lives in a closure and notes what becomes of it.
struct Ghost {
    all: Arc<Ghosts>,
    stage: Arc<AtomicU8>,
}

impl Ghost {
    fn new(all: &Arc<Ghosts>) -> Self {
        all.made.fetch_add(1, SeqCst);
        Self { all: Arc::clone(all), stage: Arc::new(AtomicU8::new(stage::MADE)) }
    }

    fn start(&self) {
        self.all.started.fetch_add(1, SeqCst);
        let before = self.stage.swap(stage::STARTED, SeqCst);
        self.all.check(before == stage::MADE, format_args!("started in stage {before}"));
    }
}

impl Drop for Ghost {
    fn drop(&mut self) {
        self.all.dropped.fetch_add(1, SeqCst);
        let after = match self.stage.load(SeqCst) {
            stage::MADE => stage::DROPPED_UNRUN,
            stage::STARTED => stage::DROPPED_AFTER_RUN,
            other => return self.all.violation(format_args!("dropped in stage {other}")),
        };
        self.stage.store(after, SeqCst);
    }
}

/// A result that may panic when it is dropped, unless somebody takes it.
struct Answer {
    armed: bool,
}

impl Drop for Answer {
    fn drop(&mut self) {
        if self.armed {
            quiet_panic()
        }
    }
}

/// A panic that the hook does not print.
fn quiet_panic() -> ! {
    std::panic::resume_unwind(Box::new("on purpose"))
}

/// A job whose handle we have.
struct Kept {
    stage: Arc<AtomicU8>,
    handle: JobHandle<Answer>,
}

/// Something that submits: a thread, or a body.
struct Submitter {
    pool: Pool,
    all: Arc<Ghosts>,
    rng: Rng,
    depth: u32,
}

impl Submitter {
    fn fork(&mut self) -> Self {
        Self {
            pool: self.pool.clone(),
            all: Arc::clone(&self.all),
            rng: self.rng.fork(),
            depth: self.depth + 1,
        }
    }

    /// A body that may work, nest, or panic, and the stage it is in.
    fn body(&mut self) -> (impl FnOnce() -> Answer + Send + 'static, Arc<AtomicU8>) {
        let ghost = Ghost::new(&self.all);
        let stage = Arc::clone(&ghost.stage);
        let mut inner = self.fork();
        let body = move || {
            ghost.start();
            for _ in 0..inner.rng.u32(0..200) {
                std::hint::spin_loop();
            }
            if inner.depth <= DEPTH && inner.rng.u8(..) < 50 {
                inner.nest();
            }
            let end = inner.rng.u8(..);
            if end < 10 {
                quiet_panic()
            }
            Answer { armed: end < 20 }
        };
        (body, stage)
    }

    /// Submits some children, and joins most of them, in some order.
    fn nest(&mut self) {
        let mut children: Vec<_> = (0..self.rng.u8(1..=3)).filter_map(|_| self.submit()).collect();
        self.rng.shuffle(&mut children);
        for child in children {
            match self.rng.u8(0..8) {
                0 => drop(child),
                1 => self.cancel(&child),
                _ => self.join(child),
            }
        }
    }

    /// One job, in one of the ways there are; its handle, unless detached or refused.
    fn submit(&mut self) -> Option<Kept> {
        let pool = self.pool.clone();
        let spec = self.spec(&pool);
        match self.rng.u8(0..8) {
            0 => {
                let (body, _) = self.body();
                let answer = spec.try_spawn(move || std::mem::forget(body()));
                self.answered(answer);
                None
            }
            1 => match spec.try_reserve() {
                Ok(permit) if self.rng.u8(0..4) == 0 => {
                    drop(permit);
                    None
                }
                Ok(permit) => {
                    let (body, stage) = self.body();
                    let answer = permit.submit(body);
                    self.answered(answer).map(|handle| Kept { stage, handle })
                }
                Err(_) => {
                    self.all.reserves_refused.fetch_add(1, SeqCst);
                    None
                }
            },
            _ => {
                let (body, stage) = self.body();
                let answer = spec.try_submit(body);
                self.answered(answer).map(|handle| Kept { stage, handle })
            }
        }
    }

    /// Any priority, and now and then a deadline that is about to pass.
    fn spec<'a>(&mut self, pool: &'a Pool) -> JobSpec<'a> {
        const PRIORITIES: [Priority; 4] =
            [Priority::Low, Priority::Normal, Priority::High, Priority::Critical];
        let mut spec = pool.job();
        if self.rng.bool() {
            spec = spec.priority(PRIORITIES[self.rng.usize(0..PRIORITIES.len())]);
        }
        if self.rng.u8(0..8) == 0 {
            spec = spec.timeout(Duration::from_micros(self.rng.u64(0..200)));
        }
        spec
    }

    /// Counts the door's answer. Some of what was refused is run by this thread.
    fn answered<T, F: FnOnce() -> R, R>(&mut self, answer: Result<T, Rejected<F>>) -> Option<T> {
        let refused = match answer {
            Ok(accepted) => {
                self.all.accepted.fetch_add(1, SeqCst);
                return Some(accepted);
            }
            Err(refused) => refused,
        };
        self.all.refused.fetch_add(1, SeqCst);
        let reason = refused.reason();
        let known = matches!(reason, Reason::Full | Reason::Deadline);
        self.all.check(known, format_args!("refused for {reason:?}"));
        if self.rng.u8(0..32) == 0 {
            self.all.run_here.fetch_add(1, SeqCst);
            let here = AssertUnwindSafe(|| std::mem::forget(refused.run_here()));
            drop(catch_unwind(here));
        }
        None
    }

    /// Waits for a job's outcome; in a body that may mean to run it in place.
    fn join(&self, kept: Kept) {
        let outcome = if weirpool::context().is_some() {
            Ok(kept.handle.join())
        } else {
            kept.handle.join_timeout(PATIENCE)
        };
        match outcome {
            Ok(outcome) => self.settle(outcome, &kept.stage),
            Err(handle) => self.all.violation(format_args!("never resolved: {handle:?}")),
        }
    }

    /// Asks once for the outcome, as a runtime would, and keeps the handle if there is none yet.
    fn poll(&self, mut kept: Kept) -> Option<Kept> {
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(&mut kept.handle).poll(&mut context) {
            Poll::Pending => Some(kept),
            Poll::Ready(outcome) => {
                self.settle(outcome, &kept.stage);
                None
            }
        }
    }

    /// Compares a job's outcome with what its closure went through.
    fn settle(&self, outcome: Result<Answer, JobError>, stage: &AtomicU8) {
        let ran = match outcome {
            Ok(answer) => {
                std::mem::forget(answer);
                true
            }
            Err(JobError::Panicked(_)) => true,
            Err(JobError::Cancelled) => false,
            Err(JobError::Shed(ShedReason::Deadline | ShedReason::Displaced)) => false,
            Err(other) => {
                return self.all.violation(format_args!("no cause for this: {other}"));
            }
        };
        let expected = if ran { stage::DROPPED_AFTER_RUN } else { stage::DROPPED_UNRUN };
        let stage = stage.load(SeqCst);
        self.all.check(stage == expected, format_args!("ran: {ran}, but in stage {stage}"));
    }

    fn cancel(&self, kept: &Kept) {
        if kept.handle.cancel() {
            self.all.cancels_won.fetch_add(1, SeqCst);
            let stage = kept.stage.load(SeqCst);
            let unrun = stage == stage::DROPPED_UNRUN;
            self.all.check(unrun, format_args!("cancelled, but in stage {stage}"));
        }
    }

    /// Submits until `end`, keeps some handles for a while, and settles them all.
    fn run(mut self, end: Instant) {
        let mut kept = VecDeque::new();
        while Instant::now() < end {
            let submitted = self.submit();
            self.all.see(&self.pool);
            if submitted.is_none() && self.rng.bool() {
                // Most often it is full; too many tries in a row only keep the workers from it.
                thread::yield_now();
            }
            kept.extend(submitted);
            if kept.is_empty() {
                continue;
            }
            let which = self.rng.usize(0..kept.len());
            match self.rng.u8(0..16) {
                0..3 => self.cancel(&kept[which]),
                3..5 => drop(kept.swap_remove_back(which)),
                5 => {
                    let polled = kept.swap_remove_back(which).and_then(|kept| self.poll(kept));
                    kept.extend(polled);
                }
                _ => {}
            }
            if kept.len() > HANDLES_KEPT {
                kept.pop_front().into_iter().for_each(|oldest| self.join(oldest));
            }
        }
        kept.into_iter().for_each(|kept| self.join(kept));
    }
}

/// All workers in a body at the same time, or a violation: none of them was lost.
fn meet(pool: &Pool, workers: usize, all: &Ghosts) {
    let (arrived, everybody) = (Arc::new(Mutex::new(0)), Arc::new(Condvar::new()));
    let bodies = (0..workers).map(|_| {
        let (arrived, everybody) = (Arc::clone(&arrived), Arc::clone(&everybody));
        let body = move || {
            let mut count: MutexGuard<'_, usize> = arrived.lock().expect("nobody panics in here");
            *count += 1;
            everybody.notify_all();
            let missing = |count: &mut usize| *count < workers;
            let waited = everybody.wait_timeout_while(count, PATIENCE, missing);
            waited.expect("nobody panics in here").1.timed_out()
        };
        pool.try_submit(body)
    });
    for body in bodies.collect::<Vec<_>>() {
        match body.map(JobHandle::join) {
            Ok(Ok(false)) => {}
            Ok(Ok(true)) => all.violation("a worker was lost: not all of them met"),
            Ok(Err(error)) => all.violation(format_args!("a last job ended as {error}")),
            Err(refused) => all.violation(format_args!("a last job was {refused:?}")),
        }
    }
}

/// Compares what the pool says at rest with the ghost counters.
fn check_at_rest(pool: &Pool, all: &Ghosts, last_jobs: u64) {
    let seen = pool.snapshot();
    let get = |count: &AtomicU64| count.load(SeqCst);
    let equal = |what, is: u64, expected: u64| {
        all.check(is == expected, format_args!("{what}: {is}, expected {expected}"));
    };
    let (accepted, refused) = (get(&all.accepted), get(&all.refused));
    equal("closures dropped", get(&all.dropped), get(&all.made));
    equal("closures accepted or refused", accepted + refused, get(&all.made));
    equal("accepted", seen.accepted, accepted + last_jobs);
    equal("rejected", seen.rejected.total(), refused + get(&all.reserves_refused));
    let bodies = get(&all.started) - get(&all.run_here) + last_jobs;
    equal("completed or panicked", seen.completed + seen.panicked, bodies);
    equal("cancelled", seen.cancelled, get(&all.cancels_won));
    let ended = seen.completed + seen.panicked + seen.cancelled + seen.discarded;
    equal("ended", ended + seen.shed.total(), seen.accepted);
    equal("in flight", pool.in_flight() as u64, 0);
    equal("reserved, queued or running", (seen.reserved + seen.queued + seen.running) as u64, 0);
}

/// Runs `work` on a thread of its own, prints how it goes, and gives up when no job ends any more.
fn supervise(pool: &Pool, all: &Ghosts, work: impl FnOnce() + Send + 'static) -> bool {
    let (done, is_done) = mpsc::channel();
    let worker = thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    let (begun, mut moved_at, mut moved) = (Instant::now(), Instant::now(), 0);
    loop {
        match is_done.recv_timeout(Duration::from_secs(1)) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) => return true,
            Err(RecvTimeoutError::Disconnected) => {
                all.violation(format_args!("a thread of ours panicked: {:?}", worker.join().err()));
                return false;
            }
        }
        let (dropped, refused) = (all.dropped.load(SeqCst), all.refused.load(SeqCst));
        println!(
            "{:>4} s: {dropped} jobs settled, {refused} of them refused, {} in flight, peak {}",
            begun.elapsed().as_secs(),
            pool.in_flight(),
            all.peak.load(SeqCst),
        );
        if dropped != moved {
            (moved, moved_at) = (dropped, Instant::now());
        } else if moved_at.elapsed() > PATIENCE {
            all.violation(format_args!("nothing moves any more: {:?}", pool.snapshot()));
            return false;
        }
    }
}

/// The whole run; violations are in `all`.
fn stress(options: &Options, all: &Arc<Ghosts>) {
    let stopped = Arc::new(AtomicUsize::new(0));
    let hook = Arc::clone(&stopped);
    let pool = Pool::builder()
        .batch()
        .name("stress")
        .workers(options.workers)
        .capacity(options.capacity)
        .seed(options.seed)
        .panic_handler(|_| ())
        .on_thread_stop(move || {
            hook.fetch_add(1, SeqCst);
        })
        .build()
        .expect("the options are right");

    let over = Arc::new(AtomicBool::new(false));
    let watcher = thread::spawn({
        let (pool, all, over) = (pool.clone(), Arc::clone(all), Arc::clone(&over));
        move || {
            while !over.load(SeqCst) {
                all.see(&pool);
                let seen = pool.snapshot();
                let sum = seen.reserved + seen.queued + seen.running;
                all.check(seen.in_flight == sum, format_args!("{} is not {sum}", seen.in_flight));
                all.check(seen.in_flight <= seen.capacity, "a snapshot above the capacity");
                thread::park_timeout(Duration::from_micros(100));
            }
        }
    });

    let (own, ghosts, settings) = (pool.clone(), Arc::clone(all), options.clone());
    let finished = supervise(&pool, all, move || {
        let end = Instant::now() + Duration::from_secs(settings.seconds);
        let mut seeds = Rng::with_seed(settings.seed);
        thread::scope(|scope| {
            for _ in 0..settings.submitters {
                let (pool, all, rng) = (own.clone(), Arc::clone(&ghosts), seeds.fork());
                let submitter = Submitter { pool, all, rng, depth: 0 };
                scope.spawn(move || submitter.run(end));
            }
        });
        own.wait_idle();
        check_at_rest(&own, &ghosts, 0);
        meet(&own, settings.workers.min(settings.capacity), &ghosts);
        own.wait_idle();
        check_at_rest(&own, &ghosts, settings.workers.min(settings.capacity) as u64);
        let report = own.shutdown(Shutdown::Drain, None);
        ghosts.check(report.still_running == 0, format_args!("after all: {report:?}"));
    });
    over.store(true, SeqCst);
    if !finished {
        return;
    }
    if watcher.join().is_err() {
        all.violation("the watcher panicked");
    }
    drop(pool);
    let begun = Instant::now();
    while stopped.load(SeqCst) < options.workers && begun.elapsed() < PATIENCE {
        thread::yield_now();
    }
    let exited = stopped.load(SeqCst);
    all.check(exited == options.workers, format_args!("{exited} threads have exited"));
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            eprintln!("{wrong}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    println!("{options:?}");
    let all = Arc::new(Ghosts::default());
    stress(&options, &all);
    let get = |count: &AtomicU64| count.load(SeqCst);
    println!(
        "seed {}: {} closures, {} accepted, {} refused, {} run, {} cancelled, peak {} of {}",
        options.seed,
        get(&all.made),
        get(&all.accepted),
        get(&all.refused),
        get(&all.started),
        get(&all.cancels_won),
        all.peak.load(SeqCst),
        options.capacity,
    );
    let violations = all.violations.lock().expect("nobody panics in here").len();
    if violations == 0 {
        println!("OK: nothing was lost");
        ExitCode::SUCCESS
    } else {
        println!("FAILED: {violations} violations, seed {}", options.seed);
        ExitCode::FAILURE
    }
}

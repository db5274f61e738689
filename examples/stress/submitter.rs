//! What a user does, at random.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use weirpool::{
    JobError, JobHandle, JobSpec, Permit, Priority, Reason, Refusal, Rejected, Scope, ShedReason,
};

use crate::PATIENCE;
use crate::ghosts::{Ghost, Ghosts, Record, stage};
use crate::ground::{Ground, Holding};

/// Handles that a submitter keeps before it settles the oldest.
const HANDLES_KEPT: usize = 32;

/// Bodies in bodies, at most.
const DEPTH: u32 = 3;

/// A result that may panic when it is dropped, unless somebody takes it.
pub(crate) struct Answer {
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
    record: Arc<Record>,
    handle: JobHandle<Answer>,
}

/// Which ends a body may have.
#[derive(Clone, Copy, PartialEq)]
enum Manners {
    Any,
    NeverPanics,
}

/// What is done, each with all of the one before.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub(crate) enum Mix {
    /// Submit at any priority, join, cancel, reserve, nest.
    Basics,
    /// Wait for a slot, reserve many, borrow in a scope.
    Undivided,
    /// Use partitions and bytes.
    Everything,
}

/// Something that submits: a thread, or a body.
pub(crate) struct Submitter {
    ground: Ground,
    all: Arc<Ghosts>,
    rng: Rng,
    mix: Mix,
    depth: u32,
    /// The partition of the body that this is, which its jobs inherit.
    inherited: Option<usize>,
}

impl Submitter {
    pub(crate) fn new(ground: Ground, all: Arc<Ghosts>, rng: Rng, mix: Mix) -> Self {
        Self { ground, all, rng, mix, depth: 0, inherited: None }
    }

    /// What is done in a body of a job that holds so much.
    fn fork(&mut self, holding: Holding) -> Self {
        Self {
            ground: self.ground.clone(),
            all: Arc::clone(&self.all),
            rng: self.rng.fork(),
            mix: self.mix,
            depth: self.depth + 1,
            inherited: holding.partition,
        }
    }

    // ── Jobs ────────────────────────────────────────────────────────────────────────────────

    /// A body that may work, nest, or panic, and what will be known of it.
    fn body(
        &mut self,
        holding: Holding,
        manners: Manners,
    ) -> (impl FnOnce() -> Answer + Send + use<>, Arc<Record>) {
        let ghost = Ghost::new(&self.all, holding);
        let record = Arc::clone(&ghost.record);
        let (mut inner, inherited) = (self.fork(holding), self.inherited);
        let body = move || {
            ghost.start();
            if ghost.record.was_refused() {
                // Run by its submitter, as a part of what that is.
                inner.inherited = inherited;
            } else {
                ghost.record.note_accepted(&inner.all);
            }
            for _ in 0..inner.rng.u32(0..200) {
                std::hint::spin_loop();
            }
            if inner.depth <= DEPTH && inner.rng.u8(..) < 50 {
                inner.nest();
            }
            let end = if manners == Manners::Any { inner.rng.u8(..) } else { u8::MAX };
            if end < 10 {
                quiet_panic()
            }
            Answer { armed: end < 20 }
        };
        (body, record)
    }

    /// Submits some children, and joins most of them, in some order.
    fn nest(&mut self) {
        if self.mix > Mix::Basics && self.rng.u8(0..4) == 0 {
            return self.scope();
        }
        let mut children: Vec<_> = (0..self.rng.u8(1..=3)).flat_map(|_| self.submit()).collect();
        self.rng.shuffle(&mut children);
        for child in children {
            match self.rng.u8(0..8) {
                0 => drop(child),
                1 => self.cancel(&child),
                _ => self.join(child),
            }
        }
    }

    /// Any priority, a partition and bytes if there are, and now and then a deadline that is about
    /// to pass; and what a job with it will hold.
    fn spec<'a>(&mut self, ground: &'a Ground) -> (JobSpec<'a>, Holding) {
        const PRIORITIES: [Priority; 4] =
            [Priority::Low, Priority::Normal, Priority::High, Priority::Critical];
        let (rng, shares, max) =
            (&mut self.rng, ground.bounds.shares.len(), ground.bounds.max_bytes);
        let divided = self.mix == Mix::Everything;
        let partition = (divided && rng.bool()).then(|| rng.usize(0..shares));
        let bytes = match rng.u8(0..64) {
            _ if !divided => 0,
            0 => max + 1,
            1 => rng.u64(0..=max / 2),
            2..32 => rng.u64(0..=max / 16),
            _ => 0,
        };
        let mut spec = ground.spec(Holding { partition, bytes });
        if rng.bool() {
            spec = spec.priority(PRIORITIES[rng.usize(0..PRIORITIES.len())]);
        }
        if rng.u8(0..8) == 0 {
            spec = spec.timeout(Duration::from_micros(rng.u64(0..200)));
        }
        (spec, Holding { partition: partition.or(self.inherited), bytes })
    }

    // ── The ways to submit ──────────────────────────────────────────────────────────────────

    /// Jobs in one of the ways there are; the handles of those that are neither detached nor
    /// refused.
    fn submit(&mut self) -> Vec<Kept> {
        let ground = self.ground.clone();
        let (spec, holding) = self.spec(&ground);
        let ways = if self.mix == Mix::Basics { 8 } else { 16 };
        match self.rng.u8(0..ways) {
            0 => {
                let (body, record) = self.body(holding, Manners::Any);
                let answer = spec.try_spawn(move || std::mem::forget(body()));
                self.counted(answer, &record);
                Vec::new()
            }
            1 => {
                let permit = spec.try_reserve().map(|permit| vec![permit]);
                self.use_permits(permit, holding)
            }
            2 if self.mix > Mix::Basics => {
                let permits = spec.try_reserve_many(self.rng.usize(0..5));
                self.use_permits(permits, holding)
            }
            8.. => self.wait(spec, holding).into_iter().collect(),
            _ => {
                let (body, record) = self.body(holding, Manners::Any);
                let answer = spec.try_submit(body);
                self.kept(answer, record).into_iter().collect()
            }
        }
    }

    /// Uses most of the permits, if there are some.
    fn use_permits(
        &mut self,
        permits: Result<Vec<Permit>, Refusal>,
        holding: Holding,
    ) -> Vec<Kept> {
        let Ok(permits) = permits else {
            self.all.reserves_refused.fetch_add(1, SeqCst);
            return Vec::new();
        };
        permits.iter().for_each(|_| self.all.enter(holding));
        self.all.see(&self.ground);
        let mut kept = Vec::new();
        for permit in permits {
            self.all.strike(holding);
            if self.rng.u8(0..4) == 0 {
                drop(permit);
                continue;
            }
            let (body, record) = self.body(holding, Manners::Any);
            let answer = permit.submit(body);
            kept.extend(self.kept(answer, record));
        }
        kept
    }

    /// Waits for a slot, or gives up waiting. In a body, nobody may wait for one.
    fn wait(&mut self, spec: JobSpec<'_>, holding: Holding) -> Option<Kept> {
        let (body, record) = self.body(holding, Manners::Any);
        let answer = match self.rng.u8(0..4) {
            0 => spec.submit_blocking(body),
            1 => spec.submit_timeout(body, Duration::from_micros(self.rng.u64(0..300))),
            2 if weirpool::context().is_none() => pollster::block_on(spec.submit(body)),
            _ => {
                let mut submit = spec.submit(body);
                let mut polls = (0..self.rng.u8(0..4)).map(|_| {
                    thread::yield_now();
                    poll(&mut submit)
                });
                match polls.find(Poll::is_ready) {
                    Some(Poll::Ready(answer)) => answer,
                    _ => {
                        drop(submit);
                        self.all.given_up.fetch_add(1, SeqCst);
                        let stage = record.stage.load(SeqCst);
                        let unrun = stage == stage::DROPPED_UNRUN;
                        self.all.check(unrun, format_args!("given up, but in stage {stage}"));
                        return None;
                    }
                }
            }
        };
        self.kept(answer, record)
    }

    /// Some jobs that borrow from this function.
    fn scope(&mut self) {
        let (ground, jobs) = (self.ground.clone(), self.rng.usize(1..=3));
        let mut runs = vec![0_u8; jobs];
        let records: Vec<_> = ground.pool.scope(|scope| {
            let submit = |runs| self.submit_to_scope(&ground, scope, runs);
            runs.iter_mut().map(submit).collect()
        });
        for (record, runs) in records.iter().zip(runs) {
            let expected = if runs == 0 { stage::DROPPED_UNRUN } else { stage::DROPPED_AFTER_RUN };
            let stage = record.stage.load(SeqCst);
            let right = runs <= 1 && stage == expected;
            self.all.check(right, format_args!("{runs} runs in a scope, but in stage {stage}"));
        }
    }

    fn submit_to_scope<'scope>(
        &mut self,
        ground: &Ground,
        scope: &'scope Scope<'scope, '_>,
        runs: &'scope mut u8,
    ) -> Arc<Record> {
        let (spec, holding) = self.spec(ground);
        // A panic that nobody takes would be the scope's.
        let (body, record) = self.body(holding, Manners::NeverPanics);
        let answer = scope.try_submit_with(spec, move || {
            *runs += 1;
            body()
        });
        if let Some(handle) = self.counted(answer, &record) {
            match self.rng.u8(0..4) {
                0 => drop(handle),
                1 => self.note_cancel(handle.cancel(), &record),
                _ => self.settle(handle.join(), &record),
            }
        }
        record
    }

    // ── The answers ─────────────────────────────────────────────────────────────────────────

    fn kept<F: FnOnce() -> Answer>(
        &mut self,
        answer: Result<JobHandle<Answer>, Rejected<F>>,
        record: Arc<Record>,
    ) -> Option<Kept> {
        let handle = self.counted(answer, &record)?;
        Some(Kept { record, handle })
    }

    /// Counts the door's answer. Some of what was refused is run by this thread.
    fn counted<T, F: FnOnce() -> R, R>(
        &mut self,
        answer: Result<T, Rejected<F>>,
        record: &Record,
    ) -> Option<T> {
        let refused = match answer {
            Ok(accepted) => {
                self.all.accepted.fetch_add(1, SeqCst);
                record.note_accepted(&self.all);
                return Some(accepted);
            }
            Err(refused) => refused,
        };
        self.all.refused.fetch_add(1, SeqCst);
        record.note_refused();
        let reason = refused.reason();
        let known = match reason {
            Reason::Full | Reason::Deadline => true,
            Reason::Partition | Reason::Bytes => self.mix == Mix::Everything,
            _ => false,
        };
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
            Ok(outcome) => self.settle(outcome, &kept.record),
            Err(handle) => self.all.violation(format_args!("never resolved: {handle:?}")),
        }
    }

    /// Asks once for the outcome, as a runtime would, and keeps the handle if there is none yet.
    fn poll(&self, mut kept: Kept) -> Option<Kept> {
        match poll(&mut kept.handle) {
            Poll::Pending => Some(kept),
            Poll::Ready(outcome) => {
                self.settle(outcome, &kept.record);
                None
            }
        }
    }

    /// Compares a job's outcome with what its closure went through.
    fn settle(&self, outcome: Result<Answer, JobError>, record: &Record) {
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
        let stage = record.stage.load(SeqCst);
        self.all.check(stage == expected, format_args!("ran: {ran}, but in stage {stage}"));
    }

    fn cancel(&self, kept: &Kept) {
        self.note_cancel(kept.handle.cancel(), &kept.record);
    }

    fn note_cancel(&self, won: bool, record: &Record) {
        if won {
            self.all.cancels_won.fetch_add(1, SeqCst);
            let stage = record.stage.load(SeqCst);
            let unrun = stage == stage::DROPPED_UNRUN;
            self.all.check(unrun, format_args!("cancelled, but in stage {stage}"));
        }
    }

    /// Submits until `end`, keeps some handles for a while, and settles them all.
    pub(crate) fn run(mut self, end: Instant) {
        let mut kept = VecDeque::new();
        while Instant::now() < end {
            if self.mix > Mix::Basics && self.rng.u8(0..32) == 0 {
                self.scope();
            }
            let submitted = self.submit();
            self.all.see(&self.ground);
            if submitted.is_empty() && self.rng.bool() {
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
            while kept.len() > HANDLES_KEPT {
                kept.pop_front().into_iter().for_each(|oldest| self.join(oldest));
            }
        }
        kept.into_iter().for_each(|kept| self.join(kept));
    }
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

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
use weirpool::{JobError, JobHandle, JobSpec, Priority, Reason, Rejected, Scope, ShedReason};

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

/// Something that submits: a thread, or a body.
pub(crate) struct Submitter {
    ground: Ground,
    all: Arc<Ghosts>,
    rng: Rng,
    /// Whether anything but the basics is done.
    everything: bool,
    depth: u32,
    /// The partition of the body that this is, which its jobs inherit.
    inherited: Option<usize>,
}

impl Submitter {
    pub(crate) fn new(ground: Ground, all: Arc<Ghosts>, rng: Rng, everything: bool) -> Self {
        Self { ground, all, rng, everything, depth: 0, inherited: None }
    }

    /// What the body of a job may do.
    fn fork(&mut self, holding: Holding) -> Self {
        Self {
            ground: self.ground.clone(),
            all: Arc::clone(&self.all),
            rng: self.rng.fork(),
            everything: self.everything,
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
        let mut inner = self.fork(holding);
        let body = move || {
            ghost.start();
            if weirpool::context().is_some() {
                ghost.record.note_accepted(&inner.all);
            } else {
                // Refused, and run by its submitter, who is in no partition.
                inner.inherited = None;
            }
            for _ in 0..inner.rng.u32(0..200) {
                std::hint::spin_loop();
            }
            if inner.depth <= DEPTH && inner.rng.u8(..) < 50 {
                inner.nest();
            }
            let end = inner.rng.u8(..);
            if end < 10 && manners == Manners::Any {
                quiet_panic()
            }
            Answer { armed: end < 20 && manners == Manners::Any }
        };
        (body, record)
    }

    /// Submits some children, and joins most of them, in some order.
    fn nest(&mut self) {
        if self.everything && self.rng.u8(0..4) == 0 {
            return self.scope();
        }
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

    /// What the next job is to hold.
    fn holding(&mut self) -> Holding {
        let shares = self.ground.bounds.shares.len();
        let named = (shares > 0 && self.rng.bool()).then(|| self.rng.usize(0..shares));
        let max = self.ground.bounds.max_bytes;
        let bytes = match self.rng.u8(0..64) {
            _ if max == 0 => 0,
            0 => max + 1,
            1 => self.rng.u64(0..=max),
            2..32 => self.rng.u64(0..=max / 16),
            _ => 0,
        };
        Holding { partition: named.or(self.inherited), bytes }
    }

    /// Any priority, and now and then a deadline that is about to pass.
    fn spec<'a>(rng: &mut Rng, ground: &'a Ground, holding: Holding) -> JobSpec<'a> {
        const PRIORITIES: [Priority; 4] =
            [Priority::Low, Priority::Normal, Priority::High, Priority::Critical];
        let mut spec = ground.spec(holding);
        if rng.bool() {
            spec = spec.priority(PRIORITIES[rng.usize(0..PRIORITIES.len())]);
        }
        if rng.u8(0..8) == 0 {
            spec = spec.timeout(Duration::from_micros(rng.u64(0..200)));
        }
        spec
    }

    // ── The ways to submit ──────────────────────────────────────────────────────────────────

    /// One job, in one of the ways there are; its handle, unless detached or refused.
    fn submit(&mut self) -> Option<Kept> {
        let (ground, holding) = (self.ground.clone(), self.holding());
        let spec = Self::spec(&mut self.rng, &ground, holding);
        let ways = if self.everything { 16 } else { 8 };
        match self.rng.u8(0..ways) {
            0 => self.spawn(spec, holding),
            1 => self.reserve(spec, holding),
            8..12 => self.wait(spec, holding),
            12 => self.reserve_many(spec, holding),
            _ => {
                let (body, record) = self.body(holding, Manners::Any);
                let answer = spec.try_submit(body);
                self.answered(answer, record)
            }
        }
    }

    fn spawn(&mut self, spec: JobSpec<'_>, holding: Holding) -> Option<Kept> {
        let (body, record) = self.body(holding, Manners::Any);
        let answer = spec.try_spawn(move || std::mem::forget(body()));
        self.counted(answer, &record);
        None
    }

    fn reserve(&mut self, spec: JobSpec<'_>, holding: Holding) -> Option<Kept> {
        match spec.try_reserve() {
            Ok(permit) => {
                self.all.enter(holding);
                let kept = self.rng.u8(0..4) != 0;
                self.all.strike(holding);
                kept.then(|| {
                    let (body, record) = self.body(holding, Manners::Any);
                    let answer = permit.submit(body);
                    self.answered(answer, record)
                })?
            }
            Err(_) => {
                self.all.reserves_refused.fetch_add(1, SeqCst);
                None
            }
        }
    }
}

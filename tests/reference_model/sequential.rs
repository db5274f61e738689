//! The pool and its model side by side, while the pool's workers are held: each answer and each
//! count is foretold.

use std::cmp::Reverse;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;
use weirpool::{JobHandle, Permit, Pool, Priority, Reason, Rejected, ShedReason, Shutdown, Submit};

use crate::common::{
    Busy, Count, STEP, assert_adds_up, counting_waker, eventually, hold, poll, resolve,
};
use crate::ghost::{Body, End, Fate, Ghost, Outcome, end};
use crate::model::{Books, Shape, Subject, Want, want};

/// How a job is submitted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Try,
    Spawn,
    /// Gives up at once.
    Timeout,
    /// If it need not wait, else with a timeout.
    Blocking,
}

/// A step of a schedule. A `usize` picks one of those there are.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Submit(Form, Want, End),
    /// Makes a submit that waits, and does not poll it.
    MakeWaiter(Want, End),
    /// Makes a submit that waits, and polls it once.
    Wait(Want, End),
    /// Polls a submit, with another waker than before.
    PollWaiter(usize),
    GiveUp(usize),
    Reserve(Want),
    ReserveMany(Want, usize),
    UsePermit(usize, End),
    DropPermit(usize),
    Cancel(usize),
    DropHandle(usize),
    Join(usize),
    /// To a part of what the pool was built with, in sixths; up to double of it.
    SetCapacity(usize),
    LetRun,
    Close,
    Shutdown(Shutdown),
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let form = prop_oneof![
        6 => Just(Form::Try),
        2 => Just(Form::Spawn),
        1 => Just(Form::Timeout),
        1 => Just(Form::Blocking),
    ];
    prop_oneof![
        60 => (form, want(), end()).prop_map(|(form, want, end)| Step::Submit(form, want, end)),
        5 => (want(), end()).prop_map(|(want, end)| Step::MakeWaiter(want, end)),
        40 => (want(), end()).prop_map(|(want, end)| Step::Wait(want, end)),
        20 => any::<usize>().prop_map(Step::PollWaiter),
        12 => any::<usize>().prop_map(Step::GiveUp),
        15 => want().prop_map(Step::Reserve),
        10 => (want(), 0_usize..5).prop_map(|(want, count)| Step::ReserveMany(want, count)),
        15 => (any::<usize>(), end()).prop_map(|(pick, end)| Step::UsePermit(pick, end)),
        10 => any::<usize>().prop_map(Step::DropPermit),
        35 => any::<usize>().prop_map(Step::Cancel),
        10 => any::<usize>().prop_map(Step::DropHandle),
        15 => any::<usize>().prop_map(Step::Join),
        12 => (0_usize..=12).prop_map(Step::SetCapacity),
        6 => Just(Step::LetRun),
        1 => Just(Step::Close),
        1 => Just(Step::Shutdown(Shutdown::Drain)),
        1 => Just(Step::Shutdown(Shutdown::Discard)),
    ]
}

/// An accepted job: what we hold of it, and how it should stand.
struct Job {
    want: Want,
    end: End,
    ghost: Arc<Ghost>,
    handle: Option<JobHandle<Outcome>>,
    fate: Fate,
}

/// A submit that waits, and how it should stand.
struct Waiter {
    want: Want,
    end: End,
    ghost: Arc<Ghost>,
    submit: Submit<Body, Outcome>,
    standing: Standing,
    waker: Waker,
    wakes: Count,
    /// Of the wakers of earlier polls.
    stale_wakes: Vec<Count>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Standing {
    /// Never polled.
    Outside,
    /// In its line, after so many others had joined one.
    InLine(usize),
    Granted,
    /// It was in its line when the pool was closed.
    LetGo,
}

impl Waiter {
    /// Its place among those who wait, the first in turn is the least.
    fn rank(&self) -> Option<(Reverse<Priority>, usize)> {
        match self.standing {
            Standing::InLine(turn) => Some((Reverse(self.want.priority), turn)),
            _ => None,
        }
    }

    /// Its line, and its rank there.
    fn place(&self) -> (Option<usize>, Option<(Reverse<Priority>, usize)>) {
        (self.want.partition, self.rank())
    }
}

/// The door's answer, foretold.
#[derive(Debug, PartialEq)]
enum Door {
    Admits,
    Displaces {
        victims: Priority,
        /// More is in flight than a lowered capacity allows. Nothing is admitted meanwhile, and a
        /// critical job takes over the slot of another: whether it may do so then is not said.
        or_refuses: bool,
    },
    Refuses(Reason),
}

/// The pool and its model.
pub(crate) struct Sequential {
    subject: Subject,
    pool: Pool,
    capacity: usize,
    /// Those who hold the workers; none once they have run in a closed pool.
    held: Option<Busy>,
    /// How often the workers were held.
    holders: usize,
    jobs: Vec<Job>,
    permits: Vec<(Want, Permit)>,
    waiters: Vec<Waiter>,
    /// How many have joined a line so far.
    turns: usize,
    refused: usize,
    /// Once closed: jobs in flight then.
    at_close: Option<usize>,
}

impl Sequential {
    pub(crate) fn new(shape: Shape) -> Self {
        // There is room for those who hold the workers.
        let shape = Shape { common: shape.common + shape.workers, ..shape };
        let subject = shape.build();
        let pool = subject.pool.clone();
        Self {
            capacity: subject.shape.capacity(),
            held: Some(hold(&pool, subject.shape.workers)),
            holders: subject.shape.workers,
            subject,
            pool,
            jobs: Vec::new(),
            permits: Vec::new(),
            waiters: Vec::new(),
            turns: 0,
            refused: 0,
            at_close: None,
        }
    }

    // ── What the model says ─────────────────────────────────────────────────────────────────

    fn is_closed(&self) -> bool {
        self.at_close.is_some()
    }

    fn running(&self) -> usize {
        if self.held.is_some() { self.subject.shape.workers } else { 0 }
    }

    fn count(&self, fate: Fate) -> usize {
        self.jobs.iter().filter(|job| job.fate == fate).count()
    }

    fn jobs_in_flight(&self) -> usize {
        self.running() + self.count(Fate::Queued)
    }

    fn grants(&self) -> impl Iterator<Item = Want> {
        let granted = self.waiters.iter().filter(|waiter| waiter.standing == Standing::Granted);
        granted.map(|waiter| waiter.want)
    }

    fn books(&self) -> Books<'_> {
        let holder = Want { priority: Priority::Normal, partition: None, bytes: 0 };
        let holders = (0..self.running()).map(|_| holder);
        let queued = self.jobs.iter().filter(|job| job.fate == Fate::Queued).map(|job| job.want);
        let permits = self.permits.iter().map(|(want, _)| *want);
        let held = holders.chain(queued).chain(permits).chain(self.grants());
        Books::new(&self.subject.shape, self.capacity, held)
    }

    /// Whether somebody waits whom a submit that doesn't wait must not overtake.
    fn is_behind_others(&self, want: Want) -> bool {
        self.waiters.iter().any(|waiter| {
            waiter.rank().is_some()
                && waiter.want.partition == want.partition
                && waiter.want.priority >= want.priority
        })
    }

    /// Why there are not so many slots.
    fn refusal(&self, want: Want, count: usize) -> Option<Reason> {
        if self.is_closed() {
            return Some(Reason::Closed);
        }
        let overtakes = count > 0 && self.is_behind_others(want);
        self.books().refusal(want, count).or(overtakes.then_some(Reason::Full))
    }

    /// The answer to a job.
    fn door(&self, want: Want) -> Door {
        let books = self.books();
        let may_go = |job: &Job| {
            job.fate == Fate::Queued
                && (job.want.partition == want.partition
                    || books.holds_common_slot(job.want.partition))
        };
        let victims =
            |priority| self.jobs.iter().any(|job| job.want.priority == priority && may_go(job));
        match self.refusal(want, 1) {
            None => Door::Admits,
            Some(Reason::Full)
                if want.priority == Priority::Critical && !self.is_behind_others(want) =>
            {
                let lowest = [Priority::Low, Priority::Normal].into_iter().find(|p| victims(*p));
                lowest.map_or(Door::Refuses(Reason::Full), |victims| Door::Displaces {
                    victims,
                    or_refuses: books.is_draining(),
                })
            }
            Some(reason) => Door::Refuses(reason),
        }
    }

    /// Grants slots to the heads of the lines, the first in rank first, until all are blocked.
    fn serve(&mut self) {
        while let Some(head) = self.head_to_serve() {
            self.waiters[head].standing = Standing::Granted;
        }
    }

    /// Of the heads of the lines that are not blocked, the first in rank.
    fn head_to_serve(&self) -> Option<usize> {
        let mut blocked = Vec::new();
        loop {
            let is_open = |waiter: &Waiter| {
                waiter.rank().is_some() && !blocked.contains(&waiter.want.partition)
            };
            let open = (0..self.waiters.len()).filter(|at| is_open(&self.waiters[*at]));
            let head = open.min_by_key(|at| self.waiters[*at].rank())?;
            let want = self.waiters[head].want;
            if self.books().refusal(want, 1).is_none() {
                return Some(head);
            }
            blocked.push(want.partition);
        }
    }

    /// Writes down that the pool is closed.
    fn note_close(&mut self) {
        if !self.is_closed() {
            self.at_close = Some(self.jobs_in_flight());
            for waiter in &mut self.waiters {
                if waiter.standing != Standing::Outside {
                    waiter.standing = Standing::LetGo;
                }
            }
        }
    }

    // ── What is done ────────────────────────────────────────────────────────────────────────

    pub(crate) fn take(&mut self, step: Step) {
        match step {
            Step::Submit(form, want, end) => self.submit(form, self.subject.fit(want), end),
            Step::MakeWaiter(want, end) => {
                let waiter = self.waiter(want, end);
                self.waiters.push(waiter);
            }
            Step::Wait(want, end) => {
                let waiter = self.waiter(want, end);
                self.join_line(waiter);
            }
            Step::PollWaiter(pick) => {
                if let Some(waiter) = take_one(&mut self.waiters, pick) {
                    self.poll(waiter);
                }
            }
            Step::GiveUp(pick) => {
                if let Some(Waiter { ghost, submit, .. }) = take_one(&mut self.waiters, pick) {
                    drop(submit);
                    ghost.assert_dropped_unrun();
                }
            }
            Step::Reserve(want) => {
                let want = self.subject.fit(want);
                let answer = self.subject.spec(want).try_reserve();
                self.reserved(want, 1, answer.map(|permit| vec![permit]));
            }
            Step::ReserveMany(want, count) => {
                let want = self.subject.fit(want);
                let answer = self.subject.spec(want).try_reserve_many(count);
                self.reserved(want, count, answer);
            }
            Step::UsePermit(pick, end) => self.use_permit(pick, end),
            Step::DropPermit(pick) => drop(take_one(&mut self.permits, pick)),
            Step::Cancel(pick) => self.with_a_handle(pick, |job, handle| {
                assert_eq!(handle.cancel(), job.fate == Fate::Queued);
                assert!(!handle.cancel(), "once");
                if job.fate == Fate::Queued {
                    job.fate = Fate::Cancelled;
                    assert!(handle.is_finished());
                }
                Some(handle)
            }),
            Step::DropHandle(pick) => self.with_a_handle(pick, |_, handle| {
                drop(handle);
                None
            }),
            Step::Join(pick) => self.with_a_handle(pick, |job, handle| {
                if job.fate == Fate::Queued {
                    return Some(handle.join_timeout(Duration::ZERO).expect_err("it is queued"));
                }
                assert_eq!(Fate::of(resolve(handle)), job.fate);
                None
            }),
            Step::SetCapacity(sixths) => {
                let slots = self.subject.shape.capacity() * sixths / 6;
                self.set_capacity(slots);
            }
            Step::LetRun => self.let_run(),
            Step::Close => {
                self.pool.close();
                self.note_close();
            }
            Step::Shutdown(how) => self.shutdown(how),
        }
        self.serve();
    }

    fn submit(&mut self, form: Form, want: Want, end: End) {
        let (expected, ghost) = (self.door(want), Ghost::new());
        let spec = self.subject.spec(want);
        let would_wait = match expected {
            Door::Admits => false,
            Door::Displaces { or_refuses, .. } => or_refuses,
            Door::Refuses(reason) => self.waits_on(reason, want),
        };
        let (end, answer) = match form {
            Form::Try => (end, spec.try_submit(ghost.body(end)).map(Some).map_err(into_reason)),
            Form::Spawn => {
                let body = ghost.body(end);
                let answer = spec.try_spawn(move || drop(body()));
                (end.when_unasked(), answer.map(|()| None).map_err(into_reason))
            }
            Form::Blocking if !would_wait => {
                (end, spec.submit_blocking(ghost.body(end)).map(Some).map_err(into_reason))
            }
            Form::Blocking | Form::Timeout => {
                let answer = spec.submit_timeout(ghost.body(end), Duration::ZERO);
                (end, answer.map(Some).map_err(into_reason))
            }
        };
        let waits = matches!(form, Form::Blocking | Form::Timeout);
        let expected = self.at_last(expected, want, waits, answer.as_ref().err());
        self.answered(expected, want, end, ghost, answer);
    }

    /// Whether that is what a submit waits on; else it is refused at once.
    fn waits_on(&self, reason: Reason, want: Want) -> bool {
        reason != Reason::Closed && !self.subject.is_oversized(want)
    }

    /// What is expected of a submit that waits, where that is more than the door's answer: one that
    /// could never have its bytes is refused, for those or for what comes before them.
    fn at_last(&self, door: Door, want: Want, waits: bool, answer: Option<&Reason>) -> Door {
        match (&door, answer) {
            (Door::Refuses(reason), Some(Reason::Bytes))
                if waits && *reason != Reason::Closed && self.subject.is_oversized(want) =>
            {
                Door::Refuses(Reason::Bytes)
            }
            _ => door,
        }
    }

    /// Compares an answer with the `expected` one, and writes down what follows.
    fn answered(
        &mut self,
        expected: Door,
        want: Want,
        end: End,
        ghost: Arc<Ghost>,
        answer: Result<Option<JobHandle<Outcome>>, Reason>,
    ) {
        match (expected, answer) {
            (Door::Refuses(expected), Err(reason)) => {
                assert_eq!(reason, expected);
                ghost.assert_dropped_unrun();
                self.refused += 1;
            }
            (Door::Displaces { or_refuses: true, .. }, Err(Reason::Full)) => {
                ghost.assert_dropped_unrun();
                self.refused += 1;
            }
            (door @ (Door::Admits | Door::Displaces { .. }), Ok(handle)) => {
                if let Door::Displaces { victims, .. } = door {
                    self.find_the_displaced(victims, want);
                }
                let fate = Fate::Queued;
                self.jobs.push(Job { want, end, ghost, handle, fate });
            }
            (expected, answer) => panic!("the door should say {expected:?}: {answer:?}"),
        }
    }

    /// Which of the queued `victims` was displaced is not specified, but it is one.
    fn find_the_displaced(&mut self, victims: Priority, by: Want) {
        let is_gone = |job: &Job| job.fate == Fate::Queued && job.ghost.dropped() == 1;
        let gone: Vec<_> = (0..self.jobs.len()).filter(|at| is_gone(&self.jobs[*at])).collect();
        let [victim] = gone[..] else { panic!("{} were displaced", gone.len()) };
        let Want { priority, partition, .. } = self.jobs[victim].want;
        assert_eq!(priority, victims);
        assert!(partition == by.partition || self.books().holds_common_slot(partition));
        self.jobs[victim].fate = Fate::Displaced;
    }

    /// A submit that has not been polled.
    fn waiter(&self, want: Want, end: End) -> Waiter {
        let (want, ghost) = (self.subject.fit(want), Ghost::new());
        let body: Body = Box::new(ghost.body(end));
        let submit = self.subject.spec(want).submit(body);
        let (waker, wakes) = counting_waker();
        let (standing, stale_wakes) = (Standing::Outside, Vec::new());
        Waiter { want, end, ghost, submit, standing, waker, wakes, stale_wakes }
    }

    /// The first poll.
    fn join_line(&mut self, mut waiter: Waiter) {
        let (want, expected) = (waiter.want, self.door(waiter.want));
        let answer = poll(&mut waiter.submit, &waiter.waker);
        let may_wait = match expected {
            Door::Admits => false,
            Door::Displaces { or_refuses, .. } => or_refuses,
            Door::Refuses(reason) => self.waits_on(reason, want),
        };
        match answer {
            Poll::Ready(answer) => {
                let must_wait = may_wait && matches!(expected, Door::Refuses(_));
                assert!(!must_wait, "it has to wait: {expected:?}");
                let answer = answer.map(Some).map_err(into_reason);
                let expected = self.at_last(expected, want, true, answer.as_ref().err());
                self.answered(expected, want, waiter.end, waiter.ghost, answer);
            }
            Poll::Pending => {
                assert!(may_wait, "the door should say {expected:?}");
                waiter.standing = Standing::InLine(self.turns);
                self.turns += 1;
                self.waiters.push(waiter);
            }
        }
    }

    fn poll(&mut self, mut waiter: Waiter) {
        if waiter.standing == Standing::Outside {
            return self.join_line(waiter);
        }
        let (waker, wakes) = counting_waker();
        let answer = poll(&mut waiter.submit, &waker);
        let expected = match waiter.standing {
            Standing::InLine(_) | Standing::Outside => {
                assert!(answer.is_pending(), "it is not its turn");
                waiter.waker = waker;
                waiter.stale_wakes.push(std::mem::replace(&mut waiter.wakes, wakes));
                return self.waiters.push(waiter);
            }
            Standing::Granted => Door::Admits,
            Standing::LetGo => Door::Refuses(Reason::Closed),
        };
        let Poll::Ready(answer) = answer else { panic!("it should be {expected:?}") };
        let answer = answer.map(Some).map_err(into_reason);
        self.answered(expected, waiter.want, waiter.end, waiter.ghost, answer);
    }

    fn reserved(
        &mut self,
        want: Want,
        count: usize,
        answer: Result<Vec<Permit>, weirpool::Refusal>,
    ) {
        match (self.refusal(want, count), answer) {
            (None, Ok(permits)) => {
                assert_eq!(permits.len(), count);
                self.permits.extend(permits.into_iter().map(|permit| (want, permit)));
            }
            (Some(expected), Err(refusal)) => {
                assert_eq!(refusal.reason(), expected);
                self.refused += 1;
            }
            (None, Err(refusal)) => panic!("there are {count} for {want:?}: {refusal}"),
            (Some(reason), Ok(_)) => panic!("there are not {count} for {want:?}: {reason}"),
        }
    }

    fn use_permit(&mut self, pick: usize, end: End) {
        let Some((want, permit)) = take_one(&mut self.permits, pick) else { return };
        let expected = if self.is_closed() { Door::Refuses(Reason::Closed) } else { Door::Admits };
        let ghost = Ghost::new();
        let answer = permit.submit(ghost.body(end)).map(Some).map_err(into_reason);
        self.answered(expected, want, end, ghost, answer);
    }

    /// Does something with a handle that we still have, and keeps what comes back.
    fn with_a_handle(
        &mut self,
        pick: usize,
        f: impl FnOnce(&mut Job, JobHandle<Outcome>) -> Option<JobHandle<Outcome>>,
    ) {
        let mut jobs: Vec<_> = self.jobs.iter_mut().filter(|job| job.handle.is_some()).collect();
        if !jobs.is_empty() {
            let which = pick % jobs.len();
            let handle = jobs[which].handle.take().expect("it is one of those that have one");
            jobs[which].handle = f(jobs[which], handle);
        }
    }

    fn set_capacity(&mut self, slots: usize) {
        self.pool.set_capacity(slots);
        self.capacity = slots.max(1);
    }

    /// Opens the gate until all that is queued has run, and those who wait have had their turns;
    /// then begins anew.
    fn let_run(&mut self) {
        if self.held.is_none() {
            return;
        }
        // Who is served by them is foretold as ever: the workers still have their slots.
        while let (false, Some(permit)) = (self.is_closed(), self.permits.pop()) {
            drop(permit);
            self.serve();
        }
        self.held.take().expect("just seen").free();
        self.run_queued();
        if self.is_closed() {
            return;
        }
        while self.take_turns() {}
        // What is left could only be served with more capacity or another head.
        self.waiters.retain(|waiter| waiter.standing == Standing::Outside);
        self.set_capacity(self.subject.shape.capacity());
        let workers = self.subject.shape.workers;
        self.held = Some(hold(&self.pool, workers));
        self.holders += workers;
    }

    /// Returns when all that is queued has run.
    fn run_queued(&mut self) {
        self.pool.wait_idle();
        for job in &mut self.jobs {
            if job.fate == Fate::Queued {
                job.fate = Fate::when_run(job.end);
            }
        }
    }

    /// Runs the jobs of those waiters whose turn has come; false if nobody's can come any more.
    ///
    /// In which order slots came back is not known, nor who was first among the heads of different
    /// lines; within a line it is.
    fn take_turns(&mut self) -> bool {
        self.note_grants();
        if self.head_to_serve().is_some() {
            let is_served = |waiter: &Waiter| waiter.rank().is_some() && waiter.wakes.get() > 0;
            eventually("a head that can be served is", || self.waiters.iter().any(is_served));
            self.note_grants();
        }
        let (granted, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiters)
            .into_iter()
            .partition(|waiter| waiter.standing == Standing::Granted);
        self.waiters = others;
        let any = !granted.is_empty();
        granted.into_iter().for_each(|waiter| self.poll(waiter));
        self.run_queued();
        any
    }

    /// Writes down who was woken, and that they were the first in their lines.
    fn note_grants(&mut self) {
        let woken = |waiter: &&Waiter| waiter.rank().is_some() && waiter.wakes.get() > 0;
        let served: Vec<_> = self.waiters.iter().filter(woken).map(Waiter::place).collect();
        for waiter in &mut self.waiters {
            let (line, rank) = waiter.place();
            if rank.is_some() && served.iter().any(|(other, last)| *other == line && rank <= *last)
            {
                eventually("first come, first served", || waiter.wakes.get() > 0);
                waiter.standing = Standing::Granted;
            }
        }
    }

    fn shutdown(&mut self, how: Shutdown) {
        self.note_close();
        let at_close = self.at_close.expect("just closed");
        let report = self.pool.shutdown(how, Some(Duration::ZERO));
        if how == Shutdown::Discard {
            for job in self.jobs.iter_mut().filter(|job| job.fate == Fate::Queued) {
                job.fate = Fate::Discarded;
            }
        }
        let (discarded, still_running) = (self.count(Fate::Discarded), self.jobs_in_flight());
        let completed = at_close - discarded - still_running;
        assert_eq!(
            (report.completed, report.discarded, report.still_running),
            (completed, discarded, still_running)
        );
    }

    // ── What is seen ────────────────────────────────────────────────────────────────────────

    /// Compares all that can be seen with the model.
    pub(crate) fn compare(&self) {
        let (seen, books) = (self.pool.snapshot(), self.books());
        assert_eq!((seen.running, seen.queued), (self.running(), self.count(Fate::Queued)));
        assert_eq!(seen.in_flight, seen.reserved + seen.queued + seen.running);
        assert_eq!(self.pool.in_flight(), seen.in_flight, "nobody moves");
        assert_eq!((self.pool.capacity(), seen.capacity), (self.capacity, self.capacity));
        assert_eq!(self.pool.is_closed(), self.is_closed());
        let reserved = self.permits.len() + self.grants().count();
        if self.is_closed() {
            assert!(seen.reserved <= reserved);
        } else {
            assert_eq!((seen.reserved, seen.in_flight), (reserved, books.in_flight()));
            assert_eq!(seen.bytes, books.bytes());
        }
        for job in &self.jobs {
            let ended = job.fate != Fate::Queued;
            let ghost = (job.ghost.started(), job.ghost.dropped());
            assert_eq!(ghost, (usize::from(job.fate.has_run()), usize::from(ended)));
            if let Some(handle) = &job.handle {
                if ended {
                    eventually("its handle resolves", || handle.is_finished());
                }
                assert_eq!(handle.is_finished(), ended);
            }
        }
        for waiter in &self.waiters {
            let woken = matches!(waiter.standing, Standing::Granted | Standing::LetGo);
            assert_eq!(waiter.wakes.get(), usize::from(woken), "{:?}", waiter.standing);
            assert!(waiter.stale_wakes.iter().all(|wakes| wakes.get() == 0));
            assert_eq!((waiter.ghost.started(), waiter.ghost.dropped()), (0, 0));
        }
    }

    /// Lets everything end, and compares the counts.
    pub(crate) fn finish(mut self) {
        if self.held.is_some() {
            self.pool.close();
            self.note_close();
            self.let_run();
        }
        self.permits.clear();
        while let Some(waiter) = self.waiters.pop() {
            self.poll(waiter);
        }
        self.pool.shutdown(Shutdown::Drain, Some(STEP));
        self.compare();
        assert_adds_up(&self.pool);
        let seen = self.pool.snapshot();
        let fates = [Fate::Completed, Fate::Panicked, Fate::Cancelled, Fate::Discarded]
            .map(|fate| self.count(fate) as u64);
        let holders = self.holders as u64;
        assert_eq!(
            [seen.completed - holders, seen.panicked, seen.cancelled, seen.discarded],
            fates
        );
        assert_eq!(seen.shed.get(ShedReason::Displaced), self.count(Fate::Displaced) as u64);
        assert_eq!(seen.accepted - holders, self.jobs.len() as u64);
        assert_eq!(seen.rejected.total(), self.refused as u64);
        assert_eq!(seen.bytes, 0);
        for job in self.jobs {
            if let Some(handle) = job.handle {
                assert_eq!(Fate::of(resolve(handle)), job.fate);
            }
        }
        assert_eq!(self.pool.in_flight(), 0);
    }
}

fn into_reason<F>(rejected: Rejected<F>) -> Reason {
    rejected.reason()
}

fn take_one<T>(of: &mut Vec<T>, pick: usize) -> Option<T> {
    let which = pick.checked_rem(of.len())?;
    Some(of.swap_remove(which))
}

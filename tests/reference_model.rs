//! Random schedules against a simple model of what a pool is.
//!
//! With its workers held at a gate, a pool is a sequential machine: each answer and each count can
//! be foretold. With the workers free and several threads at it, only what must hold in every
//! schedule can be.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use support::{
    Elsewhere, Held, PATIENCE, elsewhere, eventually, give_way, hold, quiet_panic, resolve,
};
use weirpool::{
    Canceller, JobError, JobHandle, Permit, Pool, Priority, Reason, ShedReason, Shutdown, Snapshot,
};

/// What a job's body does in the end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Returns,
    Panics,
    /// Its result panics when it is dropped.
    ReturnsBomb,
}

/// A result that may panic when dropped; whoever takes it defuses it.
#[derive(Debug)]
struct Outcome {
    armed: bool,
}

impl Drop for Outcome {
    fn drop(&mut self) {
        if self.armed {
            quiet_panic()
        }
    }
}

/// What the test itself sees of one closure.
#[derive(Debug, Default)]
struct Ghost {
    started: AtomicUsize,
    dropped: AtomicUsize,
}

/// In the closure: tells the ghost of its drop.
struct Captured(Arc<Ghost>);

impl Drop for Captured {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

impl Ghost {
    fn body(self: &Arc<Self>, end: End) -> impl FnOnce() -> Outcome + Send + 'static {
        let captured = Captured(Arc::clone(self));
        move || {
            captured.0.started.fetch_add(1, Ordering::SeqCst);
            if end == End::Panics {
                quiet_panic()
            }
            Outcome { armed: end == End::ReturnsBomb }
        }
    }

    fn started(&self) -> usize {
        self.started.load(Ordering::SeqCst)
    }

    fn dropped(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }
}

/// How an accepted job stands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Queued,
    Completed,
    Panicked,
    Cancelled,
    Displaced,
    Discarded,
}

impl Fate {
    fn when_run(end: End) -> Self {
        if end == End::Panics { Self::Panicked } else { Self::Completed }
    }

    fn has_run(self) -> bool {
        matches!(self, Self::Completed | Self::Panicked)
    }

    /// What a job's outcome says it was; defuses the result.
    fn of(outcome: Result<Outcome, JobError>) -> Self {
        match outcome {
            Ok(mut result) => {
                result.armed = false;
                Self::Completed
            }
            Err(JobError::Panicked(_)) => Self::Panicked,
            Err(JobError::Cancelled) => Self::Cancelled,
            Err(JobError::Discarded) => Self::Discarded,
            Err(JobError::Shed(ShedReason::Displaced)) => Self::Displaced,
            Err(other) => panic!("an outcome for which there is no cause: {other:?}"),
        }
    }
}

fn assert_adds_up(pool: &Pool) {
    let adds_up = |seen: &Snapshot| {
        let ended = seen.completed + seen.panicked + seen.cancelled + seen.discarded;
        seen.accepted == ended + seen.shed.total() && seen.in_flight == 0
    };
    eventually("the counts add up at rest", || adds_up(&pool.snapshot()));
}

/// A step of a schedule. A `usize` picks one of those there are.
#[derive(Clone, Debug)]
enum Step {
    Submit(Priority, End),
    Spawn(Priority, End),
    Reserve,
    UsePermit(usize, End),
    DropPermit(usize),
    Cancel(usize),
    DropHandle(usize),
    Join(usize),
    LetRun,
    Close,
    Shutdown(Shutdown),
}

fn priority() -> impl Strategy<Value = Priority> {
    prop_oneof![
        2 => Just(Priority::Low),
        4 => Just(Priority::Normal),
        2 => Just(Priority::High),
        2 => Just(Priority::Critical),
    ]
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![4 => Just(End::Returns), 1 => Just(End::Panics), 1 => Just(End::ReturnsBomb)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        60 => (priority(), end()).prop_map(|(priority, end)| Step::Submit(priority, end)),
        20 => (priority(), end()).prop_map(|(priority, end)| Step::Spawn(priority, end)),
        15 => Just(Step::Reserve),
        10 => (any::<usize>(), end()).prop_map(|(pick, end)| Step::UsePermit(pick, end)),
        5 => any::<usize>().prop_map(Step::DropPermit),
        30 => any::<usize>().prop_map(Step::Cancel),
        15 => any::<usize>().prop_map(Step::DropHandle),
        20 => any::<usize>().prop_map(Step::Join),
        12 => Just(Step::LetRun),
        1 => Just(Step::Close),
        1 => Just(Step::Shutdown(Shutdown::Drain)),
        1 => Just(Step::Shutdown(Shutdown::Discard)),
    ]
}

/// An accepted job: what we hold of it, and how it should stand.
struct Job {
    priority: Priority,
    end: End,
    ghost: Arc<Ghost>,
    handle: Option<JobHandle<Outcome>>,
    fate: Fate,
}

/// The door's answer, foretold.
#[derive(Debug, PartialEq)]
enum Door {
    Admits,
    Displaces(Priority),
    Refuses(Reason),
}

/// The pool and its model, side by side.
struct Sequential {
    pool: Pool,
    workers: usize,
    capacity: usize,
    critical_reserve: usize,
    /// Those who hold the workers; none once they have run in a closed pool.
    held: Option<Held>,
    /// How often the workers were held.
    holders: usize,
    jobs: Vec<Job>,
    permits: Vec<Permit>,
    refused: usize,
    /// Once closed: jobs in flight then, and jobs discarded by then.
    at_close: Option<usize>,
}

impl Sequential {
    fn new(workers: usize, room: usize, critical_reserve: usize) -> Self {
        let capacity = workers + room + critical_reserve;
        let builder = Pool::builder().batch().workers(workers).capacity(capacity);
        let pool = builder.critical_reserve(critical_reserve).panic_handler(|_| ());
        let pool = pool.build().unwrap();
        Self {
            held: Some(hold(&pool, workers)),
            holders: workers,
            pool,
            workers,
            capacity,
            critical_reserve,
            jobs: Vec::new(),
            permits: Vec::new(),
            refused: 0,
            at_close: None,
        }
    }

    fn running(&self) -> usize {
        if self.held.is_some() { self.workers } else { 0 }
    }

    fn count(&self, fate: Fate) -> usize {
        self.jobs.iter().filter(|job| job.fate == fate).count()
    }

    fn jobs_in_flight(&self) -> usize {
        self.running() + self.count(Fate::Queued)
    }

    fn in_flight(&self) -> usize {
        self.jobs_in_flight() + self.permits.len()
    }

    fn door(&self, priority: Priority) -> Door {
        let may_go = |victim| {
            let is_it = |job: &Job| job.fate == Fate::Queued && job.priority == victim;
            self.jobs.iter().any(is_it)
        };
        let in_flight = self.in_flight();
        if self.at_close.is_some() {
            Door::Refuses(Reason::Closed)
        } else if priority != Priority::Critical {
            let admits = in_flight < self.capacity - self.critical_reserve;
            if admits { Door::Admits } else { Door::Refuses(Reason::Full) }
        } else if in_flight < self.capacity {
            Door::Admits
        } else if may_go(Priority::Low) {
            Door::Displaces(Priority::Low)
        } else if may_go(Priority::Normal) {
            Door::Displaces(Priority::Normal)
        } else {
            Door::Refuses(Reason::Full)
        }
    }

    /// Compares an answer with the `expected` one, and writes down what follows.
    fn answered(
        &mut self,
        expected: Door,
        priority: Priority,
        end: End,
        ghost: Arc<Ghost>,
        answer: Result<Option<JobHandle<Outcome>>, Reason>,
    ) {
        match (expected, answer) {
            (Door::Refuses(expected), Err(reason)) => {
                assert_eq!(reason, expected);
                assert_eq!((ghost.started(), ghost.dropped()), (0, 1), "by its owner");
                self.refused += 1;
            }
            (door @ (Door::Admits | Door::Displaces(_)), Ok(handle)) => {
                if let Door::Displaces(victims) = door {
                    self.find_the_displaced(victims);
                }
                let fate = Fate::Queued;
                self.jobs.push(Job { priority, end, ghost, handle, fate });
            }
            (expected, answer) => panic!("the door should say {expected:?}: {answer:?}"),
        }
    }

    /// Which of the queued `victims` was displaced is not specified, but it is one.
    fn find_the_displaced(&mut self, victims: Priority) {
        let mut displaced: Vec<_> = self
            .jobs
            .iter_mut()
            .filter(|job| job.fate == Fate::Queued && job.ghost.dropped() == 1)
            .collect();
        assert_eq!(displaced.len(), 1, "one is displaced, and dropped at once");
        assert_eq!(displaced[0].priority, victims);
        displaced[0].fate = Fate::Displaced;
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Submit(priority, end) => {
                let (expected, ghost) = (self.door(priority), Arc::<Ghost>::default());
                let answer = self.pool.job().priority(priority).try_submit(ghost.body(end));
                let answer = answer.map(Some).map_err(|refused| refused.reason());
                self.answered(expected, priority, end, ghost, answer);
            }
            Step::Spawn(priority, end) => {
                let (expected, ghost) = (self.door(priority), Arc::<Ghost>::default());
                let body = ghost.body(end);
                let body = move || drop(body());
                let answer = self.pool.job().priority(priority).try_spawn(body);
                let answer = answer.map(|()| None).map_err(|refused| refused.reason());
                // Here the result dies in the body, which is a panic of the body.
                let end = if end == End::Returns { end } else { End::Panics };
                self.answered(expected, priority, end, ghost, answer);
            }
            Step::Reserve => match (self.door(Priority::Normal), self.pool.try_reserve()) {
                (Door::Admits, Ok(permit)) => self.permits.push(permit),
                (Door::Refuses(expected), Err(refusal)) => {
                    assert_eq!(refusal.reason(), expected);
                    self.refused += 1;
                }
                (expected, answer) => panic!("should be {expected:?}: {:?}", answer.map(drop)),
            },
            Step::UsePermit(pick, end) => self.use_permit(pick, end),
            Step::DropPermit(pick) => {
                if !self.permits.is_empty() {
                    drop(self.permits.swap_remove(pick % self.permits.len()));
                }
            }
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
            Step::LetRun => self.let_run(),
            Step::Close => {
                self.pool.close();
                self.at_close.get_or_insert(self.jobs_in_flight());
            }
            Step::Shutdown(how) => self.shutdown(how),
        }
    }

    fn use_permit(&mut self, pick: usize, end: End) {
        if self.permits.is_empty() {
            return;
        }
        let permit = self.permits.swap_remove(pick % self.permits.len());
        let closed = self.at_close.is_some();
        let expected = if closed { Door::Refuses(Reason::Closed) } else { Door::Admits };
        let ghost = Arc::<Ghost>::default();
        let answer = permit.submit(ghost.body(end));
        let answer = answer.map(Some).map_err(|refused| refused.reason());
        self.answered(expected, Priority::Normal, end, ghost, answer);
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

    /// Opens the gate until all that is queued has run, and holds the workers again.
    fn let_run(&mut self) {
        let Some(held) = self.held.take() else { return };
        held.release();
        self.pool.wait_idle();
        for job in &mut self.jobs {
            if job.fate == Fate::Queued {
                job.fate = Fate::when_run(job.end);
            }
        }
        if self.at_close.is_none() {
            self.permits.clear();
            self.held = Some(hold(&self.pool, self.workers));
            self.holders += self.workers;
        }
    }

    fn shutdown(&mut self, how: Shutdown) {
        let at_close = *self.at_close.get_or_insert(self.jobs_in_flight());
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

    /// Compares all that can be seen with the model.
    fn compare(&self) {
        let seen = self.pool.snapshot();
        assert_eq!((seen.running, seen.queued), (self.running(), self.count(Fate::Queued)));
        assert_eq!(seen.in_flight, seen.reserved + seen.queued + seen.running);
        assert_eq!(self.pool.in_flight(), seen.in_flight, "nobody moves");
        assert_eq!(self.pool.is_closed(), self.at_close.is_some());
        if self.at_close.is_none() {
            assert_eq!(seen.reserved, self.permits.len());
        } else {
            assert!(seen.reserved <= self.permits.len());
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
    }

    /// Lets everything end, and compares the counts.
    fn finish(mut self) {
        if self.held.is_some() {
            self.pool.close();
            self.at_close.get_or_insert(self.jobs_in_flight());
            self.let_run();
        }
        self.permits.clear();
        self.pool.shutdown(Shutdown::Drain, Some(PATIENCE));
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
        for job in self.jobs {
            if let Some(handle) = job.handle {
                assert_eq!(Fate::of(resolve(handle)), job.fate);
            }
        }
        assert_eq!(self.pool.in_flight(), 0);
    }
}

/// A step of one of several threads.
#[derive(Clone, Debug)]
enum Move {
    Submit(Priority, End),
    Spawn(Priority, End),
    SubmitAndCancel(Priority),
    SubmitAndJoin(Priority, End),
    /// A body that submits another and joins it.
    Nest(End),
    ReserveAndUse(End),
    ReserveAndDrop,
    Cancel(usize),
    /// Through a canceller whose job may have ended long ago.
    CancelLate(usize),
    DropHandle(usize),
    Join(usize),
    GiveWay(u8),
}

fn a_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        8 => (priority(), end()).prop_map(|(priority, end)| Move::Submit(priority, end)),
        4 => (priority(), end()).prop_map(|(priority, end)| Move::Spawn(priority, end)),
        4 => priority().prop_map(Move::SubmitAndCancel),
        3 => (priority(), end()).prop_map(|(priority, end)| Move::SubmitAndJoin(priority, end)),
        3 => end().prop_map(Move::Nest),
        3 => end().prop_map(Move::ReserveAndUse),
        2 => Just(Move::ReserveAndDrop),
        4 => any::<usize>().prop_map(Move::Cancel),
        4 => any::<usize>().prop_map(Move::CancelLate),
        3 => any::<usize>().prop_map(Move::DropHandle),
        3 => any::<usize>().prop_map(Move::Join),
        2 => any::<u8>().prop_map(Move::GiveWay),
    ]
}

/// What one of several threads does and has seen.
struct Player {
    pool: Pool,
    handles: Vec<(Arc<Ghost>, JobHandle<Outcome>)>,
    cancellers: Vec<(Arc<Ghost>, Canceller)>,
    accepted: Vec<Arc<Ghost>>,
    refused: Vec<Arc<Ghost>>,
}

impl Player {
    fn new(pool: &Pool) -> Self {
        let (handles, cancellers, accepted, refused) = Default::default();
        Self { pool: pool.clone(), handles, cancellers, accepted, refused }
    }

    fn note<T, F>(
        &mut self,
        ghost: Arc<Ghost>,
        answer: Result<T, weirpool::Rejected<F>>,
    ) -> Option<T> {
        match answer {
            Ok(answer) => {
                self.accepted.push(ghost);
                Some(answer)
            }
            Err(refused) => {
                assert!(matches!(refused.reason(), Reason::Full | Reason::Closed));
                drop(refused);
                assert_eq!((ghost.started(), ghost.dropped()), (0, 1));
                self.refused.push(ghost);
                None
            }
        }
    }

    fn submit(&mut self, priority: Priority, end: End) -> bool {
        let ghost = Arc::<Ghost>::default();
        let answer = self.pool.job().priority(priority).try_submit(ghost.body(end));
        let handle = self.note(Arc::clone(&ghost), answer);
        self.keep(ghost, handle)
    }

    /// Whether there was one to keep.
    fn keep(&mut self, ghost: Arc<Ghost>, handle: Option<JobHandle<Outcome>>) -> bool {
        let Some(handle) = handle else { return false };
        self.cancellers.push((Arc::clone(&ghost), handle.canceller()));
        self.handles.push((ghost, handle));
        true
    }

    /// Takes a handle, if there is one, and checks what it gives.
    fn join(&mut self, which: usize) {
        if which < self.handles.len() {
            let (ghost, handle) = self.handles.swap_remove(which);
            let fate = Fate::of(resolve(handle));
            assert_eq!(ghost.started(), usize::from(fate.has_run()), "{fate:?}");
            assert_eq!(ghost.dropped(), 1, "before the handle resolves");
        }
    }

    fn play(&mut self, next: Move) {
        let some = |pick: usize, of: usize| pick % of.max(1);
        match next {
            Move::Submit(priority, end) => drop(self.submit(priority, end)),
            Move::Spawn(priority, end) => {
                let ghost = Arc::<Ghost>::default();
                let body = ghost.body(end);
                let answer = self.pool.job().priority(priority).try_spawn(move || drop(body()));
                self.note(ghost, answer);
            }
            Move::SubmitAndCancel(priority) => {
                if self.submit(priority, End::Returns) {
                    let (ghost, handle) = self.handles.pop().expect("just accepted");
                    let cancelled = handle.cancel();
                    assert!(!cancelled || (ghost.started(), ghost.dropped()) == (0, 1));
                    assert_eq!(Fate::of(resolve(handle)) == Fate::Cancelled, cancelled);
                }
            }
            Move::SubmitAndJoin(priority, end) => {
                if self.submit(priority, end) {
                    self.join(self.handles.len() - 1);
                }
            }
            Move::Nest(end) => {
                let (outer, inner) = (Arc::<Ghost>::default(), Arc::<Ghost>::default());
                let (own, child) = (self.pool.clone(), inner.body(end));
                let body = outer.body(End::Returns);
                let answer = self.pool.try_submit(move || {
                    if let Ok(child) = own.try_submit(child) {
                        Fate::of(child.join());
                    }
                    body()
                });
                let handle = self.note(Arc::clone(&outer), answer);
                self.keep(outer, handle);
            }
            Move::ReserveAndUse(end) => {
                if let Ok(permit) = self.pool.try_reserve() {
                    let ghost = Arc::<Ghost>::default();
                    let answer = permit.submit(ghost.body(end));
                    let handle = self.note(Arc::clone(&ghost), answer);
                    self.keep(ghost, handle);
                }
            }
            Move::ReserveAndDrop => drop(self.pool.try_reserve()),
            Move::Cancel(pick) => {
                if let Some((ghost, handle)) = self.handles.get(some(pick, self.handles.len())) {
                    let cancelled = handle.cancel();
                    assert!(!cancelled || (ghost.started(), ghost.dropped()) == (0, 1));
                }
            }
            Move::CancelLate(pick) => {
                let cancellers = &self.cancellers;
                if let Some((ghost, canceller)) = cancellers.get(some(pick, cancellers.len())) {
                    let cancelled = canceller.cancel();
                    assert!(!cancelled || (ghost.started(), ghost.dropped()) == (0, 1));
                }
            }
            Move::DropHandle(pick) => {
                if !self.handles.is_empty() {
                    drop(self.handles.swap_remove(pick % self.handles.len()));
                }
            }
            Move::Join(pick) => self.join(some(pick, self.handles.len())),
            Move::GiveWay(times) => give_way(usize::from(times)),
        }
        let seen = self.pool.snapshot();
        assert!(self.pool.in_flight() <= self.pool.capacity());
        assert!(seen.in_flight <= seen.capacity);
        assert_eq!(seen.in_flight, seen.reserved + seen.queued + seen.running);
    }
}

/// Several threads at one pool, and perhaps one that ends it.
#[derive(Clone, Debug)]
struct Game {
    workers: usize,
    capacity: usize,
    players: Vec<Vec<Move>>,
    /// After so many of the first player's moves.
    ending: Option<(Shutdown, usize)>,
}

fn game() -> impl Strategy<Value = Game> {
    let ending = prop_oneof![Just(Shutdown::Drain), Just(Shutdown::Discard)];
    let ending = proptest::option::of((ending, 0_usize..40));
    (1_usize..4, 1_usize..9, vec(vec(a_move(), 0..40), 3..=4), ending).prop_map(
        |(workers, capacity, players, ending)| Game { workers, capacity, players, ending },
    )
}

fn play_all(game: Game) {
    let builder = Pool::builder().batch().workers(game.workers).capacity(game.capacity);
    let pool = builder.panic_handler(|_| ()).build().unwrap();
    let players: Vec<_> = (game.players.into_iter().enumerate())
        .map(|(who, moves)| {
            let mut player = Player::new(&pool);
            let ending = game.ending.filter(|_| who == 0);
            elsewhere(move || {
                for (number, next) in moves.into_iter().enumerate() {
                    if let Some((how, _)) = ending.filter(|ending| ending.1 == number) {
                        player.pool.shutdown(how, None);
                    }
                    player.play(next);
                }
                player
            })
        })
        .collect();
    let mut players: Vec<_> = players.into_iter().map(Elsewhere::wait).collect();
    for player in &mut players {
        while !player.handles.is_empty() {
            player.join(0);
        }
    }
    let ending = pool.clone();
    let report = elsewhere(move || ending.shutdown(Shutdown::Drain, None)).wait();
    assert_eq!((report.still_running, pool.in_flight()), (0, 0));
    for player in &players {
        for ghost in &player.accepted {
            assert!(ghost.started() <= 1, "a body runs at most once");
        }
        for ghost in player.accepted.iter().chain(&player.refused) {
            assert_eq!(ghost.dropped(), 1, "each closure is dropped once");
        }
    }
    assert_adds_up(&pool);
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn with_its_workers_held_a_pool_does_what_the_model_says(
        workers in 1_usize..3,
        room in 0_usize..6,
        critical_reserve in 0_usize..3,
        steps in vec(step(), 1..60),
    ) {
        let all = elsewhere(move || {
            let mut pool = Sequential::new(workers, room, critical_reserve);
            for step in steps {
                pool.take(step);
                pool.compare();
            }
            pool.finish();
        });
        all.wait();
    }

    #[test]
    fn whatever_several_threads_do_the_invariants_hold(game in game()) {
        play_all(game);
    }
}

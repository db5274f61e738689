//! Several threads at one pool: what must hold in every schedule.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use weirpool::{Canceller, JobHandle, Reason, Rejected, Shutdown};

use crate::common::{
    Elsewhere, Log, Peak, assert_adds_up, block_on, elsewhere, give_way, poll, resolve,
};
use crate::ghost::{Body, End, Fate, Ghost, Outcome, end};
use crate::model::{Shape, Subject, Want, shape, want};

/// How a job is submitted by somebody who would wait for a slot.
#[derive(Clone, Copy, Debug)]
enum Waiting {
    Await,
    Blocking,
    AtMost(Duration),
    /// Gives up after so many polls.
    Polls(u8),
}

/// A step of one of several threads.
#[derive(Clone, Debug)]
enum Move {
    Submit(Want, End),
    Spawn(Want, End),
    Wait(Waiting, Want, End),
    SubmitAndCancel(Want),
    SubmitAndJoin(Want, End),
    /// A body that submits another and joins it.
    Nest {
        want: Want,
        end: End,
        blocking: bool,
    },
    /// So many jobs that borrow from a body, or from a thread of ours.
    Scope {
        inside: bool,
        jobs: usize,
        want: Want,
        end: End,
    },
    ReserveAndUse(Want, usize, End),
    ReserveAndDrop(Want, usize),
    /// Lowers the capacity for a while, to some part of it.
    Narrow(usize, u8),
    Cancel(usize),
    /// Through a canceller whose job may have ended long ago.
    CancelLate(usize),
    DropHandle(usize),
    Join(usize),
    GiveWay(u8),
}

fn waiting() -> impl Strategy<Value = Waiting> {
    prop_oneof![
        2 => Just(Waiting::Await),
        2 => Just(Waiting::Blocking),
        2 => (0_u64..100).prop_map(|micros| Waiting::AtMost(Duration::from_micros(micros))),
        3 => (0_u8..4).prop_map(Waiting::Polls),
    ]
}

fn a_move() -> impl Strategy<Value = Move> {
    let nest = (want(), end(), any::<bool>());
    let scope = (any::<bool>(), 1_usize..4, want(), end());
    let several = || (want(), 0_usize..4, end());
    prop_oneof![
        8 => (want(), end()).prop_map(|(want, end)| Move::Submit(want, end)),
        4 => (want(), end()).prop_map(|(want, end)| Move::Spawn(want, end)),
        8 => (waiting(), want(), end()).prop_map(|(how, want, end)| Move::Wait(how, want, end)),
        4 => want().prop_map(Move::SubmitAndCancel),
        3 => (want(), end()).prop_map(|(want, end)| Move::SubmitAndJoin(want, end)),
        3 => nest.prop_map(|(want, end, blocking)| Move::Nest { want, end, blocking }),
        3 => scope.prop_map(|(inside, jobs, want, end)| Move::Scope { inside, jobs, want, end }),
        3 => several().prop_map(|(want, count, end)| Move::ReserveAndUse(want, count, end)),
        2 => several().prop_map(|(want, count, _)| Move::ReserveAndDrop(want, count)),
        2 => (any::<usize>(), any::<u8>()).prop_map(|(slots, times)| Move::Narrow(slots, times)),
        4 => any::<usize>().prop_map(Move::Cancel),
        4 => any::<usize>().prop_map(Move::CancelLate),
        3 => any::<usize>().prop_map(Move::DropHandle),
        3 => any::<usize>().prop_map(Move::Join),
        2 => any::<u8>().prop_map(Move::GiveWay),
    ]
}

/// The pool, and what is seen from inside its jobs.
#[derive(Clone)]
struct Board {
    subject: Subject,
    /// How many bodies of each partition run at once.
    peaks: Arc<[Peak]>,
    scoped: Log<Scoped>,
}

/// What became of a job that borrowed, at the end of its scope.
#[derive(Clone, Debug)]
struct Scoped {
    /// How often it wrote to what it borrowed.
    runs: usize,
    started: usize,
    dropped: usize,
    refused: Option<Reason>,
}

impl Board {
    fn body(&self, ghost: &Arc<Ghost>, want: Want, end: End) -> Body {
        let (body, peaks) = (ghost.body(end), Arc::clone(&self.peaks));
        let partition = self.subject.fit(want).partition;
        Box::new(move || {
            let _inside = partition.map(|which| peaks[which].enter());
            body()
        })
    }

    /// Jobs that borrow from this thread's stack.
    fn scope(&self, jobs: usize, want: Want, end: End) {
        let ghosts: Vec<_> = (0..jobs).map(|_| Ghost::new()).collect();
        let mut runs = vec![0; jobs];
        let refused = self.subject.pool.scope(|scope| {
            let (mut handles, mut refused) = (Vec::new(), Vec::new());
            for (ghost, runs) in ghosts.iter().zip(&mut runs) {
                let body = self.body(ghost, want, end);
                let body = move || {
                    *runs += 1;
                    body()
                };
                let answer = scope.try_submit_with(self.subject.spec(want), body);
                refused.push(answer.map(|handle| handles.push(handle)).map_err(into_reason).err());
            }
            // A panic that nobody takes would be the scope's.
            if end == End::Panics {
                handles.into_iter().for_each(|handle| _ = Fate::of(handle.join()));
            }
            refused
        });
        for ((ghost, runs), refused) in ghosts.iter().zip(runs).zip(refused) {
            let (started, dropped) = (ghost.started(), ghost.dropped());
            self.scoped.push(Scoped { runs, started, dropped, refused });
        }
    }

    /// Looks at all that must hold at every moment.
    fn look(&self) {
        let Subject { shape, pool, .. } = &self.subject;
        let seen = pool.snapshot();
        assert!(pool.in_flight() <= shape.capacity() && seen.in_flight <= shape.capacity());
        assert_eq!(seen.in_flight, seen.reserved + seen.queued + seen.running);
        assert!(seen.bytes <= shape.max_bytes.unwrap_or(0), "{seen:?}");
    }
}

/// What one of several threads does and has seen.
struct Player {
    board: Board,
    handles: Vec<(Arc<Ghost>, JobHandle<Outcome>)>,
    cancellers: Vec<(Arc<Ghost>, Canceller)>,
    accepted: Vec<Arc<Ghost>>,
    refused: Vec<Arc<Ghost>>,
}

impl Player {
    fn new(board: &Board) -> Self {
        let (handles, cancellers, accepted, refused) = Default::default();
        Self { board: board.clone(), handles, cancellers, accepted, refused }
    }

    fn note<T, F>(&mut self, ghost: Arc<Ghost>, answer: Result<T, Rejected<F>>) -> Option<T> {
        match answer.map_err(into_reason) {
            Ok(answer) => {
                self.accepted.push(ghost);
                Some(answer)
            }
            Err(reason) => {
                assert_is_known(reason);
                ghost.assert_dropped_unrun();
                self.refused.push(ghost);
                None
            }
        }
    }

    /// Whether there is a handle, which is then kept.
    fn keep<F>(
        &mut self,
        ghost: Arc<Ghost>,
        answer: Result<JobHandle<Outcome>, Rejected<F>>,
    ) -> bool {
        let Some(handle) = self.note(Arc::clone(&ghost), answer) else { return false };
        self.cancellers.push((Arc::clone(&ghost), handle.canceller()));
        self.handles.push((ghost, handle));
        true
    }

    fn submit(&mut self, want: Want, end: End) -> bool {
        let ghost = Ghost::new();
        let answer = self.board.subject.spec(want).try_submit(self.board.body(&ghost, want, end));
        self.keep(ghost, answer)
    }

    fn wait(&mut self, how: Waiting, want: Want, end: End) {
        let ghost = Ghost::new();
        let (body, spec) = (self.board.body(&ghost, want, end), self.board.subject.spec(want));
        let answer = match how {
            Waiting::Await => block_on(spec.submit(body)),
            Waiting::Blocking => spec.submit_blocking(body),
            Waiting::AtMost(limit) => spec.submit_timeout(body, limit),
            Waiting::Polls(times) => {
                let mut submit = spec.submit(body);
                let mut answers = (0..times).map(|_| {
                    give_way(1);
                    poll(&mut submit, Waker::noop())
                });
                match answers.find(Poll::is_ready) {
                    Some(Poll::Ready(answer)) => answer,
                    _ => {
                        drop(submit);
                        return ghost.assert_dropped_unrun();
                    }
                }
            }
        };
        self.keep(ghost, answer);
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
            Move::Submit(want, end) => _ = self.submit(want, end),
            Move::Spawn(want, end) => {
                let ghost = Ghost::new();
                let body = self.board.body(&ghost, want, end);
                let answer = self.board.subject.spec(want).try_spawn(move || drop(body()));
                self.note(ghost, answer);
            }
            Move::Wait(how, want, end) => self.wait(how, want, end),
            Move::SubmitAndCancel(want) => {
                if self.submit(want, End::Returns) {
                    let (ghost, handle) = self.handles.pop().expect("just accepted");
                    let cancelled = handle.cancel();
                    assert!(!cancelled || (ghost.started(), ghost.dropped()) == (0, 1));
                    assert_eq!(Fate::of(resolve(handle)) == Fate::Cancelled, cancelled);
                }
            }
            Move::SubmitAndJoin(want, end) => {
                if self.submit(want, end) {
                    self.join(self.handles.len() - 1);
                }
            }
            Move::Nest { want, end, blocking } => {
                let (outer, inner) = (Ghost::new(), Ghost::new());
                let (board, child) = (self.board.clone(), self.board.body(&inner, want, end));
                let body = outer.body(End::Returns);
                let answer = self.board.subject.pool.try_submit(move || {
                    let spec = board.subject.spec(want);
                    let child =
                        if blocking { spec.submit_blocking(child) } else { spec.try_submit(child) };
                    if let Ok(child) = child {
                        Fate::of(child.join());
                    }
                    body()
                });
                self.keep(outer, answer);
            }
            Move::Scope { inside: false, jobs, want, end } => self.board.scope(jobs, want, end),
            Move::Scope { inside: true, jobs, want, end } => {
                let (outer, board) = (Ghost::new(), self.board.clone());
                let body = outer.body(End::Returns);
                let answer = self.board.subject.pool.try_submit(move || {
                    board.scope(jobs, want, end);
                    body()
                });
                self.keep(outer, answer);
            }
            Move::ReserveAndUse(want, count, end) => {
                let permits = self.board.subject.spec(want).try_reserve_many(count);
                for permit in permits.into_iter().flatten() {
                    let ghost = Ghost::new();
                    let answer = permit.submit(self.board.body(&ghost, want, end));
                    self.keep(ghost, answer);
                }
            }
            Move::ReserveAndDrop(want, count) => {
                drop(self.board.subject.spec(want).try_reserve_many(count));
            }
            Move::Narrow(slots, times) => {
                let Subject { shape, pool, .. } = &self.board.subject;
                pool.set_capacity(1 + some(slots, shape.capacity()));
                give_way(usize::from(times));
                pool.set_capacity(shape.capacity());
            }
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
        self.board.look();
    }
}

fn into_reason<F>(rejected: Rejected<F>) -> Reason {
    rejected.reason()
}

/// A reason for which a pool with nothing but bounds refuses.
#[track_caller]
fn assert_is_known(reason: Reason) {
    let known = [Reason::Full, Reason::Partition, Reason::Bytes, Reason::Closed];
    assert!(known.contains(&reason), "{reason:?}");
}

/// Several threads at one pool, and perhaps one that ends it.
#[derive(Clone, Debug)]
pub(crate) struct Game {
    shape: Shape,
    players: Vec<Vec<Move>>,
    /// After so many of the first player's moves.
    ending: Option<(Shutdown, usize)>,
}

pub(crate) fn game() -> impl Strategy<Value = Game> {
    let ending = prop_oneof![Just(Shutdown::Drain), Just(Shutdown::Discard)];
    let ending = proptest::option::of((ending, 0_usize..40));
    (shape(1..4, 1..9), vec(vec(a_move(), 0..40), 3..=4), ending)
        .prop_map(|(shape, players, ending)| Game { shape, players, ending })
}

pub(crate) fn play_all(game: Game) {
    let subject = game.shape.build();
    let peaks = subject.shape.partitions.iter().map(|_| Peak::default()).collect();
    let board = Board { subject, peaks, scoped: Log::new() };
    let players: Vec<_> = (game.players.into_iter().enumerate())
        .map(|(who, moves)| {
            let mut player = Player::new(&board);
            let ending = game.ending.filter(|_| who == 0);
            elsewhere(move || {
                for (number, next) in moves.into_iter().enumerate() {
                    if let Some((how, _)) = ending.filter(|ending| ending.1 == number) {
                        player.board.subject.pool.shutdown(how, None);
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

    let pool = board.subject.pool.clone();
    let idle = pool.clone();
    elsewhere(move || idle.wait_idle()).wait();
    if !pool.is_closed() {
        board.subject.assert_fills_up();
    }
    let ending = pool.clone();
    let report = elsewhere(move || ending.shutdown(Shutdown::Drain, None)).wait();
    assert_eq!((report.still_running, pool.in_flight(), pool.snapshot().bytes), (0, 0, 0));
    for player in &players {
        for ghost in &player.accepted {
            assert!(ghost.started() <= 1, "a body runs at most once");
        }
        for ghost in player.accepted.iter().chain(&player.refused) {
            assert_eq!(ghost.dropped(), 1, "each closure is dropped once");
        }
    }
    for job in board.scoped.entries() {
        assert_eq!((job.runs, job.dropped), (job.started, 1), "before its scope ends: {job:?}");
        assert!(job.runs <= usize::from(job.refused.is_none()), "{job:?}");
        job.refused.into_iter().for_each(assert_is_known);
    }
    for (peak, share) in board.peaks.iter().zip(&board.subject.shape.partitions) {
        assert!(peak.highest() <= share.max, "{} of {share:?}", peak.highest());
    }
    assert_adds_up(&pool);
}

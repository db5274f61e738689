//! Who waits for a slot, and in which order they get one.
//!
//! One line per partition (and one for work outside of partitions), ordered by priority and then by
//! arrival. A slot that comes back is offered to the heads of the lines; a head that can't be
//! served blocks its own line and no other. What a served waiter gets is a permit, its *grant*: if
//! it gives up before it has used it, the grant is cancelled like any permit, which serves the next.
//!
//! All of this happens under one lock. The flag `WAITERS` in the ledger's word is set while
//! somebody waits, so that submits and returns look in here only then.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

use super::ledger::{Claim, Ledger, NoSlot};
use super::partition;
use crate::contain::{call_contained, drop_contained};
use crate::priority::Priority;
use crate::sync::Mutex;
use crate::sync::stat::{AtomicU64, Relaxed};

/// Work of one partition, or of none.
type Line = Option<partition::Index>;

/// The order within a line, and among the heads of lines: the more urgent first, then who came
/// first.
type Rank = (Reverse<Priority>, u64);

/// Names one waiter, from [`Waiters::join`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    rank: Rank,
    claim: Claim,
}

impl Ticket {
    fn line(&self) -> Line {
        self.claim.holding.partition
    }
}

/// What has become of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Waiting,
    /// It has a permit, which is the asker's from now on.
    Granted,
    Closed,
}

pub(crate) struct Waiters {
    lines: Mutex<Lines>,
    /// Panics of wakers, which are user code.
    contained: AtomicU64,
}

#[derive(Default)]
struct Lines {
    /// No line in here is empty.
    waiting: BTreeMap<Line, BTreeMap<Rank, Waiting>>,
    granted: BTreeSet<Rank>,
    next_turn: u64,
    closed: bool,
}

struct Waiting {
    claim: Claim,
    /// What a head could not have when it was last served.
    waits_for: NoSlot,
    waker: Option<Waker>,
}

impl Waiters {
    pub(super) fn new() -> Self {
        Self { lines: Mutex::new(Lines::default()), contained: AtomicU64::new(0) }
    }

    /// Whether somebody in the same line, of the same priority or a higher one, came before; and then
    /// why one who comes after is refused. That is the limit or the queue if the other waits for
    /// those; what else it waits for is its own, and those who come after it find the pool full.
    #[cold]
    pub(crate) fn come_before(&self, claim: Claim) -> Option<NoSlot> {
        let lines = self.lines.lock();
        let line = lines.waiting.get(&claim.holding.partition)?;
        let ((Reverse(priority), _), head) = line.first_key_value()?;
        if *priority < claim.priority {
            return None;
        }
        Some(match head.waits_for {
            NoSlot::Limit | NoSlot::Delay => head.waits_for,
            _ => NoSlot::Full,
        })
    }

    /// Joins the end of its line; may be served at once.
    pub(crate) fn join(&self, ledger: &Ledger, claim: Claim) -> Ticket {
        let (ticket, woken) = {
            let mut lines = self.lines.lock();
            let ticket = Ticket { rank: (Reverse(claim.priority), lines.next_turn), claim };
            lines.next_turn += 1;
            if !lines.closed {
                let line = lines.waiting.entry(ticket.line()).or_default();
                line.insert(ticket.rank, Waiting { claim, waits_for: NoSlot::Full, waker: None });
                // After the insertion, so that a return which sees the flag finds the waiter. If
                // the ledger is closed by now, its closing is about to empty the lines.
                ledger.announce_waiters();
            }
            (ticket, lines.serve(ledger))
        };
        self.wake(woken);
        ticket
    }

    /// What has become of a waiter; `waker` is woken when that changes. A grant goes to the caller.
    pub(crate) fn ask(&self, ticket: Ticket, waker: &Waker) -> Standing {
        // User code, so outside the lock, as is the end of the waker it replaces.
        let fresh = waker.clone();
        let mut lines = self.lines.lock();
        if lines.granted.remove(&ticket.rank) {
            return Standing::Granted;
        }
        let Some(waiting) = lines.find(&ticket) else { return Standing::Closed };
        let old = waiting.waker.replace(fresh);
        drop(lines);
        self.drop_waker(old);
        Standing::Waiting
    }

    /// A waiter goes away; a grant it had not used goes to the next.
    pub(crate) fn leave(&self, ledger: &Ledger, ticket: Ticket) {
        let (granted, left, woken) = {
            let mut lines = self.lines.lock();
            let granted = lines.granted.remove(&ticket.rank);
            let left = lines.remove(ticket.line(), ticket.rank);
            // Those behind may fit where this one did not.
            (granted, left, lines.serve(ledger))
        };
        self.drop_waker(left.and_then(|waiting| waiting.waker));
        self.wake(woken);
        if granted {
            ledger.cancel_permit(ticket.claim.holding);
        }
    }

    /// Offers what was returned to the heads of the lines.
    pub(super) fn serve(&self, ledger: &Ledger) {
        let woken = self.lines.lock().serve(ledger);
        self.wake(woken);
    }

    /// Lets all go: the ledger has been closed, which also voided the grants.
    pub(super) fn close(&self) {
        let lines = {
            let mut lines = self.lines.lock();
            lines.closed = true;
            std::mem::take(&mut lines.waiting)
        };
        let waiting = lines.into_values().flat_map(BTreeMap::into_values);
        self.wake(waiting.filter_map(|waiting| waiting.waker).collect());
    }

    /// How many panics of wakers were contained.
    pub(crate) fn contained(&self) -> u64 {
        self.contained.load(Relaxed)
    }

    /// Wakes; a panic in one must not keep the others waiting.
    fn wake(&self, woken: Vec<Waker>) {
        for waker in woken {
            self.note(call_contained(|| waker.wake()));
        }
    }

    fn drop_waker(&self, waker: Option<Waker>) {
        self.note(drop_contained(waker));
    }

    fn note(&self, quiet: bool) {
        self.contained.fetch_add(u64::from(!quiet), Relaxed);
    }
}

/// Greater than the rank of all who are of this priority or above, not of those below.
fn rank_below(priority: Priority) -> Rank {
    (Reverse(priority), u64::MAX)
}

impl Lines {
    fn find(&mut self, ticket: &Ticket) -> Option<&mut Waiting> {
        self.waiting.get_mut(&ticket.line())?.get_mut(&ticket.rank)
    }

    fn remove(&mut self, line: Line, rank: Rank) -> Option<Waiting> {
        let of_line = self.waiting.get_mut(&line)?;
        let removed = of_line.remove(&rank);
        if of_line.is_empty() {
            self.waiting.remove(&line);
        }
        removed
    }

    /// Grants slots to heads while that is possible; returns whom to wake, outside the lock.
    fn serve(&mut self, ledger: &Ledger) -> Vec<Waker> {
        let mut woken = Vec::new();
        let mut blocked = Vec::new();
        while let Some((rank, line)) = self.best_head(&blocked) {
            let Self { waiting, granted, .. } = self;
            let head = waiting.get_mut(&line).and_then(|line| line.get_mut(&rank));
            let head = head.expect("it is the head");
            let granted = || granted.range(..rank_below(rank.0.0)).count();
            match ledger.grant(head.claim, granted) {
                Ok(()) => {
                    let served = self.remove(line, rank).expect("it was the head");
                    self.granted.insert(rank);
                    woken.extend(served.waker);
                }
                Err(NoSlot::Closed) => break,
                Err(no_slot) => {
                    head.waits_for = no_slot;
                    blocked.push(line);
                }
            }
        }
        if self.waiting.is_empty() {
            ledger.retract_waiters();
        }
        woken
    }

    /// Of the heads of the lines that aren't blocked, the first in rank.
    fn best_head(&self, blocked: &[Line]) -> Option<(Rank, Line)> {
        let open = self.waiting.iter().filter(|(line, _)| !blocked.contains(line));
        open.filter_map(|(line, of_line)| Some((*of_line.first_key_value()?.0, *line))).min()
    }
}

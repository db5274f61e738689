//! The protocols one by one, for the models in `loom-tests` alone: the real code behind the
//! thinnest of wrappers. Exists only under loom, and is no part of the crate's promise.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::task::{Context, Poll, Waker};

use crate::admission::ledger::{self, Holding};
use crate::admission::partition::{self, Partition};
use crate::admission::pressure::Pressure;
use crate::admission::waiters::{self, Standing};
use crate::error::JobError;
use crate::job::{Ended, JobRef, Origin, Outcome, Receiver};
use crate::policy::delay::Law;
use crate::pool::Pool;
use crate::priority::{Class, Priority};
use crate::schedule::{lanes, nested, sleep};
use crate::sense::clock::NO_DEADLINE;
use crate::sync::stat::Arc;
use crate::sync::{self, system_now};

/// The slots.
#[derive(Clone)]
pub struct Ledger(Arc<ledger::Ledger>);

/// One slot, with what is held beside it; dropping it returns all of it.
pub struct Slot {
    ledger: Arc<ledger::Ledger>,
    /// None once it went over to another slot.
    holding: Option<Holding>,
}

/// What is asked for: a priority, a partition by its number, bytes.
#[derive(Clone, Copy)]
pub struct Claim(ledger::Claim);

impl Claim {
    pub fn new(priority: Priority, partition: Option<u16>, bytes: u64) -> Self {
        let partition = partition.map(|nth| partition::Index::of(nth.into()));
        let holding = Holding { partition, bytes };
        Self(ledger::Claim { priority, holding, meets_delay: false })
    }

    /// The same for one that waits until the queue is short enough.
    pub fn for_a_short_queue(self) -> Self {
        Self(ledger::Claim { meets_delay: true, ..self.0 })
    }

    fn plain(critical: bool) -> Self {
        Self::new(if critical { Priority::Critical } else { Priority::Normal }, None, 0)
    }
}

impl Ledger {
    pub fn new(capacity: usize, critical_reserve: usize) -> Self {
        Self::divided(capacity, critical_reserve, &[], None)
    }

    pub fn divided(
        capacity: usize,
        critical_reserve: usize,
        partitions: &[Partition],
        max_bytes: Option<u64>,
    ) -> Self {
        let pressure = Arc::new(Pressure::new(1, 0));
        let ledger =
            ledger::Ledger::new(capacity, critical_reserve, partitions, max_bytes, pressure, 0);
        Self(Arc::new(ledger))
    }

    /// A ledger of whose workers so many may note the returns of their slots.
    pub fn noting(capacity: usize, workers: usize) -> Self {
        let pressure = Arc::new(Pressure::new(workers, 0));
        Self(Arc::new(ledger::Ledger::new(capacity, 0, &[], None, pressure, workers)))
    }

    /// A ledger, and lanes in which fewer than `door_jobs` may wait when a waiter is served.
    pub fn with_lanes(capacity: usize, door_jobs: usize) -> (Self, Lanes) {
        let pressure = Arc::new(Pressure::new(1, 0));
        pressure.set_plan(door_jobs, u64::MAX);
        let lanes = lanes::Lanes::new(capacity, u64::MAX, Law::Off, Arc::clone(&pressure));
        let ledger = ledger::Ledger::new(capacity, 0, &[], None, pressure, 0);
        (Self(Arc::new(ledger)), Lanes(lanes))
    }

    pub fn set_capacity(&self, capacity: usize) {
        self.0.set_capacity(capacity);
    }

    pub fn set_limit(&self, limit: usize) {
        self.0.set_limit(Some(limit));
    }

    /// A slot, or whether the refusal said "closed".
    pub fn take(&self, critical: bool) -> Result<Slot, bool> {
        self.take_as(Claim::plain(critical))
    }

    pub fn take_as(&self, claim: Claim) -> Result<Slot, bool> {
        let taken = self.0.take(claim.0);
        let slot = |()| ledger::Slot::of_taken(&self.0, claim.0.holding);
        taken.map(|()| self.own(slot(()), claim)).map_err(|no| no == ledger::NoSlot::Closed)
    }

    pub fn reserve(&self) -> bool {
        self.reserve_many(1)
    }

    pub fn reserve_many(&self, count: usize) -> bool {
        self.0.reserve(Claim::plain(false).0, count).is_ok()
    }

    pub fn redeem(&self) -> Option<Slot> {
        self.redeem_as(Claim::plain(false))
    }

    pub fn redeem_as(&self, claim: Claim) -> Option<Slot> {
        self.0.redeem(claim.0.holding).ok().map(|slot| self.own(slot, claim))
    }

    pub fn cancel_permit(&self) {
        self.cancel_permit_as(Claim::plain(false));
    }

    pub fn cancel_permit_as(&self, claim: Claim) {
        self.0.cancel_permit(claim.0.holding);
    }

    pub fn close(&self) -> Option<usize> {
        let jobs = self.0.close();
        self.0.close_waiters();
        jobs
    }

    pub fn in_flight(&self) -> usize {
        self.0.word().in_flight()
    }

    pub fn bytes(&self) -> u64 {
        self.0.bytes().used()
    }

    /// Blocks until no job is left.
    pub fn wait_settled(&self) {
        self.0.settled().wait(None, || self.0.watch().jobs() == 0);
    }

    /// Waits in line for a slot; none once the ledger is closed.
    pub fn wait(&self, claim: Claim) -> Option<Slot> {
        let place = self.join(claim);
        let parker = sync::Parker::of_this_thread();
        loop {
            match place.ask(&parker.waker()) {
                Standing::Waiting => parker.park(),
                Standing::Granted => return self.redeem_as(claim),
                Standing::Closed => return None,
            }
        }
    }

    /// Takes a place in line and gives it up again.
    pub fn wait_briefly(&self, claim: Claim) {
        let place = self.join(claim);
        self.0.waiters().leave(&self.0, place.1);
    }

    fn join(&self, claim: Claim) -> Place {
        Place(Arc::clone(&self.0), self.0.waiters().join(&self.0, claim.0))
    }

    fn own(&self, slot: ledger::Slot<'_>, claim: Claim) -> Slot {
        slot.leave_with_job();
        Slot { ledger: Arc::clone(&self.0), holding: Some(claim.0.holding) }
    }
}

/// A place in line.
struct Place(Arc<ledger::Ledger>, waiters::Ticket);

impl Place {
    fn ask(&self, waker: &Waker) -> Standing {
        self.0.waiters().ask(self.1, waker)
    }
}

impl Slot {
    /// Hands the slot of an ended job to one that holds what is claimed; none if it had to be
    /// returned. The bytes are taken already.
    pub fn pass_on(mut self, claim: Claim) -> Option<Self> {
        let ledger = Arc::clone(&self.ledger);
        let passed = self.ended(&ledger)?.pass_on(claim.0.holding)?;
        passed.leave_with_job();
        self.holding = Some(claim.0.holding);
        Some(self)
    }

    /// The worker that has run the job returns its slot, or notes the return.
    pub fn end_by(mut self, worker: usize) {
        let ledger = Arc::clone(&self.ledger);
        let ended = self.ended(&ledger);
        if ended.is_some_and(|slot| slot.give_back_by(worker, true)) {
            ledger.ring_settled();
        }
    }

    fn ended<'a>(&mut self, ledger: &'a ledger::Ledger) -> Option<ledger::Slot<'a>> {
        let holding = self.holding.take()?;
        Some(ledger::Slot::of_ended_job(ledger, holding))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let ledger = Arc::clone(&self.ledger);
        drop(self.ended(&ledger));
    }
}

/// Sets how many workers of a pool may take jobs.
pub fn set_active_level(pool: &Pool, level: f64) {
    pool.core().pressure.set_active_level(level);
}

/// Has the door of a pool without a law of queue delay refuse while so many jobs are queued.
pub fn set_door_jobs(pool: &Pool, jobs: usize) {
    pool.core().pressure.set_plan(jobs, u64::MAX);
}

fn origin() -> Origin {
    Origin {
        priority: Priority::Normal,
        class: Class(0),
        enqueued_ns: 0,
        deadline_ns: NO_DEADLINE,
        holding: Holding::default(),
        scoped: false,
        exempt: false,
        owner: std::ptr::NonNull::dangling(),
    }
}

/// A queued job's entry, or any other reference to it.
pub struct Entry(JobRef);

/// The handle's half.
pub struct Handle<T>(Receiver<T>);

/// A queued job.
pub fn job<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> (Entry, Handle<T>) {
    // SAFETY: models give it bodies that borrow nothing.
    let (entry, receiver) = unsafe { Receiver::new_job(body, origin()) };
    (Entry(entry), Handle(receiver))
}

fn end(mut ended: Ended, return_slot: impl FnOnce()) {
    let _ = ended.drop_unwanted();
    return_slot();
    drop(ended.publish());
}

impl Entry {
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.is_same(&other.0)
    }

    /// Runs the job as a worker does; false if it was won by another.
    pub fn run(self, return_slot: impl FnOnce()) -> bool {
        let Ok(running) = self.0.start() else { return false };
        end(running.run(), return_slot);
        true
    }

    /// Cancels the job as a handle or a canceller does.
    pub fn cancel(&self, return_slot: impl FnOnce()) -> bool {
        let Some(seized) = self.0.cancel() else { return false };
        end(seized.drop_body(Outcome::Cancelled), return_slot);
        true
    }
}

impl<T> Handle<T> {
    pub fn another(&self) -> Entry {
        Entry(self.0.job().another())
    }

    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<T, JobError>> {
        self.0.poll(context.waker())
    }

    /// Blocks until the job has ended.
    pub fn wait(mut self) -> Result<T, JobError> {
        let parker = sync::Parker::of_this_thread();
        let waker: Waker = parker.waker();
        loop {
            if let Poll::Ready(result) = self.poll(&mut Context::from_waker(&waker)) {
                return result;
            }
            parker.park();
        }
    }
}

/// One reference to a job without a body, by the state word alone: whoever gives back the last one is
/// told, in place of freeing the block.
pub struct Share(ManuallyDrop<JobRef>);

/// The share of a job's queue, and that of its handle.
pub fn shares() -> (Share, Share) {
    // SAFETY: the body borrows nothing.
    let (entry, receiver) = unsafe { Receiver::new_job(|| (), origin()) };
    let share = |job| Share(ManuallyDrop::new(job));
    let of_handle = share(receiver.job().another());
    // The reference that `another` has added in its place is given back by hand.
    let receiver = ManuallyDrop::new(receiver);
    assert!(!receiver.job().state().release(), "the handle's share is left");
    (share(entry), of_handle)
}

impl Share {
    pub fn another(&self) -> Self {
        Self(ManuallyDrop::new(self.0.another()))
    }

    /// Wins the job and publishes its end, if it is queued; true if that gave back the last reference.
    pub fn end(self) -> bool {
        let state = self.0.state();
        if state.start().is_err() {
            return self.give_back();
        }
        // The type of the answer has no name out here.
        format!("{:?}", state.publish(Outcome::Completed, false)) == "Last"
    }

    /// Goes as a handle does; true if that gave back the last reference.
    pub fn drop_handle(self) -> bool {
        let _ = self.0.state().drop_handle();
        self.give_back()
    }

    /// True if it was the last.
    pub fn give_back(self) -> bool {
        self.0.state().release()
    }
}

/// The lanes.
pub struct Lanes(lanes::Lanes);

impl Lanes {
    pub fn new(capacity: usize) -> Self {
        let pressure = Arc::new(Pressure::new(1, 0));
        Self(lanes::Lanes::new(capacity, u64::MAX, Law::Off, pressure))
    }

    pub fn push(&self, entry: Entry) {
        self.0.push(entry.0, 0);
    }

    pub fn take(&self) -> Option<Entry> {
        self.0.take(Priority::Low, 0).map(|taken| Entry(taken.job))
    }

    pub fn remove(&self, entry: &Entry) -> Option<Entry> {
        self.0.remove(&entry.0).map(Entry)
    }

    pub fn has_work(&self) -> bool {
        self.0.occupied().any()
    }
}

/// The owner's side of a deque.
pub struct Nest(nested::Nest, Arc<nested::Shelf>);

/// Anybody's side of a deque.
#[derive(Clone)]
pub struct Shelf(Arc<nested::Shelf>);

pub fn nest() -> (Nest, Shelf) {
    nest_of(0)
}

/// The same for one of several workers.
pub fn nest_of(worker: usize) -> (Nest, Shelf) {
    let (nest, shelf) = nested::nest(worker);
    let shelf = Arc::new(shelf);
    (Nest(nest, Arc::clone(&shelf)), Shelf(shelf))
}

impl Nest {
    pub fn push(&self, entry: Entry) {
        self.0.push(entry.0, &self.1, 0);
    }

    pub fn pop(&self) -> Option<Entry> {
        self.0.pop().map(Entry)
    }

    pub fn sweep(&self) {
        self.0.sweep(&self.1);
    }

    pub fn retract(&self, entry: &Entry) {
        self.0.retract(&entry.0, &self.1);
    }

    /// Pushes what was taken out of another deque.
    pub fn adopt(&self, entry: Entry) {
        self.0.push_adopted(entry.0);
    }

    /// The job begins at the bottom of the worker's stack.
    pub fn begin_root(&self, entry: &Entry) {
        self.0.begin_root(&entry.0, &self.1);
    }

    /// The job runs on top of the root's, from which it doesn't descend, and does so much.
    pub fn run_on_top(&self, entry: &Entry, body: impl FnOnce()) {
        let before = self.0.begin_root_on_top(&entry.0, &self.1);
        body();
        self.0.end_root_on_top(&before, &self.1);
    }
}

impl Shelf {
    /// As a worker, takes the next of the lanes, and puts the one after it into its empty handful.
    pub fn take_two(&self, lanes: &Lanes) -> Option<Entry> {
        let stow = |job| self.0.handful().put(0, job);
        lanes.0.take_several(Priority::Normal, 0, 2, stow).map(|taken| Entry(taken.job))
    }

    /// The worker's next from its handful.
    pub fn next_in_hand(&self) -> Option<Entry> {
        self.0.handful().next(&Cell::new(0)).map(Entry)
    }

    pub fn steal(&self) -> Option<Entry> {
        self.0.steal(0).map(Entry)
    }

    /// As a worker that joins a job, and has found that it runs here: takes an entry, and says whether
    /// that descends from the job.
    pub fn steal_for(&self, joined: &Entry) -> Option<(Entry, bool)> {
        if !self.0.is_root(&joined.0) {
            return None;
        }
        let stolen = self.0.steal_nested(0)?;
        let has_ended = joined.0.state().outcome().is_some();
        let descends = self.0.descends(&stolen, &joined.0) && !has_ended;
        Some((Entry(stolen), descends))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Who sleeps and who searches.
pub struct Sleep(sleep::Sleep);

impl Sleep {
    pub fn new(workers: usize) -> Self {
        Self(sleep::Sleep::new(workers))
    }

    pub fn notify(&self, queued: usize) {
        self.0.notify(|| queued);
    }

    pub fn wake_all(&self) {
        self.0.wake_all();
    }

    pub fn start_searching(&self) {
        self.0.start_searching();
    }

    pub fn stop_searching(&self) -> bool {
        self.0.stop_searching()
    }

    pub fn fall_asleep(&self, worker: usize) {
        self.0.fall_asleep(worker);
    }

    pub fn get_up(&self, worker: usize) {
        self.0.get_up(worker);
    }

    pub fn park(&self, worker: usize) {
        self.0.parker(worker).park();
    }
}

/// What one thread waits with, and any may end the wait.
#[derive(Clone)]
pub struct Parker(Arc<sync::Parker>);

impl Parker {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(Arc::new(sync::Parker::new()))
    }

    pub fn park(&self) {
        self.0.park();
    }

    /// Parks with a time-out, which comes at once; true if there was a token.
    pub fn park_briefly(&self) -> bool {
        self.0.park_until(Some(system_now()))
    }

    pub fn unpark(&self) {
        self.0.unpark();
    }
}

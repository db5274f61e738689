//! The protocols one by one, for the models in `loom-tests` alone: the real code behind the
//! thinnest of wrappers. Exists only under loom, and is no part of the crate's promise.

use std::task::{Context, Poll, Waker};

use crate::admission::ledger;
use crate::error::JobError;
use crate::job::{Ended, JobRef, Origin, Outcome, Receiver};
use crate::priority::Priority;
use crate::schedule::{lanes, nested, sleep};
use crate::sense::clock::NO_DEADLINE;
use crate::sync::Parker;
use crate::sync::stat::Arc;

/// The slots.
#[derive(Clone)]
pub struct Ledger(Arc<ledger::Ledger>);

/// One slot; dropping it returns it.
pub struct Slot(Arc<ledger::Ledger>);

impl Ledger {
    pub fn new(capacity: usize, critical_reserve: usize) -> Self {
        Self(Arc::new(ledger::Ledger::new(capacity, critical_reserve)))
    }

    /// A slot, or whether the refusal said "closed".
    pub fn take(&self, critical: bool) -> Result<Slot, bool> {
        self.0.take(critical).map(|slot| self.own(slot)).map_err(|no| no == ledger::NoSlot::Closed)
    }

    pub fn reserve(&self) -> bool {
        self.0.reserve(false).is_ok()
    }

    pub fn redeem(&self) -> Option<Slot> {
        self.0.redeem().ok().map(|slot| self.own(slot))
    }

    pub fn cancel_permit(&self) {
        self.0.cancel_permit();
    }

    pub fn close(&self) -> Option<usize> {
        self.0.close()
    }

    pub fn in_flight(&self) -> usize {
        self.0.word().in_flight()
    }

    /// Blocks until no job is left.
    pub fn wait_settled(&self) {
        self.0.settled().wait(None, || self.0.watch().jobs() == 0);
    }

    fn own(&self, slot: ledger::Slot<'_>) -> Slot {
        slot.leave_with_job();
        Slot(Arc::clone(&self.0))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        ledger::Slot::of_ended_job(&self.0).give_back();
    }
}

fn origin() -> Origin {
    Origin {
        priority: Priority::Normal,
        enqueued_ns: 0,
        deadline_ns: NO_DEADLINE,
        owner: std::ptr::NonNull::dangling(),
    }
}

/// A queued job's entry, or any other reference to it.
pub struct Entry(JobRef);

/// The handle's half.
pub struct Handle<T>(Receiver<T>);

/// A queued job.
pub fn job<T: Send>(body: impl FnOnce() -> T + Send) -> (Entry, Handle<T>) {
    let (entry, receiver) = Receiver::new_job(body, origin());
    (Entry(entry), Handle(receiver))
}

fn end(mut ended: Ended, return_slot: impl FnOnce()) {
    let _ = ended.drop_unwanted();
    return_slot();
    drop(ended.publish());
}

impl Entry {
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
        let parker = Parker::of_this_thread();
        let waker: Waker = parker.waker();
        loop {
            if let Poll::Ready(result) = self.poll(&mut Context::from_waker(&waker)) {
                return result;
            }
            parker.park();
        }
    }
}

/// The lanes.
pub struct Lanes(lanes::Lanes);

impl Lanes {
    pub fn new(capacity: usize) -> Self {
        Self(lanes::Lanes::new(capacity, u64::MAX))
    }

    pub fn push(&self, entry: Entry) {
        self.0.push(entry.0, 0);
    }

    pub fn take(&self) -> Option<Entry> {
        self.0.take(Priority::Low, 0).map(Entry)
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
    let (nest, shelf) = nested::nest(0);
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
}

impl Shelf {
    pub fn steal(&self) -> Option<Entry> {
        self.0.steal(0).map(Entry)
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

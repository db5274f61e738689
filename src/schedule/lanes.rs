//! The four lanes in which jobs from outside wait, one ring per priority, under one lock.
//!
//! A lock, and not a lock-free queue, because it costs the same on a few cores and gives what a
//! lock-free queue can't: an exact order, removal from the middle (a cancelled job's entry is gone
//! at once, with its block), and exact lengths and ages. Nothing is allocated under the lock and no
//! user code runs under it.
//!
//! A ring holds `(sequence number, job)` in the order of the numbers, so an entry is found by
//! binary search. A removed entry leaves a hole; holes are squeezed out when they outnumber the
//! live entries by [`SPARE_HOLES`](super::ring::SPARE_HOLES), so the rings are bounded by the capacity: a million jobs
//! submitted and cancelled behind busy workers take no memory.

use std::collections::VecDeque;

use crossbeam_utils::CachePadded;

use super::ring::{Popped, Ring, ring_entries};
use crate::admission::partition;
use crate::admission::pressure::Pressure;
use crate::job::JobRef;
use crate::policy::ageing::{NEVER, due_at};
use crate::policy::delay::{Judge, Law, Measured, Wait};
use crate::priority::Priority;
use crate::sync::stat::{Arc, AtomicU64, Relaxed};
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering};

/// The lanes that have something, as bits: a worker's first look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Occupied(usize);

impl Occupied {
    pub(crate) fn any(self) -> bool {
        self.0 != 0
    }

    /// Whether a lane of this priority or above has something.
    pub(crate) fn at_least(self, floor: Priority) -> bool {
        self.0 >> floor.lane() != 0
    }
}

pub(crate) struct Lanes {
    /// What each push writes is together.
    rings: CachePadded<Guarded>,
    published: CachePadded<Published>,
    pressure: Arc<Pressure>,
    law: Law,
    ageing_bound_ns: u64,
}

/// An entry that a worker has taken.
pub(crate) struct Taken {
    pub(crate) job: JobRef,
    /// It has waited too long, and is to be shed.
    pub(crate) overdue: bool,
}

impl From<JobRef> for Taken {
    /// Work that was begun, which nobody judges any more.
    fn from(job: JobRef) -> Self {
        Self { job, overdue: false }
    }
}

/// How the queue stands by the law, for the eye.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) smallest_wait_ns: Option<u64>,
    /// When the job was submitted that has waited longest.
    pub(crate) oldest_ns: Option<u64>,
    pub(crate) is_shedding: bool,
}

/// What can be known without the lock, and is looked at again and again by workers without work:
/// so nothing stands beside it that changes with each job. Written under the lock, by plain stores.
struct Published {
    /// Bits of [`Occupied`]; part of the sleep protocol, see [`super::sleep`].
    occupied: AtomicUsize,
    /// When the first waiting lane becomes due.
    due_ns: AtomicU64,
}

#[repr(C)]
struct Guarded {
    /// How many jobs were ever pushed. Written under the lock, by plain stores.
    pushed: AtomicU64,
    rings: Mutex<Rings>,
}

/// In the order in which a push of a normal job touches it: few cache lines, of which one goes with
/// the lock.
#[repr(C)]
struct Rings {
    lanes: [Ring; Priority::COUNT],
    judge: Judge,
}

impl Lanes {
    /// Lanes for at most `capacity` live jobs, all memory taken now.
    ///
    /// The pressure tells the judge what was measured, and is told how many wait.
    pub(crate) fn new(
        capacity: usize,
        ageing_bound_ns: u64,
        law: Law,
        pressure: Arc<Pressure>,
    ) -> Self {
        let ring = || Ring::new(capacity);
        Self {
            rings: CachePadded::new(Guarded {
                pushed: AtomicU64::new(0),
                rings: Mutex::new(Rings {
                    lanes: [ring(), ring(), ring(), ring()],
                    judge: Judge::new(law),
                }),
            }),
            published: CachePadded::new(Published {
                occupied: AtomicUsize::new(0),
                due_ns: AtomicU64::new(NEVER),
            }),
            pressure,
            law,
            ageing_bound_ns,
        }
    }

    /// Which lanes have something. For what was pushed, the fences of the sleep protocol give the order,
    /// and elsewhere it is a hint.
    ///
    /// Acquire pairs with the Release of [`publish_occupied`](Self::publish_occupied): who sees a lane
    /// empty because a worker has taken a handful sees the handful. Without it that worker's jobs would
    /// be nowhere for an instant, and another could go to sleep beside them.
    #[inline]
    pub(crate) fn occupied(&self) -> Occupied {
        Occupied(self.published.occupied.load(Ordering::Acquire))
    }

    #[inline]
    fn lock(&self) -> MutexGuard<'_, Rings> {
        self.rings.rings.lock()
    }

    pub(crate) fn queued(&self) -> usize {
        self.pressure.queued()
    }

    /// How many jobs were ever pushed.
    pub(crate) fn pushed(&self) -> u64 {
        self.rings.pushed.load(Relaxed)
    }

    /// Whether some lane has waited for an ageing bound.
    #[inline]
    pub(crate) fn has_due(&self, now_ns: u64) -> bool {
        self.published.due_ns.load(Relaxed) <= now_ns
    }

    /// Queues a job, submitted now, in the lane of its priority.
    pub(crate) fn push(&self, job: JobRef, now_ns: u64) {
        let lane = job.priority().lane();
        let mut rings = self.lock();
        let seq = self.rings.pushed.load(Relaxed);
        self.rings.pushed.store(seq + 1, Relaxed);
        job.set_place(seq);
        rings.lanes[lane].push(seq, job, now_ns);
        if self.law != Law::Off {
            rings.judge.pushed(now_ns, self.measured());
        }
        self.publish_push(&rings, lane);
    }

    /// The oldest job of the highest lane that has one, down to `floor`.
    pub(crate) fn take(&self, floor: Priority, now_ns: u64) -> Option<Taken> {
        self.take_several(floor, now_ns, 1, |_| ())
    }

    /// As [`take`](Self::take), with up to `most - 1` common jobs that come next in the normal lane, if the
    /// first came from there. They are handed to `stow` under the lock, before anybody can see that the
    /// lane has lost them.
    pub(crate) fn take_several(
        &self,
        floor: Priority,
        now_ns: u64,
        most: usize,
        mut stow: impl FnMut(JobRef),
    ) -> Option<Taken> {
        if !self.occupied().at_least(floor) {
            return None;
        }
        let mut rings = self.lock();
        let mut lanes = (floor.lane()..Priority::COUNT).rev();
        let lane = lanes.find(|&lane| rings.lanes[lane].live > 0)?;
        let taken = self.pop(&mut rings, lane, now_ns, false)?;
        let mut stowed = 0;
        if lane == Priority::Normal.lane() && self.law.is_stateless() {
            let mut batch = rings.judge.takes_more(now_ns, self.measured());
            while stowed + 1 < most {
                let Some(job) = rings.lanes[lane].pop_common(&mut batch) else { break };
                stow(job);
                stowed += 1;
            }
            rings.judge.has_taken(batch, now_ns);
        }
        self.publish_removal(&rings, lane, 1 + stowed);
        Some(taken)
    }

    /// Takes the oldest entry of a lane, judges its wait, and notes whether the lane is served with
    /// it: a job that will not be run serves nobody.
    ///
    /// The last one of a lane that is due is run however long it has waited. By the law it would be
    /// shed, and so would whatever comes to its lane for as long as that is not served.
    #[inline]
    fn pop(&self, rings: &mut Rings, lane: usize, now_ns: u64, due: bool) -> Option<Taken> {
        let Popped { job, enqueued_ns, deadline_ns, is_exempt } = rings.lanes[lane].pop()?;
        let overdue = self.law != Law::Off && {
            let spared = due && rings.lanes[lane].live == 0 && !self.law.is_hard();
            let may_be_shed = !spared && !is_exempt;
            let wait = Wait { lane, enqueued_ns, may_be_shed };
            rings.judge.takes(wait, now_ns, self.measured())
        };
        if !overdue && deadline_ns > now_ns {
            rings.lanes[lane].note_served(now_ns);
        }
        Some(Taken { job, overdue })
    }

    /// Whether a job that was taken before is to be shed now.
    pub(crate) fn is_overdue(&self, job: &JobRef, now_ns: u64) -> bool {
        self.law != Law::Off && {
            let lane = job.priority().lane();
            let may_be_shed = !job.is_exempt();
            let wait = Wait { lane, enqueued_ns: job.enqueued_ns(), may_be_shed };
            self.lock().judge.takes(wait, now_ns, self.measured())
        }
    }

    fn measured(&self) -> Measured {
        Measured {
            mean_service_ns: self.pressure.mean_service_ns(),
            cut_ns: self.pressure.cut_ns(),
        }
    }

    /// The workers have run out of work: the law begins anew.
    pub(crate) fn forget_waits(&self) {
        if self.law != Law::Off {
            self.lock().judge.forget();
        }
    }

    /// How the queue stands by the law.
    pub(crate) fn standing(&self) -> Standing {
        let rings = self.lock();
        Standing {
            smallest_wait_ns: rings.judge.smallest_wait_ns(),
            oldest_ns: rings.lanes.iter().filter_map(Ring::oldest_ns).min(),
            is_shedding: rings.judge.is_shedding(self.pressure.mean_service_ns()),
        }
    }

    /// The oldest job of the lane that has been due for longest, of all `but` one, if one is due.
    #[cold]
    pub(crate) fn take_due(&self, but: Option<Priority>, now_ns: u64) -> Option<Taken> {
        let mut rings = self.lock();
        let waiting_since = |lane: &usize| rings.lanes[*lane].waiting_since_ns;
        let asked = |lane: &usize| but.is_none_or(|but| but.lane() != *lane);
        let longest = (0..Priority::COUNT).filter(asked).min_by_key(waiting_since)?;
        if due_at(waiting_since(&longest), self.ageing_bound_ns) > now_ns {
            return None;
        }
        let taken = self.pop(&mut rings, longest, now_ns, true)?;
        self.publish_removal(&rings, longest, 1);
        Some(taken)
    }

    /// Takes the newest entry of a lane whose job may give way, judged by its partition.
    pub(crate) fn take_victim(
        &self,
        priority: Priority,
        may_give_way: impl Fn(Option<partition::Index>) -> bool,
    ) -> Option<JobRef> {
        let mut rings = self.lock();
        let ring = &mut rings.lanes[priority.lane()];
        let seq = ring.entries.iter().rev().find_map(|entry| {
            let of = entry.job.as_ref()?.partition();
            may_give_way(of).then_some(entry.seq)
        })?;
        let victim = ring.remove(seq)?;
        self.publish_removal(&rings, priority.lane(), 1);
        Some(victim)
    }

    /// Makes room for so many live jobs; the memory is taken and the old given back outside the
    /// lock.
    pub(crate) fn make_room(&self, capacity: usize) {
        let entries = ring_entries(capacity);
        for lane in 0..Priority::COUNT {
            let mut roomier = VecDeque::with_capacity(entries);
            let mut rings = self.lock();
            let ring = &mut rings.lanes[lane].entries;
            if ring.capacity() < entries {
                roomier.append(ring);
                std::mem::swap(ring, &mut roomier);
            }
            drop(rings);
        }
    }

    /// Takes the entry of a job that was seized or started elsewhere; none if a worker has taken
    /// it meanwhile.
    pub(crate) fn remove(&self, job: &JobRef) -> Option<JobRef> {
        let mut rings = self.lock();
        let lane = job.priority().lane();
        let removed = rings.lanes[lane].remove(job.place())?;
        self.publish_removal(&rings, lane, 1);
        Some(removed)
    }

    /// Publishes that a lane has one job more. Only what that changes: this is on the way of every
    /// job, under the lock.
    #[inline]
    fn publish_push(&self, rings: &Rings, lane: usize) {
        self.pressure.lane_grew(lane);
        if rings.lanes[lane].live == 1 {
            self.publish_occupied(rings);
            self.publish_due(rings);
        }
    }

    /// Publishes that a lane has so many jobs less, and may have been served.
    #[inline]
    fn publish_removal(&self, rings: &Rings, lane: usize, jobs: usize) {
        self.pressure.lane_shrank(lane, jobs);
        if rings.lanes[lane].live == 0 {
            self.publish_occupied(rings);
        }
        self.publish_due(rings);
    }

    fn publish_occupied(&self, rings: &Rings) {
        let lanes = rings.lanes.iter().enumerate();
        let occupied =
            lanes.fold(0, |bits, (lane, ring)| bits | usize::from(ring.live > 0) << lane);
        // Release: see `occupied`.
        self.published.occupied.store(occupied, Ordering::Release);
    }

    #[inline]
    fn publish_due(&self, rings: &Rings) {
        let since = rings.lanes.iter().map(|ring| ring.waiting_since_ns);
        let longest_since_ns = since.fold(NEVER, u64::min);
        self.published.due_ns.store(due_at(longest_since_ns, self.ageing_bound_ns), Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::ring::SPARE_HOLES;
    use super::*;
    use crate::job::Origin;
    use crate::priority::Class;
    use std::ptr::NonNull;

    fn job(priority: Priority) -> JobRef {
        let origin = Origin {
            priority,
            enqueued_ns: 0,
            deadline_ns: NEVER,
            class: Class::default(),
            holding: Default::default(),
            scoped: false,
            exempt: false,
            owner: NonNull::dangling(),
        };
        JobRef::detached(|| (), origin)
    }

    fn lanes(capacity: usize) -> Lanes {
        Lanes::new(capacity, 100, Law::Off, Arc::new(Pressure::new(1, 0)))
    }

    /// Ends what was taken, as its block asks.
    fn end(job: JobRef) -> u64 {
        let place = job.place();
        let seized = job.seize().ok().expect("queued");
        let _ = seized.drop_body(crate::job::Outcome::Cancelled).publish();
        place
    }

    #[test]
    fn higher_lanes_first_and_first_come_first_served_within_one() {
        let lanes = lanes(8);
        for priority in [Priority::Low, Priority::High, Priority::Normal, Priority::High] {
            lanes.push(job(priority), 0);
        }
        let mut order = Vec::new();
        while let Some(taken) = lanes.take(Priority::Low, 0) {
            order.push(end(taken.job));
        }
        assert_eq!(order, [1, 3, 2, 0]);
        assert!(!lanes.occupied().any());
    }

    #[test]
    fn a_lane_is_due_one_bound_after_it_began_to_wait_or_was_served() {
        let lanes = lanes(8);
        lanes.push(job(Priority::Low), 50);
        lanes.push(job(Priority::Low), 60);
        assert!(!lanes.has_due(149));
        assert!(lanes.take_due(None, 149).is_none());
        assert!(lanes.has_due(150));
        end(lanes.take_due(None, 150).expect("due").job);
        assert!(!lanes.has_due(249) && lanes.has_due(250));
        end(lanes.take_due(None, 250).expect("due again").job);
        assert!(!lanes.has_due(u64::MAX - 1));
    }

    #[test]
    fn removed_entries_leave_no_memory_behind() {
        let lanes = lanes(2);
        lanes.push(job(Priority::Normal), 0);
        for _ in 0..100_000 {
            let job = job(Priority::Normal);
            let other = job.another();
            lanes.push(job, 0);
            assert_eq!(lanes.queued(), 2);
            let seized = other.another().seize().ok().expect("queued");
            drop(lanes.remove(&other).expect("still in its ring"));
            let _ = seized.drop_body(crate::job::Outcome::Cancelled).publish();
        }
        assert!(lanes.lock().lanes[1].entries.len() <= 2 + SPARE_HOLES + 1);
        assert_eq!(end(lanes.take(Priority::Low, 0).expect("the first").job), 0);
    }
}

//! The ledger by itself, on one thread: what is taken, refused and returned.

use super::ledger::{Claim, Holding, Ledger, NoSlot, Slot};
use super::partition::{self, Partition};
use super::pressure::Pressure;
use super::waiters::Standing;
use crate::priority::Priority;
use crate::sync::stat::Arc;

fn claim(priority: Priority, partition: Option<usize>, bytes: u64) -> Claim {
    let partition = partition.map(partition::Index::of);
    Claim { priority, holding: Holding { partition, bytes }, meets_delay: false }
}

fn ledger(
    capacity: usize,
    critical_reserve: usize,
    partitions: &[Partition],
    max_bytes: Option<u64>,
) -> Ledger {
    let pressure = Arc::new(Pressure::new(1, 0));
    Ledger::new(capacity, critical_reserve, partitions, max_bytes, pressure, 0)
}

fn take(ledger: &Ledger, claim: Claim) -> Result<Slot<'_>, NoSlot> {
    ledger.take(claim).map(|()| Slot::of_taken(ledger, claim.holding))
}

const NORMAL: Claim = Claim {
    priority: Priority::Normal,
    holding: Holding { partition: None, bytes: 0 },
    meets_delay: false,
};

#[test]
fn closing_voids_permits_and_counts_jobs() {
    let ledger = ledger(4, 0, &[], None);
    let slot = take(&ledger, NORMAL).ok().unwrap();
    ledger.reserve(NORMAL, 2).unwrap();
    assert_eq!(ledger.word().in_flight(), 3);
    assert_eq!(ledger.close(), Some(1));
    assert_eq!(ledger.close(), None);
    ledger.cancel_permit(Holding::default());
    assert_eq!(ledger.redeem(Holding::default()).err(), Some(NoSlot::Closed));
    assert_eq!((ledger.word().in_flight(), ledger.word().reserved()), (1, 0));
    assert!(!ledger.word().is_over());
    assert!(!slot.give_back(), "nobody listens");
    assert!(ledger.word().is_over());
}

#[test]
fn the_reserve_is_for_critical_work() {
    let ledger = ledger(3, 1, &[], None);
    let critical = claim(Priority::Critical, None, 0);
    let _two = (take(&ledger, NORMAL).ok().unwrap(), take(&ledger, NORMAL).ok().unwrap());
    assert_eq!(take(&ledger, NORMAL).err(), Some(NoSlot::Full));
    let _third = take(&ledger, critical).ok().unwrap();
    assert_eq!(take(&ledger, critical).err(), Some(NoSlot::Full));
}

#[test]
fn a_share_is_kept_free_and_the_rest_is_common() {
    let partitions = [Partition::new().reserved(2), Partition::new().max(1)];
    let ledger = ledger(4, 0, &partitions, None);
    let (a, b) = (claim(Priority::Normal, Some(0), 0), claim(Priority::Normal, Some(1), 0));
    let common = (take(&ledger, NORMAL).ok().unwrap(), take(&ledger, b).ok().unwrap());
    assert_eq!(take(&ledger, NORMAL).err(), Some(NoSlot::Full), "the rest is reserved");
    assert_eq!(take(&ledger, b).err(), Some(NoSlot::Partition), "it has its maximum");
    let share = (take(&ledger, a).ok().unwrap(), take(&ledger, a).ok().unwrap());
    assert_eq!(take(&ledger, a).err(), Some(NoSlot::Full));
    drop(common);
    // Above its share now; and the order of returns doesn't matter.
    let above = take(&ledger, a).ok().unwrap();
    drop(share);
    let again = (take(&ledger, a).ok().unwrap(), take(&ledger, NORMAL).ok().unwrap());
    drop((above, again));
    assert_eq!((ledger.word().in_flight(), ledger.word().committed()), (0, 2));
}

#[test]
fn bytes_come_back_with_the_slot_and_a_refusal_keeps_none() {
    let ledger = ledger(2, 0, &[], Some(100));
    let sixty = claim(Priority::Normal, None, 60);
    let first = take(&ledger, sixty).ok().unwrap();
    assert_eq!(take(&ledger, sixty).err(), Some(NoSlot::Bytes));
    assert_eq!((ledger.word().in_flight(), ledger.bytes().used()), (1, 60));
    drop(first);
    assert_eq!((ledger.word().in_flight(), ledger.bytes().used()), (0, 0));
}

#[test]
fn many_are_reserved_together_or_not_at_all() {
    let ledger = ledger(3, 0, &[Partition::new().max(2)], None);
    for too_many in [4, usize::MAX] {
        assert_eq!(ledger.reserve(NORMAL, too_many).err(), Some(NoSlot::Full));
    }
    let in_partition = claim(Priority::Normal, Some(0), 0);
    assert_eq!(ledger.reserve(in_partition, 3).err(), Some(NoSlot::Partition));
    assert_eq!(ledger.word().in_flight(), 0);
    ledger.reserve(NORMAL, 3).unwrap();
    assert_eq!(ledger.word().reserved(), 3);
}

#[test]
fn a_lowered_capacity_admits_nothing_until_it_has_drained() {
    let ledger = ledger(3, 0, &[], None);
    let mut slots: Vec<_> = (0..3).map(|_| take(&ledger, NORMAL).ok().unwrap()).collect();
    ledger.set_capacity(1);
    for _ in 0..2 {
        slots.pop();
        assert_eq!(take(&ledger, NORMAL).err(), Some(NoSlot::Full));
    }
    slots.pop();
    assert!(take(&ledger, NORMAL).is_ok());
}

#[test]
fn a_large_head_blocks_its_own_line_only_and_nobody_overtakes_in_it() {
    let waker = std::task::Waker::noop();
    let ledger = ledger(4, 0, &[Partition::new()], Some(10));
    let large = claim(Priority::Normal, None, 8);
    let small = claim(Priority::Normal, None, 1);
    let other = claim(Priority::Normal, Some(0), 1);
    let held = take(&ledger, claim(Priority::Normal, None, 5)).ok().unwrap();
    let waiters = ledger.waiters();
    let (first, second) = (waiters.join(&ledger, large), waiters.join(&ledger, small));
    assert_eq!(waiters.ask(first, waker), Standing::Waiting);
    assert_eq!(waiters.ask(second, waker), Standing::Waiting);
    assert!(take(&ledger, small).is_err(), "it would overtake");
    assert!(take(&ledger, claim(Priority::High, None, 1)).is_ok(), "a higher class may");
    assert!(take(&ledger, other).is_ok(), "another line");
    waiters.leave(&ledger, first);
    assert_eq!(waiters.ask(second, waker), Standing::Granted);
    ledger.cancel_permit(small.holding);
    drop(held);
    assert_eq!((ledger.word().in_flight(), ledger.bytes().used()), (0, 0));
}

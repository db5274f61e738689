//! Floods at the graded door, in virtual time: nothing that can be done is left undone, who is let
//! in waits little, nobody is refused before or afterwards, and it is low work that goes.

use weirpool::{Clock, Priority, Reason};

use crate::common::{assert_adds_up, eventually, watchdog};
use crate::pools::{MS, SECOND, graded, offer_evenly, one_per_tick};

#[test]
fn a_flood_is_refused_at_the_door_and_who_is_let_in_waits_little() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        let mut flood = one_per_tick(graded(), workers);
        offer_evenly(&mut flood, 500, 5, 2);
        let (from, before) = (flood.clock.now(), flood.pool.snapshot());
        let (mut longest, mut shortest) = (0, usize::MAX);
        for _ in 0..1_000 {
            offer_evenly(&mut flood, 2, 5, 2);
            longest = longest.max(flood.pool.queued());
            shortest = shortest.min(flood.pool.queued());
            assert_eq!(flood.running(), workers, "no worker was without work");
        }
        let waits = flood.waits_since(from);
        let p99 = waits[waits.len() * 99 / 100];
        assert!(p99 <= 10 * MS, "{workers} workers: {p99:?}");
        assert!(waits.last().unwrap() <= &(10 * MS), "two targets are the end");
        assert!(shortest >= 1 && longest <= 10, "no limit cycle: {shortest} to {longest}");

        let now = flood.pool.snapshot();
        let (ended, shed) =
            (now.completed - before.completed, now.shed.total() - before.shed.total());
        assert_eq!(ended, 2_000, "all that could be done was done");
        assert!(shed <= 20, "{shed} of 2000 were let in for nothing");
        assert_eq!(now.rejected.total(), now.rejected.get(Reason::QueueDelay));
        assert!(now.queue_delay.offered_load.unwrap() > 2.0, "{now:?}");
        flood.finish();
        assert_adds_up(&flood.pool);
    }
}

#[test]
fn after_the_flood_nobody_is_refused() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        let mut flood = one_per_tick(graded(), workers);
        assert!(offer_evenly(&mut flood, 1_000, 5, 2) > 1_000);
        let refused = offer_evenly(&mut flood, 1_000, 4, 5);
        assert!(refused <= 1, "{refused} refused at four fifths of the capacity");
        flood.finish();
    }
}

#[test]
fn when_the_pool_has_run_empty_the_flood_is_forgotten() {
    let mut flood = one_per_tick(graded(), 1);
    offer_evenly(&mut flood, 1_000, 5, 2);
    assert!(flood.pool.snapshot().queue_delay.door_jobs.unwrap() <= 7);
    flood.finish();
    flood.clock.advance(3_600 * SECOND);
    eventually("it has gone to rest", || {
        flood.pool.snapshot().queue_delay.door_jobs.unwrap() >= 19
    });
    let now = flood.pool.snapshot().queue_delay;
    assert!(now.offered_load.unwrap() < 0.01, "nothing was offered for an hour: {now:?}");
    assert!(!now.is_refusing && now.smallest_wait.is_none(), "{now:?}");
    assert_eq!(flood.offer_many(19), 0, "a burst like any");
    flood.finish();
}

#[test]
fn below_the_capacity_nobody_notices_the_door() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        let mut traffic = one_per_tick(graded(), workers);
        assert_eq!(offer_evenly(&mut traffic, 2_000, 9, 10), 0);
        // In bursts of fifteen, too: three targets of wait for the last.
        for _ in 0..100 {
            assert_eq!(traffic.offer_many(15), 0);
            (0..17).for_each(|_| traffic.tick());
        }
        assert_eq!(traffic.pool.snapshot().shed.total(), 0);
        traffic.finish();
    }
}

#[test]
fn in_a_flood_of_all_classes_it_is_low_work_that_goes() {
    let mut flood = one_per_tick(graded(), 1);
    let mut refused = [0; 4];
    for tick in 0..3_000 {
        // Half the capacity of high work, 1.5 times of normal, as much of low, some critical.
        let mut offers = vec![Priority::Low, Priority::Normal];
        offers.extend((tick % 2 == 0).then_some(Priority::High));
        offers.extend((tick % 2 == 1).then_some(Priority::Normal));
        offers.extend((tick % 100 == 0).then_some(Priority::Critical));
        for priority in offers {
            let offered = flood.offer(|pool| pool.job().priority(priority));
            refused[priority as usize] += usize::from(offered.is_err());
        }
        flood.tick();
    }
    let [low, normal, high, critical] = refused;
    assert_eq!((high, critical), (0, 0));
    assert!(low > 2_700 && normal > 2_000 && normal < 3_200, "{refused:?}");
    let of = |priority| flood.log.iter().filter(move |(_, of, _)| *of == priority);
    // One more when a lower lane had its turn.
    assert!(of(Priority::High).all(|(.., waited)| *waited <= 3 * MS));
    assert_eq!(of(Priority::Critical).count(), 30);
    flood.finish();
    assert_adds_up(&flood.pool);
}

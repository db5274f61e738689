//! Queue delay, through the pool: who is refused at the door, who is shed when a worker takes him up,
//! and who never is.
//!
//! Time is a `ManualClock`: it passes only where a test, or a body, says so.

mod common;

use std::sync::mpsc;
use std::time::Duration;

use common::lockstep::Lockstep;
use common::{
    Count, Drops, Gate, assert_adds_up, assert_all_slots_free, assert_at_rest, counting_waker,
    elsewhere, eventually, hold, poll, recv, resolve, watchdog,
};
use weirpool::test::ManualClock;
use weirpool::{
    Builder, Clock, JobError, JobSpec, Partition, Pool, Priority, QueueDelay, Reason, ShedReason,
    Shutdown,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const TARGET: Duration = Duration::from_millis(5);
const INTERVAL: Duration = Duration::from_millis(100);
const PRIORITIES: [Priority; 4] =
    [Priority::Low, Priority::Normal, Priority::High, Priority::Critical];

fn graded() -> QueueDelay {
    QueueDelay::graded(TARGET)
}

/// A pool on a clock of its own, without a CPU gate.
fn pool_with(law: QueueDelay, set: impl FnOnce(Builder) -> Builder) -> (Pool, ManualClock) {
    let clock = ManualClock::new();
    let builder = Pool::builder().workers(1).capacity(512).clock(clock.clone());
    let builder = builder.queue_delay(law).no_cpu_gate().seed(1);
    (set(builder).build().unwrap(), clock)
}

/// Runs so many jobs one after the other, each of which takes `service`.
fn teach(pool: &Pool, clock: &ManualClock, jobs: u64, service: Duration) {
    let before = pool.snapshot().class(Default::default()).jobs;
    for _ in 0..jobs {
        let time = clock.clone();
        resolve(pool.try_submit(move || time.advance(service)).unwrap()).unwrap();
    }
    eventually("what was measured is handed over", || {
        pool.snapshot().class(Default::default()).jobs == before + jobs
    });
}

/// A pool that knows its jobs to take a millisecond.
fn taught_with(law: QueueDelay, set: impl FnOnce(Builder) -> Builder) -> (Pool, ManualClock) {
    let (pool, clock) = pool_with(law, set);
    teach(&pool, &clock, 60 * pool.workers() as u64, MS);
    (pool, clock)
}

fn taught(law: QueueDelay) -> (Pool, ManualClock) {
    taught_with(law, |builder| builder)
}

fn shed_for_delay(pool: &Pool) -> u64 {
    pool.snapshot().shed.get(ShedReason::QueueDelay)
}

fn is_delayed<T>(outcome: &Result<T, JobError>) -> bool {
    matches!(outcome, Err(JobError::Shed(ShedReason::QueueDelay)))
}

/// Fills the queue with jobs of this kind until one is refused: how many, and why.
fn fill(job: JobSpec<'_>) -> (usize, Reason) {
    let mut queued = 0;
    loop {
        match job.try_spawn(|| ()) {
            Ok(()) => queued += 1,
            Err(refused) => return (queued, refused.reason()),
        }
    }
}

// ── The graded door ─────────────────────────────────────────────────────────────────────────────

#[test]
fn before_fifty_jobs_have_ended_only_the_capacity_refuses() {
    let (pool, clock) = pool_with(graded(), |builder| builder.capacity(64));
    assert_eq!(pool.snapshot().queue_delay.door_jobs, None);
    teach(&pool, &clock, 49, MS);
    let held = hold(&pool, 1);
    assert_eq!(fill(pool.job()), (63, Reason::Full));
    clock.advance(10 * MS);
    assert_eq!(pool.try_spawn(|| ()).unwrap_err().reason(), Reason::Full);
    held.free();
    pool.wait_idle();
    assert_eq!((shed_for_delay(&pool), pool.snapshot().completed), (0, 49 + 64));
    assert_eq!(pool.snapshot().rejected.get(Reason::QueueDelay), 0);

    let (pool, clock) = pool_with(graded(), |builder| builder.capacity(64));
    teach(&pool, &clock, 60, MS);
    let held = hold(&pool, 1);
    assert_eq!(fill(pool.job()), (20, Reason::QueueDelay), "four targets of 5 ms are 20 jobs");
    held.free();
}

#[test]
fn the_door_tells_what_it_allows_and_why_it_refuses() {
    let (pool, _clock) = taught(graded());
    let now = pool.snapshot().queue_delay;
    assert_eq!((now.target, now.bound, now.door_jobs), (Some(TARGET), Some(20 * MS), Some(20)));
    assert_eq!((now.predicted_wait, now.is_refusing), (Duration::ZERO, false));
    assert!(now.offered_load.unwrap() < 0.2, "{now:?}");
    assert!(pool.load().score < 0.1);

    let held = hold(&pool, 1);
    assert_eq!(fill(pool.job()), (20, Reason::QueueDelay));
    let now = pool.snapshot().queue_delay;
    assert_eq!((now.predicted_wait, now.is_refusing), (20 * MS, true));
    assert_eq!(pool.load().score, 1.0, "it refuses");
    assert!(pool.snapshot().in_flight < 100);
    held.free();
    pool.wait_idle();
    eventually("calm again", || pool.load().score == 0.0);
    assert_at_rest(&pool);
}

#[test]
fn two_workers_may_have_twice_as_many_waiting() {
    let (pool, _clock) = taught_with(graded(), |builder| builder.workers(2));
    let held = hold(&pool, 2);
    // A worker may have looked at the clock before the other's body moved it, and so have measured
    // both bodies.
    let (queued, reason) = fill(pool.job());
    assert!((25..=40).contains(&queued) && reason == Reason::QueueDelay, "{queued} {reason:?}");
    held.free();
}

#[test]
fn each_class_counts_its_own_lane_and_those_above() {
    let (pool, _clock) = taught(graded());
    let held = hold(&pool, 1);
    let of = |priority| pool.job().priority(priority);
    // Each fills its own bound, whatever waits below it.
    for priority in [Priority::Low, Priority::Normal, Priority::High] {
        assert_eq!(fill(of(priority)), (20, Reason::QueueDelay), "{priority:?}");
    }
    for priority in [Priority::Low, Priority::Normal, Priority::High] {
        let refused = of(priority).try_spawn(|| ()).unwrap_err();
        assert_eq!(refused.reason(), Reason::QueueDelay);
    }
    // Critical work never meets it: the first it meets is the capacity, and there it displaces.
    for _ in 0..512 - 61 + 40 {
        of(Priority::Critical).try_spawn(|| ()).unwrap();
    }
    let end = of(Priority::Critical).try_spawn(|| ()).unwrap_err();
    assert_eq!(end.reason(), Reason::Full, "of low and normal work nothing is left");
    held.free();
    pool.wait_idle();
    let now = pool.snapshot();
    assert_eq!(now.shed.get(ShedReason::Displaced), 40);
    assert_eq!(now.rejected.get(Reason::QueueDelay), 6);
    assert_at_rest(&pool);
}

#[test]
fn a_full_lane_above_refuses_those_below_and_none_above() {
    let (pool, _clock) = taught(graded());
    let held = hold(&pool, 1);
    assert_eq!(fill(pool.job().priority(Priority::Normal)), (20, Reason::QueueDelay));
    let low = pool.job().priority(Priority::Low).try_spawn(|| ()).unwrap_err();
    assert_eq!(low.reason(), Reason::QueueDelay);
    pool.job().priority(Priority::High).try_spawn(|| ()).unwrap();
    held.free();
}

#[test]
fn work_submitted_from_inside_a_body_meets_no_door_and_is_never_shed() {
    let _watchdog = watchdog();
    for law in [graded(), QueueDelay::cutoff(TARGET)] {
        let (pool, clock) = taught_with(law, |builder| builder.workers(1));
        let (inside, gate, ran) = (pool.clone(), Gate::new(), Count::new());
        let (ready, running) = mpsc::channel();
        let (wait, count) = (gate.clone(), ran.clone());
        let parent = pool.try_submit(move || {
            ready.send(()).unwrap();
            wait.wait();
            for priority in PRIORITIES.into_iter().cycle().take(40) {
                let count = count.clone();
                inside.job().priority(priority).try_spawn(move || count.add()).unwrap();
            }
            clock.advance(900 * MS);
        });
        recv(&running);
        (0..20).for_each(|_| pool.try_spawn(|| ()).unwrap());
        gate.open();
        resolve(parent.unwrap()).unwrap();
        pool.wait_idle();
        assert_eq!(ran.get(), 40, "{law:?}");
        assert_eq!(shed_for_delay(&pool), 20, "those from outside");
        assert_at_rest(&pool);
    }
}

#[test]
fn a_job_from_outside_that_is_joined_in_place_is_not_judged() {
    let _watchdog = watchdog();
    let (pool, clock) = taught(QueueDelay::cutoff(TARGET));
    let (give, take) = mpsc::channel();
    let time = clock.clone();
    let parent = pool.try_submit(move || {
        let child: weirpool::JobHandle<u32> = recv(&take);
        time.advance(900 * MS);
        child.join()
    });
    eventually("the parent runs", || pool.running() == 1);
    give.send(pool.try_submit(|| 7).unwrap()).unwrap();
    assert_eq!(resolve(parent.unwrap()).unwrap().unwrap(), 7);
    assert_eq!(shed_for_delay(&pool), 0);
}

#[test]
fn the_target_is_no_less_than_what_one_job_takes() {
    let (pool, clock) = pool_with(graded(), |builder| builder);
    teach(&pool, &clock, 60, 20 * MS);
    assert_eq!(pool.snapshot().queue_delay.target, Some(20 * MS));
    let held = hold(&pool, 1);
    assert_eq!(fill(pool.job()), (4, Reason::QueueDelay), "four targets are four jobs");
    held.free();
    pool.wait_idle();
    // However long jobs are, one of them may wait.
    let (pool, clock) = pool_with(graded(), |builder| builder);
    teach(&pool, &clock, 60, 3_600 * SECOND);
    let held = hold(&pool, 1);
    let (queued, reason) = fill(pool.job());
    assert!((1..=4).contains(&queued) && reason == Reason::QueueDelay, "{queued}");
    held.free();
}

#[test]
fn a_deadline_that_the_predicted_wait_misses_is_refused_at_once() {
    let (pool, clock) = taught(graded());
    let held = hold(&pool, 1);
    (0..10).for_each(|_| pool.try_spawn(|| ()).unwrap());
    let within = |wait| pool.job().timeout(wait).try_spawn(|| ()).map_err(|no| no.reason());
    assert_eq!(within(9 * MS), Err(Reason::Deadline));
    assert_eq!(within(11 * MS), Ok(()));
    // High work has nobody before it.
    let urgent = pool.job().priority(Priority::High).timeout(MS);
    urgent.try_spawn(|| ()).unwrap();
    // Those who wait for a slot can't wait for that either.
    let waiting = pool.job().timeout(5 * MS).submit_timeout(|| (), SECOND);
    assert_eq!(waiting.unwrap_err().reason(), Reason::Deadline);
    assert_eq!(pool.job().timeout(5 * MS).try_reserve().unwrap_err().reason, Reason::Deadline);
    let refused = pool.job().deadline(clock.now() + MS).try_spawn(|| ()).unwrap_err();
    assert_eq!(refused.retry_after(), None, "the deadline is past by then");
    held.free();

    let (pool, _clock) = taught_with(graded(), Builder::batch);
    let held = hold(&pool, 1);
    (0..10).for_each(|_| pool.try_spawn(|| ()).unwrap());
    assert!(pool.job().timeout(MS).try_spawn(|| ()).is_ok(), "batch work is not predicted");
    held.free();
}

#[test]
fn the_wait_hint_is_the_time_to_drain_with_some_spread() {
    let (pool, clock) = pool_with(graded(), |builder| builder.capacity(11));
    let held = hold(&pool, 1);
    let (_, reason) = fill(pool.job());
    assert_eq!(reason, Reason::Full);
    assert_eq!(pool.try_spawn(|| ()).unwrap_err().retry_after(), None, "no job has ended yet");
    assert_eq!(pool.load().retry_after(), None);
    held.free();
    pool.wait_idle();

    let (pool, _) = taught_with(graded(), |builder| builder.capacity(11));
    let held = hold(&pool, 1);
    assert_eq!(fill(pool.job()), (10, Reason::Full));
    let refused = pool.try_spawn(|| ()).unwrap_err();
    let hints: Vec<_> = (0..50).map(|_| refused.retry_after().unwrap()).collect();
    let drain = 11 * MS;
    assert!(hints.iter().all(|hint| (drain..=drain * 3 / 2).contains(hint)), "{hints:?}");
    assert!(hints.iter().any(|hint| *hint != hints[0]), "nobody comes back with the others");
    assert!((drain..=drain * 3 / 2).contains(&pool.load().retry_after().unwrap()));
    drop(clock);
    held.free();
}

// ── The flood, in virtual time ──────────────────────────────────────────────────────────────────

/// A pool of so many workers whose jobs take as many milliseconds: one ends per tick.
fn one_per_tick(law: QueueDelay, workers: usize) -> Lockstep {
    let (pool, clock) = pool_with(law, |builder| builder.workers(workers).capacity(512));
    teach(&pool, &clock, 60 * workers as u64, MS * u32::try_from(workers).unwrap());
    // The flood of the teaching is over.
    clock.advance(SECOND);
    Lockstep::new(pool, clock, MS)
}

/// Offers `jobs` per `per_ticks` ticks, evenly, for some ticks; how many were refused.
fn offer_evenly(lockstep: &mut Lockstep, ticks: usize, jobs: usize, per_ticks: usize) -> usize {
    let mut refused = 0;
    for tick in 0..ticks {
        let due = |tick: usize| tick * jobs / per_ticks;
        refused += lockstep.offer_many(due(tick + 1) - due(tick));
        lockstep.tick();
    }
    refused
}

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

// ── The laws at dequeue ─────────────────────────────────────────────────────────────────────────

#[test]
fn a_standing_queue_is_shed_by_the_interval_rule_and_no_burst_is() {
    let codel = QueueDelay::codel(TARGET, INTERVAL);
    let mut burst = one_per_tick(codel, 1);
    assert_eq!(burst.offer_many(60), 0);
    (0..100).for_each(|_| burst.tick());
    assert_eq!(burst.pool.snapshot().shed.total(), 0, "a burst of 60 ms");

    let mut flood = one_per_tick(codel, 1);
    let mut first = None;
    for tick in 0..3_000 {
        offer_evenly(&mut flood, 1, 5, 2);
        flood.offer_many(tick % 2);
        if first.is_none() && shed_for_delay(&flood.pool) > 0 {
            first = Some(tick);
        }
    }
    let first = first.expect("a standing queue is shed");
    assert!((100..250).contains(&first), "after an interval above the target: {first}");
    let from = flood.clock.now() - 2 * SECOND;
    let waits = flood.waits_since(from);
    assert!(waits[waits.len() * 99 / 100] <= 20 * MS, "{:?}", waits.last());
    assert!(waits.len() >= 2_000, "no worker was without work");
    assert!(flood.pool.snapshot().queue_delay.is_refusing);
    let now = flood.pool.snapshot().queue_delay;
    assert!(now.smallest_wait > Some(TARGET) && now.bound.is_none(), "{now:?}");
    flood.finish();
    assert_adds_up(&flood.pool);
}

#[test]
fn the_control_law_of_the_rfc_drops_one_and_the_next_by_the_square_root() {
    let mut flood = one_per_tick(QueueDelay::rfc8289(TARGET, INTERVAL), 1);
    // 100 jobs wait, and as many come as can be done: every wait is about 100 ms.
    flood.offer_many(100);
    let (mut drops, mut above_since) = (Vec::new(), None);
    let mut shed = 0;
    for tick in 0..900_u32 {
        flood.offer_many(1);
        flood.tick();
        if above_since.is_none() && flood.log.last().unwrap().2 >= TARGET {
            above_since = Some(tick);
        }
        let now = shed_for_delay(&flood.pool);
        assert!(now - shed <= 1, "one at a time");
        drops.extend((now > shed).then_some(f64::from(tick)));
        shed = now;
    }
    let mut due = f64::from(above_since.unwrap()) + 100.0;
    for (nth, dropped) in drops.iter().enumerate() {
        assert!((dropped - due).abs() <= 1.5, "drop {nth} at {dropped}, due at {due}");
        due += 100.0 / ((nth + 1) as f64).sqrt();
    }
    assert!(drops.len() >= 12, "{drops:?}");
    flood.finish();
    assert_adds_up(&flood.pool);
}

#[test]
fn sparse_traffic_does_not_escape_the_law() {
    for law in [QueueDelay::codel(TARGET, INTERVAL), QueueDelay::rfc8289(TARGET, INTERVAL)] {
        // One worker is busy for good, so that the pool never goes to rest.
        let (pool, clock) = taught_with(law, |builder| builder.workers(2));
        let for_good = hold(&pool, 1);
        let mut shed = 0;
        for _ in 0..20 {
            let gate = hold(&pool, 1);
            let job = pool.job().priority(Priority::Low).try_submit(|| ()).unwrap();
            clock.advance(50 * MS);
            gate.free();
            shed += usize::from(is_delayed(&resolve(job)));
            clock.advance(100 * MS);
        }
        assert!(shed >= 10, "{law:?}: {shed} of 20, each of which waited 50 ms");
        for_good.free();
    }
}

#[test]
fn a_cutoff_is_hard_and_exact() {
    let wait_of = |wait: Duration| {
        let (pool, clock) = pool_with(QueueDelay::cutoff(20 * MS), |builder| builder);
        let held = hold(&pool, 1);
        let job = pool.try_submit(|| ()).unwrap();
        clock.advance(wait);
        held.free();
        is_delayed(&resolve(job))
    };
    assert!(!wait_of(20 * MS), "that is no longer than it may");
    assert!(wait_of(20 * MS + Duration::from_nanos(1)));
    assert!(wait_of(3_600 * SECOND), "whatever made the time pass");
}

#[test]
fn without_a_law_nothing_is_shed() {
    for batch in [false, true] {
        let (pool, clock) = taught_with(QueueDelay::off(), |builder| {
            if batch { builder.queue_delay(graded()).batch() } else { builder }
        });
        let held = hold(&pool, 1);
        assert_eq!(fill(pool.job()), (511, Reason::Full));
        clock.advance(900 * MS);
        held.free();
        pool.wait_idle();
        let now = pool.snapshot();
        assert_eq!((now.shed.total(), now.completed), (0, 60 + 512));
        let state = now.queue_delay;
        assert_eq!((state.target, state.bound, state.door_jobs), (None, None, None));
        assert_eq!((state.offered_load, state.is_refusing), (None, false));
    }
}

#[test]
fn a_pause_of_the_whole_process_is_no_overload() {
    let laws = [
        (graded(), 0),
        (QueueDelay::codel(TARGET, INTERVAL), 0),
        (QueueDelay::rfc8289(TARGET, INTERVAL), 0),
        (QueueDelay::off(), 0),
        (QueueDelay::cutoff(SECOND), 10),
    ];
    for (law, expected) in laws {
        let (pool, clock) = taught(law);
        let held = hold(&pool, 1);
        let plain: Vec<_> = (0..10).map(|_| pool.try_submit(|| ()).unwrap()).collect();
        let expiring = pool.job().timeout(60 * SECOND).try_submit(|| ()).unwrap();
        clock.advance(3_600 * SECOND);
        held.free();
        let shed = plain.into_iter().filter_map(|job| resolve(job).err()).count();
        assert_eq!(shed, expected, "{law:?}");
        assert!(matches!(resolve(expiring), Err(JobError::Shed(ShedReason::Deadline))));
        assert_adds_up(&pool);
        // And what comes afterwards is served as ever.
        for _ in 0..10 {
            resolve(pool.try_submit(|| ()).unwrap()).unwrap();
        }
        assert!(pool.snapshot().mean_service_time.unwrap() < 3_600 * SECOND);
    }
}

// ── What is shed ────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_shed_job_never_runs_and_its_slot_is_back_before_its_handle_resolves() {
    let (pool, clock) = pool_with(QueueDelay::cutoff(TARGET), |builder| builder.capacity(3));
    let (ran, dropped) = (Count::new(), Drops::new());
    for round in 1..=200 {
        let held = hold(&pool, 1);
        let queue = |_| {
            let (ran, ghost) = (ran.clone(), dropped.tracked());
            let body = move || {
                let _ghost = ghost;
                ran.add();
            };
            pool.try_submit(body).unwrap()
        };
        let [first, last] = [0, 1].map(queue);
        clock.advance(2 * TARGET);
        held.open();
        assert!(is_delayed(&resolve(first)));
        assert!(dropped.count() >= 2 * round - 1, "what it captured is gone");
        assert!(is_delayed(&resolve(last)));
        assert_eq!((dropped.count(), pool.in_flight()), (2 * round, 0));
        held.free();
    }
    assert_eq!((ran.get(), shed_for_delay(&pool)), (0, 400));
    assert_all_slots_free(&pool);
}

#[test]
fn detached_reserved_and_scoped_jobs_are_shed_alike() {
    let (pool, clock) = pool_with(QueueDelay::cutoff(TARGET), |builder| builder);
    let permit = pool.try_reserve().unwrap();
    clock.advance(SECOND);
    let held = hold(&pool, 1);
    let of_permit = permit.submit(|| ()).unwrap();
    pool.try_spawn(|| ()).unwrap();
    let (outcome, ()) = std::thread::scope(|threads| {
        let scoped = threads.spawn(|| pool.scope(|scope| scope.try_submit(|| ()).unwrap().join()));
        eventually("all three wait", || pool.queued() == 3);
        clock.advance(500 * MS);
        held.free();
        (scoped.join().unwrap(), ())
    });
    assert!(is_delayed(&outcome), "{outcome:?}");
    assert!(is_delayed(&resolve(of_permit)), "its wait counts from the submit");
    eventually("the detached one, too", || shed_for_delay(&pool) == 3);
    assert_at_rest(&pool);
}

#[test]
fn a_destructor_that_panics_while_its_job_is_shed_costs_nothing() {
    let (pool, clock) = pool_with(QueueDelay::cutoff(TARGET), |builder| builder);
    let held = hold(&pool, 1);
    let bomb = common::on_drop(|| common::quiet_panic());
    let body = move || {
        let _bomb = &bomb;
    };
    let job = pool.try_submit(body).unwrap();
    clock.advance(2 * TARGET);
    held.free();
    assert!(is_delayed(&resolve(job)));
    assert_eq!(resolve(pool.try_submit(|| 5).unwrap()).unwrap(), 5);
    assert_eq!(pool.snapshot().contained_panics, 1);
    assert_at_rest(&pool);
}

#[test]
fn cancel_displace_drain_and_discard_go_on_beside_shedding() {
    for how in [Shutdown::Drain, Shutdown::Discard] {
        let set = |builder: Builder| {
            let a = Partition::new().reserved(4).max(8);
            builder.capacity(32).critical_reserve(2).partition("a", a).max_bytes(1_000)
        };
        let (pool, clock) = pool_with(QueueDelay::cutoff(TARGET), set);
        let of_a = pool.job().partition(pool.partition("a").unwrap()).bytes(10);
        let held = hold(&pool, 1);
        let mut jobs: Vec<_> = (0..6).map(|_| of_a.try_submit(|| ()).unwrap()).collect();
        for nth in 0..23 {
            let priority = PRIORITIES[nth % 3];
            jobs.push(pool.job().priority(priority).bytes(5).try_submit(|| ()).unwrap());
        }
        let critical = pool.job().priority(Priority::Critical);
        let urgent: Vec<_> = (0..6).map(|_| critical.try_submit(|| ()).unwrap()).collect();
        clock.advance(500 * MS);
        let cancelled = jobs.iter().step_by(5).filter(|job| job.cancel()).count() as u64;
        let fresh: Vec<_> = (0..2).filter_map(|_| pool.try_submit(|| ()).ok()).collect();
        assert!(!fresh.is_empty(), "cancelled slots are back");

        let report = pool.shutdown(how, Some(Duration::ZERO));
        drop(held);
        pool.shutdown(Shutdown::Drain, None);
        let now = pool.snapshot();
        let [delayed, displaced] =
            [ShedReason::QueueDelay, ShedReason::Displaced].map(|why| now.shed.get(why));
        assert_eq!(now.cancelled, cancelled);
        assert!(displaced >= 4, "{now:?}");
        if how == Shutdown::Drain {
            assert_eq!(delayed, 29 - cancelled - displaced);
            assert_eq!((report.discarded, now.discarded), (0, 0));
        } else {
            assert_eq!((delayed, now.discarded), (0, report.discarded as u64));
        }
        for job in jobs.into_iter().chain(urgent).chain(fresh) {
            let _ = resolve(job);
        }
        assert_at_rest(&pool);
        assert_eq!(now.bytes, 0);
    }
}

#[test]
fn a_waiting_lane_gets_its_turn_although_what_stands_at_its_head_is_not_run() {
    // Twice: low jobs that have waited too long, and low jobs whose time is up.
    for (law, timeout) in
        [(QueueDelay::cutoff(20 * MS), Duration::MAX), (QueueDelay::off(), 20 * MS)]
    {
        let (pool, clock) = pool_with(law, |builder| builder);
        let mut flood = Lockstep::new(pool, clock, MS);
        flood.offer_many(1);
        for tick in 0..5_000 {
            flood.offer(|pool| pool.job().priority(Priority::High)).unwrap();
            if tick % 5 == 0 {
                flood.offer(|pool| pool.job().priority(Priority::Low).timeout(timeout)).unwrap();
            }
            flood.tick();
        }
        let turns: Vec<_> = flood.log.iter().filter(|(_, of, _)| *of == Priority::Low).collect();
        assert!((4..=5).contains(&turns.len()), "{law:?}: {} turns", turns.len());
        let between = turns.windows(2).map(|pair| pair[1].0 - pair[0].0);
        assert!(between.clone().all(|apart| apart <= SECOND + 2 * MS), "{:?}", between.max());
        assert!(turns.iter().all(|(.., waited)| *waited <= 20 * MS));
        flood.finish();
        assert_adds_up(&flood.pool);
    }
}

// ── Waiting for a shorter queue ─────────────────────────────────────────────────────────────────

#[test]
fn who_waits_for_a_shorter_queue_is_let_in_as_it_drains_one_by_one_in_order() {
    let _watchdog = watchdog();
    let mut busy = one_per_tick(graded(), 1);
    assert_eq!(fill_with_bodies(&mut busy), Reason::QueueDelay);
    let (waker, _) = counting_waker();
    let mut waiting: Vec<_> = (0..50).map(|_| busy.pool.submit(busy.body())).collect();
    for submit in &mut waiting {
        assert!(poll(submit, &waker).is_pending(), "the queue is too long for it");
    }
    let bound = busy.pool.queued();
    let mut jobs = Vec::new();
    for tick in 0..60 {
        // Whoever comes now comes after them, also where there is room for one.
        for priority in [Priority::Low, Priority::Normal] {
            let refused = busy.pool.job().priority(priority).try_spawn(|| ());
            if jobs.len() < 50 {
                assert_eq!(refused.unwrap_err().reason(), Reason::QueueDelay);
            }
        }
        if tick == 5 {
            busy.offer(|pool| pool.job().priority(Priority::High)).expect("it may overtake");
        }
        busy.tick();
        while let Some(first) = waiting.first_mut() {
            match poll(first, &waker) {
                std::task::Poll::Ready(answer) => jobs.push(answer.unwrap()),
                std::task::Poll::Pending => break,
            }
            drop(waiting.remove(0));
        }
        assert!(waiting.iter_mut().all(|submit| poll(submit, &waker).is_pending()), "in order");
        busy.settle();
        let queued = busy.pool.queued();
        assert!(queued <= bound + 1, "{queued} wait where {bound} may");
        assert!(jobs.len() <= tick + 1, "one at most for each that ended");
    }
    assert!(jobs.len() >= 50, "all were let in, {} of them", jobs.len());
    busy.finish();
    for job in jobs {
        resolve(job).expect("who has waited for his slot is not shed");
    }
    assert_adds_up(&busy.pool);
}

/// Fills the queue with bodies until one is refused.
fn fill_with_bodies(lockstep: &mut Lockstep) -> Reason {
    loop {
        if let Err(refused) = lockstep.offer(Pool::job) {
            return refused.reason();
        }
    }
}

#[test]
fn who_waits_for_a_shorter_queue_is_let_in_when_the_pool_runs_out_of_work() {
    let _watchdog = watchdog();
    let (pool, _clock) = taught(graded());
    let held = hold(&pool, 1);
    assert_eq!(fill(pool.job()), (20, Reason::QueueDelay));
    let own = pool.clone();
    let blocked = elsewhere(move || own.submit_blocking(|| 3).unwrap().join().unwrap());
    let own = pool.clone();
    let in_time = elsewhere(move || own.submit_timeout(|| 4, 30 * SECOND).unwrap().join().unwrap());
    let (waker, wakes) = counting_waker();
    let mut submit = pool.submit(|| 5);
    assert!(poll(&mut submit, &waker).is_pending());
    held.free();
    eventually("it is woken", || wakes.get() > 0);
    let std::task::Poll::Ready(answer) = poll(&mut submit, &waker) else { panic!("woken in vain") };
    assert_eq!(resolve(answer.unwrap()).unwrap(), 5);
    assert_eq!((blocked.wait(), in_time.wait()), (3, 4));
    pool.wait_idle();
    assert_all_slots_free(&pool);
}

#[test]
fn who_waits_for_a_shorter_queue_is_let_in_when_the_queued_are_cancelled() {
    let (pool, _clock) = taught(graded());
    let held = hold(&pool, 1);
    let queued: Vec<_> = (0..20).map(|_| pool.try_submit(|| ()).unwrap()).collect();
    let (waker, wakes) = counting_waker();
    let mut waiting = [(); 2].map(|()| pool.submit(|| ()));
    assert!(waiting.iter_mut().all(|submit| poll(submit, &waker).is_pending()));
    assert!(queued[7].cancel());
    assert_eq!(wakes.get(), 1, "one has gone");
    let [first, mut second] = waiting;
    // A grant that nobody uses goes to the next.
    drop(first);
    assert_eq!(wakes.get(), 2);
    let std::task::Poll::Ready(Ok(job)) = poll(&mut second, &waker) else { panic!("its turn") };
    held.free();
    resolve(job).unwrap();
    pool.wait_idle();
    assert_all_slots_free(&pool);
}

#[test]
fn a_wait_for_a_shorter_queue_ends_with_that_reason_or_with_the_pool() {
    let (pool, _clock) = taught(graded());
    let held = hold(&pool, 1);
    assert_eq!(fill(pool.job()), (20, Reason::QueueDelay));
    let late = pool.submit_timeout(|| (), Duration::ZERO).unwrap_err();
    assert_eq!(late.reason(), Reason::QueueDelay, "what it has waited on");
    let (waker, wakes) = counting_waker();
    let mut submit = pool.submit(|| ());
    assert!(poll(&mut submit, &waker).is_pending());
    pool.close();
    assert_eq!(wakes.get(), 1);
    let std::task::Poll::Ready(Err(refused)) = poll(&mut submit, &waker) else { panic!("closed") };
    assert_eq!(refused.reason(), Reason::Closed);
    held.free();
}

#[test]
fn what_waiting_does_not_cure_is_refused_at_once_also_behind_a_long_queue() {
    let (other, _) = pool_with(graded(), |builder| builder.partition("a", Partition::new()));
    let (pool, _clock) = taught_with(graded(), |builder| builder.max_bytes(100));
    let held = hold(&pool, 1);
    assert_eq!(fill(pool.job()), (20, Reason::QueueDelay));
    let refused = |job: JobSpec<'_>| job.submit_timeout(|| (), SECOND).unwrap_err().reason();
    assert_eq!(refused(pool.job().bytes(101)), Reason::Bytes);
    assert_eq!(refused(pool.job().partition(other.partition("a").unwrap())), Reason::Partition);
    held.free();
}

#[test]
fn who_has_waited_for_a_slot_is_not_shed_and_who_has_not_is() {
    for law in [QueueDelay::cutoff(TARGET), graded()] {
        let (pool, clock) = taught_with(law, |builder| builder.capacity(3));
        let held = hold(&pool, 1);
        let queued = [0, 1].map(|_| pool.try_submit(|| ()).unwrap());
        let (waker, _) = counting_waker();
        let mut submit = pool.submit(|| 7);
        assert!(poll(&mut submit, &waker).is_pending());
        assert!(queued[0].cancel());
        let std::task::Poll::Ready(Ok(waited)) = poll(&mut submit, &waker) else { panic!("free") };
        assert!(queued[1].cancel());
        // It has not had to wait for its slot.
        let mut at_once = pool.submit(|| ());
        let std::task::Poll::Ready(Ok(at_once)) = poll(&mut at_once, &waker) else {
            panic!("free")
        };
        clock.advance(900 * MS);
        held.free();
        assert_eq!(resolve(waited).unwrap(), 7, "{law:?}");
        assert!(is_delayed(&resolve(at_once)), "{law:?}");
        assert_adds_up(&pool);
    }
}

#[test]
fn on_a_worker_the_blocking_forms_do_not_wait_for_a_shorter_queue() {
    let _watchdog = watchdog();
    let (pool, _clock) = taught(graded());
    let (own, gate) = (pool.clone(), Gate::new());
    let (ready, running) = mpsc::channel();
    let wait = gate.clone();
    let parent = pool.try_submit(move || {
        ready.send(()).unwrap();
        wait.wait();
        own.submit_blocking(|| 1).unwrap().join().unwrap()
    });
    recv(&running);
    assert_eq!(fill(pool.job()), (20, Reason::QueueDelay));
    gate.open();
    assert_eq!(resolve(parent.unwrap()).unwrap(), 1, "it is exempt");
}

// ── Beside the other bounds ─────────────────────────────────────────────────────────────────────

#[test]
fn the_first_reason_in_the_order_is_reported() {
    let set = |builder: Builder| {
        builder.capacity(22).partition("a", Partition::new().max(1)).max_bytes(10)
    };
    let (pool, clock) = taught_with(graded(), set);
    let of_a = pool.job().partition(pool.partition("a").unwrap());
    let held = hold(&pool, 1);
    let job = of_a.bytes(10).try_submit(|| ()).unwrap();
    assert_eq!(fill(pool.job()), (19, Reason::QueueDelay));
    let past = clock.now();
    clock.advance(MS);
    let reason = |job: JobSpec<'_>| job.try_spawn(|| ()).unwrap_err().reason();
    assert_eq!(reason(of_a.bytes(1).deadline(past)), Reason::Deadline);
    assert_eq!(reason(of_a.bytes(1)), Reason::QueueDelay);
    // High work meets no queue.
    let of_a = of_a.priority(Priority::High);
    assert_eq!(reason(of_a.bytes(1)), Reason::Partition);
    let high = pool.job().priority(Priority::High);
    assert_eq!(reason(high.bytes(1)), Reason::Bytes);
    high.try_spawn(|| ()).unwrap();
    assert_eq!(reason(high), Reason::Full);
    assert_eq!(reason(high.bytes(1)), Reason::Bytes);
    pool.close();
    assert_eq!(reason(of_a.bytes(1).deadline(past)), Reason::Closed);
    held.free();
    drop(job);
    pool.wait_idle();
    assert_at_rest(&pool);
}

#[test]
fn nonsense_is_refused_by_name_when_the_pool_is_built() {
    let said = |law| {
        let error = Pool::builder().queue_delay(law).build().unwrap_err();
        error.to_string()
    };
    let zero = Duration::ZERO;
    for law in
        [QueueDelay::graded(zero), QueueDelay::codel(zero, MS), QueueDelay::rfc8289(zero, MS)]
    {
        assert!(said(law).starts_with("queue_delay.target = 0ns"), "{}", said(law));
    }
    for law in [QueueDelay::codel(MS, zero), QueueDelay::rfc8289(MS, zero)] {
        assert!(said(law).starts_with("queue_delay.interval = 0ns"), "{}", said(law));
    }
    assert!(said(QueueDelay::cutoff(zero)).starts_with("queue_delay.max = 0ns"));
    for law in [
        QueueDelay::graded(Duration::MAX),
        QueueDelay::codel(Duration::MAX, Duration::MAX),
        QueueDelay::rfc8289(Duration::MAX, Duration::MAX),
        QueueDelay::cutoff(Duration::MAX),
    ] {
        let (pool, clock) = taught(law);
        let held = hold(&pool, 1);
        let job = pool.try_submit(|| 1).unwrap();
        clock.advance(900 * MS);
        held.free();
        assert_eq!(resolve(job).unwrap(), 1, "{law:?}: no wait is too long");
        let _ = (format!("{:?}", pool.snapshot()), pool.load());
    }
}

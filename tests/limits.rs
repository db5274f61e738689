//! The adaptive limit, through the pool: how far it may go, what it refuses and whom it doesn't.
//!
//! Bodies stand for calls to a server with a limit of its own: it ends one per millisecond, each after
//! ten at least, so that more than ten at once queue there. Time is a `ManualClock`.

mod common;

use std::task::{Poll, Waker};
use std::time::Duration;

use common::clocks::WatchedClock;
use common::lockstep::Lockstep;
use common::{
    Count, Rendezvous, assert_adds_up, assert_all_slots_free, counting_waker, eventually,
    fail_quietly, hold, poll, resolve, watchdog,
};
use weirpool::test::{ManualClock, ManualCpu};
use weirpool::{
    Arm, Builder, Class, CpuGate, Limit, Partition, Pool, Priority, QueueDelay, Reason, ShedReason,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// What the server needs for one job that doesn't queue.
const BASE_TICKS: u32 = 10;

fn adaptive() -> [Limit; 4] {
    [Limit::aimd(), Limit::vegas(), Limit::gradient(), Limit::bdp()]
}

fn pool_with(limit: Limit, set: impl FnOnce(Builder) -> Builder) -> (Pool, WatchedClock) {
    let clock = WatchedClock::new();
    let builder = Pool::builder().batch().workers(1).capacity(64).clock(clock.clone());
    (set(builder.limit(limit)).build().unwrap(), clock)
}

/// A pool with more workers than its server bears.
fn plant(limit: Limit, workers: usize, capacity: usize) -> Lockstep {
    let (pool, clock) = pool_with(limit, |builder| builder.workers(workers).capacity(capacity));
    Lockstep::new(pool, clock, MS)
}

/// A millisecond passes, and the server ends one job if there is one that is ripe.
fn serve(plant: &mut Lockstep, base: Duration) {
    plant.clock.advance(MS);
    if plant.oldest().is_some_and(|age| age >= base) {
        plant.end_one();
    }
}

/// Offers work until it is refused: how many were let in, and why the last was not.
fn fill(plant: &mut Lockstep) -> (usize, Reason) {
    let mut accepted = 0;
    loop {
        match plant.pool.try_spawn(plant.body()) {
            Ok(()) => accepted += 1,
            Err(refused) => {
                plant.settle();
                return (accepted, refused.reason());
            }
        }
    }
}

/// Asserts what holds at each moment, whatever the limit has found.
#[track_caller]
fn assert_bounded(plant: &Lockstep, least: usize) -> usize {
    let now = plant.pool.snapshot();
    let range = least.min(now.capacity)..=now.capacity;
    assert!(range.contains(&now.limit), "{} is not in {range:?}", now.limit);
    let load = plant.pool.load();
    assert!((0.0..=1.0).contains(&load.score) && load.in_flight == now.in_flight);
    now.limit
}

// ── How far it may go ───────────────────────────────────────────────────────────────────────────

#[test]
fn it_finds_what_the_server_bears_within_its_bounds() {
    let _watchdog = watchdog();
    for limit in adaptive() {
        let mut plant = plant(limit.clone().min(3).initial(4), 32, 64);
        assert_eq!(plant.pool.snapshot().limit, 4);
        let mut highest = 0;
        for _ in 0..3_000 {
            let (_, reason) = fill(&mut plant);
            let found = assert_bounded(&plant, 3);
            let expected = if found < 64 { Reason::Limit } else { Reason::Full };
            assert_eq!(reason, expected, "{limit:?} at {found}");
            highest = highest.max(found);
            serve(&mut plant, MS * BASE_TICKS);
        }
        assert!((8..64).contains(&highest), "{limit:?}: {highest} for a server of ten");
        plant.finish();
        assert_adds_up(&plant.pool);
    }
}

#[test]
fn an_incident_drives_it_down_to_its_least_and_it_comes_back() {
    let _watchdog = watchdog();
    for least in [0, 1, 7] {
        for limit in adaptive() {
            let mut plant = plant(limit.clone().min(least).initial(8), 8, 32);
            for _ in 0..1_000 {
                fill(&mut plant);
                serve(&mut plant, MS * BASE_TICKS);
            }
            let before = plant.pool.snapshot().limit;
            // For ten seconds each job takes a hundred times as long.
            for _ in 0..100 {
                fill(&mut plant);
                assert_bounded(&plant, least.max(1));
                plant.clock.advance(100 * MS);
                plant.end_one();
            }
            let at_worst = plant.pool.snapshot().limit;
            assert!(at_worst < before, "{limit:?}: {at_worst} after {before}");
            let mut ticks = 0;
            while plant.pool.snapshot().limit <= at_worst {
                fill(&mut plant);
                serve(&mut plant, MS * BASE_TICKS);
                assert_bounded(&plant, least.max(1));
                ticks += 1;
                assert!(ticks < 20_000, "{limit:?}: it stays at {at_worst}");
            }
            plant.finish();
        }
    }
}

#[test]
fn it_does_not_move_without_use() {
    for limit in adaptive() {
        let (pool, clock) = pool_with(limit.clone().initial(20), |builder| builder);
        for _ in 0..1_000 {
            let time = clock.clone();
            resolve(pool.try_submit(move || time.advance(10 * MS)).unwrap()).unwrap();
            assert_eq!(pool.snapshot().limit, 20, "{limit:?}: one at a time is no use of twenty");
        }
        clock.advance(3_600 * SECOND);
        resolve(pool.try_submit(|| ()).unwrap()).unwrap();
        assert_eq!(pool.snapshot().limit, 20, "{limit:?}: nor is an hour without work");
    }
}

#[test]
fn jobs_that_did_not_return_tell_it_nothing() {
    for limit in adaptive() {
        let law = QueueDelay::cutoff(MS);
        let set = |builder: Builder| builder.queue_delay(law);
        let (pool, clock) = pool_with(limit.clone().initial(4), set);
        for round in 0..500 {
            let held = hold(&pool, 1);
            let time = clock.clone();
            // One that panics after a long time, one that is cancelled and one that is shed.
            let fails = pool.submit_blocking(move || {
                time.advance(60 * SECOND);
                fail_quietly();
            });
            let [cancelled, shed] = [(); 2].map(|()| pool.try_submit(|| ()).unwrap());
            assert!(cancelled.cancel());
            held.free();
            assert!(resolve(fails.unwrap()).unwrap_err().is_panic());
            assert!(resolve(shed).unwrap_err().is_shed());
            assert_eq!(pool.snapshot().limit, 4, "{limit:?} in round {round}");
        }
        let now = pool.snapshot();
        assert_eq!(now.class(Class::default()).mean_service_time, Some(Duration::ZERO));
        assert_eq!((now.panicked, now.cancelled), (500, 500));
        assert_eq!(now.shed.get(ShedReason::QueueDelay), 500);
        assert_adds_up(&pool);
    }
}

#[test]
fn fixed_is_the_capacity() {
    let (pool, _) = pool_with(Limit::fixed().min(3).initial(5), |builder| builder);
    assert_eq!(pool.snapshot().limit, 64);
    pool.set_capacity(7);
    assert_eq!(pool.snapshot().limit, 7);
    let held = hold(&pool, 1);
    (0..6).for_each(|_| pool.try_spawn(|| ()).unwrap());
    assert_eq!(pool.try_spawn(|| ()).unwrap_err().reason(), Reason::Full);
    held.free();
}

// ── Whom it refuses ─────────────────────────────────────────────────────────────────────────────

#[test]
fn it_refuses_with_its_own_reason_and_not_critical_work() {
    for limit in adaptive() {
        let (pool, _) = pool_with(limit.initial(3), |builder| builder.capacity(8));
        let held = hold(&pool, 1);
        (0..2).for_each(|_| pool.try_spawn(|| ()).unwrap());
        for priority in [Priority::Low, Priority::Normal, Priority::High] {
            let refused = pool.job().priority(priority).try_spawn(|| ()).unwrap_err();
            assert_eq!(refused.reason(), Reason::Limit);
        }
        assert_eq!(pool.try_reserve().unwrap_err().reason, Reason::Limit);
        assert_eq!(pool.load().score, 1.0, "it refuses");
        for _ in 0..5 {
            pool.job().priority(Priority::Critical).try_spawn(|| ()).unwrap();
        }
        let now = pool.snapshot();
        assert_eq!((now.in_flight, now.limit, now.capacity), (8, 3, 8));
        assert_eq!(now.rejected.get(Reason::Limit), 4);
        // Still the limit: it comes before the capacity.
        assert_eq!(pool.try_spawn(|| ()).unwrap_err().reason(), Reason::Limit);
        held.free();
        pool.wait_idle();
        let many = pool.try_reserve_many(3).unwrap();
        assert_eq!(pool.try_reserve_many(1).unwrap_err().reason, Reason::Limit);
        drop(many);
        assert_eq!(pool.try_reserve_many(4).unwrap_err().reason, Reason::Limit);
        assert_adds_up(&pool);
    }
}

#[test]
fn the_critical_reserve_and_the_limit_do_not_add_up() {
    let set = |builder: Builder| builder.capacity(8).critical_reserve(5);
    for (initial, admitted, reason) in [(2, 2, Reason::Limit), (6, 3, Reason::Full)] {
        let (pool, _) = pool_with(Limit::vegas().initial(initial), set);
        let held = hold(&pool, 1);
        (1..admitted).for_each(|_| pool.try_spawn(|| ()).unwrap());
        assert_eq!(pool.try_spawn(|| ()).unwrap_err().reason(), reason);
        assert_eq!(pool.load().score, 1.0, "it refuses");
        held.free();
    }
}

#[test]
fn reserved_shares_are_floors_below_it() {
    let set = |builder: Builder| {
        let (a, b) = (Partition::new().reserved(4), Partition::new().reserved(2).max(3));
        builder.capacity(16).partition("a", a).partition("b", b)
    };
    for limit in adaptive() {
        let (pool, _) = pool_with(limit.initial(2), set);
        let [a, b] = ["a", "b"].map(|name| pool.job().partition(pool.partition(name).unwrap()));
        let held = hold(&pool, 1);
        pool.try_spawn(|| ()).unwrap();
        assert_eq!(pool.try_spawn(|| ()).unwrap_err().reason(), Reason::Limit);
        (0..4).for_each(|_| a.try_spawn(|| ()).unwrap());
        assert_eq!(a.try_spawn(|| ()).unwrap_err().reason(), Reason::Limit);
        (0..2).for_each(|_| b.try_spawn(|| ()).unwrap());
        assert_eq!(b.try_spawn(|| ()).unwrap_err().reason(), Reason::Limit);
        a.priority(Priority::Critical).try_spawn(|| ()).unwrap();
        assert_eq!(pool.in_flight(), 9);
        held.free();
        pool.wait_idle();
        assert_adds_up(&pool);
    }
}

#[test]
fn its_reason_comes_after_partition_and_bytes_and_before_full() {
    let set = |builder: Builder| {
        builder.capacity(4).max_bytes(10).partition("a", Partition::new().max(1))
    };
    let (pool, _) = pool_with(Limit::aimd().initial(2), set);
    let of_a = pool.job().partition(pool.partition("a").unwrap());
    let held = hold(&pool, 1);
    of_a.bytes(10).try_spawn(|| ()).unwrap();
    let critical = pool.job().priority(Priority::Critical);
    (0..2).for_each(|_| critical.try_spawn(|| ()).unwrap());
    let reason = |job: weirpool::JobSpec<'_>| job.try_spawn(|| ()).unwrap_err().reason();
    assert_eq!(reason(of_a.bytes(1)), Reason::Partition);
    assert_eq!(reason(pool.job().bytes(1)), Reason::Bytes);
    assert_eq!(reason(pool.job()), Reason::Limit);
    assert_eq!(reason(critical.priority(Priority::Critical).bytes(1)), Reason::Bytes);
    held.free();
}

// ── Waiting, and resizing ───────────────────────────────────────────────────────────────────────

#[test]
fn who_waits_for_it_comes_first_and_is_let_in_in_order() {
    let (pool, _) = pool_with(Limit::aimd().initial(3), |builder| builder);
    let held = hold(&pool, 1);
    let queued = [(); 2].map(|()| pool.try_submit(|| ()).unwrap());
    let (waker, wakes) = counting_waker();
    let mut waiting: Vec<_> = (0..3).map(|nth| pool.submit(move || nth)).collect();
    assert!(waiting.iter_mut().all(|submit| poll(submit, &waker).is_pending()));
    let refused = pool.try_spawn(|| ()).unwrap_err();
    assert_eq!(refused.reason(), Reason::Limit, "what those before it wait for");
    let late = pool.submit_timeout(|| (), Duration::ZERO).unwrap_err();
    assert_eq!(late.reason(), Reason::Limit);
    for (nth, queued) in queued.into_iter().enumerate() {
        assert!(queued.cancel());
        assert_eq!(wakes.get(), nth + 1);
        assert_eq!(pool.try_spawn(|| ()).unwrap_err().reason(), Reason::Limit);
        let Poll::Ready(Ok(job)) = poll(&mut waiting.remove(0), &waker) else { panic!("{nth}") };
        drop(job);
    }
    held.free();
    let mut last = waiting.remove(0);
    eventually("the last is let in", || wakes.get() == 3);
    let Poll::Ready(Ok(job)) = poll(&mut last, &waker) else { panic!("woken in vain") };
    assert_eq!(resolve(job).unwrap(), 2);
    pool.wait_idle();
    assert_adds_up(&pool);
}

#[test]
fn who_waits_is_let_in_when_it_rises() {
    let _watchdog = watchdog();
    for limit in adaptive() {
        let mut plant = plant(limit.clone().initial(2), 8, 64);
        let (waker, _) = counting_waker();
        fill(&mut plant);
        let mut waiting: Vec<_> = (0..6).map(|_| plant.pool.submit(plant.body())).collect();
        let mut in_flight = 0;
        for _ in 0..2_000 {
            waiting.retain_mut(|submit| poll(submit, &waker).is_pending());
            fill(&mut plant);
            in_flight = in_flight.max(plant.pool.in_flight());
            // Nothing ever queues at this server.
            plant.clock.advance(MS);
            while plant.oldest().is_some_and(|age| age >= 5 * MS) {
                plant.end_one();
            }
            if waiting.is_empty() && in_flight > 6 {
                break;
            }
        }
        assert!(waiting.is_empty() && in_flight > 6, "{limit:?}: {in_flight}");
        plant.finish();
        assert_adds_up(&plant.pool);
    }
}

#[test]
fn the_capacity_may_change_under_it() {
    let _watchdog = watchdog();
    for limit in adaptive() {
        let mut plant = plant(limit.clone().min(4).initial(6), 8, 64);
        for (nth, capacity) in [64, 5, 2, 1, 3, 1_000, 64].into_iter().cycle().take(21).enumerate()
        {
            plant.pool.set_capacity(capacity);
            for _ in 0..60 {
                fill(&mut plant);
                let found = assert_bounded(&plant, 4.min(capacity));
                assert!(found <= capacity, "{limit:?}: {found} of {capacity} in round {nth}");
                serve(&mut plant, MS * BASE_TICKS);
            }
        }
        plant.finish();
        assert_adds_up(&plant.pool);
    }
}

#[test]
fn everything_can_be_read_while_all_workers_are_stuck() {
    let (pool, _) = pool_with(Limit::gradient().initial(3), |builder| builder.workers(2));
    let held = common::occupy(&pool);
    pool.try_spawn(|| ()).unwrap();
    for _ in 0..100 {
        assert_eq!(pool.try_spawn(|| ()).unwrap_err().reason(), Reason::Limit);
    }
    let now = pool.snapshot();
    assert_eq!((now.in_flight, now.running, now.queued, now.limit), (3, 2, 1, 3));
    assert_eq!((now.rejected.get(Reason::Limit), now.rejected.total()), (100, 100));
    held.free();
}

// ── Together with everything else ───────────────────────────────────────────────────────────────

#[test]
fn with_all_protections_at_once_everything_adds_up() {
    let _watchdog = watchdog();
    for (seed, limit) in adaptive().into_iter().enumerate() {
        let (clock, cpu) = (ManualClock::new(), ManualCpu::new());
        let a = Partition::new().reserved(3).max(8);
        let pool = Pool::builder().workers(3).capacity(24).critical_reserve(2).clock(clock.clone());
        let pool = pool.partition("a", a).partition("b", Partition::new().max(5)).max_bytes(400);
        let pool = pool.limit(limit.min(2).initial(12)).seed(seed as u64);
        let gate = CpuGate::between(0.7, 0.9).armed(Arm::Always).source(cpu.clone());
        let pool = pool.queue_delay(QueueDelay::graded(5 * MS)).cpu_gate(gate).build().unwrap();
        let partitions = [None, pool.partition("a"), pool.partition("b")];
        let tally = Tally::default();
        // It begins with all workers busy and the limit reached, so that some are refused for certain.
        let busy = common::occupy(&pool);
        (3..12).for_each(|_| pool.try_spawn(|| ()).unwrap());
        let met = Rendezvous::new(4);
        std::thread::scope(|threads| {
            for thread in 0..3 {
                let (pool, clock, partitions) = (&pool, &clock, &partitions);
                let (tally, met) = (&tally, &met);
                let mut random = Random(seed as u64 * 3 + thread + 1);
                threads.spawn(move || {
                    for _ in 0..10 {
                        let refused = tally.door(pool.try_spawn(|| ())).unwrap_err();
                        assert_eq!(refused.reason(), Reason::Limit);
                    }
                    met.meet();
                    storm(pool, clock, partitions, tally, &mut random);
                });
            }
            met.meet();
            // From the next sample on the gate refuses some, too.
            cpu.set(0.75);
            busy.free();
        });
        pool.wait_idle();
        cpu.set(0.0);
        pool.set_capacity(24);
        assert_adds_up(&pool);
        let now = pool.snapshot();
        assert_eq!((now.bytes, now.reserved, now.contained_panics), (0, 0, 0));
        let [accepted, refused] = [&tally.accepted, &tally.refused].map(Count::get);
        assert_eq!(now.accepted, 12 + accepted as u64, "{now:?}");
        assert_eq!(now.rejected.total(), refused as u64, "{now:?}");
        assert!(now.rejected.get(Reason::Limit) >= 30, "{now:?}");
        // Nothing of the slots is lost: critical work may have all.
        clock.advance(3_600 * SECOND);
        let critical = pool.job().priority(Priority::Critical);
        let all = critical.try_reserve_many(24 - 3).expect("all but the share of a");
        let of_a = critical.partition(partitions[1].unwrap());
        let share = of_a.try_reserve_many(3).expect("the share of a");
        assert!(of_a.try_reserve().is_err());
        drop((all, share));
        if pool.snapshot().limit == 24 {
            assert_all_slots_free(&pool);
        }
    }
}

/// A small generator, so that a failure can be played again.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// The test's own account of what the door has answered.
#[derive(Default)]
struct Tally {
    accepted: Count,
    refused: Count,
}

impl Tally {
    /// Notes the answer to a job.
    fn door<T, E>(&self, answer: Result<T, E>) -> Result<T, E> {
        if answer.is_ok() { &self.accepted } else { &self.refused }.add();
        answer
    }

    /// Notes the answer to who wants a slot for later.
    fn reserve<T, E>(&self, answer: Result<T, E>) -> Result<T, E> {
        answer.inspect_err(|_| self.refused.add())
    }
}

fn storm(
    pool: &Pool,
    clock: &ManualClock,
    partitions: &[Option<weirpool::PartitionId>; 3],
    tally: &Tally,
    random: &mut Random,
) {
    let mut waiting = Vec::new();
    let mut jobs = Vec::new();
    let mut permits = Vec::new();
    for _ in 0..800 {
        let priorities = [Priority::Low, Priority::Normal, Priority::High, Priority::Critical];
        let mut job = pool.job().priority(priorities[random.below(4) as usize]);
        job = job.class(Class(random.below(70) as u8)).bytes(random.below(40));
        if let Some(partition) = partitions[random.below(3) as usize] {
            job = job.partition(partition);
        }
        if random.below(5) == 0 {
            job = job.timeout(MS * random.below(30) as u32);
        }
        let (time, cost) = (clock.clone(), MS * random.below(3) as u32);
        let fails = random.below(20) == 0;
        let body = move || {
            time.advance(cost);
            if fails {
                fail_quietly();
            }
        };
        match random.below(12) {
            0 => permits.extend(tally.reserve(job.try_reserve())),
            1 => drop(permits.pop()),
            2 => {
                if let Some(permit) = permits.pop() {
                    jobs.extend(tally.door(permit.submit(body)));
                }
            }
            3 | 4 => {
                let mut submit = job.submit(body);
                match poll(&mut submit, Waker::noop()) {
                    Poll::Ready(answer) => jobs.extend(tally.door(answer)),
                    Poll::Pending => waiting.push(submit),
                }
            }
            5 => drop((!waiting.is_empty()).then(|| waiting.swap_remove(0))),
            6 => jobs.iter().take(2).for_each(|job| _ = job.cancel()),
            7 => clock.advance(MS * random.below(20) as u32),
            8 if random.below(4) == 0 => pool.set_capacity(4 + random.below(30) as usize),
            _ => jobs.extend(tally.door(job.try_submit(body))),
        }
        waiting.retain_mut(|submit| match poll(submit, Waker::noop()) {
            Poll::Ready(answer) => {
                jobs.extend(tally.door(answer));
                false
            }
            Poll::Pending => true,
        });
        if jobs.len() > 20 {
            drop(jobs.drain(..10));
        }
        let now = pool.snapshot();
        assert_eq!(now.in_flight, now.reserved + now.queued + now.running);
        assert!((1..=now.capacity.max(1)).contains(&now.limit), "{now:?}");
        let score = pool.load().score;
        assert!((0.0..=1.0).contains(&score), "{score}");
    }
    drop((waiting, permits));
    for job in jobs {
        let _ = resolve(job);
    }
}

#[test]
fn nonsense_is_refused_by_name_when_the_pool_is_built() {
    let said = |limit: Limit| {
        let built = Pool::builder().workers(1).capacity(64).limit(limit).build();
        built.unwrap_err().to_string()
    };
    for limit in adaptive().into_iter().chain([Limit::fixed()]) {
        assert!(said(limit.clone().min(65)).starts_with("limit.min = 65"));
        assert!(said(limit.clone().initial(0)).starts_with("limit.initial = 0"));
        assert!(said(limit.clone().initial(65)).starts_with("limit.initial = 65"));
        assert!(said(limit.clone().min(8).initial(7)).starts_with("limit.initial = 7"));
        let (pool, _) = pool_with(limit.min(0).initial(1), |builder| builder);
        resolve(pool.try_submit(|| ()).unwrap()).unwrap();
    }
}

//! Higher lanes first, and yet no lane waits for ever.
//!
//! One worker and a clock that only the bodies move: the order of service is exact.

mod common;

use std::sync::{Arc, Barrier, mpsc};
use std::time::{Duration, Instant};

use common::{Gate, Log, elsewhere, eventually, hold, recv, resolve};
use weirpool::test::ManualClock;
use weirpool::{Clock, Pool, Priority};

use Priority::{Critical, High, Low, Normal};

/// The documented ageing bound.
const AGEING_BOUND: Duration = Duration::from_secs(1);

/// What each body takes, on the clock: the ninth pick after a moment is the first one past the
/// ageing bound.
const STEP: Duration = Duration::from_millis(120);

/// A pool whose time stands still unless a body moves it.
fn frozen(workers: usize) -> (Pool, ManualClock) {
    let clock = ManualClock::new();
    let builder = Pool::builder().batch().workers(workers).capacity(1024).clock(clock.clone());
    (builder.build().unwrap(), clock)
}

fn wait_idle(pool: &Pool) {
    let pool = pool.clone();
    elsewhere(move || pool.wait_idle()).wait();
}

/// The order in which one worker serves `jobs`, queued in this order while it was busy.
fn served(jobs: &[(Priority, usize)]) -> Vec<(Priority, usize)> {
    let (pool, _clock) = frozen(1);
    let (held, log) = (hold(&pool, 1), Log::new());
    for &job in jobs {
        let log = log.clone();
        pool.job().priority(job.0).try_spawn(move || log.push(job)).unwrap();
    }
    held.free();
    wait_idle(&pool);
    log.entries()
}

#[test]
fn low_never_overtakes_high() {
    let cases: [(&[Priority], &[Priority]); 5] = [
        (&[Low, High, High], &[High, High, Low]),
        (&[Low, Normal, High, Critical], &[Critical, High, Normal, Low]),
        (&[Critical, High, Normal, Low], &[Critical, High, Normal, Low]),
        (&[Normal, Low, Normal, High, Low, Critical], &[Critical, High, Normal, Normal, Low, Low]),
        (&[Low, Critical, Low, Critical], &[Critical, Critical, Low, Low]),
    ];
    for (queued, expected) in cases {
        let jobs: Vec<_> = queued.iter().map(|&priority| (priority, 0)).collect();
        let order: Vec<_> = served(&jobs).into_iter().map(|job| job.0).collect();
        assert_eq!(order, expected, "queued as {queued:?}");
    }
}

#[test]
fn first_in_first_out_within_a_priority() {
    for priority in [Low, Normal, High, Critical] {
        let jobs: Vec<_> = (0..200).map(|i| (priority, i)).collect();
        assert_eq!(served(&jobs), jobs);
    }
    let mixed: Vec<_> = (0..200).map(|i| ([Low, Critical, Normal, High][i % 4], i)).collect();
    let mut expected = mixed.clone();
    expected.sort_by_key(|job| (std::cmp::Reverse(job.0), job.1));
    assert_eq!(served(&mixed), expected);
}

#[test]
fn the_default_is_normal_and_priorities_are_ordered() {
    assert_eq!(Priority::default(), Normal);
    assert!(Low < Normal && Normal < High && High < Critical);
    let pool = Pool::new(1, 2).unwrap();
    let seen = pool.try_submit(|| weirpool::context().unwrap().priority()).unwrap();
    assert_eq!(resolve(seen).unwrap(), Normal);
}

/// Where a job is submitted: from outside, or inside a body of the pool.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Origin {
    Outside,
    Inside,
}

/// Holds the one worker, and has it submit a job inside its body; what comes from outside is
/// submitted while it is still in there.
fn with_a_nested_job(pool: &Pool, nested: Priority, log: &Log<Priority>, outside: impl FnOnce()) {
    let (own, log, submitted, gate) = (pool.clone(), log.clone(), Gate::new(), Gate::new());
    let (done, pass) = (submitted.clone(), gate.clone());
    let body = move || {
        own.job().priority(nested).try_spawn(move || log.push(nested)).unwrap();
        done.open();
        pass.wait();
    };
    let parent = pool.try_submit(body).unwrap();
    submitted.wait();
    outside();
    gate.open();
    resolve(parent).unwrap();
}

#[test]
fn a_nested_low_does_not_overtake_a_high_from_outside() {
    for (nested, outside) in [(Low, High), (Low, Normal), (Normal, High), (High, Critical)] {
        let (pool, _clock) = frozen(1);
        let log = Log::new();
        with_a_nested_job(&pool, nested, &log, || {
            let log = log.clone();
            pool.job().priority(outside).try_spawn(move || log.push(outside)).unwrap();
        });
        wait_idle(&pool);
        assert_eq!(log.entries(), [outside, nested]);
    }
}

#[test]
fn a_low_from_outside_does_not_overtake_a_nested_high() {
    let (pool, _clock) = frozen(1);
    let log = Log::new();
    with_a_nested_job(&pool, High, &log, || {
        for priority in [Low, Normal] {
            let log = log.clone();
            pool.job().priority(priority).try_spawn(move || log.push(priority)).unwrap();
        }
    });
    wait_idle(&pool);
    assert_eq!(log.entries(), [High, Normal, Low]);
}

#[test]
fn nested_jobs_are_served_by_priority_too() {
    let (pool, _clock) = frozen(1);
    let (own, log) = (pool.clone(), Log::new());
    let logs = log.clone();
    let parent = pool.try_submit(move || {
        for priority in [Low, High, Normal, Critical, Low] {
            let log = logs.clone();
            own.job().priority(priority).try_spawn(move || log.push(priority)).unwrap();
        }
    });
    resolve(parent.unwrap()).unwrap();
    wait_idle(&pool);
    assert_eq!(log.entries(), [Critical, High, Normal, Low, Low]);
}

#[test]
fn what_a_high_job_submits_goes_before_a_normal_one_from_outside() {
    let (pool, _clock) = frozen(1);
    let (held, log, own) = (hold(&pool, 1), Log::new(), pool.clone());
    let (child_log, other_log) = (log.clone(), log.clone());
    let parent = move || own.try_spawn(move || child_log.push("child of high")).unwrap();
    pool.job().priority(High).try_spawn(parent).unwrap();
    pool.try_spawn(move || other_log.push("normal")).unwrap();
    held.free();
    wait_idle(&pool);
    assert_eq!(log.entries(), ["child of high", "normal"]);
}

#[test]
fn a_high_in_a_peers_queue_goes_before_ones_own_low() {
    let (pool, _clock) = frozen(2);
    let log: Log<Priority> = Log::new();
    let (peer, freed, meet) = (Gate::new(), Gate::new(), Arc::new(Barrier::new(2)));
    let (done, submitted) = mpsc::channel();
    for (nested, gate) in [(High, peer.clone()), (Low, freed.clone())] {
        let (own, log, meet, done) = (pool.clone(), log.clone(), Arc::clone(&meet), done.clone());
        let body = move || {
            meet.wait();
            own.job().priority(nested).try_spawn(move || log.push(nested)).unwrap();
            done.send(()).unwrap();
            gate.wait();
        };
        pool.try_spawn(body).unwrap();
    }
    for _ in 0..2 {
        recv(&submitted);
    }
    freed.open();
    eventually("the free worker serves both", || log.entries().len() == 2);
    peer.open();
    assert_eq!(log.entries(), [High, Low]);
}

/// Bodies that log their priority and the time of their start, and then move the clock.
#[derive(Clone)]
struct Ticking {
    pool: Pool,
    clock: ManualClock,
    step: Duration,
    log: Log<(Priority, Instant)>,
}

impl Ticking {
    fn new(step: Duration) -> Self {
        let (pool, clock) = frozen(1);
        Self { pool, clock, step, log: Log::new() }
    }

    fn body(&self, priority: Priority) -> impl FnOnce() + Send + 'static {
        let own = self.clone();
        move || {
            own.log.push((priority, own.clock.now()));
            own.clock.advance(own.step);
        }
    }

    fn submit(&self, priority: Priority) {
        self.pool.job().priority(priority).try_spawn(self.body(priority)).unwrap();
    }

    /// A job that submits its like, `left` times, one after the other.
    fn chain(self, priority: Priority, left: usize) {
        self.body(priority)();
        if left > 0 {
            let next = self.clone();
            let spec = self.pool.job().priority(priority);
            spec.try_spawn(move || next.chain(priority, left - 1)).unwrap();
        }
    }
}

#[test]
fn a_lower_lane_starts_at_the_first_pick_past_the_ageing_bound_while_higher_work_never_ends() {
    const FLOOD: usize = 100;
    let lanes = [(Low, Normal), (Low, High), (Normal, High), (Low, Critical), (High, Critical)];
    for (starving, flood) in lanes {
        for from in [Origin::Outside, Origin::Inside] {
            for flood_from in [Origin::Outside, Origin::Inside] {
                let case = format!("{starving:?} {from:?} under {flood:?} {flood_from:?}");
                let jobs = Ticking::new(STEP);
                let begun = jobs.clock.now();
                let (ready, gate) = (Gate::new(), Gate::new());
                let (inside, done, pass) = (jobs.clone(), ready.clone(), gate.clone());
                let parent = jobs.pool.try_submit(move || {
                    if from == Origin::Inside {
                        inside.submit(starving);
                    }
                    if flood_from == Origin::Inside {
                        let chain = inside.clone();
                        let spec = inside.pool.job().priority(flood);
                        spec.try_spawn(move || chain.chain(flood, FLOOD)).unwrap();
                    }
                    done.open();
                    pass.wait();
                });
                ready.wait();
                if from == Origin::Outside {
                    jobs.submit(starving);
                }
                if flood_from == Origin::Outside {
                    (0..FLOOD).for_each(|_| jobs.submit(flood));
                }
                gate.open();
                resolve(parent.unwrap()).unwrap();
                wait_idle(&jobs.pool);

                let starts = jobs.log.entries();
                let started = starts.iter().find(|start| start.0 == starving).unwrap().1;
                let waited = started - begun;
                assert!(waited < AGEING_BOUND + STEP, "{case}: waited {waited:?}");
            }
        }
    }
}

#[test]
fn a_job_in_a_busy_peers_queue_ages_like_any() {
    let (pool, clock) = frozen(2);
    let jobs = Ticking { pool, clock, step: STEP, log: Log::new() };
    let (begun, held) = (jobs.clock.now(), hold(&jobs.pool, 1));
    let (submitted, peer, own) = (Gate::new(), Gate::new(), jobs.clone());
    let (done, pass) = (submitted.clone(), peer.clone());
    let busy = jobs.pool.try_submit(move || {
        own.submit(Normal);
        done.open();
        pass.wait();
    });
    submitted.wait();
    (0..100).for_each(|_| jobs.submit(High));
    held.free();
    eventually("all have been served by one worker", || jobs.log.entries().len() == 101);
    peer.open();
    resolve(busy.unwrap()).unwrap();

    let starts = jobs.log.entries();
    let waited = starts.iter().find(|start| start.0 == Normal).unwrap().1 - begun;
    assert!(waited < AGEING_BOUND + STEP, "waited {waited:?}");
}

#[test]
fn a_lower_lane_is_served_once_per_ageing_bound() {
    let jobs = Ticking::new(STEP);
    let held = hold(&jobs.pool, 1);
    let mut last = jobs.clock.now();
    (0..5).for_each(|_| jobs.submit(Low));
    (0..100).for_each(|_| jobs.submit(High));
    held.free();
    wait_idle(&jobs.pool);
    let starts = jobs.log.entries();
    for (_, start) in starts.iter().filter(|start| start.0 == Low) {
        let waited = *start - last;
        assert!(waited < AGEING_BOUND + STEP, "waited {waited:?}");
        last = *start;
    }
}

#[test]
fn the_ageing_bound_is_a_setting() {
    let clock = ManualClock::new();
    let builder = Pool::builder().batch().workers(1).capacity(256).clock(clock.clone());
    let pool = builder.ageing_bound(3 * AGEING_BOUND).build().unwrap();
    let jobs = Ticking { pool, clock, step: STEP, log: Log::new() };
    let (begun, held) = (jobs.clock.now(), hold(&jobs.pool, 1));
    jobs.submit(Low);
    (0..100).for_each(|_| jobs.submit(High));
    held.free();
    wait_idle(&jobs.pool);
    let starts = jobs.log.entries();
    let waited = starts.iter().find(|start| start.0 == Low).unwrap().1 - begun;
    assert!(waited < 3 * AGEING_BOUND + STEP, "waited {waited:?}");
    assert!(waited >= 3 * AGEING_BOUND, "and until then the higher lane goes first: {waited:?}");
}

#[test]
fn at_most_one_pick_in_eight_is_for_age() {
    const EACH: usize = 160;
    for flood in [High, Critical] {
        let jobs = Ticking::new(2 * AGEING_BOUND);
        let held = hold(&jobs.pool, 1);
        for priority in [Low, Normal, flood] {
            (0..EACH).for_each(|_| jobs.submit(priority));
        }
        held.free();
        wait_idle(&jobs.pool);

        let starts = jobs.log.entries();
        assert_eq!(starts.len(), 3 * EACH);
        let last = starts.iter().rposition(|start| start.0 == flood).unwrap();
        let mut aged = [0, 0];
        for (picks, (priority, _)) in starts[..last].iter().enumerate() {
            match *priority {
                Low => aged[0] += 1,
                Normal => aged[1] += 1,
                _ => {}
            }
            let allowed = (picks + 1) / 8 + 1;
            assert!(aged[0] + aged[1] <= allowed, "{aged:?} of the first {}", picks + 1);
        }
        assert!(aged[0] >= 1 && aged[1] >= 1, "each overdue lane has its share: {aged:?}");
        assert!(aged[0] + aged[1] >= last / 16, "and the share is used: {aged:?} of {last}");
    }
}

#[test]
fn an_idle_pool_owes_no_lane_anything() {
    let (pool, clock) = frozen(1);
    resolve(pool.job().priority(Low).try_submit(|| ()).unwrap()).unwrap();
    clock.advance(1000 * AGEING_BOUND);
    let (held, log) = (hold(&pool, 1), Log::new());
    for priority in [Low, High, High] {
        let log = log.clone();
        pool.job().priority(priority).try_spawn(move || log.push(priority)).unwrap();
    }
    held.free();
    wait_idle(&pool);
    assert_eq!(log.entries(), [High, High, Low], "its age counts from when it became non-empty");
}

#[test]
fn a_lane_with_only_cancelled_jobs_is_not_served_in_place_of_others() {
    let (pool, clock) = frozen(1);
    let (held, log) = (hold(&pool, 1), Log::new());
    let cancelled: Vec<_> =
        (0..50).map(|_| pool.job().priority(Low).try_submit(|| ()).unwrap()).collect();
    for i in 0..50 {
        let log = log.clone();
        pool.job().priority(High).try_spawn(move || log.push(i)).unwrap();
    }
    assert!(cancelled.iter().all(|job| job.cancel()));
    clock.advance(10 * AGEING_BOUND);
    held.free();
    wait_idle(&pool);
    assert_eq!(log.entries(), (0..50).collect::<Vec<_>>());
}

#[test]
fn a_permit_carries_the_priority_it_was_reserved_with() {
    let (pool, _clock) = frozen(1);
    let (held, log) = (hold(&pool, 1), Log::new());
    let permits = [Low, High, Normal]
        .map(|priority| (priority, pool.job().priority(priority).try_reserve().unwrap()));
    for (priority, permit) in permits {
        let log = log.clone();
        drop(permit.submit(move || log.push(priority)).unwrap());
    }
    held.free();
    wait_idle(&pool);
    assert_eq!(log.entries(), [High, Normal, Low]);
}

#[test]
fn with_many_workers_every_lane_is_emptied() {
    for workers in [2, 4] {
        let pool = Pool::new(workers, 512).unwrap();
        let (done, ends) = mpsc::channel();
        for i in 0..400 {
            let done = done.clone();
            let spec = pool.job().priority([Low, Normal, High, Critical][i % 4]);
            spec.try_spawn(move || done.send(i).unwrap()).unwrap();
        }
        let mut ended: Vec<_> = (0..400).map(|_| recv(&ends)).collect();
        ended.sort_unstable();
        assert_eq!(ended, (0..400).collect::<Vec<_>>());
    }
}

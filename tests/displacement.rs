//! A critical job at a full pool takes the slot of a queued Low job, else of a Normal one: who may be displaced, and that
//! nothing of it is lost or seen half-way.

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use common::{
    Drops, Gate, Rendezvous, assert_all_slots_free, assert_at_rest, block_on, occupy, on_drop,
    poll, race, recv, rounds, waker, watchdog,
};
use weirpool::{
    JobError, JobHandle, Partition, Pool, Priority, Reason, Rejected, ShedReason, Shutdown,
};

const LANES: [Priority; 4] = [Priority::Low, Priority::Normal, Priority::High, Priority::Critical];

fn queue(pool: &Pool, priority: Priority) -> JobHandle<()> {
    pool.job().priority(priority).try_submit(|| ()).expect("a slot is free")
}

fn critical(pool: &Pool) -> Result<JobHandle<()>, Reason> {
    let job = pool.job().priority(Priority::Critical).try_submit(|| ());
    job.map_err(|rejected: Rejected<_>| rejected.reason())
}

fn is_displaced<T>(result: &Result<T, JobError>) -> bool {
    matches!(result, Err(JobError::Shed(ShedReason::Displaced)))
}

#[track_caller]
fn assert_displaced<T>(mut job: JobHandle<T>) {
    assert!(is_displaced(&job.try_take().expect("it ended before the displacing call returned")));
}

fn displaced(pool: &Pool) -> u64 {
    pool.snapshot().shed.get(ShedReason::Displaced)
}

// ── Who may be displaced ────────────────────────────────────────────────────────────────────────

#[test]
fn low_goes_first_then_normal_and_nobody_else() {
    let _watchdog = watchdog();
    type Form = fn(&Pool) -> Result<(), Reason>;
    let forms: [(&str, Form); 5] = [
        ("try_submit", |pool| critical(pool).map(drop)),
        ("try_spawn", |pool| {
            let job = pool.job().priority(Priority::Critical).try_spawn(|| ());
            job.map_err(|rejected| rejected.reason())
        }),
        ("submit", |pool| {
            let mut submit = pool.job().priority(Priority::Critical).submit(|| ());
            if poll(&mut submit, Waker::noop()).is_ready() { Ok(()) } else { Err(Reason::Full) }
        }),
        ("submit_timeout", |pool| {
            let spec = pool.job().priority(Priority::Critical);
            let job = spec.submit_timeout(|| (), Duration::ZERO);
            job.map(drop).map_err(|rejected| rejected.reason())
        }),
        ("try_submit, on a worker of another pool", |pool| {
            let (other, inner) = (Pool::new(1, 1).unwrap(), pool.clone());
            other.try_submit(move || critical(&inner).map(drop)).unwrap().join().unwrap()
        }),
    ];
    let mut random = fastrand::Rng::with_seed(2);
    for (name, form) in forms {
        let pool = Pool::new(1, 9).unwrap();
        let busy = occupy(&pool);
        let mut queued = LANES.repeat(2);
        random.shuffle(&mut queued);
        let jobs: Vec<_> =
            queued.into_iter().map(|priority| (priority, queue(&pool, priority))).collect();
        for victims in 1..=4 {
            assert_eq!(form(&pool), Ok(()), "{name}");
            let expected: Vec<_> = if victims <= 2 { &LANES[..1] } else { &LANES[..2] }.into();
            let gone: Vec<_> = jobs
                .iter()
                .filter(|(_, job)| job.is_finished())
                .map(|(priority, _)| *priority)
                .collect();
            assert!(gone.len() == victims && gone.iter().all(|lane| expected.contains(lane)));
            assert!(victims < 2 || gone.iter().filter(|lane| **lane == LANES[0]).count() == 2);
            assert_eq!((pool.in_flight(), pool.queued()), (9, 8), "{name}");
        }
        for _ in 0..3 {
            assert_eq!(form(&pool), Err(Reason::Full), "{name}: nobody is left to give way");
        }
        let now = pool.snapshot();
        assert_eq!((now.in_flight, now.queued, displaced(&pool)), (9, 8, 4), "{name}");
        busy.free();
        for (priority, job) in jobs {
            let result = job.join();
            assert_eq!(is_displaced(&result), priority < Priority::High, "{name}: {priority:?}");
        }
        pool.wait_idle();
        assert_all_slots_free(&pool);
    }
}

#[test]
fn running_jobs_permits_and_grants_are_never_displaced() {
    let _watchdog = watchdog();
    let pool = Pool::new(2, 4).unwrap();
    let low = pool.job().priority(Priority::Low);
    let (gate, started) = (Gate::new(), Rendezvous::new(3));
    let running: Vec<_> = (0..2)
        .map(|_| {
            let (gate, started) = (gate.clone(), started.clone());
            low.try_submit(move || {
                started.meet();
                gate.wait();
                weirpool::is_cancelled()
            })
            .unwrap()
        })
        .collect();
    started.meet();
    let permit = low.try_reserve().unwrap();
    let held = low.try_reserve().unwrap();
    let mut granted = low.submit(|| ());
    assert!(poll(&mut granted, Waker::noop()).is_pending());
    drop(held);
    assert_eq!(pool.snapshot().reserved, 2);

    assert_eq!(critical(&pool).map(drop), Err(Reason::Full));
    // Only once its job is queued it is like any other.
    let queued = permit.submit(|| ()).unwrap();
    drop(critical(&pool).expect("it displaces the queued one"));
    assert_displaced(queued);
    assert_eq!(critical(&pool).map(drop), Err(Reason::Full));

    gate.open();
    for job in running {
        assert!(!job.join().unwrap(), "it was not even asked to stop");
    }
    block_on(granted).unwrap().join().unwrap();
    pool.wait_idle();
    assert_eq!(displaced(&pool), 1);
    assert_all_slots_free(&pool);
}

#[test]
fn jobs_submitted_inside_a_body_are_displaced_like_any() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        for from_inside in [false, true] {
            let pool = Pool::new(workers, workers + 5).unwrap();
            let (gate, inner) = (Gate::new(), pool.clone());
            let (wait, (tell, told)) = (gate.clone(), mpsc::channel());
            // All workers but one wait, so that nobody takes what lies in its deque.
            let peers: Vec<_> = (1..workers)
                .map(|_| {
                    let (wait, tell) = (gate.clone(), tell.clone());
                    pool.try_submit(move || {
                        tell.send(Vec::new()).unwrap();
                        wait.wait();
                    })
                    .unwrap()
                })
                .collect();
            peers.iter().for_each(|_| drop(recv(&told)));
            let outer = pool.try_submit(move || {
                let jobs: Vec<_> = (0..5).map(|_| queue(&inner, Priority::Normal)).collect();
                if from_inside {
                    (0..5).for_each(|_| drop(critical(&inner).expect("it displaces")));
                    assert_eq!(critical(&inner).map(drop), Err(Reason::Full));
                }
                tell.send(jobs).unwrap();
                wait.wait();
            });
            let jobs = recv(&told);
            if !from_inside {
                for victims in 1..=5 {
                    drop(critical(&pool).expect("it displaces"));
                    let gone = jobs.iter().filter(|job| job.is_finished()).count();
                    assert_eq!((gone, pool.in_flight()), (victims, workers + 5));
                }
                assert_eq!(critical(&pool).map(drop), Err(Reason::Full));
            }
            jobs.into_iter().for_each(assert_displaced);
            gate.open();
            outer.unwrap().join().unwrap();
            peers.into_iter().for_each(|job| job.join().unwrap());
            pool.wait_idle();
            assert_eq!((displaced(&pool), pool.snapshot().completed), (5, workers as u64 + 5));
            assert_all_slots_free(&pool);
        }
    }
}

#[test]
fn the_reserved_slots_of_another_partition_are_left_alone() {
    let _watchdog = watchdog();
    let pool = Pool::builder().workers(1).capacity(6).batch();
    let pool = pool.partition("a", Partition::new().reserved(2));
    let pool = pool.partition("b", Partition::new().max(2)).build().unwrap();
    let busy = occupy(&pool);
    let low = pool.job().priority(Priority::Low);
    let urgent = pool.job().priority(Priority::Critical);
    let [a, b] = ["a", "b"].map(|name| pool.partition(name).unwrap());
    let of_a = [(); 2].map(|()| low.partition(a).try_submit(|| ()).unwrap());
    let specs = [low, low, low.partition(b)];
    let common = specs.map(|spec| spec.try_submit(|| ()).unwrap());

    // Which of the three gives way to which is nobody's business.
    let specs = [urgent, urgent.partition(b), urgent];
    let taken = specs.map(|spec| spec.try_submit(|| ()).expect("a common one gives way"));
    common.into_iter().for_each(assert_displaced);
    assert!(of_a.iter().all(|job| !job.is_finished()), "those slots are reserved");
    assert_eq!(urgent.try_submit(|| ()).unwrap_err().reason(), Reason::Full);
    assert_eq!(urgent.partition(b).try_submit(|| ()).unwrap_err().reason(), Reason::Full);
    assert!(of_a.iter().all(|job| !job.is_finished()), "nor was one ended for nothing");
    let in_share = [(); 2].map(|()| urgent.partition(a).try_submit(|| ()).expect("its own share"));
    of_a.into_iter().for_each(assert_displaced);
    assert_eq!(urgent.partition(a).try_submit(|| ()).unwrap_err().reason(), Reason::Full);

    busy.free();
    for job in taken.into_iter().chain(in_share) {
        job.join().unwrap();
    }
    assert_eq!(displaced(&pool), 5);
    pool.wait_idle();
    assert_at_rest(&pool);
    let free = [pool.job(), pool.job().partition(a)]
        .map(|spec| std::iter::from_fn(|| spec.try_reserve().ok().map(std::mem::forget)).count());
    assert_eq!(free, [4, 2], "every slot is where it belongs");
}

#[test]
fn a_partitions_job_above_its_share_gives_way_for_it_holds_a_common_slot() {
    let _watchdog = watchdog();
    let pool = Pool::builder().workers(1).capacity(3).batch();
    let pool = pool.partition("a", Partition::new().reserved(1)).build().unwrap();
    let busy = occupy(&pool);
    let low = pool.job().priority(Priority::Low).partition(pool.partition("a").unwrap());
    let [first, second] = [(); 2].map(|()| low.try_submit(|| ()).unwrap());
    let urgent = critical(&pool);
    assert!(urgent.is_ok(), "capacity refuses it, and a Low job is queued in a common slot");
    assert_eq!(usize::from(first.is_finished()) + usize::from(second.is_finished()), 1);
    assert_eq!(critical(&pool).map(drop), Err(Reason::Full), "the other slot is reserved");
    busy.free();
    pool.wait_idle();
}

#[test]
fn jobs_submitted_inside_a_body_give_way_in_a_pool_with_partitions_too() {
    let _watchdog = watchdog();
    let pool = Pool::builder().workers(1).capacity(3).batch();
    let pool = pool.partition("a", Partition::new().reserved(1)).build().unwrap();
    let (gate, inner) = (Gate::new(), pool.clone());
    let (wait, (tell, told)) = (gate.clone(), mpsc::channel());
    let outer = pool.try_submit(move || {
        tell.send(queue(&inner, Priority::Normal)).unwrap();
        wait.wait();
    });
    let nested = recv(&told);
    let urgent = critical(&pool);
    gate.open();
    outer.unwrap().join().unwrap();
    assert!(urgent.is_ok(), "capacity refuses it, and a Normal job is queued in a common slot");
    assert_displaced(nested);
    pool.wait_idle();
}

#[test]
fn the_maximum_of_the_partition_and_the_bytes_stand_before_any_victim() {
    let _watchdog = watchdog();
    let pool = Pool::builder().workers(1).capacity(3).max_bytes(10).batch();
    let pool = pool.partition("one", Partition::new().max(1)).build().unwrap();
    let busy = occupy(&pool);
    let low = pool.job().priority(Priority::Low);
    let urgent = pool.job().priority(Priority::Critical);
    let one = pool.partition("one").unwrap();
    let victims =
        [low.partition(one).try_submit(|| ()).unwrap(), low.bytes(7).try_submit(|| ()).unwrap()];
    let at_its_maximum = urgent.partition(one).try_submit(|| ());
    assert_eq!(at_its_maximum.unwrap_err().reason(), Reason::Partition);
    assert_eq!(urgent.bytes(4).try_submit(|| ()).unwrap_err().reason(), Reason::Bytes);
    assert_eq!((displaced(&pool), pool.snapshot().bytes), (0, 7));

    let fits = urgent.bytes(3).try_submit(|| ()).expect("it displaces");
    let [of_one, seven] = victims;
    assert!(!of_one.is_finished());
    assert_displaced(seven);
    assert_eq!(pool.snapshot().bytes, 3, "the victim's bytes are back, the other's are taken");
    busy.free();
    fits.join().unwrap();
    of_one.join().unwrap();
    assert_eq!(pool.snapshot().bytes, 0);
    assert_all_slots_free(&pool);
}

#[test]
fn a_critical_job_that_displaces_does_not_overtake_one_that_waits() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 2).unwrap();
    let busy = occupy(&pool);
    let permit = pool.job().priority(Priority::Low).try_reserve().unwrap();
    let mut waits = pool.job().priority(Priority::Critical).submit(|| ());
    assert!(poll(&mut waits, Waker::noop()).is_pending(), "there is nobody to displace");
    let low = permit.submit(|| ()).unwrap();
    let later = critical(&pool);
    let first_served = poll(&mut waits, Waker::noop()).is_ready();
    assert!(later.is_err() || first_served, "the later one of the same class was served first");
    drop((low, later));
    busy.free();
    drop(waits);
    pool.wait_idle();
    assert_all_slots_free(&pool);
}

#[test]
fn the_slot_goes_to_the_critical_job_and_not_to_who_waits_for_one() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 2).unwrap();
    let busy = occupy(&pool);
    let victim = queue(&pool, Priority::Low);
    let woken = Arc::new(AtomicUsize::new(0));
    let count = woken.clone();
    let mut high = pool.job().priority(Priority::High).submit(|| ());
    let waker = waker(move || {
        count.fetch_add(1, SeqCst);
    });
    assert!(poll(&mut high, &waker).is_pending(), "only critical work displaces");
    let urgent = critical(&pool).expect("it displaces");
    assert_displaced(victim);
    assert_eq!((woken.load(SeqCst), pool.in_flight(), pool.snapshot().reserved), (0, 2, 0));
    busy.free();
    urgent.join().unwrap();
    block_on(high).unwrap().join().unwrap();
    assert_all_slots_free(&pool);
}

// ── What becomes of the victim ──────────────────────────────────────────────────────────────────

#[test]
fn the_captures_of_the_victim_are_dropped_on_the_displacing_thread_outside_of_all_locks() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 6).unwrap();
    let busy = occupy(&pool);
    let (other_low, bystander) = (queue(&pool, Priority::Normal), queue(&pool, Priority::High));
    let _permits = pool.try_reserve_many(2).unwrap();
    let given_up = Arc::new(Mutex::new(None));

    let (tell, told) = mpsc::channel();
    let capture = on_drop({
        let (pool, bystander, given_up) = (pool.clone(), bystander.canceller(), given_up.clone());
        move || {
            // The victim's slot is neither free nor lost meanwhile.
            let refused = pool.try_submit(|| ()).unwrap_err().reason();
            let displaces = critical(&pool).is_ok();
            drop(given_up.lock().unwrap().take().expect("it waits"));
            let now = pool.snapshot();
            assert_eq!(now.in_flight, now.reserved + now.queued + now.running);
            pool.set_capacity(6);
            let seen = (refused, displaces, pool.in_flight(), bystander.cancel());
            tell.send((thread::current().id(), seen)).unwrap();
        }
    });
    let victim = pool.job().priority(Priority::Low).try_submit(move || drop(capture)).unwrap();
    let mut waits = pool.submit(|| ());
    assert!(poll(&mut waits, Waker::noop()).is_pending());
    *given_up.lock().unwrap() = Some(waits);
    let urgent = critical(&pool).expect("it displaces");
    let (dropped_on, seen) = told.try_recv().expect("dropped before the call returns");
    assert_eq!(dropped_on, thread::current().id());
    assert_eq!(seen, (Reason::Full, true, 6, true));
    assert_displaced(victim);
    assert_displaced(other_low);
    assert!(matches!(bystander.join(), Err(JobError::Cancelled)));
    assert_eq!((pool.in_flight(), displaced(&pool)), (5, 2));
    busy.free();
    urgent.join().unwrap();
}

#[test]
fn a_victim_that_closes_the_pool_as_it_goes_loses_no_slot() {
    let _watchdog = watchdog();
    for how in [None, Some(Shutdown::Drain), Some(Shutdown::Discard)] {
        let pool = Pool::new(1, 2).unwrap();
        let busy = occupy(&pool);
        let closer = pool.clone();
        let capture = on_drop(move || match how {
            None => closer.close(),
            Some(how) => drop(closer.shutdown(how, Some(Duration::ZERO))),
        });
        let victim = pool.job().priority(Priority::Low).try_submit(move || drop(capture)).unwrap();
        let urgent = critical(&pool);
        assert_displaced(victim);
        busy.free();
        match urgent {
            Ok(job) => match (how, job.join()) {
                (Some(Shutdown::Discard), result) => {
                    assert!(matches!(result, Err(JobError::Discarded)));
                }
                (_, result) => result.expect("it was accepted, so it runs"),
            },
            Err(reason) => assert_eq!(reason, Reason::Closed),
        }
        assert_eq!(pool.shutdown(Shutdown::Drain, None).still_running, 0);
        assert_at_rest(&pool);
    }
}

#[test]
fn whoever_waits_for_the_victim_is_woken() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 3).unwrap();
    let busy = occupy(&pool);
    let (woken, wakes) = mpsc::channel();
    let mut awaited = queue(&pool, Priority::Low);
    let wake = waker(move || woken.send(thread::current().id()).unwrap());
    assert!(poll(&mut awaited, &wake).is_pending());
    let joined = queue(&pool, Priority::Low);
    thread::scope(|s| {
        let blocked = s.spawn(|| joined.join());
        let urgent = [(); 2].map(|()| critical(&pool).expect("it displaces"));
        assert!(is_displaced(&blocked.join().unwrap()));
        assert_eq!(recv(&wakes), thread::current().id());
        assert_displaced(awaited);
        busy.free();
        urgent.into_iter().for_each(|job| job.join().unwrap());
    });
    assert_all_slots_free(&pool);
}

#[test]
fn the_slots_in_use_are_the_same_at_every_instant() {
    let _watchdog = watchdog();
    let victims = rounds(2_000);
    let pool = Pool::new(1, victims + 1).unwrap();
    let busy = occupy(&pool);
    for round in 0..4 {
        let drops = Drops::new();
        let priority = LANES[round % 2];
        let jobs: Vec<_> = (0..victims)
            .map(|_| {
                let capture = drops.tracked();
                pool.job().priority(priority).try_submit(move || drop(capture)).unwrap()
            })
            .collect();
        let (over, start) = (AtomicBool::new(false), Rendezvous::new(3));
        let urgent = Mutex::new(Vec::new());
        thread::scope(|s| {
            s.spawn(|| {
                start.meet();
                while !over.load(SeqCst) {
                    assert_eq!(pool.in_flight(), victims + 1);
                    let now = pool.snapshot();
                    assert_eq!((now.in_flight, now.queued), (victims + 1, victims), "{now:?}");
                }
            });
            let displace = || {
                start.meet();
                for _ in 0..victims / 2 {
                    let job = critical(&pool).expect("there is one for each");
                    urgent.lock().unwrap().push(job);
                }
            };
            let other = s.spawn(displace);
            displace();
            other.join().unwrap();
            over.store(true, SeqCst);
        });
        let gone = victims / 2 * 2;
        assert_eq!(drops.count(), gone);
        assert_eq!(jobs.iter().filter(|job| job.is_finished()).count(), gone);
        jobs.into_iter().filter(|job| !job.is_finished()).for_each(|job| assert!(job.cancel()));
        urgent.into_inner().unwrap().iter().for_each(|job| assert!(job.cancel()));
        assert_eq!(pool.in_flight(), 1);
    }
    busy.free();
    assert_all_slots_free(&pool);
}

// ── Races for the victim ────────────────────────────────────────────────────────────────────────

/// A queued job that several want to end.
struct Contested {
    job: JobHandle<()>,
    ran: Arc<AtomicUsize>,
    drops: Drops,
}

impl Contested {
    fn new(pool: &Pool, priority: Priority) -> Self {
        let (ran, drops) = (Arc::new(AtomicUsize::new(0)), Drops::new());
        let (runs, capture) = (ran.clone(), drops.tracked());
        let job = pool.job().priority(priority).try_submit(move || {
            runs.fetch_add(1, SeqCst);
            drop(capture);
        });
        Self { job: job.expect("a slot is free"), ran, drops }
    }

    /// Joins it; it must have ended in one way. True if it was displaced.
    #[track_caller]
    fn ended(self) -> bool {
        let result = self.job.join();
        let ran = self.ran.load(SeqCst);
        assert_eq!((ran, self.drops.count()), (usize::from(result.is_ok()), 1), "{result:?}");
        is_displaced(&result)
    }
}

/// Who displaced the victim has its slot; who did not may be refused.
#[track_caller]
fn assert_inherits(displaced: bool, urgent: &Result<JobHandle<()>, Reason>) {
    assert!(!displaced || urgent.is_ok(), "displaced for nothing: {urgent:?}");
    assert!(urgent.is_ok() || matches!(urgent, Err(Reason::Full | Reason::Closed)), "{urgent:?}");
}

#[test]
fn a_victim_that_is_cancelled_or_taken_by_a_worker_at_that_instant_ends_once() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        let pool = Pool::new(workers, workers + 1).unwrap();
        for round in 0..rounds(4_000) {
            let busy = occupy(&pool);
            let victim = Contested::new(&pool, LANES[round % 2]);
            let cancelling = round / 2 % 2 == 0;
            let (urgent, busy) = if cancelling {
                let (urgent, _) = race(|| critical(&pool), || victim.job.cancel());
                (urgent, Some(busy))
            } else {
                let (urgent, ()) = race(|| critical(&pool), || busy.free());
                (urgent, None)
            };
            drop(busy);
            assert_inherits(victim.ended(), &urgent);
            urgent.into_iter().for_each(|job| job.join().unwrap());
            pool.wait_idle();
            assert_eq!(pool.in_flight(), 0, "round {round}");
        }
        assert_all_slots_free(&pool);
    }
}

#[test]
fn a_victim_that_is_joined_in_place_at_that_instant_ends_once() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 2).unwrap();
    for round in 0..rounds(4_000) {
        let (start, inner) = (Rendezvous::new(2), pool.clone());
        let meet = start.clone();
        let outer = pool.try_submit(move || {
            let victim = Contested::new(&inner, LANES[round % 2]);
            meet.meet();
            victim.ended()
        });
        start.meet();
        let urgent = critical(&pool);
        assert_inherits(outer.unwrap().join().unwrap(), &urgent);
        urgent.into_iter().for_each(|job| job.join().unwrap());
        assert_eq!(pool.in_flight(), 0, "round {round}");
    }
    assert_all_slots_free(&pool);
}

#[test]
fn a_victim_that_is_discarded_at_that_instant_ends_once() {
    let _watchdog = watchdog();
    for round in 0..rounds(1_000) {
        let pool = Pool::new(1, 2).unwrap();
        let busy = occupy(&pool);
        let victim = Contested::new(&pool, LANES[round % 2]);
        let discard = || pool.shutdown(Shutdown::Discard, Some(Duration::ZERO));
        let (urgent, _) = race(|| critical(&pool), discard);
        busy.free();
        assert_inherits(victim.ended(), &urgent);
        if let Ok(job) = urgent {
            assert!(matches!(job.join(), Err(JobError::Discarded)), "it inherited that, too");
        }
        let end = pool.shutdown(Shutdown::Drain, None);
        assert_eq!((end.completed + end.discarded, end.still_running), (2, 0), "round {round}");
        assert_at_rest(&pool);
    }
}

#[test]
fn of_two_who_want_one_victim_one_gets_it() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 2).unwrap();
    let busy = occupy(&pool);
    for round in 0..rounds(4_000) {
        let victim = Contested::new(&pool, LANES[round % 2]);
        let (one, other) = race(|| critical(&pool), || critical(&pool));
        let (winner, loser) = if one.is_ok() { (one, other) } else { (other, one) };
        assert_eq!(loser.map(drop), Err(Reason::Full), "round {round}");
        assert!(victim.ended());
        assert_eq!((pool.in_flight(), pool.queued()), (2, 1));
        assert!(winner.unwrap().cancel());
    }
    busy.free();
    assert_all_slots_free(&pool);
}

#[test]
fn a_storm_of_all_priorities_loses_no_job_and_no_slot() {
    let _watchdog = watchdog();
    for (workers, capacity) in [(1, 3), (2, 8), (4, 4)] {
        let pool = Pool::new(workers, capacity).unwrap();
        let (accepted, ran, shed) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let (cancelled, made, drops) = (AtomicUsize::new(0), AtomicUsize::new(0), Drops::new());
        let ran = Arc::new(ran);
        // It begins with all workers busy and the rest full of low jobs, so that some give way for
        // certain, where there is room for a queue at all.
        let (busy, met) = (occupy(&pool), Rendezvous::new(5));
        let low = pool.job().priority(Priority::Low);
        let queued = capacity - workers;
        let at_first = queued.min(4);
        let first: Vec<_> = (0..queued).map(|_| low.try_submit(|| ()).unwrap()).collect();
        thread::scope(|s| {
            for seed in 0..4 {
                let (pool, ran, drops, met) = (&pool, &ran, &drops, &met);
                let (accepted, shed, cancelled, made) = (&accepted, &shed, &cancelled, &made);
                s.spawn(move || {
                    drop(critical(pool));
                    met.meet();
                    met.meet();
                    let mut random = fastrand::Rng::with_seed(seed);
                    let mut jobs = Vec::new();
                    let settle = |job: JobHandle<()>| match job.join() {
                        Ok(()) => 0,
                        Err(JobError::Shed(ShedReason::Displaced)) => shed.fetch_add(1, SeqCst),
                        Err(JobError::Cancelled) => cancelled.fetch_add(1, SeqCst),
                        Err(other) => panic!("{other:?}"),
                    };
                    for _ in 0..rounds(4_000) {
                        let priority = LANES[random.usize(0..4)];
                        let (counter, capture) = (ran.clone(), drops.tracked());
                        made.fetch_add(1, SeqCst);
                        let inner = pool.clone();
                        let nests = random.u8(0..4) == 0;
                        let job = pool.job().priority(priority).try_submit(move || {
                            counter.fetch_add(1, SeqCst);
                            drop(capture);
                            // A nested one that may be displaced while it is joined.
                            if let (true, Ok(nested)) = (nests, inner.try_submit(|| ())) {
                                drop(nested.join());
                            }
                        });
                        assert!(pool.in_flight() <= capacity);
                        if let Ok(job) = job {
                            accepted.fetch_add(1, SeqCst);
                            jobs.push(job);
                        }
                        if jobs.len() > 4 {
                            let job = jobs.swap_remove(random.usize(..jobs.len()));
                            if random.bool() {
                                job.cancel();
                            }
                            settle(job);
                        }
                    }
                    jobs.into_iter().for_each(|job| _ = settle(job));
                });
            }
            met.meet();
            assert_eq!(displaced(&pool), at_first as u64, "four wanted a slot");
            met.meet();
            busy.free();
        });
        pool.wait_idle();
        let gone = first.into_iter().map(JobHandle::join).filter(is_displaced).count();
        assert!((at_first..=queued).contains(&gone), "{gone} of {queued}");
        let [accepted, ran, shed, cancelled, made] =
            [&accepted, &ran, &shed, &cancelled, &made].map(|count| count.load(SeqCst));
        assert_eq!((accepted, drops.count()), (ran + shed + cancelled, made));
        // And the nested ones that gave way.
        assert!(displaced(&pool) as usize >= shed + gone);
        assert_all_slots_free(&pool);
    }
}

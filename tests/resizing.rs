//! The capacity changes under way: what is lowered drains first, what is raised lets in who waits; and how one waits for a
//! pool to be idle or to end, also as a task.

mod common;

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use std::thread;
use std::time::Duration;

use common::{
    Count, Gate, Peak, assert_all_slots_free, assert_at_rest, block_on, counting_waker, elsewhere,
    eventually, fail_quietly, occupy, poll, recv, rounds, watchdog,
};
use weirpool::{
    JobHandle, Partition, Permit, Pool, Priority, Reason, Shutdown, ShutdownReport, Submit,
};

// ── Lower ───────────────────────────────────────────────────────────────────────────────────────

#[test]
fn resized_up_and_down_while_a_thousand_jobs_run_each_runs_once() {
    let _watchdog = watchdog();
    let pool = Pool::new(2, 8).unwrap();
    let (ran, inside) = (Count::new(), Arc::new(Peak::default()));
    let mut expected = 0;
    for slots in [8, 1, 8, 0] {
        let before = pool.capacity();
        pool.set_capacity(slots);
        assert_eq!(pool.capacity(), slots.max(1), "0 is taken as 1");
        thread::scope(|s| {
            s.spawn(|| {
                for _ in 0..250 {
                    let (ran, inside) = (ran.clone(), inside.clone());
                    let job = pool.submit_blocking(move || inside.visit(|| ran.add())).unwrap();
                    drop(job);
                    assert!(pool.in_flight() <= before.max(slots).max(1));
                }
            });
        });
        pool.wait_idle();
        expected += 250;
        assert_eq!((ran.get(), pool.in_flight(), pool.running()), (expected, 0, 0));
        assert_all_slots_free(&pool);
    }
    assert_eq!(pool.snapshot().completed, 1_000);
    assert!(inside.highest() <= 2);
}

#[test]
fn resized_at_random_under_fire_nothing_is_lost() {
    let _watchdog = watchdog();
    let pool = Pool::new(2, 16).unwrap();
    let (ran, accepted, over) = (Count::new(), Count::new(), AtomicBool::new(false));
    thread::scope(|s| {
        let resizes = s.spawn(|| {
            let mut random = fastrand::Rng::with_seed(8);
            while !over.load(SeqCst) {
                pool.set_capacity(random.usize(0..64));
                let now = pool.snapshot();
                assert_eq!(now.in_flight, now.reserved + now.queued + now.running, "{now:?}");
                assert!(now.in_flight <= 64 && pool.load().score <= 1.0);
            }
        });
        let crowd: Vec<_> = (0..3)
            .map(|seed| {
                let (pool, ran, accepted) = (&pool, &ran, &accepted);
                s.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed);
                    let lanes = [Priority::Low, Priority::Normal, Priority::High, Priority::Normal];
                    for _ in 0..rounds(3_000) {
                        let spec = pool.job().priority(lanes[random.usize(0..4)]);
                        let counter = ran.clone();
                        let job = move || counter.add();
                        let job = match random.u8(0..4) {
                            0 => Some(spec.submit_blocking(job).unwrap()),
                            1 => spec.try_reserve().ok().map(|slot| slot.submit(job).unwrap()),
                            _ => spec.try_submit(job).ok(),
                        };
                        let Some(job) = job else { continue };
                        if random.bool() || !job.cancel() {
                            accepted.add();
                        }
                    }
                })
            })
            .collect();
        let ends: Vec<_> = crowd.into_iter().map(|thread| thread.join()).collect();
        over.store(true, SeqCst);
        assert!(ends.iter().all(Result::is_ok) && resizes.join().is_ok());
    });
    pool.wait_idle();
    assert_eq!(ran.get(), accepted.get());
    pool.set_capacity(5);
    assert_all_slots_free(&pool);
}

enum Held {
    Permit(Permit),
    Queued(JobHandle<()>),
}

#[test]
fn nothing_is_admitted_until_a_lowered_capacity_has_drained() {
    let _watchdog = watchdog();
    for permits in [0, 5, 9] {
        let pool = Pool::new(1, 10).unwrap();
        let busy = occupy(&pool);
        let mut held: Vec<_> = (0..9)
            .map(|number| match number < permits {
                true => Held::Permit(pool.try_reserve().unwrap()),
                // Never displaced.
                false => {
                    let high = pool.job().priority(Priority::High);
                    Held::Queued(high.try_submit(|| ()).unwrap())
                }
            })
            .collect();
        pool.set_capacity(3);
        assert_eq!((pool.capacity(), pool.in_flight()), (3, 10));
        assert!(pool.load().score <= 1.0);
        let (waker, wakes) = counting_waker();
        let mut waits = pool.submit(|| "admitted");
        assert!(poll(&mut waits, &waker).is_pending());
        for released in 1..=8 {
            for class in [Priority::Low, Priority::High] {
                let refused = pool.job().priority(class).try_submit(|| ());
                assert_eq!(refused.unwrap_err().reason(), Reason::Full, "after {released} - 1");
            }
            assert_eq!(pool.try_reserve_many(2).unwrap_err().reason(), Reason::Full);
            assert_eq!(wakes.get(), 0, "after {released} - 1");
            match held.pop().unwrap() {
                Held::Permit(permit) => drop(permit),
                Held::Queued(job) => assert!(job.cancel()),
            }
        }
        assert_eq!((wakes.get(), pool.in_flight()), (1, 3), "the eighth release admits one");
        assert!(pool.try_submit(|| ()).is_err());
        held.clear();
        busy.free();
        assert_eq!(block_on(waits).unwrap().join().unwrap(), "admitted");
        pool.wait_idle();
        assert_all_slots_free(&pool);
    }
}

#[test]
fn a_capacity_below_the_reserves_is_a_bound_like_any() {
    let pool = Pool::builder().workers(1).capacity(10).critical_reserve(2).batch();
    let pool = pool.partition("a", Partition::new().reserved(3));
    let pool = pool.partition("b", Partition::new().reserved(3)).build().unwrap();
    let [a, b] = ["a", "b"].map(|name| pool.job().partition(pool.partition(name).unwrap()));
    let fill = |spec: weirpool::JobSpec<'_>| -> Vec<Permit> {
        std::iter::from_fn(|| spec.try_reserve().ok()).collect()
    };
    for slots in [10, 1, 4, 7, 8, 9, 10] {
        pool.set_capacity(slots);
        for urgent in [false, true] {
            let priority = if urgent { Priority::Critical } else { Priority::Normal };
            let held: Vec<_> = [pool.job(), a, b].map(|spec| fill(spec.priority(priority))).into();
            assert!(pool.in_flight() <= slots, "{} of {slots}", pool.in_flight());
            let reserve = if urgent { 0 } else { 2 };
            assert_eq!(held[0].len(), slots.saturating_sub(6 + reserve), "of the common part");
            assert_eq!(held[1].len() + held[2].len(), slots.min(6), "of the shares");
            drop(held);
            assert_eq!(pool.in_flight(), 0);
        }
    }
    assert_at_rest(&pool);
}

// ── Higher ──────────────────────────────────────────────────────────────────────────────────────

#[test]
fn raising_lets_in_as_many_as_fit_in_their_turn() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 1).unwrap();
    let permit = pool.try_reserve().unwrap();
    let mut line: Vec<_> = (0..5)
        .map(|number: usize| {
            let (waker, wakes) = counting_waker();
            let mut submit: Submit<_, usize> = pool.submit(move || number);
            assert!(poll(&mut submit, &waker).is_pending());
            (submit, wakes)
        })
        .collect();
    let woken = |line: &[(_, Count)]| line.iter().map(|(_, wakes)| wakes.get()).collect::<Vec<_>>();
    pool.set_capacity(1);
    assert_eq!(woken(&line), [0; 5]);
    pool.set_capacity(4);
    assert_eq!(woken(&line), [1, 1, 1, 0, 0]);
    pool.set_capacity(2);
    drop(line.remove(0));
    assert_eq!(woken(&line), [1, 1, 0, 0], "it passed on nothing: too many are in already");
    pool.set_capacity(5);
    assert_eq!((woken(&line), pool.in_flight()), (vec![1; 4], 5));
    thread::scope(|s| {
        let blocked = s.spawn(|| pool.submit_blocking(|| 9).unwrap().join().unwrap());
        pool.set_capacity(6);
        assert_eq!(blocked.join().unwrap(), 9);
    });
    for (at, (submit, _)) in line.into_iter().enumerate() {
        assert_eq!(block_on(submit).unwrap().join().unwrap(), at + 1);
    }
    drop(permit);
    assert_all_slots_free(&pool);
}

#[test]
fn raised_far_above_where_it_began_every_lane_holds_as_much_and_keeps_its_order() {
    let _watchdog = watchdog();
    let lanes = [Priority::Low, Priority::Normal, Priority::High, Priority::Critical];
    let pool = Pool::new(1, 5).unwrap();
    let busy = occupy(&pool);
    let order = Arc::new(Mutex::new(Vec::new()));
    let (mut expected, mut cancelled) = (Vec::new(), Vec::new());
    let mut next = 0;
    for slots in [5, 6, 100, 101, rounds(4_001).max(401)] {
        pool.set_capacity(slots);
        // Full, a quarter of it in each lane and some of it cancelled: holes in the middle of the queues.
        while pool.in_flight() < slots {
            let (lane, number, log) = (lanes[next % 4], next, order.clone());
            next += 1;
            let job = pool.job().priority(lane).try_submit(move || {
                log.lock().unwrap().push((lane, number));
            });
            let job = job.expect("there is room");
            if number % 7 == 3 && cancelled.len() < 300 {
                assert!(job.cancel());
                cancelled.push(number);
            } else {
                expected.push((lane, number));
            }
        }
        let refused = pool.job().priority(Priority::High).try_submit(|| ());
        assert_eq!(refused.unwrap_err().reason(), Reason::Full);
        assert_eq!((pool.in_flight(), pool.queued()), (slots, slots - 1));
    }
    busy.free();
    pool.wait_idle();
    assert_eq!(pool.snapshot().cancelled, cancelled.len() as u64);
    // Each lane in its order; between them the higher goes first but for what has waited too long.
    let mut order = std::mem::take(&mut *order.lock().unwrap());
    order.sort_by_key(|(lane, _)| *lane);
    expected.sort_by_key(|(lane, _)| *lane);
    assert_eq!(order, expected);
    assert_all_slots_free(&pool);
}

#[test]
fn there_is_a_largest_capacity_and_it_is_said() {
    let pool = Pool::new(1, 1).unwrap();
    pool.set_capacity(usize::MAX);
    assert_eq!((pool.capacity(), pool.snapshot().capacity), (1_048_575, 1_048_575));
    let many = pool.try_reserve_many(1_048_575).unwrap();
    assert_eq!(pool.try_reserve().unwrap_err().reason(), Reason::Full);
    pool.set_capacity(0);
    drop(many);
    assert_all_slots_free(&pool);
    pool.close();
    pool.set_capacity(3);
    assert_eq!(pool.try_submit(|| ()).unwrap_err().reason(), Reason::Closed);
}

// ── Idle ────────────────────────────────────────────────────────────────────────────────────────

type Idle = Pin<Box<dyn Future<Output = ()> + Send>>;

fn idle(pool: &Pool) -> Idle {
    Box::pin(pool.wait_idle_async())
}

#[test]
fn a_task_that_waits_for_idleness_is_woken_by_the_last_end() {
    let _watchdog = watchdog();
    let pool = Pool::new(2, 4).unwrap();
    block_on(idle(&pool));
    for _ in 0..rounds(200) {
        let permit = pool.try_reserve().unwrap();
        let busy = occupy(&pool);
        let queued = pool.try_submit(|| ()).unwrap();
        let mut waits = [(); 3].map(|()| (idle(&pool), counting_waker()));
        for (idle, (waker, _)) in &mut waits {
            assert!(poll(idle, waker).is_pending() && poll(idle, waker).is_pending());
        }
        assert!(queued.cancel());
        let [one, other, given_up] = waits;
        for (_, (_, wakes)) in [&one, &other, &given_up] {
            assert_eq!(wakes.get(), 0, "somebody still runs");
        }
        drop(given_up.0);
        busy.free();
        for (idle, (_, wakes)) in [one, other] {
            eventually("each is woken", || wakes.get() > 0);
            block_on(idle);
        }
        assert_eq!(given_up.1.1.get(), 0);
        assert_eq!((pool.queued(), pool.running(), pool.in_flight()), (0, 0, 1));
        drop(permit);
    }
    assert!(!pool.is_closed(), "new work is welcome");
    assert_all_slots_free(&pool);
}

#[test]
fn of_two_waits_in_one_task_one_may_be_given_up() {
    let _watchdog = watchdog();
    type Wait = fn(&Pool) -> Pin<Box<dyn Future<Output = ()> + Send>>;
    let waits: [(&str, Wait); 2] = [
        ("wait_idle_async", |pool| Box::pin(pool.wait_idle_async())),
        ("shutdown_async", |pool| {
            let ends = pool.shutdown_async(Shutdown::Drain, None);
            Box::pin(async { _ = ends.await })
        }),
    ];
    for (kept_name, kept) in waits {
        for (dropped_name, dropped) in waits {
            let pool = Pool::new(1, 1).unwrap();
            let busy = occupy(&pool);
            let (waker, wakes) = counting_waker();
            let (mut kept, mut dropped) = (kept(&pool), dropped(&pool));
            assert!(poll(&mut kept, &waker).is_pending());
            assert!(poll(&mut dropped, &waker).is_pending());
            drop(dropped);
            busy.free();
            // The thread, too, for the shutdown.
            eventually(&format!("{kept_name} is woken, without {dropped_name}"), || {
                wakes.get() > 0
            });
            block_on(kept);
        }
    }
}

#[test]
fn on_a_worker_nobody_waits_for_idleness_or_the_end() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 3).unwrap();
    let inner = pool.clone();
    let body = pool.try_submit(move || {
        let queued = inner.try_submit(|| ()).unwrap();
        inner.wait_idle();
        block_on(idle(&inner));
        let report = block_on(Box::pin(inner.shutdown_async(Shutdown::Discard, None)));
        (queued.is_finished(), report)
    });
    let (discarded, report) = body.unwrap().join().unwrap();
    assert!(discarded && pool.is_closed());
    assert_eq!(counts(&report), (0, 1, 1));
    assert_eq!(counts(&pool.shutdown(Shutdown::Drain, None)), (1, 1, 0));
}

// ── Ending as a task ────────────────────────────────────────────────────────────────────────────

type Ending = Pin<Box<dyn Future<Output = ShutdownReport> + Send>>;

fn end(pool: &Pool, how: Shutdown, limit: Option<Duration>) -> Ending {
    Box::pin(pool.shutdown_async(how, limit))
}

/// `(completed, discarded, still_running)`.
fn counts(report: &ShutdownReport) -> (usize, usize, usize) {
    (report.completed, report.discarded, report.still_running)
}

#[test]
fn a_shutdown_as_a_task_begins_at_its_first_poll_and_goes_on_without_it() {
    let _watchdog = watchdog();
    let (exits, exited) = mpsc::channel();
    let pool = Pool::builder().workers(1).capacity(4).batch();
    let pool = pool.on_thread_stop(move || exits.send(()).unwrap()).build().unwrap();
    let busy = occupy(&pool);
    let queued = pool.try_submit(|| 5).unwrap();
    let (waker, wakes) = counting_waker();
    let mut given_up = end(&pool, Shutdown::Drain, None);
    drop(end(&pool, Shutdown::Discard, None));
    assert!(!pool.is_closed() && !queued.is_finished(), "nobody has polled it");
    assert!(poll(&mut given_up, &waker).is_pending());
    assert!(pool.is_closed());
    drop(given_up);
    busy.free();
    assert_eq!(queued.join().unwrap(), 5);
    recv(&exited);
    assert_eq!(wakes.get(), 0, "who has given up is not woken");
    assert_eq!(counts(&block_on(end(&pool, Shutdown::Drain, None))), (2, 0, 0));
}

#[test]
fn a_shutdown_as_a_task_keeps_its_time_bound_and_a_later_one_completes() {
    let _watchdog = watchdog();
    for (how, ends) in [(Shutdown::Drain, (0, 0, 3)), (Shutdown::Discard, (0, 2, 1))] {
        let pool = Pool::new(1, 4).unwrap();
        let busy = occupy(&pool);
        let queued = [(); 2].map(|()| pool.try_submit(|| ()).unwrap());
        let bound = Duration::from_secs(3_600);
        let mut patient = end(&pool, how, Some(bound));
        let (waker, wakes) = counting_waker();
        assert!(poll(&mut patient, &waker).is_pending());
        for limit in [Duration::ZERO, Duration::from_millis(1)] {
            assert_eq!(counts(&block_on(end(&pool, how, Some(limit)))), ends, "{how:?}");
        }
        assert_eq!(wakes.get(), 0);
        let no_bound = end(&pool, how, Some(Duration::MAX));
        busy.free();
        let (completed, discarded, _) = ends;
        let all = (3 - completed - discarded, discarded, 0);
        assert_eq!(counts(&block_on(patient)), all);
        assert_eq!(counts(&block_on(no_bound)), all);
        for job in queued {
            assert_eq!(job.join().is_ok(), how == Shutdown::Drain);
        }
    }
}

#[test]
fn a_discard_as_a_task_escalates_a_drain_that_waits() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 4).unwrap();
    let busy = occupy(&pool);
    let queued = [(); 3].map(|()| pool.try_submit(|| ()).unwrap());
    let mut drain = end(&pool, Shutdown::Drain, None);
    assert!(poll(&mut drain, Waker::noop()).is_pending());
    let blocked = {
        let pool = pool.clone();
        elsewhere(move || pool.shutdown(Shutdown::Drain, None))
    };
    let mut discard = end(&pool, Shutdown::Discard, None);
    assert!(poll(&mut discard, Waker::noop()).is_pending());
    assert!(queued.iter().all(JobHandle::is_finished));
    busy.free();
    let reports = [block_on(drain), block_on(discard), blocked.wait()];
    assert!(reports.iter().all(|report| counts(report) == (1, 3, 0)), "{reports:?}");
}

#[test]
fn tasks_that_end_the_pool_and_wait_for_it_race_with_its_last_job() {
    let _watchdog = watchdog();
    for round in 0..rounds(300) {
        let pool = Pool::new(1, 2).unwrap();
        let gate = Gate::new();
        let wait = gate.clone();
        let job = pool.try_submit(move || {
            wait.wait();
            if round % 3 == 0 {
                fail_quietly();
            }
        });
        let (ends, idles) = (end(&pool, Shutdown::Drain, None), idle(&pool));
        let (ended, idled) = (elsewhere(|| block_on(ends)), elsewhere(|| block_on(idles)));
        gate.open();
        assert_eq!(counts(&ended.wait()).2, 0);
        idled.wait();
        let _ = job.unwrap().join();
        assert_at_rest(&pool);
    }
}

/// A waker whose clone calls back.
fn calls_when_cloned(call: Arc<dyn Fn() + Send + Sync>) -> Waker {
    type Callback = dyn Fn() + Send + Sync;
    fn raw(call: Arc<Callback>) -> RawWaker {
        RawWaker::new(Box::into_raw(Box::new(call)).cast_const().cast(), &VTABLE)
    }
    static VTABLE: RawWakerVTable = RawWakerVTable::new(
        |data| {
            // SAFETY: every such pointer is made by `raw`, and lives until it is woken or dropped.
            let call = unsafe { &*data.cast::<Arc<Callback>>() };
            call();
            raw(Arc::clone(call))
        },
        // SAFETY: as above; waking consumes it.
        |data| drop(unsafe { Box::from_raw(data.cast::<Arc<Callback>>().cast_mut()) }),
        |_| (),
        // SAFETY: as above; dropping consumes it.
        |data| drop(unsafe { Box::from_raw(data.cast::<Arc<Callback>>().cast_mut()) }),
    );
    // SAFETY: the table's functions keep the contract of each; the callback is `Send` and `Sync`.
    unsafe { Waker::from_raw(raw(call)) }
}

#[test]
fn a_waker_may_use_the_pool_while_it_is_cloned() {
    let _watchdog = watchdog();
    let pool = Pool::new(1, 1).unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let ends_a_job = {
        let (pool, calls) = (pool.clone(), calls.clone());
        move |busy: &Mutex<Option<common::Busy>>| {
            calls.fetch_add(1, SeqCst);
            if let Some(busy) = busy.lock().unwrap().take() {
                busy.free();
                pool.wait_idle();
            }
        }
    };
    let busy = Arc::new(Mutex::new(None));
    let in_clone = busy.clone();
    let waker = calls_when_cloned(Arc::new(move || ends_a_job(&in_clone)));
    let mut context = Context::from_waker(&waker);
    for _ in 0..2 {
        // The first poll says that somebody listens, so that the last end rings at the second.
        let mut waits = idle(&pool);
        let holds = occupy(&pool);
        assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        *busy.lock().unwrap() = Some(holds);
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Ready(()));
    }
    *busy.lock().unwrap() = Some(occupy(&pool));
    let mut line = pool.submit(|| 3);
    let job = match Pin::new(&mut line).poll(&mut context) {
        Poll::Ready(job) => job,
        Poll::Pending => block_on(line),
    };
    assert_eq!(job.unwrap().join().unwrap(), 3);
    *busy.lock().unwrap() = Some(occupy(&pool));
    let mut ends = end(&pool, Shutdown::Drain, None);
    let report = match ends.as_mut().poll(&mut context) {
        Poll::Ready(report) => report,
        Poll::Pending => block_on(ends),
    };
    assert_eq!(counts(&report), (1, 0, 0));
    assert!(calls.load(SeqCst) >= 4);
}

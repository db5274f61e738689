//! The CPU gate, through the pool: who is refused when the CPU is busy or taken, and how it opens again.
//!
//! The CPU is a `ManualCpu` and time a `ManualClock`. Samples are taken where a test lets a job in
//! while all workers are held, so on its own thread.

mod common;

use std::sync::mpsc;
use std::task::Waker;
use std::time::{Duration, Instant};

use common::{
    Busy, Count, Gate, Rendezvous, assert_adds_up, assert_all_slots_free, elsewhere, eventually,
    fail, give_way, hold, occupy, poll, quiet_panic, resolve, watchdog,
};
use weirpool::cpu::{Contention, CpuReading, CpuSource};
use weirpool::test::{ManualClock, ManualCpu};
use weirpool::{
    ActiveWorkers, Arm, Builder, Clock, CpuGate, JobSpec, Partition, Pool, Priority, QueueDelay,
    Reason, Shutdown,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const SAMPLE: Duration = Duration::from_millis(100);

/// A pool whose CPU and clock are the test's, without a queue delay.
struct Bench {
    pool: Pool,
    cpu: ManualCpu,
    clock: ManualClock,
    reads: Count,
}

/// A source that counts how often it is read.
struct Counted(ManualCpu, Count);

impl CpuSource for Counted {
    fn read(&mut self, now: Instant) -> Option<CpuReading> {
        self.1.add();
        self.0.read(now)
    }

    fn contention(&mut self, now: Instant) -> Option<Contention> {
        self.0.contention(now)
    }
}

fn bench_with(gate: CpuGate, set: impl FnOnce(Builder) -> Builder) -> Bench {
    let (cpu, clock, reads) = (ManualCpu::new(), ManualClock::new(), Count::new());
    let gate = gate.source(Counted(cpu.clone(), reads.clone()));
    let builder = Pool::builder().workers(1).capacity(64).clock(clock.clone()).seed(7);
    let builder = builder.queue_delay(QueueDelay::off()).cpu_gate(gate);
    Bench { pool: set(builder).build().unwrap(), cpu, clock, reads }
}

fn bench(gate: CpuGate) -> Bench {
    bench_with(gate, |builder| builder)
}

/// The classic ramp.
fn always() -> CpuGate {
    CpuGate::between(0.7, 0.9).armed(Arm::Always)
}

fn contended() -> CpuGate {
    CpuGate::between(0.7, 0.9).active_workers(ActiveWorkers::Fixed)
}

impl Bench {
    /// Lets one job in, past the gate; if a sample is due, it is taken here and now. All workers must
    /// be held.
    #[track_caller]
    fn let_one_in(&self) {
        let mut submit = self.pool.submit(|| ());
        let answer = poll(&mut submit, Waker::noop());
        let std::task::Poll::Ready(Ok(job)) = answer else { panic!("there is a slot") };
        assert!(job.cancel());
    }

    /// A sample of this CPU use after `gap`.
    fn measure_after(&self, gap: Duration, busy: f64) {
        self.cpu.set(busy);
        self.clock.advance(gap);
        let before = self.reads.get();
        self.let_one_in();
        assert_eq!(self.reads.get(), before + 1);
    }

    fn measure(&self, busy: f64) {
        self.measure_after(SAMPLE, busy);
    }

    /// Samples that leave no doubt about contention.
    fn contend(&self, contention: Contention) {
        self.cpu.set_contention(contention);
        (0..30).for_each(|_| self.measure(1.0));
    }

    /// Whether each of so many jobs was refused by the gate.
    fn draw(&self, job: JobSpec<'_>, many: usize) -> Vec<bool> {
        let draw = |_| match job.try_submit(|| ()) {
            Ok(job) => {
                assert!(job.cancel());
                false
            }
            Err(refused) => {
                assert_eq!(refused.reason(), Reason::Cpu);
                true
            }
        };
        (0..many).map(draw).collect()
    }

    fn refused(&self, priority: Priority, many: usize) -> usize {
        let drawn = self.draw(self.pool.job().priority(priority), many);
        drawn.into_iter().filter(|refused| *refused).count()
    }

    fn is_shut(&self) -> bool {
        self.refused(Priority::Normal, 100) == 100
    }

    fn is_open(&self) -> bool {
        self.refused(Priority::Low, 100) == 0
    }
}

// ── The ramp ────────────────────────────────────────────────────────────────────────────────────

#[test]
fn of_ten_thousand_half_are_refused_half_way_up_the_ramp() {
    let bench = bench(always());
    let held = hold(&bench.pool, 1);
    bench.measure(0.8);
    let of = |priority| bench.refused(priority, 10_000);
    let (low, normal, high) = (of(Priority::Low), of(Priority::Normal), of(Priority::High));
    assert!(normal.abs_diff(5_000) <= 200, "{normal}");
    assert!(low >= normal && low < 10_000 && high <= normal, "{low} {normal} {high}");
    assert_eq!(of(Priority::Critical), 0);
    let now = bench.pool.snapshot();
    assert_eq!(now.rejected.get(Reason::Cpu), now.rejected.total());
    assert_eq!(now.rejected.total(), (low + normal + high) as u64);
    assert!((now.cpu_refusal - 0.5).abs() < 1e-6, "{now:?}");
    assert_eq!(now.cpu, Some(0.8));
    let score = bench.pool.load().score;
    assert!((0.5..1.0).contains(&score), "{score}");
    held.free();
    assert_all_slots_free_but_for_the_gate(&bench);
}

/// All slots are free, as the waiting forms see it, which skip the gate.
fn assert_all_slots_free_but_for_the_gate(bench: &Bench) {
    bench.cpu.set(0.0);
    bench.clock.advance(3_600 * SECOND);
    assert_all_slots_free(&bench.pool);
}

#[test]
fn the_ramp_goes_from_none_to_all() {
    for (busy, lowest, highest) in [
        (0.65, 0, 0),
        (0.70, 0, 0),
        (0.75, 2_300, 2_700),
        (0.80, 4_800, 5_200),
        (0.90, 10_000, 10_000),
        (1.5, 10_000, 10_000),
    ] {
        let bench = bench(always());
        let held = hold(&bench.pool, 1);
        bench.measure(busy);
        let refused = bench.refused(Priority::Normal, 10_000);
        assert!((lowest..=highest).contains(&refused), "{refused} at {busy}");
        held.free();
    }
    for (busy, refused) in [(0.79, 0), (0.80, 100)] {
        let bench = bench(CpuGate::between(0.8, 0.8).armed(Arm::Always));
        let held = hold(&bench.pool, 1);
        bench.measure(busy);
        assert_eq!(bench.refused(Priority::Normal, 100), refused, "a step at {busy}");
        held.free();
    }
}

#[test]
fn with_the_same_seed_the_same_are_refused() {
    let play = |seed| {
        let bench = bench_with(always(), |builder| builder.seed(seed));
        let held = hold(&bench.pool, 1);
        bench.measure(0.8);
        let mut refused = Vec::new();
        for round in 0..200 {
            let priority = [Priority::Low, Priority::Normal, Priority::High][round % 3];
            refused.extend(bench.draw(bench.pool.job().priority(priority), 7));
            bench.measure(if round % 2 == 0 { 0.9 } else { 0.7 });
        }
        held.free();
        refused
    };
    assert_eq!(play(1), play(1));
    assert_ne!(play(1), play(2));
}

// ── Readings ────────────────────────────────────────────────────────────────────────────────────

#[test]
fn without_a_reading_all_are_admitted() {
    let bench = bench(always());
    let held = hold(&bench.pool, 1);
    for _ in 0..100 {
        bench.clock.advance(SECOND);
        assert!(bench.is_open());
    }
    assert!(bench.reads.get() > 100, "it was asked for one");
    let now = bench.pool.snapshot();
    assert_eq!((now.cpu, now.cpu_refusal, now.cpu_readings_ignored), (None, 0.0, 0));
    assert_eq!(bench.pool.load().cpu, None);
    held.free();
}

#[test]
fn what_is_no_share_is_ignored_and_counted_and_too_much_is_all() {
    let bench = bench(always());
    let held = hold(&bench.pool, 1);
    let nonsense = [f64::NAN, -1.0, f64::INFINITY, f64::NEG_INFINITY];
    for (nth, busy) in nonsense.into_iter().enumerate() {
        bench.measure(busy);
        let now = bench.pool.snapshot();
        assert_eq!((now.cpu, now.cpu_readings_ignored), (None, nth as u64 + 1), "{busy}");
        assert!(bench.is_open());
    }
    bench.measure(7.3);
    assert_eq!(bench.pool.snapshot().cpu, Some(1.0));
    assert!(bench.is_shut());
    nonsense.into_iter().for_each(|busy| bench.measure(busy));
    let now = bench.pool.snapshot();
    assert_eq!((now.cpu, now.cpu_readings_ignored), (Some(1.0), 8), "the average stands");
    held.free();
}

#[test]
fn the_average_is_weighted_by_time() {
    let after = |gate: CpuGate, samples: &[(Duration, f64)]| {
        let bench = bench(gate.time_constant(15 * SECOND));
        let held = hold(&bench.pool, 1);
        samples.iter().for_each(|(gap, busy)| bench.measure_after(*gap, *busy));
        held.free();
        bench.pool.snapshot().cpu.unwrap()
    };
    let near = |is: f64, expected: f64| assert!((is - expected).abs() < 1e-3, "{is} {expected}");
    near(after(always(), &[(SECOND, 0.9)]), 0.9);
    near(after(always(), &[(SECOND, 0.4), (30 * SECOND, 1.0)]), 0.919);
    near(after(always(), &[(SECOND, 0.95), (60 * SECOND, 0.0)]), 0.0174);
    near(after(always(), &[(SECOND, 0.3), (SECOND, 1.0)]), 0.345);
    let alike: Vec<_> = (0..1_000).map(|_| (MS, 0.5)).collect();
    let fine = after(always().sample_every(MS), &alike);
    assert!((fine - 0.5).abs() < 1e-9, "{fine}");
}

#[test]
fn a_gate_that_refused_all_opens_after_a_pause_by_the_requests_alone() {
    let bench = bench(always().time_constant(15 * SECOND));
    bench.cpu.set(0.95);
    resolve(bench.pool.try_submit(|| ()).unwrap()).unwrap();
    eventually("the first job has left a sample", || bench.pool.snapshot().cpu.is_some());
    assert!(bench.is_shut());
    assert_eq!(bench.pool.load().score, 1.0, "it refuses although it is empty");
    bench.clock.advance(60 * SECOND);
    bench.cpu.set(0.0);
    assert!(bench.pool.load().score < 0.1, "nobody knows, so somebody may come");
    assert!(bench.pool.try_spawn(|| ()).is_ok(), "the first to come opens it");
    bench.pool.wait_idle();
    assert!((bench.pool.snapshot().cpu.unwrap() - 0.0174).abs() < 1e-3);
}

#[test]
fn a_gate_that_refused_all_opens_also_for_those_who_reserve_first() {
    let bench = bench(always());
    bench.cpu.set(1.0);
    resolve(bench.pool.try_submit(|| ()).unwrap()).unwrap();
    eventually("the first job has left a sample", || bench.pool.snapshot().cpu.is_some());
    assert_eq!(bench.pool.try_reserve().unwrap_err().reason, Reason::Cpu);
    bench.cpu.set(0.0);
    bench.clock.advance(8 * SECOND);
    assert_eq!(bench.pool.try_reserve_many(3).expect("the CPU is free").len(), 3);
}

#[test]
fn one_long_job_and_nothing_but_refusals_do_not_keep_the_gate_shut_for_ever() {
    for gate in [always(), contended()] {
        let bench = bench(gate);
        let held = hold(&bench.pool, 1);
        bench.contend(Contention::none().throttled(0.5));
        assert!(bench.is_shut());
        bench.cpu.set(0.0);
        bench.cpu.set_contention(Contention::none());
        let mut waited = 0;
        while bench.pool.try_spawn(|| ()).is_err() {
            bench.clock.advance(SAMPLE);
            waited += 1;
            assert!(waited < 600, "a minute of free CPU and still shut");
        }
        held.free();
        bench.pool.wait_idle();
        assert_adds_up(&bench.pool);
    }
}

// ── Who reads, and when ─────────────────────────────────────────────────────────────────────────

#[test]
fn refusals_take_no_sample_and_accepted_submits_do() {
    let bench = bench(contended().sample_every(SECOND));
    let held = hold(&bench.pool, 1);
    bench.cpu.set_contention(Contention::none().throttled(0.9));
    (0..5).for_each(|_| bench.measure_after(SECOND, 1.0));
    let before = bench.reads.get();
    // For less than the time constant, after which the figures are too old to refuse by.
    for _ in 0..3 {
        bench.clock.advance(SECOND);
        assert!(bench.is_shut());
    }
    assert_eq!(bench.reads.get(), before, "a refusal costs no reading");
    (0..10).for_each(|_| bench.let_one_in());
    assert_eq!(bench.reads.get(), before + 1, "ten accepted at one moment make one");
    bench.clock.advance(SECOND - Duration::from_nanos(1));
    bench.let_one_in();
    assert_eq!(bench.reads.get(), before + 1, "not yet due");
    bench.clock.advance(Duration::from_nanos(1));
    bench.let_one_in();
    assert_eq!(bench.reads.get(), before + 2);
    held.free();
}

#[test]
fn a_gate_that_is_always_armed_reads_for_refusals_too() {
    let bench = bench(always().sample_every(SECOND));
    let held = hold(&bench.pool, 1);
    bench.measure_after(SECOND, 1.0);
    let before = bench.reads.get();
    for tick in 1..=10 {
        bench.clock.advance(SECOND);
        assert!(bench.is_shut());
        assert_eq!(bench.reads.get(), before + tick, "one for a hundred refusals");
    }
    held.free();
}

#[test]
fn a_worker_reads_when_a_job_has_ended() {
    let bench = bench(always().sample_every(SECOND));
    resolve(bench.pool.try_submit(|| ()).unwrap()).unwrap();
    eventually("the submit took a sample", || bench.reads.get() == 1);
    let clock = bench.clock.clone();
    resolve(bench.pool.try_submit(move || clock.advance(2 * SECOND)).unwrap()).unwrap();
    eventually("the end took another", || bench.reads.get() == 2);
    bench.clock.advance(3_600 * SECOND);
    give_way(1_000);
    assert_eq!(bench.reads.get(), 2, "nobody looks while nothing happens");
}

#[test]
fn without_a_gate_nothing_is_read() {
    for set in [Builder::no_cpu_gate as fn(Builder) -> Builder, Builder::batch] {
        let bench = bench_with(always(), set);
        bench.cpu.set(1.0);
        for _ in 0..10 {
            bench.clock.advance(SECOND);
            resolve(bench.pool.try_submit(|| ()).unwrap()).unwrap();
        }
        let now = bench.pool.snapshot();
        assert_eq!((bench.reads.get(), now.cpu, now.cpu_refusal), (0, None, 0.0));
        assert_eq!((now.active_workers, now.cpu_per_worker.len()), (1, 0));
    }
}

/// A source whose figures panic, each time or some times.
struct Panics(Count, fn(usize) -> bool);

impl CpuSource for Panics {
    fn read(&mut self, _now: Instant) -> Option<CpuReading> {
        if (self.1)(self.0.next()) {
            quiet_panic();
        }
        Some(CpuReading::Busy(1.0))
    }

    fn contention(&mut self, _now: Instant) -> Option<Contention> {
        Some(Contention::none())
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        quiet_panic();
    }
}

/// Runs jobs of a sample's time until then. Not each makes a sample: who has begun one may be held up.
fn work_until(pool: &Pool, clock: &ManualClock, done: impl Fn() -> bool) {
    eventually("it was read often enough", || {
        let time = clock.clone();
        resolve(pool.submit_blocking(move || time.advance(SAMPLE)).unwrap()).unwrap();
        done()
    });
}

#[test]
fn a_source_that_panics_costs_no_worker_and_no_submit() {
    for (when, expected) in [((|_| true) as fn(usize) -> bool, None), (|n| n % 2 == 0, Some(1.0))] {
        let (clock, reads) = (ManualClock::new(), Count::new());
        let gate = always().source(Panics(reads.clone(), when));
        let pool = Pool::builder().workers(2).capacity(8).clock(clock.clone()).cpu_gate(gate);
        let pool = pool.build().unwrap();
        work_until(&pool, &clock, || reads.get() >= 20);
        eventually("what it said is known", || pool.snapshot().cpu == expected);
        let both = Rendezvous::new(2);
        let meet = || {
            let both = both.clone();
            pool.submit_blocking(move || both.meet()).unwrap()
        };
        for job in [meet(), meet()] {
            resolve(job).expect("both workers live");
        }
        assert!(pool.shutdown(Shutdown::Drain, None).still_running == 0);
    }
}

#[test]
fn a_source_that_submits_to_its_own_pool_does_not_hang() {
    struct Submits(mpsc::Receiver<Pool>, Option<Pool>, Count);
    impl CpuSource for Submits {
        fn read(&mut self, _now: Instant) -> Option<CpuReading> {
            self.1 = self.1.take().or_else(|| self.0.try_recv().ok());
            if let Some(pool) = &self.1 {
                let _ = (pool.try_spawn(|| ()), pool.snapshot(), pool.load());
                self.2.add();
            }
            Some(CpuReading::Busy(0.1))
        }
    }
    let _watchdog = watchdog();
    let ((give, take), called) = (mpsc::channel(), Count::new());
    let clock = ManualClock::new();
    let gate = always().source(Submits(take, None, called.clone()));
    let pool = Pool::builder().workers(2).capacity(64).clock(clock.clone()).cpu_gate(gate);
    let pool = pool.build().unwrap();
    give.send(pool.clone()).unwrap();
    work_until(&pool, &clock, || called.get() > 5);
    pool.shutdown(Shutdown::Drain, None);
}

// ── Armed or not ────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_cpu_that_is_busy_with_the_pools_own_work_refuses_nothing_by_default() {
    let bench = bench(CpuGate::default());
    let held = hold(&bench.pool, 1);
    for _ in 0..200 {
        bench.measure(1.0);
        assert!(bench.is_open());
    }
    let now = bench.pool.snapshot();
    assert_eq!((now.cpu, now.cpu_refusal, now.active_workers), (Some(1.0), 0.0, 1));
    held.free();
}

#[test]
fn a_contended_cpu_refuses_all_but_critical_work_and_admits_again() {
    let thieves = [
        Contention::none().throttled(0.5),
        Contention::none().other_threads(0.5),
        Contention::none().neighbours(0.5),
    ];
    for contention in thieves {
        let bench = bench(contended());
        let held = hold(&bench.pool, 1);
        bench.contend(contention);
        assert!(bench.is_shut(), "{contention:?}");
        assert_eq!(bench.refused(Priority::Critical, 100), 0);
        let now = bench.pool.snapshot();
        assert_eq!((now.cpu_refusal, now.active_workers), (1.0, 1));
        let told = now.contention.throttled + now.contention.other_threads;
        assert!(told + now.contention.neighbours > 0.3, "{now:?}");
        assert_eq!(bench.pool.load().score, 1.0);
        // As busy as before, with its own work.
        bench.cpu.set_contention(Contention::none());
        (0..100).for_each(|_| bench.measure(1.0));
        assert!(bench.is_open(), "{contention:?}");
        held.free();
    }
    // Contended, and yet with CPU to spare.
    let bench = bench(contended());
    let held = hold(&bench.pool, 1);
    bench.cpu.set_contention(Contention::none().throttled(0.5));
    (0..30).for_each(|_| bench.measure(0.5));
    assert!(bench.is_open());
    held.free();
}

#[test]
fn under_contention_fewer_workers_take_jobs_before_anyone_is_refused() {
    let bench = bench_with(CpuGate::between(0.7, 0.9), |builder| builder.workers(8));
    let held = occupy(&bench.pool);
    bench.measure(1.0);
    assert_eq!(bench.pool.snapshot().active_workers, 8);
    bench.cpu.set_contention(Contention::none().throttled(0.5));
    let mut before = 8;
    for _ in 0..200 {
        bench.measure(1.0);
        let active = bench.pool.snapshot().active_workers;
        assert!((1..=before).contains(&active), "{active} after {before}");
        if active > 1 {
            assert!(bench.is_open(), "refused although {active} workers are left");
        }
        before = active;
    }
    assert_eq!(before, 1);
    assert!(bench.is_shut(), "that did not help");
    bench.cpu.set_contention(Contention::none());
    for _ in 0..300 {
        bench.measure(1.0);
        let active = bench.pool.snapshot().active_workers;
        assert!((before..=8).contains(&active), "{active} after {before}");
        before = active;
    }
    assert_eq!(before, 8, "all of them again");
    assert!(bench.is_open());
    held.free();
    assert_all_slots_free_but_for_the_gate(&bench);
}

/// Eight workers of which one may take jobs.
fn throttled_to_one() -> Bench {
    let bench = bench_with(CpuGate::between(0.7, 0.9), |builder| builder.workers(8));
    bench.cpu.set(1.0);
    bench.cpu.set_contention(Contention::none().throttled(0.5));
    let mut samples = 0;
    while bench.pool.snapshot().active_workers > 1 {
        bench.clock.advance(SAMPLE);
        resolve(bench.pool.submit_blocking(|| ()).unwrap()).unwrap();
        samples += 1;
        assert!(samples < 10_000, "{:?}", bench.pool.snapshot());
    }
    bench.pool.wait_idle();
    bench
}

#[test]
fn two_jobs_that_wait_for_each_other_end_also_if_one_worker_may_take_jobs() {
    let _watchdog = watchdog();
    let bench = throttled_to_one();
    let (there, back) = (Gate::new(), Gate::new());
    let (hers, his) = ((there.clone(), back.clone()), (there, back));
    let one = bench.pool.submit_blocking(move || {
        hers.0.open();
        hers.1.wait();
    });
    let other = bench.pool.submit_blocking(move || {
        his.1.open();
        his.0.wait();
    });
    // Others come and go meanwhile, and that is no sign that these get on.
    let (one, other) = (one.unwrap(), other.unwrap());
    eventually("both have met", || {
        let _ = bench.pool.submit_blocking(|| ()).unwrap().cancel();
        one.is_finished() && other.is_finished()
    });
    bench.pool.wait_idle();
    assert_adds_up(&bench.pool);
}

#[test]
fn a_pool_whose_workers_stand_by_can_be_shut_down() {
    let _watchdog = watchdog();
    for how in [Shutdown::Drain, Shutdown::Discard] {
        let bench = throttled_to_one();
        let busy = hold(&bench.pool, 1);
        let jobs: Vec<_> = (0..50).map(|_| bench.pool.submit_blocking(|| ()).unwrap()).collect();
        let pool = bench.pool.clone();
        let ending = elsewhere(move || pool.shutdown(how, None));
        eventually("it is closed", || bench.pool.is_closed());
        busy.free();
        let report = ending.wait();
        assert_eq!(report.still_running, 0);
        jobs.into_iter().for_each(|job| drop(resolve(job)));
        assert_adds_up(&bench.pool);
    }
}

#[test]
fn dropping_the_last_handle_lets_workers_that_stand_by_go() {
    let stopped = Count::new();
    let bench = {
        let stopped = stopped.clone();
        bench_with(CpuGate::between(0.7, 0.9), move |builder| {
            builder.workers(4).on_thread_stop(move || stopped.add())
        })
    };
    let held = occupy(&bench.pool);
    bench.cpu.set_contention(Contention::none().throttled(0.9));
    (0..100).for_each(|_| bench.measure(1.0));
    let ran = Count::new();
    for _ in 0..20 {
        let ran = ran.clone();
        let mut submit = bench.pool.submit(move || ran.add());
        assert!(poll(&mut submit, Waker::noop()).is_ready());
    }
    drop(bench);
    held.free();
    eventually("all have gone", || stopped.get() == 4);
    assert_eq!(ran.get(), 20, "what was accepted has run");
}

/// A clock that counts how often it is read.
#[derive(Clone)]
struct Watched(ManualClock, Count);

impl Clock for Watched {
    fn now(&self) -> Instant {
        self.1.add();
        self.0.now()
    }
}

#[test]
fn an_idle_pool_does_nothing_under_contention() {
    let clock = Watched(ManualClock::new(), Count::new());
    let cpu = ManualCpu::new();
    let gate = CpuGate::default().source(cpu.clone());
    let pool = Pool::builder().workers(4).capacity(64).clock(clock.clone()).cpu_gate(gate);
    let pool = pool.build().unwrap();
    cpu.set(1.0);
    cpu.set_contention(Contention::none().throttled(0.9));
    work_until(&pool, &clock.0, || pool.snapshot().active_workers < 4);
    pool.wait_idle();
    // Who stands by looks at the clock each time; who sleeps doesn't.
    let quiet = || {
        let before = clock.1.get();
        give_way(2_000);
        clock.1.get() == before
    };
    eventually("they have gone to sleep for good", || (0..20).all(|_| quiet()));
}

#[test]
fn only_those_meet_a_backlogged_gate_whose_wait_is_above_the_target() {
    let gate = || CpuGate::between(0.7, 0.9).armed(Arm::Backlogged);
    let bench = bench(gate());
    bench.cpu.set(1.0);
    for _ in 0..60 {
        let clock = bench.clock.clone();
        resolve(bench.pool.try_submit(move || clock.advance(MS)).unwrap()).unwrap();
    }
    eventually("what jobs take is known", || bench.pool.snapshot().mean_service_time == Some(MS));
    let held = hold(&bench.pool, 1);
    bench.measure(1.0);
    let queued = (0..60).take_while(|_| bench.pool.try_spawn(|| ()).is_ok()).count();
    assert_eq!(queued, 6, "5 ms of jobs are the target");
    assert_eq!(bench.pool.try_spawn(|| ()).unwrap_err().reason(), Reason::Cpu);
    assert!(bench.pool.job().priority(Priority::High).try_spawn(|| ()).is_ok());
    assert_eq!(bench.pool.load().score, 1.0);
    bench.measure(0.0);
    bench.measure_after(60 * SECOND, 0.0);
    assert!(bench.pool.try_spawn(|| ()).is_ok(), "long waits, and a free CPU");
    held.free();
}

#[test]
fn with_nothing_in_flight_all_are_admitted_unless_the_gate_is_always_armed() {
    let bench_of = |gate: CpuGate| {
        let bench = bench(gate);
        let held = hold(&bench.pool, 1);
        bench.contend(Contention::none().throttled(0.5));
        assert!(bench.is_shut());
        held.free();
        bench.pool.wait_idle();
        eventually("all is quiet", || bench.pool.in_flight() == 0);
        bench
    };
    let idle = bench_of(contended());
    assert_eq!(idle.pool.snapshot().cpu_refusal, 0.0);
    assert!(idle.pool.load().score < 0.1);
    for priority in [Priority::Low, Priority::Normal, Priority::High] {
        let job = idle.pool.job().priority(priority).try_submit(|| ());
        resolve(job.unwrap()).unwrap();
        idle.pool.wait_idle();
    }
    assert!(bench_of(always()).is_shut());
}

// ── Steps ───────────────────────────────────────────────────────────────────────────────────────

#[test]
fn steps_halve_the_limit_then_drop_low_work_then_refuse() {
    let gate = CpuGate::steps(0.70, 0.80, 0.85).armed(Arm::Always).time_constant(MS);
    let bench = bench_with(gate, |builder| builder.capacity(10));
    let held = hold(&bench.pool, 1);
    let limit = || bench.pool.snapshot().limit;
    let reasons = || {
        [Priority::Low, Priority::Normal, Priority::High, Priority::Critical].map(|priority| {
            let job = bench.pool.job().priority(priority).try_submit(|| ());
            job.map(|job| assert!(job.cancel())).map_err(|refused| refused.reason())
        })
    };
    for busy in [0.0, 0.70] {
        bench.measure(busy);
        assert_eq!((limit(), reasons()), (10, [Ok(()); 4]), "{busy}");
    }
    bench.measure(0.75);
    assert_eq!((limit(), reasons()), (5, [Ok(()); 4]));
    let queued: Vec<_> = (0..4).map(|_| bench.pool.try_submit(|| ()).unwrap()).collect();
    let limited = Err(Reason::Limit);
    assert_eq!(reasons(), [limited, limited, limited, Ok(())]);
    drop(queued.into_iter().map(|job| assert!(job.cancel())).collect::<Vec<_>>());
    bench.measure(0.82);
    assert_eq!((limit(), reasons()), (5, [Err(Reason::Cpu), Ok(()), Ok(()), Ok(())]));
    bench.measure(0.90);
    let refused = Err(Reason::Cpu);
    assert_eq!((limit(), reasons()), (5, [refused, refused, refused, Ok(())]));
    bench.measure(0.0);
    assert_eq!((limit(), reasons()), (10, [Ok(()); 4]));
    held.free();

    // Of one slot there is no half.
    let gate = CpuGate::steps(0.70, 0.80, 0.85).armed(Arm::Always).time_constant(MS);
    let bench = bench_with(gate, |builder| builder.capacity(1));
    bench.cpu.set(0.75);
    for _ in 0..3 {
        bench.clock.advance(SAMPLE);
        resolve(bench.pool.try_submit(|| ()).unwrap()).unwrap();
        bench.pool.wait_idle();
    }
    assert_eq!(bench.pool.snapshot().limit, 1);
}

#[test]
fn who_waits_for_the_halved_limit_is_let_in_when_the_cpu_is_free_again() {
    let gate = CpuGate::steps(0.70, 0.80, 0.85).armed(Arm::Always).time_constant(MS);
    let bench = bench_with(gate, |builder| builder.capacity(4));
    let held = hold(&bench.pool, 1);
    bench.measure(0.75);
    bench.pool.try_spawn(|| ()).unwrap();
    let (waker, wakes) = common::counting_waker();
    let mut submit = bench.pool.submit(|| 5);
    assert!(poll(&mut submit, &waker).is_pending(), "two of four are all");
    assert_eq!(bench.pool.try_spawn(|| ()).unwrap_err().reason(), Reason::Limit);
    // Nothing ends and nothing comes but critical work, which takes the sample.
    bench.cpu.set(0.0);
    bench.clock.advance(SAMPLE);
    bench.pool.job().priority(Priority::Critical).try_spawn(|| ()).unwrap();
    assert_eq!(wakes.get(), 1);
    let std::task::Poll::Ready(Ok(job)) = poll(&mut submit, &waker) else { panic!("let in") };
    held.free();
    assert_eq!(resolve(job).unwrap(), 5);
}

// ── Who does not meet it ────────────────────────────────────────────────────────────────────────

/// A pool whose gate refuses all that it can, and the job that it is busy with.
fn shut() -> (Bench, Busy) {
    let bench = bench(always());
    let held = hold(&bench.pool, 1);
    bench.measure(1.0);
    assert!(bench.is_shut());
    (bench, held)
}

#[test]
fn work_begun_and_work_that_waits_do_not_meet_the_gate() {
    let _watchdog = watchdog();
    let (bench, held) = shut();
    let (pool, own) = (&bench.pool, bench.pool.clone());
    let nested = pool.submit_blocking(move || own.try_submit(|| 1).unwrap().join().unwrap());
    let in_time = pool.submit_timeout(|| 2, Duration::ZERO).unwrap();
    assert_eq!(pool.try_reserve().unwrap_err().reason, Reason::Cpu);
    assert_eq!(pool.try_reserve_many(2).unwrap_err().reason, Reason::Cpu);
    held.free();
    assert_eq!(resolve(nested.unwrap()).unwrap(), 1);
    assert_eq!(resolve(in_time).unwrap(), 2);

    let (bench, permit, held) = bench_open_then_shut();
    assert!(permit.submit(|| ()).is_ok(), "its slot was taken before");
    held.free();
    bench.pool.wait_idle();
}

fn bench_open_then_shut() -> (Bench, weirpool::Permit, Busy) {
    let bench = bench(always());
    let permit = bench.pool.try_reserve().unwrap();
    let held = hold(&bench.pool, 1);
    bench.measure(1.0);
    assert!(bench.is_shut());
    (bench, permit, held)
}

#[test]
fn the_first_reason_in_the_order_is_reported() {
    let (cpu, clock) = (ManualCpu::new(), ManualClock::new());
    let pool = Pool::builder().workers(1).capacity(3).clock(clock.clone()).max_bytes(10);
    let pool = pool.partition("a", Partition::new().max(1)).queue_delay(QueueDelay::graded(MS));
    let pool = pool.cpu_gate(always().source(cpu.clone())).build().unwrap();
    for _ in 0..60 {
        let time = clock.clone();
        resolve(pool.try_submit(move || time.advance(10 * MS)).unwrap()).unwrap();
    }
    eventually("the door is up", || pool.snapshot().queue_delay.door_jobs.is_some());
    let of_a = pool.job().partition(pool.partition("a").unwrap()).bytes(10);
    let held = hold(&pool, 1);
    of_a.try_spawn(|| ()).unwrap();
    pool.set_capacity(2);
    let (past, reason) =
        (clock.now(), |job: JobSpec<'_>| job.try_spawn(|| ()).unwrap_err().reason());
    clock.advance(MS);
    pool.set_capacity(64);
    (0..3).for_each(|_| pool.try_spawn(|| ()).unwrap());
    pool.set_capacity(5);
    // Full, out of bytes, the partition at its maximum, and four jobs of 10 ms wait.
    assert_eq!(reason(of_a), Reason::QueueDelay);
    cpu.set(1.0);
    clock.advance(SAMPLE);
    let critical = pool.job().priority(Priority::Critical);
    pool.set_capacity(6);
    critical.try_spawn(|| ()).unwrap();
    assert_eq!(reason(of_a), Reason::Cpu);
    assert_eq!(reason(of_a.deadline(past)), Reason::Deadline);
    assert_eq!(reason(of_a.timeout(MS)), Reason::Deadline, "the wait alone takes longer");
    pool.close();
    assert_eq!(reason(of_a.deadline(past)), Reason::Closed);
    assert_eq!(reason(of_a), Reason::Closed);
    held.free();
    pool.wait_idle();
    assert_adds_up(&pool);
}

#[test]
fn a_panic_of_a_body_leaves_the_gate_as_it_was() {
    let (bench, held) = shut();
    let job = bench.pool.submit_blocking(fail).unwrap();
    held.free();
    assert!(resolve(job).unwrap_err().is_panic());
    assert!(bench.is_shut());
}

// ── Looking, and settings ───────────────────────────────────────────────────────────────────────

#[test]
fn the_snapshot_tells_of_the_cpu() {
    let bench = bench_with(CpuGate::default(), |builder| builder.workers(3));
    let now = bench.pool.snapshot();
    assert_eq!((now.cpu, now.cpu_per_worker.len(), now.active_workers), (None, 0, 3));
    assert_eq!(now.contention, Default::default());
    let held = occupy(&bench.pool);
    bench.measure(0.4);
    let now = bench.pool.snapshot();
    assert_eq!((now.cpu, bench.pool.load().cpu), (Some(0.4), Some(0.4)));
    assert_eq!(now.cpu_per_worker.len(), 3);
    assert!(now.cpu_per_worker.iter().all(|share| (0.0..=1.0).contains(share)), "{now:?}");
    for contention in [f64::NAN, -3.0, f64::INFINITY, 9.0] {
        bench.contend(Contention::none().throttled(contention).neighbours(contention));
        let now = bench.pool.snapshot();
        for share in [now.contention.throttled, now.contention.neighbours, now.cpu_refusal] {
            assert!((0.0..=1.0).contains(&share), "{contention}: {now:?}");
        }
        assert!((1..=3).contains(&now.active_workers));
    }
    held.free();
}

#[test]
fn nonsense_is_refused_by_name_when_the_pool_is_built() {
    let said = |gate: CpuGate| {
        let built = Pool::builder().workers(1).cpu_gate(gate).build();
        built.unwrap_err().to_string()
    };
    let zero = Duration::ZERO;
    for (gate, what) in [
        (CpuGate::between(0.9, 0.7), "cpu_gate.hi = 0.7"),
        (CpuGate::between(f64::NAN, 0.7), "cpu_gate.lo = NaN"),
        (CpuGate::between(0.7, f64::NAN), "cpu_gate.hi = NaN"),
        (CpuGate::between(-0.1, 0.7), "cpu_gate.lo = -0.1"),
        (CpuGate::between(0.7, 1.1), "cpu_gate.hi = 1.1"),
        (CpuGate::between(0.7, f64::INFINITY), "cpu_gate.hi = inf"),
        (CpuGate::steps(f64::NAN, 0.8, 0.9), "cpu_gate.halve = NaN"),
        (CpuGate::steps(0.8, 0.7, 0.9), "cpu_gate.drop_low = 0.7"),
        (CpuGate::steps(0.7, 0.8, 0.75), "cpu_gate.refuse = 0.75"),
        (CpuGate::default().time_constant(zero), "cpu_gate.time_constant = 0ns"),
        (CpuGate::default().sample_every(zero), "cpu_gate.sample_every = 0ns"),
    ] {
        let said = said(gate);
        assert!(said.starts_with(what), "{said}");
    }
    for gate in [
        CpuGate::between(0.7, 0.7),
        CpuGate::between(1.0, 1.0),
        CpuGate::default().time_constant(Duration::MAX).sample_every(Duration::MAX),
    ] {
        let bench = bench(gate);
        resolve(bench.pool.try_submit(|| ()).unwrap()).unwrap();
    }
}

//! An open loop: arrivals come on a schedule fixed beforehand, whatever the pool does with them.
//!
//! Each arrival has one cell, allocated before the run, that says what became of it. So recording
//! costs one store, and the memory of the records is not mistaken for the pool's.

use std::process;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::Stop;
use crate::input::Work;
use crate::memory;
use crate::pools::Contender;
use crate::progress::Progress;

/// An answer later than this is of no use to the one who asked.
pub(crate) const IN_TIME: Duration = Duration::from_millis(25);

/// How long after the last arrival the jobs that still wait are given up. Longer than [`IN_TIME`]:
/// no job that could have been in time is given up.
const GRACE: Duration = Duration::from_millis(100);

/// The generator never sleeps for less: a shorter sleep costs as much as it lasts, and spinning
/// would take a core from the workers. What falls due meanwhile is sent in one go.
const SHORTEST_SLEEP: Duration = Duration::from_micros(100);

/// How long it takes at most to notice Ctrl-C.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// From the making of a run to its first moment, so that the generator is there in time.
const LEAD: Duration = Duration::from_millis(5);

const SAMPLE_EVERY: Duration = Duration::from_millis(10);

/// A queue of jobs that return at once is empty long before this, unless a job was lost.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The first Ctrl-C ends the run at the next arrival, the second one the process.
pub(crate) fn stop_on_ctrl_c() -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            process::exit(130);
        }
    })
}

fn check_interrupted() -> Result<(), Stop> {
    if INTERRUPTED.load(Ordering::Relaxed) { Err(Stop::Interrupted) } else { Ok(()) }
}

/// When the jobs arrive, counted from the start of the run.
pub(crate) struct Load {
    arrivals: Arc<[Duration]>,
    period: Duration,
}

impl Load {
    pub(crate) fn poisson(rate_per_s: f64, period: Duration, seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut arrivals = Vec::new();
        let mut due_s = 0.0;
        loop {
            // `f64` is below 1, so the logarithm is finite.
            due_s -= (1.0 - rng.f64()).ln() / rate_per_s;
            if due_s >= period.as_secs_f64() {
                return Load { arrivals: arrivals.into(), period };
            }
            arrivals.push(Duration::from_secs_f64(due_s));
        }
    }

    fn at_once(jobs: usize) -> Self {
        Load { arrivals: vec![Duration::ZERO; jobs].into(), period: Duration::ZERO }
    }
}

/// What became of an arrival.
enum Fate {
    /// Refused, at this cost.
    Refused(Duration),
    /// Answered, or given up, so long after its arrival.
    Ended(Duration),
    /// Nothing yet; once a run is over: shed.
    Open,
}

/// A [`Fate`] in one word, for the generator or the job to set once.
struct FateCell(AtomicU64);

impl FateCell {
    const OPEN: u64 = u64::MAX;
    const REFUSED_BIT: u64 = 1 << 63;

    fn new() -> Self {
        FateCell(AtomicU64::new(Self::OPEN))
    }

    // Relaxed throughout: cells are read once the run is over, and `Run::ended` orders that.

    fn set_refused(&self, cost: Duration) {
        self.0.store(Self::REFUSED_BIT | cost.as_nanos() as u64, Ordering::Relaxed);
    }

    fn set_ended(&self, latency: Duration) {
        self.0.store(latency.as_nanos() as u64, Ordering::Relaxed);
    }

    fn get(&self) -> Fate {
        match self.0.load(Ordering::Relaxed) {
            Self::OPEN => Fate::Open,
            word if word & Self::REFUSED_BIT == 0 => Fate::Ended(Duration::from_nanos(word)),
            word => Fate::Refused(Duration::from_nanos(word & !Self::REFUSED_BIT)),
        }
    }
}

/// What the generator, the jobs and the onlooker share while a load is offered to a pool.
pub(crate) struct Run {
    work: Arc<Work>,
    arrivals: Arc<[Duration]>,
    fates: Box<[FateCell]>,
    accepted: AtomicUsize,
    started: AtomicUsize,
    ended: AtomicUsize,
    /// Set when the jobs that still wait are given up.
    closed_at: OnceLock<Duration>,
    start: Instant,
}

impl Run {
    fn new(work: &Arc<Work>, load: &Load) -> Arc<Self> {
        Arc::new(Run {
            work: Arc::clone(work),
            arrivals: Arc::clone(&load.arrivals),
            fates: load.arrivals.iter().map(|_| FateCell::new()).collect(),
            accepted: AtomicUsize::new(0),
            started: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            closed_at: OnceLock::new(),
            start: Instant::now() + LEAD,
        })
    }

    pub(crate) fn accepted_not_started(&self) -> usize {
        // A job may start before the generator has counted it as accepted.
        let started = self.started.load(Ordering::Relaxed);
        self.accepted.load(Ordering::Relaxed).saturating_sub(started)
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn close(&self) {
        self.closed_at.get_or_init(|| self.elapsed());
    }
}

/// One arrival, on its way through a pool.
pub(crate) struct Job {
    run: Arc<Run>,
    index: usize,
}

impl Job {
    pub(crate) fn run(self) {
        let run = &*self.run;
        run.started.fetch_add(1, Ordering::Relaxed);
        let answered_at = run.closed_at.get().copied().unwrap_or_else(|| {
            std::hint::black_box(run.work.run_job(self.index));
            run.elapsed()
        });
        let latency = answered_at.saturating_sub(run.arrivals[self.index]);
        run.fates[self.index].set_ended(latency);
        run.ended.fetch_add(1, Ordering::Release);
    }
}

/// The outcome of offering one load to one pool.
pub(crate) struct Outcome {
    pub(crate) offered: usize,
    pub(crate) accepted: usize,
    pub(crate) shed: u64,
    pub(crate) in_time: usize,
    /// From arrival to answer, shortest first.
    pub(crate) latencies: Vec<Duration>,
    /// Cheapest first.
    pub(crate) refusal_costs: Vec<Duration>,
    pub(crate) queue_peak: usize,
    pub(crate) rss_growth_bytes: Option<u64>,
    /// How long the load was offered: the period, or more if the generator fell behind.
    pub(crate) offered_for: Duration,
    /// The most that an arrival was sent behind its schedule.
    pub(crate) generator_lag: Duration,
    finished: usize,
}

impl Outcome {
    /// The rate of finished jobs, late ones too, while the load was offered.
    pub(crate) fn finished_per_s(&self) -> f64 {
        self.finished as f64 / self.offered_for.as_secs_f64()
    }
}

/// Offers `load` to `pool` and watches what happens.
pub(crate) fn run(
    pool: &dyn Contender,
    workers: usize,
    work: &Arc<Work>,
    load: &Load,
    progress: &mut Progress,
) -> Result<Outcome, Stop> {
    warm_up(pool, workers, work)?;
    let shed_before = pool.shed();
    memory::give_back_freed();
    let run = Run::new(work, load);
    let baseline = memory::resident_bytes();
    let mut peak = baseline;

    let generated = thread::scope(|scope| {
        let generator = scope.spawn(|| generate(&run, load.period, pool));
        while !generator.is_finished() {
            thread::sleep(SAMPLE_EVERY);
            peak = peak.max(memory::resident_bytes());
            progress.detail(|| detail(&run, load.period, pool));
        }
        generator.join().expect("the generator does not panic")
    })?;

    drain(&run, pool, shed_before)?;
    let shed = pool.shed() - shed_before;
    let growth = peak.zip(baseline).map(|(peak, baseline)| peak - baseline);
    Ok(tally(&run, generated, shed, growth))
}

/// Starts all threads and gives each its compressor, so that a run does not pay for it. A few
/// jobs at a time: a crowd would put an overload protection on its guard before the run.
fn warm_up(pool: &dyn Contender, workers: usize, work: &Arc<Work>) -> Result<(), Stop> {
    let few = Load::at_once(workers * 2);
    for _ in 0..10 {
        let shed_before = pool.shed();
        let run = Run::new(work, &few);
        Generator::new(&run, pool).offer_all()?;
        drain(&run, pool, shed_before)?;
    }
    Ok(())
}

fn detail(run: &Run, period: Duration, pool: &dyn Contender) -> String {
    let seconds = run.elapsed().min(period).as_secs_f64();
    format!(": {seconds:.1} of {:.1} s, {} queued", period.as_secs_f64(), pool.queued(run))
}

/// Waits until every accepted job has ended or was shed.
fn drain(run: &Run, pool: &dyn Contender, shed_before: u64) -> Result<(), Stop> {
    let give_up = Instant::now() + DRAIN_LIMIT;
    loop {
        let accepted = run.accepted.load(Ordering::Relaxed) as u64;
        let ended = run.ended.load(Ordering::Acquire) as u64;
        let shed = pool.shed() - shed_before;
        if ended + shed == accepted {
            return Ok(());
        }
        check_interrupted()?;
        if Instant::now() > give_up {
            return Err(format!(
                "the pool accepted {accepted} jobs, but only {ended} ended and {shed} were shed"
            )
            .into());
        }
        thread::sleep(Duration::from_millis(1));
    }
}

struct Generated {
    offered_for: Duration,
    queue_peak: usize,
    lag: Duration,
}

/// The generator's whole life, on a thread of its own. However it ends, the run is closed.
fn generate(run: &Arc<Run>, period: Duration, pool: &dyn Contender) -> Result<Generated, Stop> {
    let mut generator = Generator::new(run, pool);
    let end = generator.offer_all().and_then(|()| {
        let offered_for = run.elapsed().max(period);
        sleep_until(run.start + offered_for + GRACE)?;
        Ok(offered_for)
    });
    run.close();
    let offered_for = end?;
    Ok(Generated { offered_for, queue_peak: generator.queue_peak, lag: generator.lag })
}

struct Generator<'a> {
    run: &'a Arc<Run>,
    pool: &'a dyn Contender,
    next: usize,
    queue_peak: usize,
    lag: Duration,
}

impl<'a> Generator<'a> {
    fn new(run: &'a Arc<Run>, pool: &'a dyn Contender) -> Self {
        Generator { run, pool, next: 0, queue_peak: 0, lag: Duration::ZERO }
    }

    fn offer_all(&mut self) -> Result<(), Stop> {
        while let Some(&due) = self.run.arrivals.get(self.next) {
            sleep_until(self.run.start + due)?;
            self.offer_due();
        }
        Ok(())
    }

    /// Sends all that is due by now.
    fn offer_due(&mut self) {
        let now = self.run.elapsed();
        self.lag = self.lag.max(now.saturating_sub(self.run.arrivals[self.next]));
        while self.run.arrivals.get(self.next).is_some_and(|&due| due <= now) {
            self.offer(self.next);
            self.next += 1;
        }
        self.queue_peak = self.queue_peak.max(self.pool.queued(self.run));
    }

    fn offer(&self, index: usize) {
        let job = Job { run: Arc::clone(self.run), index };
        let asked = Instant::now();
        if self.pool.offer(job) {
            self.run.accepted.fetch_add(1, Ordering::Relaxed);
        } else {
            self.run.fates[index].set_refused(asked.elapsed());
        }
    }
}

/// Returns at once if `due` has passed, and otherwise not before it.
fn sleep_until(due: Instant) -> Result<(), Stop> {
    loop {
        check_interrupted()?;
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.clamp(SHORTEST_SLEEP, LONGEST_SLEEP));
    }
}

fn tally(run: &Run, generated: Generated, shed: u64, rss_growth_bytes: Option<u64>) -> Outcome {
    let mut latencies = Vec::new();
    let mut refusal_costs = Vec::new();
    let mut finished = 0;
    for (fate, arrival) in run.fates.iter().zip(run.arrivals.iter()) {
        match fate.get() {
            Fate::Refused(cost) => refusal_costs.push(cost),
            Fate::Ended(latency) => {
                finished += usize::from(*arrival + latency <= generated.offered_for);
                latencies.push(latency);
            }
            Fate::Open => {}
        }
    }
    latencies.sort_unstable();
    refusal_costs.sort_unstable();
    Outcome {
        offered: run.arrivals.len(),
        accepted: run.accepted.load(Ordering::Relaxed),
        shed,
        in_time: latencies.partition_point(|&latency| latency <= IN_TIME),
        latencies,
        refusal_costs,
        queue_peak: generated.queue_peak,
        rss_growth_bytes,
        offered_for: generated.offered_for,
        generator_lag: generated.lag,
        finished,
    }
}

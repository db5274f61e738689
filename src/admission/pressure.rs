//! What the door judges a job's prospects by: plain integers that the lanes and the workers publish.
//!
//! Reading them is all that a refusal costs. They are hints, each by itself, and may be some
//! milliseconds old: none of them takes part in the accounting of slots, or in waking a worker. Only who
//! waits for a shorter queue is served by one of them, see [`grant`](super::ledger::Ledger::grant).

use crossbeam_utils::CachePadded;

use crate::priority::Priority;
use crate::sync::Striped;
use crate::sync::stat::{AtomicU64, AtomicUsize, Relaxed};

/// A probability of one.
const CERTAIN: u64 = 1 << 32;

/// The figures of one pool.
pub(crate) struct Pressure {
    /// How many jobs wait in the lane of each priority and above. Written by the lanes, under their
    /// lock, with each job: a cache line of its own.
    queued: CachePadded<[AtomicUsize; Priority::COUNT]>,
    /// Written a hundred times a second at most.
    plan: CachePadded<PlanFigures>,
    /// The number of the next draw of chance and one, zero before the first.
    draws: Striped<AtomicU64>,
    /// How many streams of draws have begun.
    streams: AtomicU64,
    seed: u64,
}

struct PlanFigures {
    door_jobs: AtomicUsize,
    cut_ns: AtomicU64,
    /// Zero before the first job.
    mean_service_ns: AtomicU64,
    /// The bits of an `f64`: the workers that may take jobs on average.
    active_level: AtomicU64,
    /// The bits of an `f64`: the mean service time by the active workers.
    drain_ns_per_job: AtomicU64,
    /// The queue beyond which the pool counts as backlogged.
    target_jobs: AtomicUsize,
    /// The chances that the CPU gate refuses, by priority, in units of 1 / [`CERTAIN`]; that for low
    /// work is the greatest, that for critical work always zero.
    refusals: [AtomicU64; Priority::COUNT],
    /// After this moment they say nothing any more.
    refusals_until_ns: AtomicU64,
}

impl Pressure {
    pub(crate) fn new(workers: usize, seed: u64) -> Self {
        Self {
            queued: CachePadded::default(),
            plan: CachePadded::new(PlanFigures {
                door_jobs: AtomicUsize::new(usize::MAX),
                cut_ns: AtomicU64::new(u64::MAX),
                mean_service_ns: AtomicU64::new(0),
                active_level: AtomicU64::new((workers as f64).to_bits()),
                drain_ns_per_job: AtomicU64::new(0),
                target_jobs: AtomicUsize::new(usize::MAX),
                refusals: Default::default(),
                refusals_until_ns: AtomicU64::new(u64::MAX),
            }),
            draws: Striped::default(),
            streams: AtomicU64::new(0),
            seed,
        }
    }

    // ── The queue ───────────────────────────────────────────────────────────────────────────

    /// Jobs that wait in the lanes.
    #[inline]
    pub(crate) fn queued(&self) -> usize {
        self.queued_ahead_of(Priority::Low)
    }

    /// Jobs in the lanes that a new one of this priority finds before it.
    #[inline]
    pub(crate) fn queued_ahead_of(&self, priority: Priority) -> usize {
        self.queued[priority.lane()].load(Relaxed)
    }

    /// One more job waits in this lane. Plain stores: the caller holds the lanes' lock.
    #[inline]
    pub(crate) fn lane_grew(&self, lane: usize) {
        for at_least in &self.queued[..=lane] {
            at_least.store(at_least.load(Relaxed) + 1, Relaxed);
        }
    }

    /// So many jobs less wait in this lane. Plain stores: the caller holds the lanes' lock.
    #[inline]
    pub(crate) fn lane_shrank(&self, lane: usize, jobs: usize) {
        for at_least in &self.queued[..=lane] {
            at_least.store(at_least.load(Relaxed) - jobs, Relaxed);
        }
    }

    /// Whether the wait predicted for a new job of this priority is above the bound.
    #[inline]
    pub(crate) fn delays(&self, priority: Priority) -> bool {
        priority != Priority::Critical && self.queued_ahead_of(priority) >= self.door_jobs()
    }

    /// The same with so many more before it than are queued; asked only if there is a bound.
    pub(crate) fn delays_behind(&self, priority: Priority, more: impl FnOnce() -> usize) -> bool {
        let bound = self.door_jobs();
        priority != Priority::Critical
            && bound != usize::MAX
            && self.queued_ahead_of(priority).saturating_add(more()) >= bound
    }

    /// The wait predicted for a new job of this priority; zero before anything is known. Its own
    /// service time is no part of it.
    pub(crate) fn predicted_wait_ns(&self, priority: Priority) -> u64 {
        // As far as it goes: what is too large saturates.
        self.drain_ns(self.queued_ahead_of(priority)) as u64
    }

    /// The time in which so many jobs are worked off; zero before the first job.
    #[inline]
    pub(crate) fn drain_ns(&self, jobs: usize) -> f64 {
        f64::from_bits(self.plan.drain_ns_per_job.load(Relaxed)) * jobs as f64
    }

    /// One of the two that it depends on is another. Whoever sets them at the same time may leave the
    /// one before the last for a moment: it is a hint.
    fn renew_drain(&self) {
        let drain_ns = self.mean_service_ns() as f64 / self.active_level();
        self.plan.drain_ns_per_job.store(drain_ns.to_bits(), Relaxed);
    }

    #[inline]
    pub(crate) fn door_jobs(&self) -> usize {
        self.plan.door_jobs.load(Relaxed)
    }

    pub(crate) fn cut_ns(&self) -> u64 {
        self.plan.cut_ns.load(Relaxed)
    }

    pub(crate) fn set_plan(&self, door_jobs: usize, cut_ns: u64) {
        self.plan.door_jobs.store(door_jobs, Relaxed);
        self.plan.cut_ns.store(cut_ns, Relaxed);
    }

    /// Zero before the first job.
    #[inline]
    pub(crate) fn mean_service_ns(&self) -> u64 {
        self.plan.mean_service_ns.load(Relaxed)
    }

    pub(crate) fn set_mean_service_ns(&self, mean_service_ns: u64) {
        self.plan.mean_service_ns.store(mean_service_ns, Relaxed);
        self.renew_drain();
    }

    /// How many workers may take jobs on average, a fraction of at least 1.
    #[inline]
    pub(crate) fn active_level(&self) -> f64 {
        f64::from_bits(self.plan.active_level.load(Relaxed))
    }

    /// The same, rounded to whole workers.
    pub(crate) fn active_workers(&self) -> usize {
        self.active_level().round() as usize
    }

    pub(crate) fn set_active_level(&self, level: f64) {
        self.plan.active_level.store(level.max(1.0).to_bits(), Relaxed);
        self.renew_drain();
    }

    /// Whether the wait predicted for a new job of this priority is above the target.
    pub(crate) fn is_backlogged(&self, priority: Priority) -> bool {
        self.queued_ahead_of(priority) > self.plan.target_jobs.load(Relaxed)
    }

    pub(crate) fn set_target_jobs(&self, jobs: usize) {
        self.plan.target_jobs.store(jobs, Relaxed);
    }

    // ── The CPU ─────────────────────────────────────────────────────────────────────────────

    /// Whether the CPU gate has any say at present.
    #[inline]
    pub(crate) fn gate_is_up(&self) -> bool {
        self.plan.refusals[Priority::Low.lane()].load(Relaxed) != 0
    }

    /// Draws whether the CPU gate refuses a job of this priority.
    #[cold]
    pub(crate) fn gate_refuses(&self, priority: Priority) -> bool {
        let chance = self.plan.refusals[priority.lane()].load(Relaxed);
        chance != 0 && self.draw() < chance
    }

    /// The chances with which work is refused, by priority, in falling order, and until when.
    pub(crate) fn set_refusals(&self, chances: [f64; Priority::COUNT], until_ns: u64) {
        self.plan.refusals_until_ns.store(until_ns, Relaxed);
        for (refusal, chance) in self.plan.refusals.iter().zip(chances) {
            refusal.store((chance.clamp(0.0, 1.0) * CERTAIN as f64) as u64, Relaxed);
        }
    }

    /// Whether the chances are too old to refuse by.
    pub(crate) fn are_refusals_stale(&self, now_ns: u64) -> bool {
        now_ns > self.plan.refusals_until_ns.load(Relaxed)
    }

    /// The chance with which work of a priority is refused.
    pub(crate) fn refusal(&self, priority: Priority) -> f64 {
        self.plan.refusals[priority.lane()].load(Relaxed) as f64 / CERTAIN as f64
    }

    /// A number below [`CERTAIN`]. With one submitting thread the same for the same seed.
    fn draw(&self) -> u64 {
        /// Odd, so that it goes through all numbers: 2^64 over the golden ratio.
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let draw = self.number_of_draw().wrapping_mul(STEP);
        u64::from(fastrand::Rng::with_seed(self.seed ^ draw).u32(..))
    }

    /// Each stripe has a stream of numbers to itself, so threads neither share a line nor draw alike.
    /// The streams are numbered in the order in which they begin: the first is the same whichever stripe
    /// its thread has.
    fn number_of_draw(&self) -> u64 {
        let next = self.draws.mine();
        if next.load(Relaxed) == 0 {
            self.begin_stream(next);
        }
        next.fetch_add(1, Relaxed).wrapping_sub(1)
    }

    #[cold]
    fn begin_stream(&self, next: &AtomicU64) {
        /// No thread draws so often.
        const STREAM: u64 = 1 << 40;
        let first = self.streams.fetch_add(1, Relaxed).wrapping_mul(STREAM);
        // Of several that share the stripe, one begins.
        let _ = next.compare_exchange(0, first + 1, Relaxed, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_waits_for_its_own_class_and_those_above() {
        let pressure = Pressure::new(2, 0);
        for (lane, jobs) in [1, 20, 300, 4_001].into_iter().enumerate() {
            (0..jobs).for_each(|_| pressure.lane_grew(lane));
        }
        pressure.lane_shrank(3, 1);
        let ahead = |priority| pressure.queued_ahead_of(priority);
        assert_eq!(ahead(Priority::Low), 4_321);
        assert_eq!(ahead(Priority::Normal), 4_320);
        assert_eq!(ahead(Priority::High), 4_300);
        assert_eq!(ahead(Priority::Critical), 4_000);
        pressure.set_mean_service_ns(10);
        assert_eq!(pressure.predicted_wait_ns(Priority::Normal), 21_600);
        pressure.set_plan(4_320, u64::MAX);
        assert!(pressure.delays(Priority::Normal) && !pressure.delays(Priority::High));
        pressure.set_plan(0, u64::MAX);
        assert!(!pressure.delays(Priority::Critical));
    }

    #[test]
    fn chance_is_as_likely_as_it_says_and_replays() {
        let refused = |seed, chance, priority| {
            let pressure = Pressure::new(2, seed);
            let low = 1.0 - (1.0 - chance) * (1.0 - chance);
            pressure.set_refusals([low, chance, chance, 0.0], u64::MAX);
            (0..10_000).filter(|_| pressure.gate_refuses(priority)).count()
        };
        for seed in [0, 1, 77, u64::MAX] {
            for chance in [0.01, 0.25, 0.5, 0.75, 0.99] {
                let expected = (chance * 10_000.0) as usize;
                let got = refused(seed, chance, Priority::Normal);
                assert!(got.abs_diff(expected) <= 150, "{chance}: {got}");
                assert_eq!(got, refused(seed, chance, Priority::High), "it replays");
                assert!(refused(seed, chance, Priority::Low) >= got);
                assert_eq!(refused(seed, chance, Priority::Critical), 0);
            }
            assert_eq!(refused(seed, 0.0, Priority::Low), 0);
            assert_eq!(refused(seed, 1.0, Priority::Normal), 10_000);
        }
    }

    /// With several threads each as likely as it says, and no two alike.
    #[test]
    fn threads_draw_streams_of_their_own_that_begin_in_turn() {
        // Threads that come one after the other have different stripes.
        let draws = |pressure: &Pressure| -> Vec<bool> {
            let draw = || (0..10_000).map(|_| pressure.draw() < CERTAIN / 2).collect();
            std::thread::scope(|scope| scope.spawn(draw).join().unwrap())
        };
        for seed in [0, 1, 77] {
            let [pressure, same] = [(); 2].map(|()| Pressure::new(2, seed));
            let (first, again) = (draws(&pressure), draws(&same));
            assert_eq!(first, again, "the first stream, whichever stripe its thread has");
            let next = draws(&pressure);
            let heads = |draws: &[bool]| draws.iter().filter(|&&head| head).count();
            let alike = first.iter().zip(&next).filter(|(first, next)| first == next).count();
            for count in [heads(&first), heads(&next), alike] {
                assert!(count.abs_diff(5_000) <= 150, "{count} of 10 000");
            }
        }
    }
}

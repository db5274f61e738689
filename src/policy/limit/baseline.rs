//! What a job costs when nothing is in its way, per class.
//!
//! Everything is judged by these figures, so no single event may spoil them:
//!
//! - They *rise* only by what was measured while few jobs were in flight ([`Baselines::refresh`]),
//!   half way and at most by half in one refresh. Congestion in a saturated pool never enters.
//! - They *fall* the same way, and besides by a quarter of the difference whenever two laps of a
//!   class in a row were lower by more than noise explains. One lucky job or lap does nothing.

use super::Batch;
use super::window::MIN_JOBS;

/// Classes an application may tell apart.
const CLASSES: usize = 64;
/// The first lap of a class is longer, since nothing else corrects it for a second: of ten jobs of
/// which one in ten is long, a third of all laps have none.
const FIRST_JOBS: u64 = 30;
/// How far one refresh goes towards what was measured.
const REFRESH_SHARE: f64 = 0.5;
/// The most by which one refresh raises: what an incident of 10 s can spoil.
const MAX_RISE: f64 = 1.5;
/// How far a baseline falls towards two lower laps.
const FALL_SHARE: f64 = 0.25;
/// Lower by less than this share, or than so many standard errors, is not lower.
const MIN_FALL: f64 = 0.05;
const FALL_ERRORS: f64 = 2.0;
/// Relative variance of a job before it was measured: that of the exponential distribution.
const FIRST_VARIANCE: f64 = 1.0;
/// The share of one lap in the variance.
const VARIANCE_SHARE: f64 = 0.1;
/// One job that took an hour must not make the limiter deaf for long.
const MAX_VARIANCE: f64 = 10.0;

/// What jobs would take by their baseline, and the variance of that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub(super) total_ns: f64,
    pub(super) variance_ns2: f64,
}

/// The baselines of all classes.
#[derive(Debug)]
pub(super) struct Baselines {
    classes: Box<[Class]>,
    /// One bit per class that has jobs in its lap.
    in_lap: u64,
    /// One bit per class that was measured quiet.
    in_quiet: u64,
}

/// A class without a baseline yet has `base_ns` 0.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    base_ns: f64,
    variance: f64,
    lap: Lap,
    last_lap_ns: f64,
    quiet_jobs: f64,
    quiet_ns: f64,
}

/// The jobs of one class since its last lap ended.
#[derive(Clone, Copy, Debug, Default)]
struct Lap {
    batches: f64,
    jobs: f64,
    total_ns: f64,
    /// Sum of (batch's total)² / batch's jobs.
    squares_ns2: f64,
}

impl Baselines {
    pub(super) fn new() -> Self {
        Self { classes: vec![Class::default(); CLASSES].into(), in_lap: 0, in_quiet: 0 }
    }

    /// The baseline of one job, none before the first lap of its class.
    pub(super) fn of(&self, class: u8) -> Option<f64> {
        let base_ns = self.classes[at(class)].base_ns;
        (base_ns > 0.0).then_some(base_ns)
    }

    /// What the batch would take by the baseline of its class, if that has one.
    pub(super) fn expected(&self, batch: Batch) -> Option<Expected> {
        let base_ns = self.of(batch.class)?;
        let jobs = batch.jobs as f64;
        let variance = self.classes[at(batch.class)].variance;
        Some(Expected {
            total_ns: jobs * base_ns,
            variance_ns2: jobs * variance * base_ns * base_ns,
        })
    }

    /// Counts the batch to the lap of its class.
    pub(super) fn add(&mut self, batch: Batch) {
        self.in_lap |= 1 << at(batch.class);
        let lap = &mut self.classes[at(batch.class)].lap;
        let total_ns = batch.service_ns as f64;
        lap.batches += 1.0;
        lap.jobs += batch.jobs as f64;
        lap.total_ns += total_ns;
        lap.squares_ns2 += total_ns * total_ns / batch.jobs as f64;
    }

    /// Counts the batch to what was measured with few jobs in flight.
    pub(super) fn add_quiet(&mut self, batch: Batch) {
        self.in_quiet |= 1 << at(batch.class);
        let class = &mut self.classes[at(batch.class)];
        class.quiet_jobs += batch.jobs as f64;
        class.quiet_ns += batch.service_ns as f64;
    }

    /// Ends the laps that have enough jobs; those of rare classes go on.
    pub(super) fn close_laps(&mut self) {
        for index in bits(self.in_lap) {
            let class = &mut self.classes[index];
            let enough = if class.base_ns == 0.0 { FIRST_JOBS } else { MIN_JOBS };
            if class.lap.jobs >= enough as f64 {
                class.close_lap();
                self.in_lap &= !(1 << index);
            }
        }
    }

    /// Moves the baselines towards what was measured with few jobs in flight, and forgets that.
    pub(super) fn refresh(&mut self) {
        for index in bits(self.in_quiet) {
            self.classes[index].refresh();
        }
        self.in_quiet = 0;
    }
}

impl Class {
    fn close_lap(&mut self) {
        let lap = std::mem::take(&mut self.lap);
        let mean_ns = lap.mean_ns();
        if self.base_ns == 0.0 {
            self.base_ns = mean_ns;
            self.variance = FIRST_VARIANCE;
        }
        if let Some(variance) = lap.variance() {
            self.variance += VARIANCE_SHARE * (variance - self.variance);
        }
        let noise = FALL_ERRORS * (self.variance / lap.jobs).sqrt();
        let both_ns = mean_ns.max(self.last_lap_ns);
        if both_ns < self.base_ns * (1.0 - noise.max(MIN_FALL)) {
            self.base_ns += FALL_SHARE * (both_ns - self.base_ns);
        }
        self.last_lap_ns = mean_ns;
    }

    fn refresh(&mut self) {
        let mean_ns = (self.quiet_ns / self.quiet_jobs).max(1.0);
        let share = REFRESH_SHARE * (self.quiet_jobs / MIN_JOBS as f64).min(1.0);
        (self.quiet_jobs, self.quiet_ns) = (0.0, 0.0);
        if self.base_ns > 0.0 {
            let aim_ns = self.base_ns + share * (mean_ns - self.base_ns);
            self.base_ns = aim_ns.min(self.base_ns * MAX_RISE);
        }
    }
}

impl Lap {
    /// At least 1 ns: what is faster can't be told from nothing.
    fn mean_ns(&self) -> f64 {
        (self.total_ns / self.jobs).max(1.0)
    }

    /// Relative variance of one job, from how the means of the batches differ. It is taken around
    /// the mean of the lap itself, so that congestion, which slows all of them, isn't taken for it.
    fn variance(&self) -> Option<f64> {
        if self.batches < 2.0 {
            return None;
        }
        let mean_ns = self.mean_ns();
        let around_mean = self.squares_ns2 - self.jobs * mean_ns * mean_ns;
        let of_one_job = around_mean / (self.batches - 1.0);
        Some((of_one_job / (mean_ns * mean_ns)).clamp(0.0, MAX_VARIANCE))
    }
}

/// The last class takes what is out of range.
fn at(class: u8) -> usize {
    usize::from(class).min(CLASSES - 1)
}

fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = set.trailing_zeros();
        set &= set.checked_sub(1)?;
        Some(lowest as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn of_class(class: u8, jobs: u64, service_ms: u64) -> Batch {
        Batch { class, jobs, service_ns: jobs * service_ms * MS, in_flight: 1 }
    }

    fn lap(baselines: &mut Baselines, service_ms: u64) {
        for _ in 0..10 {
            baselines.add(of_class(0, 1, service_ms));
        }
        baselines.close_laps();
    }

    fn learnt(service_ms: u64) -> Baselines {
        let mut baselines = Baselines::new();
        for _ in 0..50 {
            lap(&mut baselines, service_ms);
        }
        baselines
    }

    fn base_ms(baselines: &Baselines) -> f64 {
        baselines.of(0).unwrap() / MS as f64
    }

    #[test]
    fn it_is_learnt_from_the_first_thirty_jobs_of_a_class() {
        let mut baselines = Baselines::new();
        baselines.add(of_class(3, 29, 4));
        baselines.close_laps();
        assert_eq!(baselines.of(3), None);
        baselines.add(of_class(3, 1, 34));
        baselines.close_laps();
        assert_eq!(baselines.of(3), Some(5.0 * MS as f64));
        assert_eq!(baselines.of(4), None);
        assert!(baselines.expected(of_class(4, 1, 1)).is_none());
    }

    #[test]
    fn a_lucky_lap_alone_does_nothing_and_two_only_a_quarter() {
        let mut baselines = learnt(10);
        lap(&mut baselines, 1);
        assert_eq!(base_ms(&baselines), 10.0);
        lap(&mut baselines, 1);
        assert_eq!(base_ms(&baselines), 7.75);
    }

    #[test]
    fn a_true_recovery_is_learnt_in_two_seconds_of_windows() {
        let mut baselines = learnt(100);
        for _ in 0..20 {
            lap(&mut baselines, 10);
        }
        assert!((10.0..=11.0).contains(&base_ms(&baselines)), "{}", base_ms(&baselines));
    }

    #[test]
    fn slower_laps_never_raise_it() {
        let mut baselines = learnt(10);
        for _ in 0..10_000 {
            lap(&mut baselines, 100);
        }
        assert_eq!(base_ms(&baselines), 10.0);
    }

    #[test]
    fn a_refresh_goes_half_way_and_rises_by_no_more_than_half() {
        let mut baselines = learnt(10);
        let mut refresh = |jobs, service_ms| {
            baselines.add_quiet(of_class(0, jobs, service_ms));
            baselines.refresh();
            base_ms(&baselines)
        };
        assert_eq!(refresh(10, 12), 11.0);
        assert_eq!(refresh(10, 9), 10.0);
        assert_eq!(refresh(10, 1_000), 15.0);
        assert_eq!(refresh(10, 1), 8.0);
        assert_eq!(refresh(1, 18), 8.5, "one job has a tenth of the weight");
    }

    #[test]
    fn twice_as_slow_is_learnt_in_four_refreshes_ten_times_in_eight() {
        for (slower, refreshes) in [(2, 4), (10, 8)] {
            let mut baselines = learnt(10);
            for _ in 0..refreshes {
                baselines.add_quiet(of_class(0, 30, slower * 10));
                baselines.refresh();
            }
            let reached = base_ms(&baselines) / (slower * 10) as f64;
            assert!((0.9..=1.0).contains(&reached), "{slower}: {reached}");
        }
    }

    #[test]
    fn the_variance_is_that_of_a_job_whatever_the_batches() {
        for size in [1, 8, 32] {
            let mut rng = fastrand::Rng::with_seed(7);
            let mut baselines = Baselines::new();
            for _ in 0..100 {
                for _ in 0..100 {
                    let exponential = |_| (-rng.f64().max(1e-12).ln() * 1e7) as u64;
                    let service_ns = (0..size).map(exponential).sum();
                    baselines.add(Batch { class: 0, jobs: size, service_ns, in_flight: 1 });
                }
                baselines.close_laps();
            }
            let variance = baselines.classes[0].variance;
            assert!((0.8..1.2).contains(&variance), "batches of {size}: {variance}");
        }
    }

    #[test]
    fn noise_does_not_pull_it_down() {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut baselines = Baselines::new();
        let mut bimodal = || if rng.f64() < 0.1 { 20 } else { 1 };
        let mut least: f64 = 2.9;
        for round in 0..1_000 {
            for _ in 0..30 {
                baselines.add(of_class(0, 1, bimodal()));
            }
            baselines.close_laps();
            if round % 100 == 0 {
                for _ in 0..100 {
                    baselines.add_quiet(of_class(0, 1, bimodal()));
                }
                baselines.refresh();
            }
            if round > 200 {
                least = least.min(base_ms(&baselines));
            }
        }
        assert!(least > 2.0, "{least}");
    }

    #[test]
    fn odd_figures_stay_finite() {
        let mut baselines = Baselines::new();
        for class in [0, 63, 64, 255] {
            for service_ns in [0, u64::MAX, 1] {
                let batch = Batch { class, jobs: u64::MAX, service_ns, in_flight: usize::MAX };
                baselines.add(batch);
                baselines.close_laps();
                baselines.add_quiet(batch);
                baselines.refresh();
                let expected = baselines.expected(batch).unwrap();
                assert!(expected.total_ns.is_finite() && expected.variance_ns2.is_finite());
                assert!(baselines.of(class).unwrap() >= 1.0);
            }
        }
    }
}

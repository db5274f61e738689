//! What ended since the limit was last judged.

use super::Batch;
use super::baseline::Expected;
use super::refresh::Likeness;

/// Fewer jobs say nothing (Netflix's `WindowedLimit` asks for as many).
pub(super) const MIN_JOBS: u64 = 10;
/// A window isn't closed before this: time enough that a step of the limit shows in the next
/// window, since the jobs it let in have to end first; 0.1 to 1 s is a limit's time scale, one
/// order above the queue's.
pub(super) const MIN_WINDOW_NS: u64 = 100_000_000;
/// Noise is discounted up to this share of what was measured.
const MAX_DISCOUNT: f64 = 0.5;
/// Above any ratio that makes a difference.
const MAX_RATIO: f64 = 1e9;

/// The jobs of one window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    since_ns: u64,
    jobs: u64,
    in_flight: usize,
    judged_jobs: f64,
    actual_ns: f64,
    expected_ns: f64,
    variance_ns2: f64,
}

/// What a closed window said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// How much slower the jobs were than their baselines, at least 1. Mere noise is taken off: one
    /// standard error, so that only what is probably congestion lowers a limit.
    pub(super) ratio: f64,
    /// Throughput times baseline: how many jobs would have been running at once if none had been
    /// slowed down.
    pub(super) product: f64,
    /// What the jobs would have been like with nothing in their way.
    pub(super) like: Likeness,
}

impl Window {
    pub(super) fn since(since_ns: u64) -> Self {
        Self {
            since_ns,
            jobs: 0,
            in_flight: 0,
            judged_jobs: 0.0,
            actual_ns: 0.0,
            expected_ns: 0.0,
            variance_ns2: 0.0,
        }
    }

    /// Adds jobs; they are judged only once their class has a baseline.
    pub(super) fn add(&mut self, now_ns: u64, batch: Batch, expected: Option<Expected>) {
        // A clock that goes backwards starts the window anew, else it would never be long enough.
        self.since_ns = self.since_ns.min(now_ns);
        self.jobs = self.jobs.saturating_add(batch.jobs);
        self.in_flight = self.in_flight.max(batch.in_flight);
        if let Some(expected) = expected {
            self.judged_jobs += batch.jobs as f64;
            self.actual_ns += batch.service_ns as f64;
            self.expected_ns += expected.total_ns;
            self.variance_ns2 += expected.variance_ns2;
        }
    }

    pub(super) fn is_full(&self, now_ns: u64) -> bool {
        self.jobs >= MIN_JOBS && now_ns.saturating_sub(self.since_ns) >= MIN_WINDOW_NS
    }

    /// The most jobs that were in flight when one ended.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// None if too few of the jobs have a baseline.
    pub(super) fn reading(&self, now_ns: u64) -> Option<Reading> {
        if self.judged_jobs < MIN_JOBS as f64 {
            return None;
        }
        let standard_error = self.variance_ns2.sqrt() / self.expected_ns;
        let ratio = self.actual_ns / self.expected_ns * (1.0 - standard_error.min(MAX_DISCOUNT));
        let elapsed_ns = now_ns.saturating_sub(self.since_ns).max(1) as f64;
        Some(Reading {
            ratio: ratio.clamp(1.0, MAX_RATIO),
            // Not more than were there: long jobs that end together look like more.
            product: (self.expected_ns / elapsed_ns).min(self.in_flight as f64),
            like: Likeness {
                mean_ns: self.expected_ns / self.judged_jobs,
                variance: standard_error * standard_error * self.judged_jobs,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn jobs(jobs: u64, service_ms: u64) -> Batch {
        Batch { class: 0, jobs, service_ns: jobs * service_ms * MS, in_flight: 7 }
    }

    fn expected(jobs: u64, base_ms: u64, relative_variance: f64) -> Option<Expected> {
        let base_ns = (base_ms * MS) as f64;
        Some(Expected {
            total_ns: jobs as f64 * base_ns,
            variance_ns2: jobs as f64 * base_ns * base_ns * relative_variance,
        })
    }

    #[test]
    fn it_is_full_after_ten_jobs_and_a_tenth_of_a_second() {
        let mut window = Window::since(0);
        window.add(MS, jobs(9, 1), None);
        assert!(!window.is_full(u64::MAX), "nine jobs");
        window.add(2 * MS, jobs(1, 1), None);
        assert!(!window.is_full(99 * MS), "99 ms");
        assert!(window.is_full(100 * MS));
        assert!(window.reading(100 * MS).is_none(), "no baseline to judge by");
    }

    #[test]
    fn the_ratio_weighs_each_job_with_its_own_baseline() {
        let mut window = Window::since(0);
        window.add(MS, jobs(90, 2), expected(90, 1, 0.0));
        window.add(MS, jobs(10, 40), expected(10, 20, 0.0));
        let reading = window.reading(100 * MS).unwrap();
        assert_eq!(reading.ratio, 2.0);
        // 290 ms of work in 100 ms.
        assert!((reading.product - 2.9).abs() < 1e-9);
    }

    #[test]
    fn one_standard_error_is_discounted() {
        // A hundred jobs as variable as an exponential: the standard error is a tenth.
        let mut window = Window::since(0);
        window.add(MS, jobs(100, 2), expected(100, 1, 1.0));
        let reading = window.reading(100 * MS).unwrap();
        assert!((reading.ratio - 1.8).abs() < 1e-9);
        assert!((reading.like.variance - 1.0).abs() < 1e-9);

        let mut faster = Window::since(0);
        faster.add(MS, jobs(100, 1), expected(100, 5, 1.0));
        assert_eq!(faster.reading(100 * MS).unwrap().ratio, 1.0);
    }

    #[test]
    fn the_product_is_never_above_the_jobs_in_flight() {
        let mut window = Window::since(0);
        window.add(MS, jobs(10, 5_000), expected(10, 5_000, 0.0));
        assert_eq!(window.reading(100 * MS).unwrap().product, 7.0);
    }

    #[test]
    fn a_clock_that_goes_backwards_starts_it_anew() {
        let mut window = Window::since(3_600_000 * MS);
        window.add(MS, jobs(10, 1), None);
        assert!(!window.is_full(100 * MS));
        assert!(window.is_full(101 * MS));
    }
}

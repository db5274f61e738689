//! The mean service time: what one job costs a worker, queue wait not included.

/// Share of the newest job in the mean once enough were seen: slow, so that a burst of odd jobs
/// doesn't move what others are judged by.
const ALPHA_PER_JOB: f64 = 0.002;

/// A mean that is exact over the first jobs and an exponential moving average afterwards.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct MeanServiceTime {
    mean_ns: f64,
    jobs: u64,
}

impl MeanServiceTime {
    /// Adds `jobs` jobs that took `total_ns` together.
    pub(crate) fn add(&mut self, jobs: u64, total_ns: u64) {
        if jobs == 0 {
            return;
        }
        self.jobs = self.jobs.saturating_add(jobs);
        let of_ema = 1.0 - (1.0 - ALPHA_PER_JOB).powf(jobs as f64);
        let of_plain_mean = jobs as f64 / self.jobs as f64;
        let weight = of_ema.max(of_plain_mean);
        self.mean_ns += weight * (total_ns as f64 / jobs as f64 - self.mean_ns);
    }

    /// How many jobs it is the mean of.
    pub(crate) fn jobs(&self) -> u64 {
        self.jobs
    }

    /// The mean in nanoseconds, none before the first job.
    pub(crate) fn mean_ns(&self) -> Option<u64> {
        (self.jobs > 0).then_some(self.mean_ns as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_jobs_count_equally() {
        let mut mean = MeanServiceTime::default();
        assert_eq!(mean.mean_ns(), None);
        mean.add(1, 100);
        mean.add(1, 300);
        assert_eq!(mean.mean_ns(), Some(200));
        mean.add(2, 400);
        assert_eq!(mean.mean_ns(), Some(200));
    }

    #[test]
    fn later_jobs_move_it_slowly_but_all_the_way() {
        let mut mean = MeanServiceTime::default();
        mean.add(10_000, 10_000 * 1_000);
        mean.add(1, 1_000_000);
        let after_one = mean.mean_ns().unwrap();
        assert!((2_990..=3_000).contains(&after_one), "{after_one}");
        mean.add(10_000, 10_000 * 5_000);
        let after_many = mean.mean_ns().unwrap();
        assert!((4_990..=5_000).contains(&after_many), "{after_many}");
    }

    #[test]
    fn an_empty_batch_changes_nothing() {
        let mut mean = MeanServiceTime::default();
        mean.add(0, 77);
        assert_eq!(mean.mean_ns(), None);
    }
}

//! The mean service time: what one job costs a worker, queue wait not included.
//!
//! A wait is predicted from it, so it has to be the mean and nothing that is robust against rare long
//! jobs, like a median: they keep workers busy, too. But of *all* jobs of a while. Five hundred jobs say
//! enough of jobs of a millisecond; of jobs of 50 ns they are an instant. Should a thread lose its core
//! in the middle of one of those, that job takes milliseconds, and in a mean of five hundred it would stand
//! for a hundred thousand others that nobody remembers: a door that asks at that moment takes a queue of
//! microseconds for one of half a minute.
//!
//! So the newest jobs, those of the last one or two [`WINDOW_NS`], count alike, however many they are:
//! their time by their number is what the workers really did. Where they are few, what came before has
//! its share.

/// Share of one job in the mean where those of the window are few: small, so that a burst of odd jobs
/// doesn't move what others are judged by.
const ALPHA_PER_JOB: f64 = 0.002;

/// The jobs of so long count alike.
const WINDOW_NS: u64 = 10_000_000;

/// Time in which nothing was measured goes no further than this towards the end of a window. In a
/// standstill of the machine few jobs end and all of them took long: by themselves they would pass for
/// what jobs take now, beside those of just before or after it they don't.
const LONGEST_GAP_NS: u64 = WINDOW_NS / 2;

/// A mean that is exact over the first jobs and over a window, whichever are more, and beyond that an
/// exponential moving average by jobs.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct MeanServiceTime {
    /// Of all jobs before the last window.
    before: Average,
    /// The last full window, and the present one.
    last: Sum,
    present: Sum,
    /// How much of the present window has passed, and until when.
    passed_ns: u64,
    looked_ns: u64,
    /// Of all of them.
    now: Average,
}

#[derive(Debug, Default, Clone, Copy)]
struct Sum {
    jobs: u64,
    total_ns: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Average {
    mean_ns: f64,
    jobs: u64,
}

impl MeanServiceTime {
    /// Adds `jobs` jobs that took `total_ns` together and have ended since the last ones were added.
    pub(crate) fn add(&mut self, now_ns: u64, jobs: u64, total_ns: u64) {
        if jobs == 0 {
            return;
        }
        // Each worker reads the clock for itself, so that times may come a little out of order; and a
        // clock may be set back.
        let gap_ns = now_ns.saturating_sub(self.looked_ns).min(LONGEST_GAP_NS);
        (self.looked_ns, self.passed_ns) = (now_ns, self.passed_ns + gap_ns);
        self.present = self.present.and(Sum { jobs, total_ns });
        if self.passed_ns >= WINDOW_NS {
            self.before = self.before.and(self.last);
            self.last = std::mem::take(&mut self.present);
            self.passed_ns = 0;
        }
        self.now = self.before.and(self.last.and(self.present));
    }

    /// How many jobs it is the mean of.
    pub(crate) fn jobs(&self) -> u64 {
        self.now.jobs
    }

    /// The mean in nanoseconds, none before the first job.
    pub(crate) fn mean_ns(&self) -> Option<u64> {
        (self.now.jobs > 0).then_some(self.now.mean_ns as u64)
    }
}

impl Sum {
    fn and(self, more: Self) -> Self {
        Self {
            jobs: self.jobs.saturating_add(more.jobs),
            total_ns: self.total_ns.saturating_add(more.total_ns),
        }
    }
}

impl Average {
    /// What it is after these, which count alike.
    fn and(self, Sum { jobs, total_ns }: Sum) -> Self {
        if jobs == 0 {
            return self;
        }
        let all = self.jobs.saturating_add(jobs);
        let of_ema = 1.0 - (1.0 - ALPHA_PER_JOB).powf(jobs as f64);
        let of_plain_mean = jobs as f64 / all as f64;
        let weight = of_ema.max(of_plain_mean);
        let mean_ns = self.mean_ns + weight * (total_ns as f64 / jobs as f64 - self.mean_ns);
        Self { mean_ns, jobs: all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;
    const MS: u64 = 1_000_000;

    /// Workers that hand over what they have done, and the time that passes meanwhile.
    #[derive(Default)]
    struct Bench {
        mean: MeanServiceTime,
        now_ns: u64,
    }

    impl Bench {
        /// So many workers do jobs of one kind for so long, and hand over every 32 of them or what
        /// they have done in 10 ms. Returns the greatest mean on the way.
        fn work(&mut self, workers: u64, each_ns: u64, for_ns: u64) -> u64 {
            let jobs = (10 * MS / each_ns).clamp(1, 32);
            let until_ns = self.now_ns + for_ns;
            let mut greatest_ns = 0;
            while self.now_ns < until_ns {
                self.now_ns += jobs * each_ns / workers;
                self.mean.add(self.now_ns, jobs, jobs * each_ns);
                greatest_ns = greatest_ns.max(self.mean_ns());
            }
            greatest_ns
        }

        /// One worker hands over 31 tiny jobs and one in which it had lost its core.
        fn lose_core(&mut self, for_ns: u64) {
            self.mean.add(self.now_ns, 32, 31 * 100 + for_ns);
        }

        fn mean_ns(&self) -> u64 {
            self.mean.mean_ns().unwrap()
        }
    }

    #[test]
    fn the_first_jobs_count_equally() {
        let mut mean = MeanServiceTime::default();
        assert_eq!(mean.mean_ns(), None);
        mean.add(1, 1, 100);
        mean.add(2, 1, 300);
        assert_eq!(mean.mean_ns(), Some(200));
        mean.add(3 * MS, 2, 400);
        mean.add(60 * MS, 4, 1_600);
        assert_eq!((mean.mean_ns(), mean.jobs()), (Some(300), 8));
    }

    #[test]
    fn jobs_of_a_millisecond_move_it_slowly_but_all_the_way() {
        let mut bench = Bench::default();
        bench.work(8, MS, 5_000 * MS);
        bench.mean.add(bench.now_ns, 1, 501 * MS);
        assert!(bench.mean_ns().abs_diff(2 * MS) < 100 * US, "{}", bench.mean_ns());
        bench.work(8, 5 * MS, 5_000 * MS);
        assert!(bench.mean_ns().abs_diff(5 * MS) < 50 * US, "{}", bench.mean_ns());
    }

    /// Whenever it happens: long before the end of a window, or at its very beginning.
    #[test]
    fn a_worker_that_loses_its_core_in_a_tiny_job_counts_for_what_it_was() {
        for lost_ns in [3 * MS, 18 * MS] {
            let mut bench = Bench::default();
            bench.work(4, 100, 30 * MS);
            for _ in 0..40 {
                // Out of step with the windows.
                let meanwhile_ns = bench.work(4, 100, 17 * MS + 300 * US);
                bench.lose_core(lost_ns);
                let greatest_ns = bench.mean_ns().max(meanwhile_ns);
                // 400 000 other jobs end in a window.
                assert!((100..160).contains(&greatest_ns), "{greatest_ns} with {lost_ns}");
            }
        }
    }

    /// All lose their cores at once, as they do where a control group's quota is used up: hardly
    /// anything else ends in that window.
    #[test]
    fn a_standstill_of_all_counts_for_what_it_was() {
        for stood_ns in [3 * MS, 18 * MS, 100 * MS] {
            for before_ns in (20 * MS..40 * MS).step_by(1_300_000) {
                let mut bench = Bench::default();
                bench.work(4, 100, before_ns);
                bench.now_ns += stood_ns;
                (0..4).for_each(|_| bench.lose_core(stood_ns));
                let after_ns = bench.mean_ns().max(bench.work(4, 100, 40 * MS));
                // At the least there are the 200 000 jobs of half a window beside those.
                let most_ns = 110 + 4 * stood_ns / 200_000;
                assert!(after_ns <= most_ns, "{after_ns}, {stood_ns} after {before_ns}");
                assert!((100..=101).contains(&bench.mean_ns()), "and it passes");
            }
        }
    }

    /// As soon as without windows, but for the two that are full of the jobs of before.
    #[test]
    fn jobs_that_take_long_from_now_on_are_seen_soon() {
        for workers in [1, 4] {
            for each_ns in [20 * US, MS, 20 * MS] {
                let mut bench = Bench::default();
                bench.work(workers, 100, 45 * MS);
                let began_ns = bench.now_ns;
                let jobs_before = bench.mean.jobs();
                let seen_ns = each_ns / 100;
                while bench.mean_ns() < seen_ns {
                    bench.work(workers, each_ns, 1);
                }
                let jobs = bench.mean.jobs() - jobs_before;
                let windows = 2 * WINDOW_NS + 2 * 10 * MS.max(each_ns) / workers;
                let took_ns = bench.now_ns - began_ns;
                assert!(
                    took_ns <= windows && (jobs <= 10 || took_ns <= 3 * WINDOW_NS),
                    "{jobs} jobs of {each_ns} by {workers} in {took_ns}"
                );
                // All the way in as many jobs as ever.
                while bench.mean.jobs() < jobs_before + jobs + 2_500 {
                    bench.work(workers, each_ns, 1);
                }
                assert!(bench.mean_ns() >= each_ns / 100 * 98, "{}", bench.mean_ns());
                // And back, at the latest when there is no other in the windows.
                bench.work(workers, 100, 50 * MS);
                assert!((100..=101).contains(&bench.mean_ns()), "{}", bench.mean_ns());
            }
        }
    }

    /// What is rare and long is a part of the mean, or queues would be let in that nobody can serve.
    #[test]
    fn a_mix_keeps_its_mean() {
        for (often_ns, rarely_ns, one_in) in
            [(MS, 20 * MS, 20), (100, 3 * MS, 1_000), (100, 20 * US, 20), (50 * MS, 1_000 * MS, 20)]
        {
            let mean_ns = (often_ns * (one_in - 1) + rarely_ns) / one_in;
            for workers in [1, 4] {
                let mut rng = fastrand::Rng::with_seed(7);
                let mut bench = Bench::default();
                let (mut sum, mut looks) = (0.0, 0.0);
                for round in 0..20_000 {
                    let jobs = (10 * MS / mean_ns).clamp(1, 32);
                    let draw = |_| if rng.u64(..one_in) == 0 { rarely_ns } else { often_ns };
                    let total_ns = (0..jobs).map(draw).sum::<u64>();
                    bench.now_ns += total_ns / workers;
                    bench.mean.add(bench.now_ns, jobs, total_ns);
                    if round >= 2_000 {
                        sum += bench.mean_ns() as f64;
                        looks += 1.0;
                    }
                }
                let ratio = sum / looks / mean_ns as f64;
                assert!((0.9..1.1).contains(&ratio), "{ratio}: {often_ns}, {rarely_ns}");
            }
        }
    }

    #[test]
    fn a_clock_that_jumps_breaks_nothing() {
        let mut bench = Bench::default();
        for now_ns in [u64::MAX, 0, u64::MAX / 2, 5, u64::MAX, 1] {
            bench.now_ns = now_ns;
            bench.mean.add(now_ns, u64::MAX / 2, u64::MAX);
            assert!(bench.mean.mean_ns().is_some());
        }
        bench.now_ns = 0;
        bench.work(1, MS, 10_000 * MS);
        assert!(bench.mean_ns() > 0 && bench.mean.jobs() == u64::MAX);
    }

    #[test]
    fn an_empty_batch_changes_nothing() {
        let mut mean = MeanServiceTime::default();
        mean.add(5, 0, 77);
        assert_eq!(mean.mean_ns(), None);
    }
}

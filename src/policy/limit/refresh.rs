//! When the baseline is measured anew, and the probe that makes that possible under load.
//!
//! A baseline is what a job takes with few jobs in flight. A pool that isn't saturated shows that by
//! itself. In one that is, a *probe* lowers the limit for as long as it takes, as BBR's ProbeRTT
//! does: at first the jobs above the lowered limit drain, then those that began beside them end,
//! then the rest is measured.

/// Use of the limit after which its baseline is measured anew, as in BBR.
const PERIOD_NS: u64 = 10_000_000_000;
/// The first period; it doubles up to [`PERIOD_NS`], so that a baseline that was learnt in the
/// middle of congestion is soon put right.
const FIRST_PERIOD_NS: u64 = 1_000_000_000;
/// Use between two probes is at least so many times as long as the probe was: less than 5 % of the
/// time is spent probing, however long the jobs take. At first it may be more, see above.
const PERIODS_PER_PROBE: u64 = 25;
const FIRST_PERIODS_PER_PROBE: u64 = 5;
/// Less time than this is one moment of the machine rather than a sample of it.
const MIN_QUIET_NS: f64 = 50e6;
/// ... and in less than so many times the length of a running job the long ones can't both begin and
/// end, and would be missing in the mean.
const QUIET_PER_JOB: f64 = 2.0;
/// After this long the least number of jobs has to do.
const LONG_QUIET_NS: u64 = 1_000_000_000;
/// The fewest jobs that a baseline is measured by, and the most that it is worth waiting for.
const FEWEST_JOBS: f64 = 10.0;
const MOST_JOBS: f64 = 100.0;
/// Otherwise as many as make the standard error of their mean a fifth: 1 / 0.2².
const JOBS_PER_VARIANCE: f64 = 25.0;
/// Only jobs that began in quiet are counted: of those that began before, the longest remain. At
/// first that favours short jobs, since no other can have ended yet; so nothing is counted for this
/// many baselines, after which few jobs are still too long.
const SETTLE_BASELINES: f64 = 2.0;
/// A probe whose jobs don't stay few is given up after this many of them, and this long: the limit
/// doesn't hold back critical work and reserved shares.
const GIVE_UP_JOBS_PER_LIMIT: u64 = 2;
const GIVE_UP_JOBS: u64 = 200;
const GIVE_UP_NS: u64 = 1_000_000_000;

/// How far the measurement of the baseline has come.
#[derive(Debug)]
pub(super) struct Refresh {
    /// At most [`PERIOD_NS`].
    least_period_ns: u64,
    period_ns: u64,
    used_ns: u64,
    quiet: Quiet,
    probe: Option<Probe>,
}

/// Jobs that ended while few were in flight.
#[derive(Debug, Default)]
struct Quiet {
    since_ns: Option<u64>,
    jobs: f64,
    time_ns: u64,
}

#[derive(Debug)]
struct Probe {
    limit: f64,
    used_ns: u64,
    jobs_not_quiet: u64,
    jobs_at_most: u64,
}

/// What became of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Going,
    /// Enough was measured.
    Measured,
    GivenUp,
}

impl Refresh {
    pub(super) fn new() -> Self {
        Self {
            least_period_ns: FIRST_PERIOD_NS,
            period_ns: FIRST_PERIOD_NS,
            used_ns: 0,
            quiet: Quiet::default(),
            probe: None,
        }
    }

    /// The limit that the probe under way imposes.
    pub(super) fn probe_limit(&self) -> Option<f64> {
        self.probe.as_ref().map(|probe| probe.limit)
    }

    /// Notes that `jobs` ended, `passed_ns` after those before, with few or many in flight, and
    /// whether they may be counted as measured quiet.
    pub(super) fn pass(&mut self, end: JobsEnd) -> bool {
        self.used_ns = self.used_ns.saturating_add(end.passed_ns);
        if let Some(probe) = &mut self.probe {
            probe.used_ns = probe.used_ns.saturating_add(end.passed_ns);
            if !end.few_in_flight {
                probe.jobs_not_quiet = probe.jobs_not_quiet.saturating_add(end.jobs);
            }
        }
        self.quiet.pass(end)
    }

    /// The pool was idle: whatever was under way no longer is.
    pub(super) fn rest(&mut self) {
        self.probe = None;
        self.quiet.since_ns = None;
    }

    /// Whether a period of use has passed.
    pub(super) fn is_due(&self) -> bool {
        self.used_ns >= self.period_ns
    }

    /// Whether so much more has passed that nothing is a reason to wait any longer.
    pub(super) fn is_overdue(&self) -> bool {
        self.used_ns.saturating_sub(self.period_ns) >= self.least_period_ns
    }

    /// Whether enough was measured of such jobs.
    pub(super) fn is_measured(&self, like: Likeness) -> bool {
        let long_enough = (QUIET_PER_JOB * like.running_ns()).max(MIN_QUIET_NS);
        let enough = (JOBS_PER_VARIANCE * like.variance).clamp(FEWEST_JOBS, MOST_JOBS);
        let fewest = if self.quiet.time_ns >= LONG_QUIET_NS { FEWEST_JOBS } else { enough };
        self.quiet.time_ns as f64 >= long_enough && self.quiet.jobs >= fewest
    }

    /// Begins a probe that lowers `limit` to `probe_limit`.
    pub(super) fn probe(&mut self, limit: f64, probe_limit: f64) {
        let jobs_at_most = (limit as u64).saturating_mul(GIVE_UP_JOBS_PER_LIMIT);
        self.probe = Some(Probe {
            limit: probe_limit,
            used_ns: 0,
            jobs_not_quiet: 0,
            jobs_at_most: jobs_at_most.saturating_add(GIVE_UP_JOBS),
        });
        self.quiet = Quiet::default();
    }

    /// How the probe under way stands, none if there is none.
    pub(super) fn progress(&self, like: Likeness) -> Option<Progress> {
        let probe = self.probe.as_ref()?;
        Some(if self.is_measured(like) {
            Progress::Measured
        } else if probe.used_ns >= GIVE_UP_NS && probe.jobs_not_quiet >= probe.jobs_at_most {
            Progress::GivenUp
        } else {
            Progress::Going
        })
    }

    /// Begins the next period.
    pub(super) fn done(&mut self) {
        let probed_ns = self.probe.take().map_or(0, |probe| probe.used_ns);
        self.least_period_ns = self.least_period_ns.saturating_mul(2).min(PERIOD_NS);
        let per_probe = if self.least_period_ns < PERIOD_NS {
            FIRST_PERIODS_PER_PROBE
        } else {
            PERIODS_PER_PROBE
        };
        self.period_ns = probed_ns.saturating_mul(per_probe).max(self.least_period_ns);
        self.used_ns = 0;
        self.quiet = Quiet::default();
    }
}

/// What one of the jobs is like that are measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Likeness {
    /// What it takes, on average.
    pub(super) mean_ns: f64,
    /// The variance of that, relative to the mean squared.
    pub(super) variance: f64,
}

impl Likeness {
    /// How long a job that is running takes from its beginning to its end, on average: long jobs run
    /// more of the time. Twice what is left of it.
    fn running_ns(self) -> f64 {
        self.mean_ns * (1.0 + self.variance)
    }
}

/// The end of some jobs, as [`Refresh::pass`] wants to know it.
#[derive(Clone, Copy, Debug)]
pub(super) struct JobsEnd {
    pub(super) now_ns: u64,
    /// Since the ones before.
    pub(super) passed_ns: u64,
    pub(super) jobs: u64,
    pub(super) few_in_flight: bool,
    /// Of one of them.
    pub(super) service_ns: u64,
    /// Of their class.
    pub(super) base_ns: Option<f64>,
}

impl Quiet {
    fn pass(&mut self, end: JobsEnd) -> bool {
        if !end.few_in_flight {
            self.since_ns = None;
            return false;
        }
        // After a clock that goes backwards it begins again.
        let since_ns = self.since_ns.unwrap_or(u64::MAX).min(end.now_ns);
        self.since_ns = Some(since_ns);
        let Some(base_ns) = end.base_ns else {
            return false;
        };
        let quiet_ns = end.now_ns - since_ns;
        if end.service_ns > quiet_ns || (quiet_ns as f64) < SETTLE_BASELINES * base_ns {
            return false;
        }
        self.jobs += end.jobs as f64;
        self.time_ns = self.time_ns.saturating_add(end.passed_ns);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn end(now_ms: u64, few_in_flight: bool) -> JobsEnd {
        let base_ns = Some((10 * MS) as f64);
        JobsEnd {
            now_ns: now_ms * MS,
            passed_ns: 10 * MS,
            jobs: 1,
            few_in_flight,
            service_ns: 0,
            base_ns,
        }
    }

    fn jobs_like(variance: f64) -> Likeness {
        Likeness { mean_ns: MS as f64, variance }
    }

    #[test]
    fn the_periods_double_up_to_ten_seconds() {
        let mut refresh = Refresh::new();
        for period_s in [1, 2, 4, 8, 10, 10] {
            let all = JobsEnd { passed_ns: period_s * 1_000 * MS - 1, ..end(0, false) };
            refresh.pass(all);
            assert!(!refresh.is_due(), "{period_s}");
            refresh.pass(JobsEnd { passed_ns: 1, ..all });
            assert!(refresh.is_due(), "{period_s}");
            refresh.done();
        }
    }

    #[test]
    fn only_what_ends_after_two_baselines_of_quiet_is_counted() {
        let mut refresh = Refresh::new();
        assert!(!refresh.pass(end(0, false)));
        assert!(!refresh.pass(end(10, true)));
        assert!(!refresh.pass(end(29, true)));
        assert!(refresh.pass(end(30, true)));
        assert!(!refresh.pass(end(40, false)), "many in flight");
        assert!(!refresh.pass(end(50, true)), "few again, but only just");
        assert!(refresh.pass(end(70, true)));
        assert!(!refresh.pass(end(7, true)), "a clock that went backwards");
        assert!(!refresh.pass(JobsEnd { base_ns: None, ..end(90, true) }));
    }

    #[test]
    fn noisy_jobs_are_measured_longer_unless_that_takes_a_second() {
        let mut refresh = Refresh::new();
        let mut count = |until_ms: u64| {
            for now_ms in (until_ms - 100..until_ms).step_by(10) {
                refresh.pass(end(now_ms, true));
            }
            [0.0, 1.0, 100.0].map(|variance| refresh.is_measured(jobs_like(variance)))
        };
        assert_eq!(count(100), [false, false, false]); // the first two settle
        assert_eq!(count(200), [true, false, false]);
        assert_eq!(count(300), [true, true, false]);
        for until_ms in (400..=1000).step_by(100) {
            assert_eq!(count(until_ms), [true, true, false]);
        }
        assert_eq!(count(1100), [true, true, true]);
    }

    #[test]
    fn a_probe_ends_measured_or_given_up() {
        let mut refresh = Refresh::new();
        assert_eq!(refresh.progress(jobs_like(0.0)), None);
        refresh.probe(20.0, 10.0);
        assert_eq!(refresh.probe_limit(), Some(10.0));
        for now_ms in (0..110).step_by(10) {
            refresh.pass(end(now_ms, true));
            assert_eq!(refresh.progress(jobs_like(0.0)), Some(Progress::Going));
        }
        refresh.pass(end(110, true));
        assert_eq!(refresh.progress(jobs_like(0.0)), Some(Progress::Measured));
        refresh.done();
        assert_eq!(refresh.probe_limit(), None);

        refresh.probe(20.0, 10.0);
        for now_ms in 0..239 {
            refresh.pass(end(now_ms, false));
            assert_eq!(refresh.progress(jobs_like(0.0)), Some(Progress::Going));
        }
        refresh.pass(end(240, false));
        assert_eq!(refresh.progress(jobs_like(0.0)), Some(Progress::GivenUp));
    }

    #[test]
    fn a_long_probe_is_followed_by_a_long_period() {
        let mut refresh = Refresh::new();
        let mut period_after_probe_s = |probe_s: u64| {
            refresh.probe(20.0, 10.0);
            refresh.pass(JobsEnd { passed_ns: probe_s * 1_000 * MS, ..end(0, false) });
            refresh.done();
            let mut seconds = 0;
            while !refresh.is_due() {
                refresh.pass(JobsEnd { passed_ns: 1_000 * MS, ..end(0, false) });
                assert!(!refresh.is_overdue());
                seconds += 1;
            }
            refresh.pass(JobsEnd { passed_ns: 10_000 * MS, ..end(0, false) });
            assert!(refresh.is_overdue());
            seconds
        };
        assert_eq!([2, 2, 2].map(&mut period_after_probe_s), [10, 10, 10]);
        assert_eq!([2, 2, 0].map(&mut period_after_probe_s), [50, 50, 10]);
    }

    #[test]
    fn an_idle_pool_probes_no_more() {
        let mut refresh = Refresh::new();
        refresh.probe(20.0, 10.0);
        refresh.rest();
        assert_eq!(refresh.probe_limit(), None);
    }
}

//! Queue delay: which of the jobs that have waited are shed when a worker takes them.
//!
//! A [`Judge`] sees every push and every take of the lanes, in order. It holds the state of one law
//! for each priority; Critical is never judged.

use super::interval::Interval;
use super::rfc8289::Rfc8289;

/// What is done about the time that jobs wait. All times in nanoseconds, validated by the builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Law {
    /// Nothing.
    Off,
    /// The door refuses by a bound that depends on the load, see [`super::graded`]; the cut that
    /// belongs to it sheds the few that slip through.
    Graded { target_ns: u64 },
    /// Sheds while the smallest wait of an interval stands above the target.
    Interval { target_ns: u64, interval_ns: u64 },
    /// Sheds ever faster while waits stand above the target.
    Rfc8289 { target_ns: u64, interval_ns: u64 },
    /// Sheds whatever has waited longer.
    Cutoff { max_ns: u64 },
}

/// How many priorities are judged: all but the highest.
pub(crate) const JUDGED_LANES: usize = 3;

/// The interval over which the smallest wait is told where the law has none of its own.
const DEFAULT_INTERVAL_NS: u64 = 100_000_000;

/// When nobody (no submit, no worker) has looked at the clock for longer than this, the machine or
/// the process stood still: the waits that went on meanwhile are no sign of load. Long enough not
/// to be an ordinary body, during which nothing may be submitted either.
const PAUSE_NS: u64 = 1_000_000_000;
/// The same for long jobs: in mean service times.
const PAUSE_SERVICES: u64 = 20;

/// One job that a worker takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// Its priority, from the lowest, which is 0.
    pub(crate) lane: usize,
    pub(crate) enqueued_ns: u64,
    /// Whether it may be shed at all; one that may not still shows how long jobs wait.
    pub(crate) may_be_shed: bool,
}

/// What the workers have measured and published.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    /// Zero before the first job.
    pub(crate) mean_service_ns: u64,
    /// The graded law's cut; [`u64::MAX`] before enough is known.
    pub(crate) cut_ns: u64,
}

/// The law at work. First what each job touches.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Judge {
    clock: Watch,
    /// The smallest wait of all lanes in the last interval, for the eye.
    seen: Interval,
    law: Law,
    lanes: [Lane; JUDGED_LANES],
}

#[derive(Clone, Debug)]
enum Lane {
    Stateless,
    Interval(Interval),
    Rfc8289(Rfc8289),
}

/// Jobs that a worker takes at one moment, under a law for which nothing counts but how long each of them
/// has waited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    /// What came before this moment has waited through a pause.
    spared_before_ns: u64,
    /// What came before this one is shed.
    shed_before_ns: u64,
    /// When the last of them came, which has waited least.
    newest_ns: u64,
}

impl Batch {
    /// One of them: whether it is shed.
    #[must_use]
    #[inline]
    pub(crate) fn takes(&mut self, enqueued_ns: u64, may_be_shed: bool) -> bool {
        self.newest_ns = self.newest_ns.max(enqueued_ns);
        may_be_shed && (self.spared_before_ns..self.shed_before_ns).contains(&enqueued_ns)
    }
}

/// Tells a clock that went on by itself from one that was looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Watch {
    looked_ns: u64,
    /// Jobs from before this moment have waited through a pause.
    resumed_ns: u64,
}

impl Judge {
    pub(crate) fn new(law: Law) -> Self {
        let lane = match law {
            Law::Off | Law::Graded { .. } | Law::Cutoff { .. } => Lane::Stateless,
            Law::Interval { interval_ns, .. } => Lane::Interval(Interval::new(interval_ns)),
            Law::Rfc8289 { interval_ns, .. } => Lane::Rfc8289(Rfc8289::new(interval_ns)),
        };
        let lanes = [lane.clone(), lane.clone(), lane];
        let seen = Interval::new(law.interval_ns());
        Self { law, lanes, seen, clock: Watch::default() }
    }

    /// A job comes in.
    #[inline]
    pub(crate) fn pushed(&mut self, now_ns: u64, measured: Measured) {
        if self.clock.was_paused(now_ns, measured.mean_service_ns) {
            self.forget();
        }
    }

    /// A worker takes a job: whether it is shed.
    #[must_use]
    pub(crate) fn takes(&mut self, wait: Wait, now_ns: u64, measured: Measured) -> bool {
        // A hard limit is one whatever made the time pass.
        if !self.law.is_hard() {
            self.pushed(now_ns, measured);
        }
        let waited_ns = now_ns.saturating_sub(wait.enqueued_ns);
        if let Law::Cutoff { max_ns } = self.law {
            self.seen.note(waited_ns, now_ns);
            return wait.may_be_shed && wait.lane < JUDGED_LANES && waited_ns > max_ns;
        }
        if wait.enqueued_ns < self.clock.resumed_ns {
            return false;
        }
        self.seen.note(waited_ns, now_ns);
        let Some(lane) = self.lanes.get_mut(wait.lane) else { return false };
        let too_long = match (lane, self.law) {
            (Lane::Interval(state), Law::Interval { target_ns, .. }) => {
                let target_ns = target_ns.max(measured.mean_service_ns);
                state.note(waited_ns, now_ns);
                // Twice, so that the queue that gives the bursts their room is not emptied with it.
                state.stands_above(target_ns) && waited_ns > target_ns.saturating_mul(2)
            }
            (Lane::Rfc8289(state), Law::Rfc8289 { target_ns, .. }) => {
                let target_ns = target_ns.max(measured.mean_service_ns);
                state.takes(waited_ns >= target_ns, now_ns, wait.may_be_shed)
            }
            (_, Law::Graded { .. }) => waited_ns > measured.cut_ns,
            _ => false,
        };
        too_long && wait.may_be_shed
    }

    /// The worker takes more at the same moment, right after one for which this was asked by
    /// [`takes`](Self::takes). Only for a law that [is stateless](Law::is_stateless).
    #[inline]
    pub(crate) fn takes_more(&self, now_ns: u64, measured: Measured) -> Batch {
        let (spared_before_ns, shed_before_ns) = match self.law {
            Law::Graded { .. } => (self.clock.resumed_ns, now_ns.saturating_sub(measured.cut_ns)),
            Law::Cutoff { max_ns } => (0, now_ns.saturating_sub(max_ns)),
            Law::Off | Law::Interval { .. } | Law::Rfc8289 { .. } => (0, 0),
        };
        Batch { spared_before_ns, shed_before_ns, newest_ns: 0 }
    }

    /// That is all of them.
    #[inline]
    pub(crate) fn has_taken(&mut self, batch: Batch, now_ns: u64) {
        if self.law != Law::Off && batch.newest_ns > batch.spared_before_ns {
            self.seen.note(now_ns.saturating_sub(batch.newest_ns), now_ns);
        }
    }

    /// Nothing is queued and no worker is busy: what came before says nothing of what comes.
    pub(crate) fn forget(&mut self) {
        let Self { lanes, seen, .. } = self;
        for lane in lanes {
            match lane {
                Lane::Stateless => {}
                Lane::Interval(state) => state.forget(),
                Lane::Rfc8289(state) => state.forget(),
            }
        }
        seen.forget();
    }

    /// The smallest wait of the last full interval, if jobs were taken in it.
    pub(crate) fn smallest_wait_ns(&self) -> Option<u64> {
        self.seen.last_ns()
    }

    /// Whether the law sheds at present, in any lane. The graded law is judged by its bound instead.
    pub(crate) fn is_shedding(&self, mean_service_ns: u64) -> bool {
        self.lanes.iter().any(|lane| match (lane, self.law) {
            (Lane::Interval(state), Law::Interval { target_ns, .. }) => {
                state.stands_above(target_ns.max(mean_service_ns))
            }
            (Lane::Rfc8289(state), _) => state.is_dropping(),
            _ => false,
        })
    }
}

impl Law {
    fn interval_ns(self) -> u64 {
        match self {
            Self::Interval { interval_ns, .. } | Self::Rfc8289 { interval_ns, .. } => interval_ns,
            Self::Off | Self::Graded { .. } | Self::Cutoff { .. } => DEFAULT_INTERVAL_NS,
        }
    }

    /// Whether judging a job twice changes nothing.
    pub(crate) fn is_stateless(self) -> bool {
        !matches!(self, Self::Interval { .. } | Self::Rfc8289 { .. })
    }

    /// Whether nobody may wait longer, whatever the reason.
    pub(crate) fn is_hard(self) -> bool {
        matches!(self, Self::Cutoff { .. })
    }

    /// The wait that is aimed at: never below the time of one job.
    pub(crate) fn effective_target_ns(self, mean_service_ns: u64) -> Option<u64> {
        match self {
            Self::Off => None,
            Self::Cutoff { max_ns } => Some(max_ns),
            Self::Graded { target_ns }
            | Self::Interval { target_ns, .. }
            | Self::Rfc8289 { target_ns, .. } => Some(target_ns.max(mean_service_ns)),
        }
    }
}

impl Watch {
    /// Looks at the clock; whether that is the first look after a pause.
    #[inline]
    fn was_paused(&mut self, now_ns: u64, mean_service_ns: u64) -> bool {
        let since_ns = now_ns.saturating_sub(self.looked_ns);
        let paused =
            since_ns > PAUSE_NS && since_ns > mean_service_ns.saturating_mul(PAUSE_SERVICES);
        if paused {
            self.resumed_ns = now_ns;
        }
        // Stamps are taken before the lock, so they may come a little out of order.
        self.looked_ns = self.looked_ns.max(now_ns);
        paused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const UNKNOWN: Measured = Measured { mean_service_ns: 0, cut_ns: u64::MAX };

    fn wait(enqueued_ms: u64) -> Wait {
        Wait { lane: 1, enqueued_ns: enqueued_ms * MS, may_be_shed: true }
    }

    /// How many of ten jobs, queued at the start, are shed if all are taken at `at_ms`.
    fn shed_of_ten(law: Law, at_ms: u64) -> usize {
        let mut judge = Judge::new(law);
        (0..10).for_each(|_| judge.pushed(0, UNKNOWN));
        let measured = Measured { mean_service_ns: MS, cut_ns: 40 * MS };
        (0..10).filter(|_| judge.takes(wait(0), at_ms * MS, measured)).count()
    }

    #[test]
    fn a_pause_of_the_whole_process_sheds_nothing_but_by_a_hard_limit() {
        let hour_ms = 3_600_000;
        let (target_ns, interval_ns) = (5 * MS, 100 * MS);
        assert_eq!(shed_of_ten(Law::Graded { target_ns }, hour_ms), 0);
        assert_eq!(shed_of_ten(Law::Interval { target_ns, interval_ns }, hour_ms), 0);
        assert_eq!(shed_of_ten(Law::Rfc8289 { target_ns, interval_ns }, hour_ms), 0);
        assert_eq!(shed_of_ten(Law::Cutoff { max_ns: 20 * MS }, hour_ms), 10);
        assert_eq!(shed_of_ten(Law::Off, hour_ms), 0);
    }

    #[test]
    fn a_wait_beside_a_busy_worker_is_no_pause() {
        assert_eq!(shed_of_ten(Law::Graded { target_ns: 5 * MS }, 900), 10);
        assert_eq!(shed_of_ten(Law::Graded { target_ns: 5 * MS }, 39), 0);
    }

    /// Taken one by one or together, the same jobs are shed, and the same smallest wait is seen.
    #[test]
    fn a_batch_is_judged_like_its_jobs_one_by_one() {
        let measured = Measured { mean_service_ns: MS, cut_ns: 40 * MS };
        for law in [Law::Graded { target_ns: 5 * MS }, Law::Cutoff { max_ns: 30 * MS }, Law::Off] {
            for now_ms in [0, 20, 30, 31, 40, 41, 60, 100, 1_030, 2_000] {
                let mut one_by_one = Judge::new(law);
                one_by_one.pushed(10 * MS, measured);
                let mut together = one_by_one.clone();
                let jobs = || (0..60).map(|ms| (ms * MS, ms % 7 != 0));
                let now_ns = now_ms * MS;
                // The first is asked for by itself, as by a worker.
                let _ = one_by_one.takes(wait(60), now_ns, measured);
                let _ = together.takes(wait(60), now_ns, measured);
                let expected: Vec<_> = jobs()
                    .map(|(enqueued_ns, may_be_shed)| {
                        let wait = Wait { lane: 1, enqueued_ns, may_be_shed };
                        one_by_one.takes(wait, now_ns, measured)
                    })
                    .collect();
                let mut batch = together.takes_more(now_ns, measured);
                let shed: Vec<_> =
                    jobs().map(|(at_ns, may_be)| batch.takes(at_ns, may_be)).collect();
                together.has_taken(batch, now_ns);
                assert_eq!(shed, expected, "{law:?} at {now_ms} ms");
                // The interval ends with the next job.
                let later = Wait { may_be_shed: false, ..wait(now_ms) };
                for judge in [&mut one_by_one, &mut together] {
                    let _ = judge.takes(later, now_ns + DEFAULT_INTERVAL_NS + 1, measured);
                }
                assert_eq!(together.smallest_wait_ns(), one_by_one.smallest_wait_ns(), "{law:?}");
            }
        }
    }

    #[test]
    fn what_came_after_a_pause_is_judged_again() {
        let mut judge = Judge::new(Law::Graded { target_ns: 5 * MS });
        let measured = Measured { mean_service_ns: MS, cut_ns: 40 * MS };
        judge.pushed(0, measured);
        assert!(!judge.takes(wait(0), 5_000 * MS, measured), "it waited through the pause");
        judge.pushed(5_001 * MS, measured);
        assert!(judge.takes(wait(5_001), 5_100 * MS, measured));
    }

    #[test]
    fn sparse_traffic_does_not_escape_for_ever() {
        let (target_ns, interval_ns) = (5 * MS, 100 * MS);
        for law in
            [Law::Interval { target_ns, interval_ns }, Law::Rfc8289 { target_ns, interval_ns }]
        {
            let mut judge = Judge::new(law);
            // One job per 150 ms, each of which has waited 50 ms.
            let shed = (0..20)
                .filter(|&job| {
                    let enqueued_ms = job * 150;
                    judge.pushed(enqueued_ms * MS, UNKNOWN);
                    judge.takes(wait(enqueued_ms), (enqueued_ms + 50) * MS, UNKNOWN)
                })
                .count();
            assert!(shed >= 10, "{law:?} shed {shed}");
        }
    }

    #[test]
    fn an_idle_moment_is_a_new_beginning() {
        let (target_ns, interval_ns) = (5 * MS, 100 * MS);
        for law in
            [Law::Interval { target_ns, interval_ns }, Law::Rfc8289 { target_ns, interval_ns }]
        {
            let mut judge = Judge::new(law);
            let take = |judge: &mut Judge, now_ms: u64| {
                judge.takes(wait(now_ms - 50), now_ms * MS, UNKNOWN)
            };
            let shed = (50..500).filter(|&now_ms| take(&mut judge, now_ms)).count();
            assert!(shed > 0 && judge.is_shedding(0), "{law:?} shed {shed}");
            judge.forget();
            assert!(!judge.is_shedding(0) && judge.smallest_wait_ns().is_none());
            let shed = (501..600).filter(|&now_ms| take(&mut judge, now_ms)).count();
            assert_eq!(shed, 0, "{law:?}: within the first interval");
        }
    }

    #[test]
    fn the_target_is_never_below_the_mean_service_time() {
        let (target_ns, interval_ns) = (5 * MS, 100 * MS);
        let measured = Measured { mean_service_ns: 60 * MS, cut_ns: u64::MAX };
        for law in
            [Law::Interval { target_ns, interval_ns }, Law::Rfc8289 { target_ns, interval_ns }]
        {
            let mut judge = Judge::new(law);
            for now_ms in 50..1_000 {
                assert!(!judge.takes(wait(now_ms - 50), now_ms * MS, measured), "{law:?}");
            }
            assert_eq!(law.effective_target_ns(60 * MS), Some(60 * MS));
        }
    }

    #[test]
    fn critical_work_and_exempt_work_are_never_shed() {
        for law in [
            Law::Graded { target_ns: MS },
            Law::Interval { target_ns: MS, interval_ns: 10 * MS },
            Law::Rfc8289 { target_ns: MS, interval_ns: 10 * MS },
            Law::Cutoff { max_ns: MS },
        ] {
            let measured = Measured { mean_service_ns: 0, cut_ns: MS };
            let mut judge = Judge::new(law);
            for now_ms in 50..500 {
                let critical = Wait { lane: 3, ..wait(now_ms - 50) };
                let exempt = Wait { may_be_shed: false, ..wait(now_ms - 50) };
                assert!(!judge.takes(critical, now_ms * MS, measured), "{law:?}");
                assert!(!judge.takes(exempt, now_ms * MS, measured), "{law:?}");
            }
            assert!(judge.takes(wait(449), 500 * MS, measured), "{law:?}: others are");
        }
    }

    #[test]
    fn a_clock_that_runs_backwards_breaks_nothing() {
        for law in [
            Law::Graded { target_ns: MS },
            Law::Interval { target_ns: MS, interval_ns: 10 * MS },
            Law::Rfc8289 { target_ns: MS, interval_ns: 10 * MS },
            Law::Cutoff { max_ns: MS },
        ] {
            let mut judge = Judge::new(law);
            for now_ns in [u64::MAX, 5, u64::MAX / 2, 0, 7] {
                judge.pushed(now_ns, UNKNOWN);
                let late = Wait { lane: 0, enqueued_ns: u64::MAX, may_be_shed: true };
                assert!(!judge.takes(late, now_ns, UNKNOWN), "{law:?}: it has not waited");
            }
        }
    }
}

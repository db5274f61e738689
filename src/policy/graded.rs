//! The load-graded door: how many jobs may be queued before the next one is refused.
//!
//! A bound on the predicted wait that is always one target refuses bursts that the pool would have
//! served in time; one that is armed by a standing queue is a limit cycle: it empties the queue,
//! so it disarms, so the queue fills. This one is graded by the offered load, which its own
//! refusals don't change: four targets of patience up to the capacity, two in lasting overload, one
//! in a flood, and in between in proportion.
//!
//! The load is averaged twice. A slow average tells lasting overload from the bursts of ordinary
//! traffic, and so may be strict: it is enough that 8 % more is offered than can be done. A fast one
//! is there for floods: it answers within a tenth of a second, but only to what no burst looks like.
//!
//! Workers work it out about every 10 ms and publish the result as a number of jobs, so that the
//! door compares two integers.

/// The times over which the offered load is averaged.
const SLOW_TAU_NS: u64 = 1_000_000_000;
const FAST_TAU_NS: u64 = 100_000_000;
/// The same for long jobs, in effective targets: an average needs some jobs to average over.
const SLOW_TAU_TARGETS: u64 = 80;
const FAST_TAU_TARGETS: u64 = 8;

/// With fewer service times than this a predicted wait is guesswork: only the capacity refuses.
pub(crate) const ENOUGH_JOBS: u64 = 50;

/// The offered loads between which lasting overload, and a flood, count in proportion. Below the
/// first nobody is refused who would be served in four targets; a load of 1.02 is what averages of a
/// load below 1 hardly reach.
const OVERLOAD: (f64, f64) = (1.02, 1.08);
const FLOOD: (f64, f64) = (1.4, 1.8);

/// The patience of the door, in targets: with no overload, in lasting overload, in a flood. Two in the
/// middle, since with few workers and odd jobs a shorter queue runs dry at a load just above the
/// capacity.
const PATIENCE: f64 = 4.0;
const PATIENCE_OVERLOADED: f64 = 2.0;
const PATIENCE_FLOODED: f64 = 1.0;

/// At dequeue, what has waited for so many targets is shed: the prediction was wrong, and with
/// patience at its end an answer is of no use. In overload twice the target.
const CUT: f64 = 4.0;
const CUT_OVERLOADED: f64 = 2.0;

/// What is known at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed {
    /// Jobs that came to the door since the pool was built: the accepted, and those refused for
    /// want of capacity.
    pub(crate) arrivals: u64,
    pub(crate) mean_service_ns: u64,
    /// How many service times went into the mean.
    pub(crate) served: u64,
    /// A fraction where some take jobs for a part of the time only.
    pub(crate) active_workers: f64,
}

/// What the door and the workers go by until the next one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Plan {
    /// A job is refused if so many of its own class and above are queued.
    pub(crate) door_jobs: usize,
    /// The wait that those jobs amount to.
    pub(crate) bound_ns: u64,
    /// The wait beyond which a job is shed when a worker takes it.
    pub(crate) cut_ns: u64,
}

impl Plan {
    /// Before anything is known.
    pub(crate) const OPEN: Self =
        Self { door_jobs: usize::MAX, bound_ns: u64::MAX, cut_ns: u64::MAX };

    /// Less patience for lasting overload, and for a flood still less; both from 0 to 1.
    fn graded(target_ns: u64, observed: Observed, overloaded: f64, flooded: f64) -> Self {
        let targets = PATIENCE
            - (PATIENCE - PATIENCE_OVERLOADED) * overloaded
            - (PATIENCE_OVERLOADED - PATIENCE_FLOODED) * flooded;
        let bound_ns = target_ns as f64 * targets;
        let cut_ns = target_ns as f64 * (CUT - (CUT - CUT_OVERLOADED) * overloaded);
        let workers = observed.active_workers.max(1.0);
        Self {
            // At least one per worker, since the target is never below one service time.
            door_jobs: (bound_ns * workers / observed.mean_service_ns as f64) as usize,
            bound_ns: bound_ns as u64,
            cut_ns: cut_ns as u64,
        }
    }
}

impl Observed {
    fn knows_too_little(self) -> bool {
        self.served < ENOUGH_JOBS || self.mean_service_ns == 0
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Graded {
    target_ns: u64,
    offered: Offered,
}

/// The offered load, as a multiple of what the active workers can do.
#[derive(Clone, Copy, Debug, Default)]
struct Offered {
    slow: f64,
    fast: f64,
    arrivals: u64,
    updated_ns: u64,
}

impl Graded {
    pub(crate) fn new(target_ns: u64) -> Self {
        Self { target_ns, offered: Offered::default() }
    }

    /// A new plan from what is observed now.
    pub(crate) fn plan(&mut self, now_ns: u64, observed: Observed) -> Plan {
        let target_ns = self.target_ns.max(observed.mean_service_ns);
        self.offered.update(now_ns, observed, target_ns);
        if observed.knows_too_little() {
            return Plan::OPEN;
        }
        let flooded = share_of(FLOOD, self.offered.fast);
        let overloaded = share_of(OVERLOAD, self.offered.slow).max(flooded);
        Plan::graded(target_ns, observed, overloaded, flooded)
    }

    /// The plan for a pool that has nothing to do, whatever was before: with all patience. The
    /// averages stay as they are, since a moment without work is no end of an overload; time will
    /// tell.
    pub(crate) fn plan_at_rest(&self, observed: Observed) -> Plan {
        if observed.knows_too_little() {
            return Plan::OPEN;
        }
        Plan::graded(self.target_ns.max(observed.mean_service_ns), observed, 0.0, 0.0)
    }

    /// The offered load, as a multiple of the capacity, over the last second or so.
    pub(crate) fn offered_load(&self) -> f64 {
        self.offered.slow
    }
}

/// How far `load` is on its way through the range, from 0 to 1.
fn share_of((from, to): (f64, f64), load: f64) -> f64 {
    ((load - from) / (to - from)).clamp(0.0, 1.0)
}

impl Offered {
    fn update(&mut self, now_ns: u64, observed: Observed, target_ns: u64) {
        if now_ns == self.updated_ns {
            return;
        }
        let elapsed_ns = now_ns.checked_sub(self.updated_ns);
        let arrived = observed.arrivals.saturating_sub(self.arrivals);
        (self.updated_ns, self.arrivals) = (now_ns, observed.arrivals);
        // After a clock was set back, a new beginning.
        let Some(elapsed_ns) = elapsed_ns else { return };
        let work_ns = arrived as f64 * observed.mean_service_ns as f64;
        let load = work_ns / (elapsed_ns as f64 * observed.active_workers.max(1.0));
        let weight = |tau_ns: u64, targets: u64| {
            let tau_ns = tau_ns.max(target_ns.saturating_mul(targets));
            -(-(elapsed_ns as f64) / tau_ns as f64).exp_m1()
        };
        self.slow += weight(SLOW_TAU_NS, SLOW_TAU_TARGETS) * (load - self.slow);
        self.fast += weight(FAST_TAU_NS, FAST_TAU_TARGETS) * (load - self.fast);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The plan after `seconds` of this load on 8 workers with jobs of a millisecond.
    fn plan_at(load: f64, seconds: u64) -> Plan {
        let mut graded = Graded::new(5 * MS);
        let per_10_ms = load * 8.0 * 10.0;
        let mut plan = Plan::OPEN;
        for tick in 1..=seconds * 100 {
            let observed = Observed {
                arrivals: (per_10_ms * tick as f64) as u64,
                mean_service_ns: MS,
                served: 1_000,
                active_workers: 8.0,
            };
            plan = graded.plan(tick * 10 * MS, observed);
        }
        plan
    }

    #[test]
    fn patience_goes_from_four_targets_to_one_with_the_load() {
        for (load, jobs) in [(0.1, 160), (1.0, 160), (1.05, 120), (1.2, 80), (2.5, 40), (10.0, 40)]
        {
            let plan = plan_at(load, 10);
            assert!(plan.door_jobs.abs_diff(jobs) <= 4, "at {load}: {plan:?}");
            let waited_ms = plan.door_jobs as u64 / 8;
            assert!(plan.bound_ns.abs_diff(waited_ms * MS) <= MS, "at {load}: {plan:?}");
            assert!(plan.bound_ns <= plan.cut_ns && plan.cut_ns <= 2 * plan.bound_ns, "{plan:?}");
        }
    }

    #[test]
    fn a_step_from_half_to_two_and_a_half_is_noticed_in_150_ms() {
        let mut graded = Graded::new(5 * MS);
        let mut arrivals = 0;
        let mut armed_after_ms = None;
        for tick in 1..=200 {
            arrivals += if tick <= 100 { 40 } else { 200 };
            let observed =
                Observed { arrivals, mean_service_ns: MS, served: 1_000, active_workers: 8.0 };
            let plan = graded.plan(tick * 10 * MS, observed);
            if plan.door_jobs <= 41 && armed_after_ms.is_none() {
                armed_after_ms = Some((tick - 100) * 10);
            }
        }
        let armed_after_ms = armed_after_ms.expect("armed");
        assert!((20..150).contains(&armed_after_ms), "{armed_after_ms} ms");
    }

    #[test]
    fn below_fifty_service_times_only_the_capacity_refuses() {
        let mut graded = Graded::new(5 * MS);
        let observed =
            |served| Observed { arrivals: 0, mean_service_ns: MS, served, active_workers: 8.0 };
        assert_eq!(graded.plan(10 * MS, observed(49)), Plan::OPEN);
        assert_eq!(graded.plan(20 * MS, observed(50)).door_jobs, 160, "and 160 are 20 ms");
    }

    #[test]
    fn each_worker_may_have_a_job_waiting_however_long_jobs_are() {
        for mean_service_ns in [1, MS, 5 * MS, 5 * MS + 1, 100 * MS, 3_600_000 * MS, u64::MAX / 64]
        {
            let mut graded = Graded::new(5 * MS);
            let observed =
                Observed { arrivals: u64::MAX, mean_service_ns, served: 50, active_workers: 8.0 };
            let plan = graded.plan(10 * MS, observed);
            assert!(plan.door_jobs >= 8, "{mean_service_ns}: {plan:?}");
        }
    }

    #[test]
    fn fewer_active_workers_have_a_shorter_queue() {
        let plan = |active_workers| {
            let observed =
                Observed { arrivals: 0, mean_service_ns: MS, served: 1_000, active_workers };
            Graded::new(5 * MS).plan(10 * MS, observed).door_jobs
        };
        assert_eq!((plan(8.0), plan(1.0), plan(0.0)), (160, 20, 20));
    }

    #[test]
    fn a_clock_that_jumps_breaks_nothing() {
        let mut graded = Graded::new(5 * MS);
        for now_ns in [0, u64::MAX, 3, u64::MAX - 1, 0] {
            let observed =
                Observed { arrivals: now_ns, mean_service_ns: MS, served: 99, active_workers: 2.0 };
            let plan = graded.plan(now_ns, observed);
            assert!(plan.door_jobs >= 2 && graded.offered_load().is_finite());
        }
    }
}

//! What the workers measure, made into what the door goes by.
//!
//! There is no thread for this. Workers hand over what they have gathered as they go along; whoever
//! finds the lock taken tries again later, so nobody waits here who has work to do. Before a worker
//! sleeps it does wait: there might be no later.

use std::time::Duration;

use super::gather::Gathered;
use crate::admission::pressure::Pressure;
use crate::observe::snapshot::ClassFigures;
use crate::policy::delay::Law;
use crate::policy::graded::{Graded, Observed, Plan};
use crate::policy::limit::{Batch, Limiter};
use crate::policy::service::MeanServiceTime;
use crate::priority::Class;
use crate::sync::stat::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, Relaxed};

/// The plan of the door is renewed this often, if jobs end.
const PLAN_EVERY_NS: u64 = 10_000_000;
/// So far before the last plan a clock was set back. A worker may come with an older time than another, if it
/// has lost its core between the clock and the lock.
const SET_BACK_NS: u64 = 1_000_000_000;

/// What counts as a backlog for the CPU gate where no queue delay is set.
const DEFAULT_TARGET_NS: u64 = 5_000_000;

pub(crate) struct Control {
    pressure: Arc<Pressure>,
    law: Law,
    /// The adaptive limit; [`usize::MAX`] if there is none.
    limit: AtomicUsize,
    state: Mutex<State>,
    /// Of the last plan, for the eye.
    bound_ns: AtomicU64,
    /// Whether the last plan has less than all patience.
    strict: AtomicBool,
}

struct State {
    service: MeanServiceTime,
    /// One per class.
    classes: Box<[ClassMeans]>,
    graded: Option<Graded>,
    planned_ns: u64,
    /// Some kilobytes, which most pools don't need.
    limiter: Option<Box<Limiter>>,
}

#[derive(Clone, Copy, Default)]
struct ClassMeans {
    service: MeanServiceTime,
    cpu: MeanServiceTime,
}

/// What the pool is like when measurements are handed over.
pub(crate) struct Surroundings<A> {
    pub(crate) capacity: usize,
    /// How many jobs came to the door so far; asked only if a plan is due.
    pub(crate) arrivals: A,
    /// Whether something else refuses already, so that a limit must not rise.
    pub(crate) refusing: bool,
    /// Whether the worker has something better to do than to wait.
    pub(crate) in_a_hurry: bool,
}

impl Control {
    pub(crate) fn new(
        law: Law,
        limiter: Option<Limiter>,
        capacity: usize,
        pressure: Arc<Pressure>,
    ) -> Self {
        let graded = match law {
            Law::Graded { target_ns } => Some(Graded::new(target_ns)),
            _ => None,
        };
        let mut state = State {
            service: MeanServiceTime::default(),
            classes: vec![ClassMeans::default(); Class::COUNT].into(),
            graded,
            planned_ns: 0,
            limiter: limiter.map(Box::new),
        };
        let limit = state.limiter.as_mut().map_or(usize::MAX, |limiter| limiter.limit(capacity));
        Self {
            pressure,
            law,
            limit: AtomicUsize::new(limit),
            state: Mutex::new(state),
            bound_ns: AtomicU64::new(u64::MAX),
            strict: AtomicBool::new(false),
        }
    }

    /// Takes in what a worker has gathered, unless it is in a hurry and another is at it. True if the
    /// adaptive limit may have changed.
    pub(crate) fn hand_over(
        &self,
        gathered: &mut Gathered,
        now_ns: u64,
        surroundings: Surroundings<impl FnOnce() -> u64>,
    ) -> bool {
        let state =
            if surroundings.in_a_hurry { self.state.try_lock() } else { Some(self.state.lock()) };
        let Some(mut state) = state else { return false };
        let State { service, classes, limiter, .. } = &mut *state;
        let in_flight = gathered.most_in_flight();
        let panicked = gathered.take_panicked();
        service.add(now_ns, panicked.jobs, panicked.service_ns);
        for (class, sum) in gathered.drain(now_ns) {
            service.add(now_ns, sum.jobs, sum.service_ns);
            let means = &mut classes[class.index()];
            means.service.add(now_ns, sum.jobs, sum.service_ns);
            means.cpu.add(now_ns, sum.cpu_jobs, sum.cpu_ns);
            if let Some(limiter) = limiter {
                let Class(class) = class;
                let (jobs, service_ns) = (sum.jobs, sum.service_ns);
                let batch = Batch { class, jobs, service_ns, in_flight };
                limiter.add(now_ns, batch, surroundings.capacity, !surroundings.refusing);
            }
        }
        self.pressure.set_mean_service_ns(state.service.mean_ns().unwrap_or(0).max(1));
        let is_due = now_ns.saturating_sub(state.planned_ns) >= PLAN_EVERY_NS;
        let is_set_back = state.planned_ns.saturating_sub(now_ns) >= SET_BACK_NS;
        if is_due || is_set_back {
            state.planned_ns = now_ns;
            self.plan(&mut state, now_ns, surroundings.arrivals);
        }
        let Some(limiter) = &mut state.limiter else { return false };
        let limit = limiter.limit(surroundings.capacity);
        self.limit.swap(limit, Relaxed) != limit
    }

    /// Works out the door's integers anew.
    fn plan(&self, state: &mut State, now_ns: u64, arrivals: impl FnOnce() -> u64) {
        let Some(mean_service_ns) = state.service.mean_ns().filter(|&mean_ns| mean_ns > 0) else {
            return;
        };
        let target_ns = self.law.effective_target_ns(mean_service_ns);
        let target_ns = target_ns.unwrap_or(DEFAULT_TARGET_NS.max(mean_service_ns));
        let target_jobs = target_ns as f64 * self.pressure.active_level() / mean_service_ns as f64;
        // As far as it goes: what is too large saturates.
        self.pressure.set_target_jobs(target_jobs as usize);
        let Some(graded) = &mut state.graded else { return };
        let observed = self.observed(&state.service, arrivals());
        let plan = graded.plan(now_ns, observed);
        self.strict.store(plan.bound_ns < graded.plan_at_rest(observed).bound_ns, Relaxed);
        self.publish(plan);
    }

    /// All workers have run out of work: what was before says nothing of what comes next, so the door
    /// has all its patience until it knows better.
    pub(crate) fn rest(&self) {
        if !self.strict.load(Relaxed) {
            return;
        }
        let state = self.state.lock();
        if let Some(graded) = &state.graded {
            self.strict.store(false, Relaxed);
            self.publish(graded.plan_at_rest(self.observed(&state.service, 0)));
        }
    }

    fn observed(&self, service: &MeanServiceTime, arrivals: u64) -> Observed {
        Observed {
            arrivals,
            mean_service_ns: service.mean_ns().unwrap_or(0),
            served: service.jobs(),
            active_workers: self.pressure.active_level(),
        }
    }

    fn publish(&self, Plan { door_jobs, bound_ns, cut_ns }: Plan) {
        self.pressure.set_plan(door_jobs, cut_ns);
        self.bound_ns.store(bound_ns, Relaxed);
    }

    /// The capacity is another; the adaptive limit may be so, too.
    pub(crate) fn resize(&self, capacity: usize) {
        if let Some(limiter) = &self.state.lock().limiter {
            self.limit.store(limiter.limit(capacity), Relaxed);
        }
    }

    /// The adaptive limit, if there is one.
    pub(crate) fn limit(&self) -> Option<usize> {
        let limit = self.limit.load(Relaxed);
        (limit != usize::MAX).then_some(limit)
    }

    /// The law of the queue delay.
    pub(crate) fn law(&self) -> Law {
        self.law
    }

    /// The wait that the graded door allows at present, once it knows enough.
    pub(crate) fn bound(&self) -> Option<Duration> {
        let bound_ns = self.bound_ns.load(Relaxed);
        (bound_ns != u64::MAX).then(|| Duration::from_nanos(bound_ns))
    }

    /// The offered load as the graded door would see it now.
    pub(crate) fn offered_load(&self, now_ns: u64, arrivals: u64) -> Option<f64> {
        let state = self.state.lock();
        let mut graded = state.graded.clone()?;
        graded.plan(now_ns, self.observed(&state.service, arrivals));
        Some(graded.offered_load())
    }

    /// What was learned of each class. None of it on the stack, which may be a small one.
    pub(crate) fn classes(&self) -> Box<[ClassFigures]> {
        let classes = self.state.lock().classes.clone();
        let duration = |mean: MeanServiceTime| mean.mean_ns().map(Duration::from_nanos);
        let figures = |&ClassMeans { service, cpu }: &ClassMeans| ClassFigures {
            jobs: service.jobs(),
            mean_service_time: duration(service),
            mean_cpu_time: duration(cpu),
        };
        classes.iter().map(figures).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::gather::Cost;
    use super::*;

    /// Whether a plan was made of what a worker hands over at each of these times.
    fn plans(at_us: &[u64]) -> Vec<bool> {
        let law = Law::Graded { target_ns: DEFAULT_TARGET_NS };
        let control = Control::new(law, None, 64, Arc::new(Pressure::new(2, 0)));
        let hands_over = |at_us: &u64| {
            let mut gathered = Gathered::new();
            gathered.add(Cost {
                class: Class::default(),
                returned: true,
                service_ns: 1_000,
                cpu_ns: None,
                in_flight: 1,
            });
            let mut planned = false;
            let arrivals = || {
                planned = true;
                0
            };
            let surroundings =
                Surroundings { capacity: 64, arrivals, refusing: false, in_a_hurry: true };
            control.hand_over(&mut gathered, at_us * 1_000, surroundings);
            planned
        };
        at_us.iter().map(hands_over).collect()
    }

    #[test]
    fn a_plan_is_made_each_ten_milliseconds_and_when_the_clock_is_set_back() {
        let set_back = [1_120_000, 1_129_999, 1_130_000, 130_000, 139_999, 140_000];
        assert_eq!(plans(&set_back), [true, false, true, true, false, true]);
        assert_eq!(plans(&[100_000, 109_999, 110_000]), [true, false, true]);
    }

    /// It would be made of hardly any arrivals, and would forget those that belong to the next.
    #[test]
    fn a_worker_that_comes_late_with_its_time_makes_none() {
        let late = [1_100_000, 1_099_900, 1_080_000, 110_001, 1_110_000];
        assert_eq!(plans(&late), [true, false, false, false, true]);
    }
}

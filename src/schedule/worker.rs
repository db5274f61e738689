//! One worker: what it takes next, how it runs it, and when it sleeps.

mod joining;
mod picking;

pub(crate) use joining::InPlace;

use std::cell::{Cell, RefCell};
use std::ptr::null;
use std::time::Duration;

use super::core::{Core, Hook};
use super::gather::{Cost, Gathered};
use super::lanes::{Lanes, Taken};
use super::nested::{Nest, Shelf};
use super::stack::Stack;
use crate::admission::partition;
use crate::contain::call_contained;
use crate::error::{BuildError, ShedReason};
use crate::job::{JobRef, JobView, Outcome, Running};
use crate::observe::counters::Counted;
use crate::policy::ageing::Turns;
use crate::policy::contention::active_at;
use crate::priority::{Class, Priority};
use crate::sense::cpu::thread_cpu_ns;
use crate::sync::{Arc, Place, local, spin_until, system_now, thread};

/// Of short jobs, the CPU time of one in so many picks is measured.
const MEASURE_EVERY: u32 = 256;

/// A worker that is one too many looks this often whether it still is; once in a slice of
/// [`active_at`].
const STAND_BY_LOOK: Duration = Duration::from_millis(10);
/// It takes a job all the same when none has ended for this long, or for so many mean service times.
const STAND_BY: Duration = Duration::from_millis(100);
const STAND_BY_SERVICES: u32 = 4;

local! {
    static CURRENT: Cell<*const Worker> = Cell::new(null());
}

/// A worker thread's own state; lives on its stack, reached through [`Worker::with_current`].
pub(crate) struct Worker {
    core: Arc<Core>,
    index: usize,
    nest: Nest,
    stack: Stack,
    random: RefCell<fastrand::Rng>,
    /// The body on top of this thread's stack, null if there is none.
    body: Cell<*const Body>,
    searching: Cell<bool>,
    turns: Turns,
    picks: Cell<u32>,
    /// How often it came to the normal lane with nothing in hand.
    lane_visits: Cell<u32>,
    /// When it took its handful.
    stowed_ns: Cell<u64>,
    /// Where in its handful the next job is, if there is one left.
    next_in_hand: Cell<usize>,
    /// Time spent in jobs run in place under the present body, which isn't its own.
    in_place_ns: Cell<u64>,
    gathered: RefCell<Gathered>,
    /// Where it listens for the end of the last job of a closed pool.
    settled: RefCell<Place>,
}

/// What a body's surroundings are; restored when a job run in place returns.
#[derive(Clone, Copy)]
pub(crate) struct Body {
    pub(crate) job: JobView,
    /// The body below, which waits for this one.
    parent: *const Body,
    pub(crate) priority: Priority,
    pub(crate) class: Class,
    pub(crate) deadline_ns: u64,
    pub(crate) partition: Option<partition::Index>,
    pub(crate) queued_for_ns: u64,
}

/// Starts the workers; on failure those already started have exited.
pub(crate) fn start(core: &Arc<Core>, nests: Vec<Nest>) -> Result<(), BuildError> {
    for (index, nest) in nests.into_iter().enumerate() {
        let builder = thread::Builder::new().name(format!("{}-{index}", core.settings.name));
        // loom's threads have stacks of their own kind.
        #[cfg(not(all(loom, feature = "loom")))]
        let builder = builder.stack_size(core.settings.stack_size);
        let shared = Arc::clone(core);
        core.stop.thread_starts();
        match builder.spawn(move || main(shared, index, nest)) {
            Ok(thread) => core.stop.keep_thread(thread),
            Err(error) => {
                core.stop.thread_exits();
                core.close();
                core.stop.join_threads();
                return Err(BuildError::Spawn(error));
            }
        }
    }
    Ok(())
}

/// A worker thread's whole life.
fn main(core: Arc<Core>, index: usize, nest: Nest) {
    // Dropped last: whatever happens in here, who waits for the threads learns that this one left.
    struct Leaving(Arc<Core>);
    impl Drop for Leaving {
        fn drop(&mut self) {
            // In a forked child, locks may be held for ever by threads that don't exist.
            if !self.0.is_forked() {
                self.0.stop.thread_exits();
            }
        }
    }
    let leaving = Leaving(core);
    let worker = Worker::new(Arc::clone(&leaving.0), index, nest);
    let gauge = &worker.core.gauge;
    let _clock = gauge.is_watching().then(|| gauge.clocks().register(index));
    let _entered = worker.enter();
    worker.call_hook(worker.core.hooks.on_thread_start.as_ref());
    worker.work();
    worker.call_hook(worker.core.hooks.on_thread_stop.as_ref());
}

/// While it lives, the thread knows its worker.
struct Entered<'a>(&'a Worker);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        CURRENT.with(|current| current.set(null()));
        // What is left in there are tombstones: the pool is over, so every job has ended.
        while let Some(job) = self.0.nest.pop() {
            self.0.core.bury(job);
        }
        while self.0.shelf().handful().steal().is_some() {}
    }
}

impl Worker {
    fn new(core: Arc<Core>, index: usize, nest: Nest) -> Self {
        let seed = core.settings.seed.wrapping_add(index as u64);
        Self {
            stack: Stack::here(core.settings.stack_size),
            random: RefCell::new(fastrand::Rng::with_seed(seed)),
            core,
            index,
            nest,
            body: Cell::new(null()),
            searching: Cell::new(false),
            turns: Turns::default(),
            picks: Cell::new(0),
            lane_visits: Cell::new(0),
            stowed_ns: Cell::new(0),
            next_in_hand: Cell::new(0),
            in_place_ns: Cell::new(0),
            gathered: RefCell::new(Gathered::new()),
            settled: RefCell::default(),
        }
    }

    fn enter(&self) -> Entered<'_> {
        CURRENT.with(|current| current.set(self));
        Entered(self)
    }

    /// The worker of the calling thread, if it is one.
    #[inline]
    pub(crate) fn with_current<R>(f: impl FnOnce(Option<&Self>) -> R) -> R {
        let current = CURRENT.try_with(Cell::get).unwrap_or(null());
        // SAFETY: the pointer is null, or was set by `enter` on this thread to a worker on this
        // thread's stack; `Entered` borrows it and resets the pointer before it goes.
        f(unsafe { current.as_ref() })
    }

    pub(crate) fn is_current_of(core: &Core) -> bool {
        Self::with_current(|worker| worker.is_some_and(|worker| worker.is_of(core)))
    }

    #[inline]
    pub(crate) fn is_of(&self, core: &Core) -> bool {
        std::ptr::eq(&*self.core, core)
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// The body on top of this thread's stack, if there is one.
    #[inline]
    pub(crate) fn body(&self) -> Option<Body> {
        // SAFETY: it is null, or points to a local of the innermost call of `run`, which sets it back
        // before it returns.
        unsafe { self.body.get().as_ref() }.copied()
    }

    pub(super) fn shelves(&self) -> &[Shelf] {
        &self.core.shelves
    }

    fn shelf(&self) -> &Shelf {
        &self.core.shelves[self.index]
    }

    fn lanes(&self) -> &Lanes {
        &self.core.lanes
    }

    #[inline]
    fn counted(&self) -> Counted<'_> {
        self.core.counters.by_worker(self.index)
    }

    fn call_hook(&self, hook: Option<&Hook>) {
        let Some(hook) = hook.filter(|_| !self.core.is_forked()) else { return };
        if !call_contained(&***hook) {
            self.counted().contained(1);
        }
    }

    // ── The loop ────────────────────────────────────────────────────────────────────────────

    fn work(&self) {
        let mut now_ns = self.core.time.now_ns();
        // A body may have forked, and returned in the child: that is no worker.
        while !self.core.is_forked() {
            if self.is_surplus(now_ns) && !self.stand_by() {
                now_ns = self.core.time.now_ns();
                continue;
            }
            if let Some(taken) = self.pick(now_ns) {
                if self.searching.replace(false) {
                    self.found_work();
                }
                // The end of one job is the start of the next: one clock read per job.
                now_ns = self.take_up(taken, now_ns);
            } else if self.rest(now_ns) {
                now_ns = self.core.time.now_ns();
            } else {
                return;
            }
        }
    }

    /// Whether this worker is one too many for the CPU that there is.
    #[inline]
    fn is_surplus(&self, now_ns: u64) -> bool {
        let level = self.core.pressure.active_level();
        level < self.core.settings.workers as f64
            && self.index >= active_at(level, now_ns)
            && self.core.has_work()
    }

    /// Leaves the work to the others while the CPU is contended. True if no worker has ended anything
    /// for so long that this worker had better take a job all the same: those that may take jobs could
    /// be waiting for one that is queued.
    ///
    /// It polls, since it waits for a time to come; but only while there is work. While it does it is
    /// neither a sleeper nor a searcher: nobody relies on it, as if it ran a long body.
    #[cold]
    fn stand_by(&self) -> bool {
        if self.searching.replace(false) {
            self.found_work();
        } else {
            self.wake_peer();
        }
        let patience = Duration::from_nanos(self.core.pressure.mean_service_ns());
        let patience = STAND_BY.max(patience.saturating_mul(STAND_BY_SERVICES));
        let ends = self.core.counters.ends_by_workers();
        let began = system_now();
        loop {
            let now = system_now();
            self.core.sleep.parker(self.index).park_until(now.checked_add(STAND_BY_LOOK));
            let now_ns = self.core.time.now_ns();
            self.core.sample_cpu(now_ns);
            if !self.is_surplus(now_ns) || self.core.counters.ends_by_workers() != ends {
                return false;
            }
            if system_now().saturating_duration_since(began) >= patience {
                return true;
            }
        }
    }

    /// The search is over. The last searcher sees to it that what was pushed meanwhile, relying on
    /// it, is found.
    fn found_work(&self) {
        if self.core.sleep.stop_searching() && self.core.has_work() {
            self.core.sleep.notify(|| self.lanes().queued());
        }
    }

    /// Nothing to do: looks around a little longer, then sleeps until there may be something.
    /// False once the pool is over.
    fn rest(&self, now_ns: u64) -> bool {
        self.hand_over(now_ns, false);
        if !self.searching.replace(true) {
            self.core.sleep.start_searching();
        }
        if spin_until(|| self.core.has_work()) {
            return true;
        }
        self.core.ledger.take_in_before_sleep(self.index);
        if self.core.sleep.fall_asleep(self.index) {
            self.core.comes_to_rest();
        }
        let over = self.is_over();
        if !over && !self.core.has_work() {
            self.core.sleep.parker(self.index).park();
        }
        self.core.sleep.get_up(self.index);
        !over
    }

    /// Whether every job of a closed pool has ended. If not yet, the last one's end wakes us.
    fn is_over(&self) -> bool {
        if !self.core.ledger.is_closed() {
            return false;
        }
        let waker = self.core.sleep.parker(self.index).waker();
        self.core.ledger.settled().listen(&mut self.settled.borrow_mut(), &waker);
        self.core.ledger.watch().is_over()
    }

    // ── One job ─────────────────────────────────────────────────────────────────────────────

    /// Runs the job, or sheds it, or buries what is left of it. Returns the time afterwards.
    pub(super) fn take_up(&self, Taken { job, overdue }: Taken, now_ns: u64) -> u64 {
        let unrun = if self.core.stop.is_discarding() {
            Some(Outcome::Discarded)
        } else if job.deadline_ns() <= now_ns {
            Some(Outcome::Shed(ShedReason::Deadline))
        } else if overdue {
            Some(Outcome::Shed(ShedReason::QueueDelay))
        } else {
            None
        };
        if let Some(outcome) = unrun {
            let ended = self.core.end_unrun(job, outcome, self.counted());
            // Destructors may have taken their time.
            return if ended { self.core.time.now_ns() } else { now_ns };
        }
        match job.start() {
            Ok(running) => self.run(running, now_ns),
            Err(tombstone) => {
                self.core.bury(tombstone);
                now_ns
            }
        }
    }

    fn run(&self, running: Running, started_ns: u64) -> u64 {
        let job = running.job();
        let body = Body {
            job: job.view(),
            parent: self.body.get(),
            priority: job.priority(),
            class: job.class(),
            deadline_ns: job.deadline_ns(),
            partition: job.partition(),
            queued_for_ns: started_ns.saturating_sub(job.enqueued_ns()),
        };
        if body.parent.is_null() {
            self.nest.begin_root(job, self.shelf());
        }
        self.body.set(&raw const body);
        let parents_in_place_ns = self.in_place_ns.replace(0);
        self.counted().started();

        let cpu_before = self.should_measure_cpu(body.class).then(thread_cpu_ns).flatten();

        let ended = running.run();

        let cpu_after = cpu_before.and_then(|_| thread_cpu_ns());
        self.body.set(body.parent);
        let returned = ended.outcome() == Outcome::Completed;
        self.core.end(ended, self.counted());

        let now_ns = self.core.time.now_ns();
        let elapsed_ns = now_ns.saturating_sub(started_ns);
        let children_ns = self.in_place_ns.replace(parents_in_place_ns.saturating_add(elapsed_ns));
        let service_ns = elapsed_ns.saturating_sub(children_ns);
        // The job that has just ended was in flight, too.
        let in_flight = self.core.in_flight_if_limited().map_or(0, |others| others + 1);
        // What was run in place is not this job's own.
        let cpu_ns = cpu_after.filter(|_| children_ns == 0).zip(cpu_before);
        let cpu_ns = cpu_ns.map(|(after, before)| after.saturating_sub(before));
        self.gather(Cost { class: body.class, returned, service_ns, cpu_ns, in_flight }, now_ns);
        now_ns
    }

    /// Queues a job that the present body submits.
    pub(crate) fn push_nested(&self, job: JobRef, now_ns: u64) {
        self.nest.push(job, self.shelf(), now_ns);
    }

    // ── Measuring ───────────────────────────────────────────────────────────────────────────

    /// Whether to spend two readings of the thread's CPU clock, some 600 ns, on the next job.
    #[inline]
    fn should_measure_cpu(&self, class: Class) -> bool {
        self.picks.get() % MEASURE_EVERY == 0 || self.gathered.borrow().is_long(class)
    }

    /// Notes what a body has cost.
    #[inline]
    fn gather(&self, cost: Cost, now_ns: u64) {
        let due = {
            let mut gathered = self.gathered.borrow_mut();
            gathered.add(cost);
            gathered.is_due(now_ns)
        };
        if due || self.core.pressure.mean_service_ns() == 0 {
            self.hand_over(now_ns, true);
        }
        // In a forked child locks may be held for ever by threads that don't exist.
        if self.core.gauge.is_due(now_ns) && !self.core.is_forked() {
            self.core.gauge.clocks().note(self.index);
            self.core.sample_cpu(now_ns);
        }
    }

    fn hand_over(&self, now_ns: u64, in_a_hurry: bool) {
        let mut gathered = self.gathered.borrow_mut();
        if !gathered.is_empty() {
            self.core.hand_over(&mut gathered, now_ns, in_a_hurry);
        }
    }
}

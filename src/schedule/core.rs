//! What a pool's handles and its workers share, and the way of a job through it:
//! [`admit`](Core::admit) → [`push`](Core::push) → … → [`end`](Core::end).

use std::ptr::NonNull;

use super::complaints::Complaints;
use super::control::Control;
use super::gauge::{Gauge, Parts};
use super::handful;
use super::inside::{Doing, step_inside};
use super::lanes::Lanes;
use super::nested::{self, Nest, Shelf};
use super::sleep::Sleep;
use super::stop::Stop;
use super::worker::Worker;
use crate::admission::ledger::{Ledger, Slot};
use crate::admission::partition::Partition;
use crate::admission::pressure::Pressure;
use crate::admission::{Ask, Checks};
use crate::contain::{Contained, Payload, call_contained, drop_contained, drop_payload};
use crate::error::Panic;
use crate::job::{Ended, JobRef, Origin, Outcome, Reservation, Seized};
use crate::observe::counters::{Counted, Counters};
use crate::policy::delay::Law;
use crate::policy::limit::Limiter;
use crate::sense::clock::Timeline;
use crate::sense::fork::Generation;
use crate::sync::stat::{Arc as StatArc, AtomicU64, Relaxed};
use crate::sync::{Arc, AtomicUsize, Bell, Ordering};

/// What the builder has validated.
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) workers: usize,
    pub(crate) capacity: usize,
    pub(crate) critical_reserve: usize,
    /// In the order of their index, each with its name.
    pub(crate) partitions: Vec<(String, Partition)>,
    pub(crate) max_bytes: Option<u64>,
    pub(crate) stack_size: usize,
    pub(crate) ageing_bound_ns: u64,
    pub(crate) law: Law,
    pub(crate) seed: u64,
}

pub(crate) type Hook = Contained<Box<dyn Fn() + Send + Sync>>;
type PanicHandler = Contained<Box<dyn Fn(Panic) + Send + Sync>>;

/// User code that the pool calls.
#[derive(Default)]
pub(crate) struct Hooks {
    pub(crate) on_thread_start: Option<Hook>,
    pub(crate) on_thread_stop: Option<Hook>,
    pub(crate) panic_handler: Option<PanicHandler>,
}

pub(crate) struct Core {
    pub(crate) settings: Settings,
    pub(crate) hooks: Hooks,
    pub(crate) ledger: Ledger,
    pub(crate) pressure: StatArc<Pressure>,
    pub(crate) control: Control,
    pub(crate) gauge: Gauge,
    pub(crate) lanes: Lanes,
    pub(crate) shelves: Box<[Shelf]>,
    pub(crate) sleep: Sleep,
    pub(crate) stop: Stop,
    pub(crate) counters: Counters,
    pub(crate) time: Timeline,
    /// Tells partitions of this pool from those of others.
    id: u64,
    born: Generation,
    /// Rings when a job of some scope has ended.
    scoped_ended: Bell,
    /// What keeps the pool open: `Pool`s and `Permit`s. At zero it closes.
    keepers: AtomicUsize,
    complaints: Complaints,
    _blocks: Reservation,
}

/// With fewer slots they are all in use too often for returns to be noted.
const NOTING_CAPACITY: usize = 64;

/// How many workers may note the returns of slots. An adaptive limit wants to know exactly how many
/// jobs are in flight; and what returns take part in is explored by loom with prompt ones alone, beside
/// the models of notes themselves.
fn noting_workers(settings: &Settings, is_limited: bool) -> usize {
    let is_model = cfg!(all(loom, feature = "loom"));
    if is_model || is_limited || settings.capacity < NOTING_CAPACITY { 0 } else { settings.workers }
}

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

impl Core {
    /// The shared state, and a nest for each worker to be.
    pub(crate) fn new(
        settings: Settings,
        hooks: Hooks,
        cpu: Parts,
        limiter: Option<Limiter>,
        time: Timeline,
    ) -> (Arc<Self>, Vec<Nest>) {
        let (nests, shelves): (Vec<_>, Vec<_>) = (0..settings.workers).map(nested::nest).unzip();
        let pressure = StatArc::new(Pressure::new(settings.workers, settings.seed));
        let core = Self {
            hooks,
            ledger: Ledger::new(
                settings.capacity,
                settings.critical_reserve,
                &settings.partitions.iter().map(|(_, partition)| *partition).collect::<Vec<_>>(),
                settings.max_bytes,
                StatArc::clone(&pressure),
                noting_workers(&settings, limiter.is_some()),
            ),
            control: Control::new(
                settings.law,
                limiter,
                settings.capacity,
                StatArc::clone(&pressure),
            ),
            gauge: Gauge::new(cpu, settings.workers, StatArc::clone(&pressure)),
            lanes: Lanes::new(
                settings.capacity,
                settings.ageing_bound_ns,
                settings.law,
                StatArc::clone(&pressure),
            ),
            pressure,
            shelves: shelves.into(),
            sleep: Sleep::new(settings.workers),
            stop: Stop::new(),
            counters: Counters::new(settings.workers),
            time,
            id: NEXT_ID.fetch_add(1, Relaxed),
            born: Generation::current(),
            scoped_ended: Bell::new(),
            keepers: AtomicUsize::new(1),
            complaints: Complaints::default(),
            _blocks: Reservation::new(settings.capacity),
            settings,
        };
        core.apply_limit();
        (Arc::new(core), nests)
    }

    /// One more `Pool` or `Permit`.
    pub(crate) fn keep_open(&self) {
        // Relaxed: as in `Arc`, it is made from one that exists, or from inside a body.
        self.keepers.fetch_add(1, Ordering::Relaxed);
    }

    /// One less; the last one closes the pool, which lets accepted work finish.
    pub(crate) fn let_go(&self) {
        // AcqRel: what the other keepers submitted comes before the closing.
        if self.keepers.fetch_sub(1, Ordering::AcqRel) == 1 && !self.is_forked() {
            self.close();
        }
    }

    /// Whether this process was forked off since, and has none of the workers.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        self.born.is_past()
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    #[inline]
    pub(crate) fn born(&self) -> Generation {
        self.born
    }

    // ── In ──────────────────────────────────────────────────────────────────────────────────

    /// What a job admitted now is born with.
    #[inline]
    pub(crate) fn origin(this: &Arc<Self>, ask: &Ask) -> Origin {
        Origin {
            priority: ask.priority,
            class: ask.class,
            enqueued_ns: this.time.now_ns(),
            deadline_ns: ask.deadline_ns,
            holding: ask.holding(),
            scoped: false,
            exempt: ask.checks == Checks::Bounds,
            // The `Arc`'s own pointer, which may be made a share of again, see `of_unended`.
            owner: NonNull::new(Arc::as_ptr(this).cast_mut()).expect("never null").cast(),
        }
    }

    /// Queues a job and wakes a worker for it if need be. The slot goes with the job.
    ///
    /// Common jobs submitted from inside a body go to the worker's own deque, all others to the lanes:
    /// a lane is seen by everybody at once, so no urgent job hides behind another, and any entry can
    /// be picked out of it to give way.
    #[inline]
    pub(crate) fn push(&self, slot: Slot<'_>, job: JobRef) {
        slot.leave_with_job();
        let now_ns = job.enqueued_ns();
        let outside = Worker::with_current(|worker| match worker {
            Some(worker) if worker.is_of(self) && job.is_common() => {
                worker.push_nested(job, now_ns);
                None
            }
            _ => Some(job),
        });
        if let Some(job) = outside {
            self.lanes.push(job, now_ns);
        }
        self.announce();
        self.sample_cpu(now_ns);
    }

    /// A job can be found in a queue, or can be found again: wakes a worker for it if need be.
    #[inline]
    pub(crate) fn announce(&self) {
        self.sleep.notify(|| self.lanes.queued());
        // After the fence in `notify`, which pairs with the one in `discard`: either it finds the
        // job, or this thread sees that it must discard the job itself.
        if self.stop.is_discarding() {
            self.discard_queued(None);
        }
    }

    /// Whether a worker would find something. A hint, but for the fences of the sleep protocol.
    pub(crate) fn has_work(&self) -> bool {
        self.lanes.occupied().any() || self.shelves.iter().any(|shelf| !shelf.is_empty())
    }

    // ── Out ─────────────────────────────────────────────────────────────────────────────────

    /// The one way in which a job ends: its body is gone; now its slot returns, and then its
    /// handle resolves. Nothing of the job is touched afterwards.
    #[inline]
    pub(crate) fn end(&self, mut ended: Ended, counted: Counted<'_>) {
        let ending = counted.ending_begins();
        let contained = ended.drop_unwanted();
        counted.ended(ended.outcome());
        counted.contained(contained);
        if ended.has_run() {
            counted.stopped();
        }
        let settled = self.give_back_slot(&ended, counted);
        self.publish(ended, counted);
        drop(ending);
        if settled {
            self.ledger.ring_settled();
        }
    }

    /// Returns the slot of a job whose body is gone. True if that was the last job and somebody
    /// listens for its end.
    #[inline]
    fn give_back_slot(&self, ended: &Ended, counted: Counted<'_>) -> bool {
        let slot = Slot::of_ended_job(&self.ledger, ended.holding());
        let Some(worker) = counted.worker() else { return slot.give_back() };
        // A body may have forked, and returned in the child: there, locks may be held for ever.
        if self.is_forked() {
            slot.keep_taken();
            return false;
        }
        slot.give_back_by(worker, handful::are_short(self.pressure.mean_service_ns()))
    }

    /// Ends a job taken out of a queue without running it, or buries what is left of it; true if
    /// this call ended it.
    pub(crate) fn end_unrun(&self, job: JobRef, outcome: Outcome, counted: Counted<'_>) -> bool {
        match job.seize() {
            Ok(seized) => {
                self.end_seized(seized, outcome, counted);
                true
            }
            Err(tombstone) => {
                self.bury(tombstone);
                false
            }
        }
    }

    /// Ends a job that this thread has won and will not run.
    pub(crate) fn end_seized(&self, seized: Seized, outcome: Outcome, counted: Counted<'_>) {
        let ended = self.drop_body(seized, outcome);
        self.end(ended, counted);
    }

    /// Drops a body, whose destructors are user code that must not wait for this pool.
    pub(super) fn drop_body(&self, seized: Seized, outcome: Outcome) -> Ended {
        step_inside(self, Doing::Dropping, || seized.drop_body(outcome))
    }

    /// The last step of an ending.
    #[inline]
    pub(super) fn publish(&self, ended: Ended, counted: Counted<'_>) {
        let scoped = ended.is_scoped();
        let aftermath = ended.publish();
        if scoped {
            self.scoped_ended.ring();
        }
        counted.contained(aftermath.contained);
        match aftermath.unclaimed {
            // Its scope has the real payload.
            Some(payload) if scoped => drop_payload(payload),
            Some(payload) => self.report_panic(payload, counted),
            None => {}
        }
    }

    /// Cancels a job, or asks it to stop; true if this call ended it.
    pub(crate) fn cancel(job: &JobRef) -> bool {
        let Some(seized) = job.cancel() else { return false };
        // SAFETY: this thread has just seized the job, so the job's slot is out and this thread's
        // to return, and the workers keep the shared state until all are back.
        let core = unsafe { Self::of_unended(job) };
        core.retract(job);
        core.end_seized(seized, Outcome::Cancelled, core.counters.by_outsider());
        true
    }

    /// A share of the shared state, for the time beyond the return of the job's slot.
    ///
    /// # Safety
    /// The job was made by [`Core::origin`], and the caller owes the return of its slot.
    unsafe fn of_unended(job: &JobRef) -> Arc<Self> {
        let core = job.owner().cast::<Self>().as_ptr().cast_const();
        // SAFETY: the pointer came from `Arc::as_ptr`. It is
        // alive, since each worker holds a share until the pool is over, and it isn't over while
        // a slot is out.
        unsafe {
            Arc::increment_strong_count(core);
            Arc::from_raw(core)
        }
    }

    /// Takes the queue entry of a started or seized job out, as far as that is possible.
    pub(crate) fn retract(&self, job: &JobRef) {
        match nested::home_of(job) {
            Some(worker) => self.shelves[worker].note_tombstone(),
            // Outside the lock: the entry's reference may be the last.
            None => drop(self.lanes.remove(job)),
        }
    }

    /// A tombstone was taken out of a queue.
    pub(crate) fn bury(&self, job: JobRef) {
        if let Some(worker) = nested::home_of(&job) {
            self.shelves[worker].note_burial();
        }
    }

    /// On a worker of this pool, runs the job of a scope in place if it is still queued.
    pub(crate) fn finish_in_place(&self, job: &JobRef) {
        Worker::with_current(|worker| {
            if let Some(worker) = worker.filter(|worker| worker.is_of(self)) {
                worker.finish_in_place(job);
            }
        });
    }

    /// Returns when the job of a scope has ended.
    pub(crate) fn wait_for_scoped(&self, job: &JobRef) {
        // A forked child has no thread that could still run it.
        if !self.is_forked() {
            Worker::with_current(|worker| {
                if let Some(worker) = worker.filter(|worker| worker.is_of(self)) {
                    worker.help(job);
                }
            });
            self.scoped_ended.wait(None, || job.state().outcome().is_some());
        }
    }

    /// A detached job panicked: tells the handler, or complains and drops what it carried.
    fn report_panic(&self, payload: Payload, counted: Counted<'_>) {
        let quiet = match &self.hooks.panic_handler {
            Some(handler) => call_contained(|| handler(Panic::new(payload))),
            None => {
                let panic = Panic::new(payload);
                self.complaints.complain(&self.settings.name, &panic);
                drop_contained(panic.into_inner())
            }
        };
        counted.contained(u64::from(!quiet));
    }
}

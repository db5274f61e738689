//! How busy the CPU is, what takes it from the pool, and what follows from that: the refusals of the
//! CPU gate, and how many workers take jobs.
//!
//! There is no thread for this. Whoever ends a job, or has submitted one, and finds a sample due,
//! takes the watch out of its place, reads, and puts it back; everybody else goes on meanwhile.

use std::time::Instant;

use crate::admission::pressure::Pressure;
use crate::contain::{Contained, contain, drop_payload};
use crate::policy::contention::{ActiveWorkers, Contention, ContentionMeter};
use crate::policy::ema::Ema;
use crate::policy::meter::CpuMeter;
use crate::policy::ramp::{Ramp, Steps, Urgency, share_of};
use crate::sense::contention::Sensors;
use crate::sense::cpu::WorkerClocks;
use crate::sense::source::{CpuSource, WorkerTable};
use crate::sync::stat::{Arc, AtomicBool, AtomicU64, Mutex, Relaxed};

pub(crate) struct Gauge {
    pressure: Arc<Pressure>,
    clocks: Arc<WorkerClocks>,
    /// [`u64::MAX`] if nothing is watched.
    next_sample_ns: AtomicU64,
    sample_every_ns: u64,
    arm: Arm,
    /// Out of its place while a sample is taken.
    watch: Mutex<Option<Box<Watch>>>,
    readings: Mutex<Readings>,
    /// The stepped gate halves the limit.
    halved: AtomicBool,
}

/// What is watched of one pool.
struct Watch {
    gate: Gating,
    time_constant_ns: u64,
    source: Contained<Box<dyn CpuSource>>,
    /// How many readings the source could not make.
    skipped: u64,
    meter: CpuMeter,
    /// None with a clock of the user's: what the real machine does says nothing there.
    sensors: Option<Sensors>,
    contention: Option<ContentionMeter>,
    workers: Vec<WorkerUse>,
    /// None if all of them always take jobs.
    active: Option<ActiveWorkers>,
    sampled_ns: Option<u64>,
}

/// The CPU use of one worker.
struct WorkerUse {
    ema: Ema,
    cpu_ns: u64,
}

/// What came out of the last sample, for the eye.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readings {
    pub(crate) cpu: Option<f64>,
    pub(crate) per_worker: Vec<f64>,
    pub(crate) contention: Contention,
    pub(crate) ignored: u64,
}

/// When the [`CpuGate`](crate::CpuGate) refuses at all.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Arm {
    /// While the CPU is taken by other threads or processes, or throttled by a quota although as few
    /// workers take jobs as can. Never by the pool's own work alone.
    #[default]
    Contended,
    /// While the wait predicted for the job is above the queue delay's target.
    Backlogged,
    /// Whenever the CPU is busy.
    Always,
}

/// A CPU gate, validated by the builder.
pub(crate) struct GateSettings {
    pub(crate) rule: Gating,
    pub(crate) arm: Arm,
    pub(crate) time_constant_ns: u64,
    pub(crate) sample_every_ns: u64,
    pub(crate) source: Box<dyn CpuSource>,
}

/// How CPU use becomes refusals.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gating {
    Ramp(Ramp),
    Steps(Steps),
}

/// What the gauge is made of.
pub(crate) struct Parts {
    /// None: nothing is refused because of the CPU, and nothing is read.
    pub(crate) gate: Option<GateSettings>,
    /// Whether fewer workers take jobs under contention.
    pub(crate) adaptive: bool,
    /// Whether time is the system's, so that the machine's own counters go with it.
    pub(crate) real_time: bool,
}

impl Gauge {
    pub(crate) fn new(parts: Parts, workers: usize, pressure: Arc<Pressure>) -> Self {
        let clocks = Arc::new(WorkerClocks::new(workers));
        let mut gauge = Self {
            pressure,
            clocks: Arc::clone(&clocks),
            next_sample_ns: AtomicU64::new(u64::MAX),
            sample_every_ns: u64::MAX,
            arm: Arm::default(),
            watch: Mutex::default(),
            readings: Mutex::default(),
            halved: AtomicBool::new(false),
        };
        if let Some(gate) = parts.gate {
            gauge.next_sample_ns = AtomicU64::new(0);
            gauge.sample_every_ns = gate.sample_every_ns;
            gauge.arm = gate.arm;
            let mut source = gate.source;
            // User code may panic; then it has not been told.
            let table = WorkerTable(Arc::clone(&clocks));
            let _ = contain(|| source.attach(&table)).map_err(drop_payload);
            gauge.watch = Mutex::new(Some(Box::new(Watch {
                gate: gate.rule,
                time_constant_ns: gate.time_constant_ns,
                source: Contained::new(source),
                skipped: 0,
                meter: CpuMeter::new(gate.time_constant_ns),
                sensors: parts.real_time.then(|| Sensors::new(clocks)),
                contention: None,
                workers: (0..workers).map(|_| WorkerUse::new(gate.time_constant_ns)).collect(),
                active: parts.adaptive.then(|| ActiveWorkers::new(workers)),
                sampled_ns: None,
            })));
        }
        gauge
    }

    /// The workers' clocks, where each registers its own.
    pub(crate) fn clocks(&self) -> &Arc<WorkerClocks> {
        &self.clocks
    }

    /// Whether anything is watched at all.
    pub(crate) fn is_watching(&self) -> bool {
        self.sample_every_ns != u64::MAX
    }

    /// Whether the gate refuses also where nothing is in flight.
    pub(crate) fn is_always_armed(&self) -> bool {
        self.arm == Arm::Always
    }

    /// Whether only those are refused whose wait would be above the target.
    pub(crate) fn wants_backlog(&self) -> bool {
        self.arm == Arm::Backlogged
    }

    #[inline]
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.next_sample_ns.load(Relaxed)
    }

    /// Takes a sample, unless another thread is at it; true if it did. `now` is the same moment.
    #[cold]
    pub(crate) fn sample(&self, now_ns: u64, now: Instant) -> bool {
        let Some(mut watch) = self.watch.lock().take() else { return false };
        self.next_sample_ns.store(now_ns.saturating_add(self.sample_every_ns), Relaxed);
        watch.sample(now_ns, now, &self.clocks, self.pressure.active_level());
        self.publish(&watch, now_ns);
        *self.watch.lock() = Some(watch);
        true
    }

    fn publish(&self, watch: &Watch, now_ns: u64) {
        let contention = watch.contention.as_ref();
        let armed = match self.arm {
            Arm::Contended => {
                contention.is_some_and(ContentionMeter::is_contended) && watch.has_given_way()
            }
            Arm::Backlogged | Arm::Always => true,
        };
        // An average that was not fed for its time constant says nothing of the present.
        let max_age_ns = watch.time_constant_ns.max(self.sample_every_ns.saturating_mul(2));
        let busy = watch.meter.fresh(now_ns, max_age_ns).filter(|_| armed);
        let refusals = match watch.gate {
            Gating::Ramp(ramp) => {
                let share = ramp.share(busy);
                Urgency::ALL.map(|who| share_of(who, share))
            }
            Gating::Steps(steps) => {
                let level = steps.level(busy);
                self.halved.store(level.halves(), Relaxed);
                Urgency::ALL.map(|who| f64::from(u8::from(level.refuses(who))))
            }
        };
        self.pressure.set_refusals(refusals, now_ns.saturating_add(max_age_ns));
        if let Some(active) = &watch.active {
            self.pressure.set_active_level(active.level());
        }
        *self.readings.lock() = Readings {
            cpu: watch.meter.value(),
            per_worker: watch
                .workers
                .iter()
                .map(|worker| worker.ema.value().unwrap_or(0.0))
                .collect(),
            contention: contention.map(ContentionMeter::value).unwrap_or_default(),
            ignored: watch.meter.ignored().saturating_add(watch.skipped),
        };
    }

    /// Whether the stepped gate halves the limit at present.
    pub(crate) fn is_halved(&self) -> bool {
        self.halved.load(Relaxed)
    }

    /// What came out of the last sample.
    pub(crate) fn readings(&self) -> Readings {
        self.readings.lock().clone()
    }
}

impl Watch {
    fn sample(&mut self, now_ns: u64, now: Instant, clocks: &WorkerClocks, active_workers: f64) {
        let dt_ns = now_ns.saturating_sub(self.sampled_ns.replace(now_ns).unwrap_or(now_ns));
        let Self { source, sensors, .. } = self;
        let told = contain(|| (source.read(now), source.contention(now), source.skipped()));
        let (reading, told) = match told {
            Ok((reading, told, skipped)) => {
                self.skipped = skipped;
                (reading, told)
            }
            Err(payload) => {
                drop_payload(payload);
                (None, None)
            }
        };
        if let Some(reading) = reading {
            self.meter.take(now_ns, reading.into());
        }
        let sensors = sensors.as_mut().filter(|_| !told.is_some_and(|told| told.is_complete()));
        let seen = sensors.and_then(|sensors| sensors.sample(active_workers));
        let shares = seen.as_ref().map(|sample| sample.contention()).unwrap_or_default();
        let shares = told.map_or(shares, |told| told.completed_by(shares));
        let contention = self.contention.get_or_insert_with(|| ContentionMeter::new(now_ns));
        contention.add(now_ns, shares);
        if let Some(active) = &mut self.active {
            active.add(dt_ns, shares);
        }
        for (index, worker) in self.workers.iter_mut().enumerate() {
            worker.sample(now_ns, dt_ns, clocks.cpu_ns(index));
        }
    }

    /// Whether letting fewer workers take jobs is all that can be done, and was done: then it is for
    /// the gate to refuse.
    fn has_given_way(&self) -> bool {
        self.active.as_ref().is_none_or(ActiveWorkers::is_at_its_floor)
    }
}

impl WorkerUse {
    fn new(time_constant_ns: u64) -> Self {
        Self { ema: Ema::new(time_constant_ns), cpu_ns: 0 }
    }

    fn sample(&mut self, now_ns: u64, dt_ns: u64, cpu_ns: u64) {
        let used_ns = cpu_ns.saturating_sub(self.cpu_ns);
        self.cpu_ns = cpu_ns;
        if dt_ns > 0 {
            self.ema.add(now_ns, (used_ns as f64 / dt_ns as f64).min(1.0));
        }
    }
}

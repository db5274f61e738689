//! What came of a run: the fate of each arrival, and the figures that the stories are told in.

use crate::load::{Arrival, MS, Priority};
use crate::policy::graded::Plan;

/// An answer later than this is of no use to the one who asked.
pub(crate) const IN_TIME_MS: u64 = 25;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) arrival: Arrival,
    /// How many were queued with it when it was accepted.
    pub(crate) queue: u32,
    pub(crate) fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fate {
    Refused,
    Queued,
    Running,
    Shed {
        waited_ns: u64,
    },
    Displaced,
    /// Waited, and done so long after the arrival.
    Done {
        waited_ns: u64,
        latency_ns: u64,
    },
}

pub(crate) struct Outcome {
    pub(crate) records: Vec<Record>,
    /// Each plan and when it was made.
    pub(crate) plans: Vec<(u64, Plan)>,
    workers: usize,
}

impl Fate {
    pub(crate) fn is_accepted(self) -> bool {
        self != Self::Refused
    }

    pub(crate) fn is_done(self) -> bool {
        matches!(self, Self::Done { .. })
    }

    pub(crate) fn is_shed(self) -> bool {
        matches!(self, Self::Shed { .. })
    }

    /// Refused, or accepted and not run.
    pub(crate) fn is_turned_away(self) -> bool {
        matches!(self, Self::Refused | Self::Shed { .. } | Self::Displaced)
    }

    pub(crate) fn is_in_time(self) -> bool {
        self.is_within(IN_TIME_MS)
    }

    pub(crate) fn is_within(self, limit_ms: u64) -> bool {
        matches!(self, Self::Done { latency_ns, .. } if latency_ns <= limit_ms * MS)
    }
}

impl Outcome {
    pub(crate) fn new(workers: usize) -> Self {
        Self { records: Vec::new(), plans: Vec::new(), workers }
    }

    /// Those whose arrivals are of this kind.
    pub(crate) fn of(&self, which: impl Fn(Arrival) -> bool) -> Chosen<'_> {
        Chosen(self.records.iter().filter(|record| which(record.arrival)).collect())
    }

    /// Those who arrived in `from_ms..to_ms`.
    pub(crate) fn between(&self, from_ms: u64, to_ms: u64) -> Chosen<'_> {
        self.of(|arrival| (from_ms * MS..to_ms * MS).contains(&arrival.at_ns))
    }

    /// The share of the workers' time in `from_ms..to_ms` that went into answers in time: what they
    /// were busy, times the share of the answers that were in time, each counted once however long its
    /// job was. Not in answers per mean service time, since the mean of a heavy tail is never met.
    pub(crate) fn good_share(&self, from_ms: u64, to_ms: u64, in_time_ms: u64) -> f64 {
        let (from_ns, to_ns) = (from_ms * MS, to_ms * MS);
        let (mut busy_ns, mut done, mut in_time) = (0, 0_u64, 0_u64);
        for record in &self.records {
            let Fate::Done { waited_ns, latency_ns } = record.fate else { continue };
            let started_ns = record.arrival.at_ns + waited_ns;
            let ended_ns = record.arrival.at_ns + latency_ns;
            busy_ns += ended_ns.min(to_ns).saturating_sub(started_ns.max(from_ns));
            if (from_ns..to_ns).contains(&ended_ns) {
                done += 1;
                in_time += u64::from(record.fate.is_within(in_time_ms));
            }
        }
        let busy = busy_ns as f64 / (self.workers as u64 * (to_ns - from_ns)) as f64;
        busy * in_time as f64 / done as f64
    }

    /// The answers in time of each window, as a share of what the workers can do with jobs of a
    /// millisecond.
    pub(crate) fn good_by_window(&self, from_ms: u64, to_ms: u64, window_ms: u64) -> Vec<f64> {
        let mut windows = vec![0.0; ((to_ms - from_ms) / window_ms) as usize];
        let each = 1.0 / (self.workers as u64 * window_ms) as f64;
        for record in self.records.iter().filter(|record| record.fate.is_in_time()) {
            let Fate::Done { latency_ns, .. } = record.fate else { continue };
            let ended_ms = (record.arrival.at_ns + latency_ns) / MS;
            let at = ended_ms.checked_sub(from_ms).map(|since_ms| since_ms / window_ms);
            if let Some(window) = at.and_then(|at| windows.get_mut(at as usize)) {
                *window += each;
            }
        }
        windows
    }

    /// When the door's patience was below four targets for the first time from this moment on.
    pub(crate) fn armed_at_ms(&self, from_ms: u64, four_targets_ns: u64) -> Option<u64> {
        let armed = |&&(at_ns, plan): &&(u64, Plan)| {
            at_ns >= from_ms * MS && plan.bound_ns < four_targets_ns
        };
        self.plans.iter().find(armed).map(|&(at_ns, _)| at_ns / MS)
    }
}

/// Some of the arrivals.
pub(crate) struct Chosen<'a>(Vec<&'a Record>);

impl<'a> Chosen<'a> {
    pub(crate) fn of(&self, which: impl Fn(Arrival) -> bool) -> Self {
        Self(self.0.iter().copied().filter(|record| which(record.arrival)).collect())
    }

    pub(crate) fn of_class(&self, priority: Priority) -> Self {
        self.of(|arrival| arrival.priority == priority)
    }

    pub(crate) fn count(&self, which: impl Fn(Fate) -> bool) -> usize {
        self.0.iter().filter(|record| which(record.fate)).count()
    }

    pub(crate) fn share(&self, which: impl Fn(Fate) -> bool) -> f64 {
        self.count(which) as f64 / self.0.len() as f64
    }

    /// The most that were queued when one of these was accepted, itself included.
    pub(crate) fn longest_queue(&self) -> f64 {
        self.0.iter().map(|record| record.queue).max().unwrap_or(0).into()
    }

    /// The wait that this share of the jobs that ran has not exceeded.
    pub(crate) fn wait_ms(&self, share: f64) -> f64 {
        self.quantile_ms(share, |waited_ns, _| waited_ns)
    }

    /// The same of the time from arrival to answer.
    pub(crate) fn latency_ms(&self, share: f64) -> f64 {
        self.quantile_ms(share, |_, latency_ns| latency_ns)
    }

    pub(crate) fn mean_wait_ms(&self) -> f64 {
        let waits_ns = self.0.iter().filter_map(|record| match record.fate {
            Fate::Done { waited_ns, .. } => Some(waited_ns),
            _ => None,
        });
        waits_ns.sum::<u64>() as f64 / self.count(Fate::is_done) as f64 / MS as f64
    }

    fn quantile_ms(&self, share: f64, of: impl Fn(u64, u64) -> u64) -> f64 {
        let mut times_ns: Vec<u64> = self
            .0
            .iter()
            .filter_map(|record| match record.fate {
                Fate::Done { waited_ns, latency_ns } => Some(of(waited_ns, latency_ns)),
                _ => None,
            })
            .collect();
        if times_ns.is_empty() {
            // No range contains it.
            return f64::NAN;
        }
        let at = ((times_ns.len() - 1) as f64 * share) as usize;
        *times_ns.select_nth_unstable(at).1 as f64 / MS as f64
    }
}

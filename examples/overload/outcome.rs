//! What came of offering one load to one pool.

use std::time::Duration;

use crate::generator::Generated;
use crate::pools::RefusedBy;
use crate::run::{Fate, Run};
use crate::samples::Samples;
use crate::slices::{Answer, Slice, slices};

/// An answer later than this is of no use to the one who asked.
pub(crate) const IN_TIME: Duration = Duration::from_millis(25);

/// What was seen while the load was offered, other than the fates of the jobs.
pub(crate) struct Observed {
    pub(crate) generated: Generated,
    pub(crate) samples: Samples,
    pub(crate) shed: u64,
    pub(crate) refused_by: RefusedBy,
    /// At the end of the load, where that changes.
    pub(crate) active_workers: Option<usize>,
}

pub(crate) struct Outcome {
    pub(crate) offered: usize,
    pub(crate) accepted: usize,
    pub(crate) shed: u64,
    pub(crate) refused_by: RefusedBy,
    /// At the end of the load, where that changes.
    pub(crate) active_workers: Option<usize>,
    /// Jobs answered in time, whenever that was.
    pub(crate) in_time: usize,
    /// Of all jobs that were not refused nor shed, from arrival to answer, shortest first.
    pub(crate) latencies: Vec<Duration>,
    /// Cheapest first.
    pub(crate) refusal_costs: Vec<Duration>,
    pub(crate) rss_growth_bytes: Option<u64>,
    pub(crate) generated: Generated,
    pub(crate) slices: Vec<Slice>,
    /// In time, and given while the load was offered: in all, and without the settling.
    good: usize,
    good_settled: usize,
    /// Late ones too, while the load was offered.
    finished: usize,
}

impl Outcome {
    pub(crate) fn new(run: &Run, observed: Observed) -> Self {
        let Observed { generated, samples, shed, refused_by, active_workers } = observed;
        let mut latencies = Vec::new();
        let mut refusal_costs = Vec::new();
        let mut answers = Vec::new();
        for (arrival, fate) in run.fates() {
            match fate {
                Fate::Refused(cost) => refusal_costs.push(cost),
                Fate::Ended(latency) => {
                    latencies.push(latency);
                    answers.push(Answer { at: arrival + latency, latency });
                }
                Fate::Open => {}
            }
        }
        latencies.sort_unstable();
        refusal_costs.sort_unstable();
        answers.retain(|answer| answer.at <= generated.offered_for);
        let good = |after| {
            let is_good = |a: &&Answer| a.at >= after && a.latency <= IN_TIME;
            answers.iter().filter(is_good).count()
        };
        let growths = samples.taken().iter().map(|sample| sample.rss_growth_bytes);
        Outcome {
            offered: run.arrivals.len(),
            accepted: run.accepted(),
            shed,
            refused_by,
            active_workers,
            in_time: latencies.partition_point(|&latency| latency <= IN_TIME),
            rss_growth_bytes: growths.max().flatten(),
            slices: slices(generated.offered_for, IN_TIME, &answers, samples.taken()),
            good: good(Duration::ZERO),
            good_settled: good(settling(generated.offered_for)),
            finished: answers.len(),
            latencies,
            refusal_costs,
            generated,
        }
    }

    /// Answers per second that were in time and given while the load was offered.
    pub(crate) fn good_per_s(&self) -> f64 {
        self.good as f64 / self.generated.offered_for.as_secs_f64()
    }

    /// The same, without the settling: see [`settling`].
    pub(crate) fn good_settled_per_s(&self) -> f64 {
        let offered_for = self.generated.offered_for;
        self.good_settled as f64 / (offered_for - settling(offered_for)).as_secs_f64()
    }

    /// Answers per second while the load was offered, late ones too.
    pub(crate) fn finished_per_s(&self) -> f64 {
        self.finished as f64 / self.generated.offered_for.as_secs_f64()
    }

    /// Of one core.
    pub(crate) fn generator_cpu(&self) -> Option<f64> {
        Some(self.generated.cpu?.as_secs_f64() / self.generated.offered_for.as_secs_f64())
    }

    /// How many cores the whole process got.
    pub(crate) fn process_cores(&self) -> Option<f64> {
        Some(self.generated.process_cpu?.as_secs_f64() / self.generated.offered_for.as_secs_f64())
    }
}

/// What is left out of the settled figure, as time to notice what comes: a quarter of the run, at
/// most a second.
fn settling(offered_for: Duration) -> Duration {
    (offered_for / 4).min(Duration::from_secs(1))
}

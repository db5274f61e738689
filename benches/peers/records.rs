//! What came out: rounds, records, ratios.

use serde::{Deserialize, Serialize};

use crate::entries::Role;
use crate::support::figures::{median, quantile};

/// One figure of one pool, over all rounds.
pub(crate) struct Series {
    pub(crate) shape: &'static str,
    pub(crate) pool: &'static str,
    pub(crate) role: Role,
    /// By round.
    pub(crate) ns: Vec<f64>,
    pub(crate) cpu_ns: Vec<f64>,
    pub(crate) jobs: u64,
    pub(crate) not_run: NotRun,
}

/// What our pool did not run.
#[derive(Clone, Copy, Default)]
pub(crate) struct NotRun {
    pub(crate) refused: u64,
    /// Because of the CPU that others took; the rest because of the queue.
    pub(crate) refused_by_the_gate: u64,
    pub(crate) shed: u64,
}

impl NotRun {
    /// What was refused and shed between the two.
    pub(crate) fn add(&mut self, before: Self, after: Self) {
        self.refused += after.refused - before.refused;
        self.refused_by_the_gate += after.refused_by_the_gate - before.refused_by_the_gate;
        self.shed += after.shed - before.shed;
    }
}

/// The same for the file.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) shape: String,
    pub(crate) pool: String,
    pub(crate) workers: usize,
    pub(crate) median_ns: f64,
    pub(crate) min_ns: f64,
    pub(crate) max_ns: f64,
    /// CPU time of the whole process per job, in the median.
    pub(crate) cpu_ns: f64,
    /// Beside the best peer of the shape; none where there is none to compare with.
    pub(crate) ratio: Option<f64>,
    pub(crate) best_peer: Option<String>,
    /// Refusals per job that ran, each followed by another try.
    pub(crate) refused_per_job: f64,
    /// The share of these that the CPU gate refused.
    pub(crate) refused_by_the_gate: f64,
    /// The share of the accepted jobs that was dropped for having waited too long.
    pub(crate) shed_share: f64,
}

/// The records of one shape. The best peer is that with the smallest median; a ratio is the median of
/// the ratios round by round, whose two sides were measured in the same second.
pub(crate) fn records(shape: &[&Series], workers: usize) -> Vec<Record> {
    let median_of = |series: &Series| median(&mut series.ns.clone());
    let peers = shape.iter().filter(|series| series.role == Role::Peer);
    let best = peers.min_by(|a, b| median_of(a).total_cmp(&median_of(b)));
    shape.iter().map(|series| record(series, best.copied(), workers)).collect()
}

fn record(series: &Series, best: Option<&Series>, workers: usize) -> Record {
    let ratio = best.map(|best| {
        let mut ratios: Vec<_> =
            series.ns.iter().zip(&best.ns).map(|(ns, best)| ns / best).collect();
        median(&mut ratios)
    });
    let (mut ns, not_run) = (series.ns.clone(), series.not_run);
    Record {
        shape: series.shape.to_owned(),
        pool: series.pool.to_owned(),
        workers,
        median_ns: median(&mut ns),
        min_ns: quantile(&mut ns, 0.0),
        max_ns: quantile(&mut ns, 1.0),
        cpu_ns: median(&mut series.cpu_ns.clone()),
        ratio,
        best_peer: best.map(|best| best.pool.to_owned()),
        refused_per_job: not_run.refused as f64 / series.jobs as f64,
        refused_by_the_gate: not_run.refused_by_the_gate as f64 / not_run.refused.max(1) as f64,
        shed_share: not_run.shed as f64 / (not_run.shed + series.jobs) as f64,
    }
}

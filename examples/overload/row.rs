//! What one pool made of one load, as a row of the table and as JSON.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::AnyError;
use crate::numbers::{binary_size, milliseconds, or_dash, percent, tenths};
use crate::outcome::Outcome;
use crate::pools::{Kind, RefusedBy};
use crate::quantile::quantile;
use crate::slices::Slice;

#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) pool: &'static str,
    pub(crate) load: f64,
    pub(crate) offered: usize,
    pub(crate) accepted: usize,
    pub(crate) refused: usize,
    pub(crate) shed: u64,
    pub(crate) good_per_s: f64,
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
    pub(crate) max_ms: Option<f64>,
    pub(crate) queue_peak: usize,
    pub(crate) rss_growth_bytes: Option<u64>,
    pub(crate) refusal_ns: Option<u64>,
    pub(crate) in_time: usize,
    pub(crate) good_settled_per_s: f64,
    /// Good answers, of the capacity.
    pub(crate) good_share: f64,
    pub(crate) refused_by: RefusedBy,
    pub(crate) active_workers: Option<usize>,
    pub(crate) generator_lag_ms: f64,
    pub(crate) generator_mean_lag_ms: f64,
    /// Of one core.
    pub(crate) generator_cpu: Option<f64>,
    pub(crate) process_cores: Option<f64>,
    #[serde(skip)]
    pub(crate) kind: Kind,
    #[serde(skip)]
    pub(crate) slices: Vec<Slice>,
    #[serde(skip)]
    pub(crate) offered_for: Duration,
}

impl Row {
    pub(crate) fn new(kind: Kind, load: f64, capacity: f64, outcome: Outcome) -> Self {
        let latency_ms = |q| quantile(&outcome.latencies, q).map(milliseconds);
        Row {
            pool: kind.name(),
            load,
            offered: outcome.offered,
            accepted: outcome.accepted,
            refused: outcome.refusal_costs.len(),
            shed: outcome.shed,
            good_per_s: outcome.good_per_s().round(),
            p50_ms: latency_ms(0.5),
            p99_ms: latency_ms(0.99),
            max_ms: latency_ms(1.0),
            queue_peak: outcome.generated.queue_peak,
            rss_growth_bytes: outcome.rss_growth_bytes,
            refusal_ns: quantile(&outcome.refusal_costs, 0.5).map(|d| d.as_nanos() as u64),
            in_time: outcome.in_time,
            good_settled_per_s: outcome.good_settled_per_s().round(),
            good_share: outcome.good_per_s() / capacity,
            generator_lag_ms: milliseconds(outcome.generated.lag),
            generator_mean_lag_ms: milliseconds(outcome.generated.mean_lag),
            generator_cpu: outcome.generator_cpu(),
            process_cores: outcome.process_cores(),
            kind,
            offered_for: outcome.generated.offered_for,
            refused_by: outcome.refused_by,
            active_workers: outcome.active_workers,
            slices: outcome.slices,
        }
    }

    pub(crate) fn share_in_time(&self) -> f64 {
        self.in_time as f64 / self.offered.max(1) as f64
    }

    /// The row of the table.
    pub(crate) fn cells(&self) -> [String; COLUMNS.len()] {
        [
            self.pool.to_owned(),
            self.accepted.to_string(),
            self.refused.to_string(),
            self.shed.to_string(),
            self.in_time.to_string(),
            format!("{:.0}", self.good_per_s),
            format!("{:.0}", self.good_settled_per_s),
            or_dash(self.p50_ms, tenths),
            or_dash(self.p99_ms, tenths),
            or_dash(self.max_ms, tenths),
            self.queue_peak.to_string(),
            or_dash(self.rss_growth_bytes, |bytes| binary_size(bytes as f64)),
            or_dash(self.refusal_ns, |ns| format!("{ns} ns")),
            tenths(self.generator_lag_ms),
            or_dash(self.generator_cpu, percent),
            or_dash(self.process_cores, |cores| format!("{cores:.2}")),
        ]
    }
}

/// The heads of the columns; `--help` says what they mean.
pub(crate) const COLUMNS: [&str; 16] = [
    "pool", "accepted", "refused", "shed", "in time", "good/s", "settled", "p50 ms", "p99 ms",
    "max ms", "queue", "memory", "refusal", "lag ms", "gen cpu", "cores",
];

/// Finds out before the measurement, rather than after it, that something can't be written.
pub(crate) fn check_writable(file: &Path) -> Result<(), AnyError> {
    let opened = fs::OpenOptions::new().append(true).create(true).open(file);
    opened.map(drop).map_err(|error| cannot_write(file, &error))
}

pub(crate) fn write_json(file: &Path, rows: &[Row]) -> Result<(), AnyError> {
    let mut json = serde_json::to_string_pretty(rows)?;
    json.push('\n');
    write(file, &json)
}

pub(crate) fn write(file: &Path, text: &str) -> Result<(), AnyError> {
    fs::write(file, text).map_err(|error| cannot_write(file, &error))
}

fn cannot_write(file: &Path, error: &io::Error) -> AnyError {
    format!("cannot write {}: {error}", file.display()).into()
}

#[cfg(test)]
impl Row {
    /// A row as if measured, with what is missing as missing as can be.
    pub(crate) fn example(kind: Kind, load: f64, good_per_s: f64) -> Self {
        let at = Duration::from_millis(25);
        let seen = Slice {
            at,
            p50: Some(at),
            p99: Some(at * 2),
            good: 3,
            len: at * 2,
            queued: Some(7),
            rss_growth_bytes: Some(4096),
        };
        let unseen = Slice { p50: None, p99: None, queued: None, rss_growth_bytes: None, ..seen };
        Row {
            pool: kind.name(),
            load,
            offered: 100,
            accepted: 60,
            refused: 40,
            shed: 0,
            good_per_s,
            p50_ms: None,
            p99_ms: Some(9.0),
            max_ms: None,
            queue_peak: 7,
            rss_growth_bytes: None,
            refusal_ns: Some(50),
            in_time: 60,
            good_settled_per_s: good_per_s,
            good_share: good_per_s / 1000.0,
            refused_by: RefusedBy::new(),
            active_workers: None,
            generator_lag_ms: 0.5,
            generator_mean_lag_ms: 0.1,
            generator_cpu: None,
            process_cores: None,
            kind,
            slices: vec![seen, unseen, seen],
            offered_for: at * 6,
        }
    }
}

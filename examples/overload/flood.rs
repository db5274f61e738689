//! The flood: far more than the machine can do, for long. Does a pool stay fast, and small?

use crate::numbers::{binary_size, or_dash, tenths};
use crate::row::Row;

/// Of what was accepted, from arrival to answer.
const GOAL_P99_MS: f64 = 12.0;

/// That resident memory may grow.
const GOAL_GROWTH_BYTES: u64 = 16 << 20;

/// For each pool: what it was to keep, what it did, and what its refusals cost.
pub(crate) fn verdicts(rows: &[Row]) -> Vec<String> {
    rows.iter().map(verdict).collect()
}

fn verdict(row: &Row) -> String {
    let in_time = row.p99_ms.map(|p99| p99 <= GOAL_P99_MS);
    let small = row.rss_growth_bytes.map(|growth| growth < GOAL_GROWTH_BYTES);
    format!(
        "{}: accepted p99 {} ms (goal {GOAL_P99_MS:.0}: {}); memory grew by {} (goal {}: {}); refusal {}.",
        row.pool,
        or_dash(row.p99_ms, tenths),
        word(in_time),
        or_dash(row.rss_growth_bytes, |bytes| binary_size(bytes as f64)),
        binary_size(GOAL_GROWTH_BYTES as f64),
        word(small),
        row.refusal_ns.map_or_else(|| "never".to_owned(), |ns| format!("{ns} ns")),
    )
}

fn word(met: Option<bool>) -> &'static str {
    match met {
        Some(true) => "met",
        Some(false) => "missed",
        None => "not measured",
    }
}

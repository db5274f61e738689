//! The rows: as a table, in words and as JSON.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::AnyError;
use crate::args::Args;
use crate::input::Work;
use crate::load::{IN_TIME, Outcome};

/// Below capacity, a share in time of less than this says that the machine had other work.
const QUIET_SHARE: f64 = 0.95;

/// A generator that was later than this deserves a word.
const NOTABLE_LAG: Duration = Duration::from_millis(5);

/// What one pool made of one load.
#[derive(Serialize)]
pub(crate) struct Row {
    pool: &'static str,
    load: f64,
    offered: usize,
    accepted: usize,
    refused: usize,
    shed: u64,
    good_per_s: f64,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    max_ms: Option<f64>,
    queue_peak: usize,
    rss_growth_bytes: Option<u64>,
    refusal_ns: Option<u64>,
    #[serde(skip)]
    in_time: usize,
    #[serde(skip)]
    generator_lag: Duration,
}

impl Row {
    pub(crate) fn new(pool: &'static str, load: f64, outcome: Outcome) -> Self {
        let latency_ms = |q| quantile(&outcome.latencies, q).map(milliseconds);
        Row {
            pool,
            load,
            offered: outcome.offered,
            accepted: outcome.accepted,
            refused: outcome.refusal_costs.len(),
            shed: outcome.shed,
            good_per_s: (outcome.in_time as f64 / outcome.offered_for.as_secs_f64()).round(),
            p50_ms: latency_ms(0.5),
            p99_ms: latency_ms(0.99),
            max_ms: latency_ms(1.0),
            queue_peak: outcome.queue_peak,
            rss_growth_bytes: outcome.rss_growth_bytes,
            refusal_ns: quantile(&outcome.refusal_costs, 0.5).map(|d| d.as_nanos() as u64),
            in_time: outcome.in_time,
            generator_lag: outcome.generator_lag,
        }
    }

    fn share_in_time(&self) -> f64 {
        self.in_time as f64 / self.offered.max(1) as f64
    }

    fn cells(&self) -> [String; COLUMNS.len()] {
        [
            self.pool.to_owned(),
            self.accepted.to_string(),
            self.refused.to_string(),
            self.shed.to_string(),
            self.in_time.to_string(),
            or_dash(self.p50_ms, tenths),
            or_dash(self.p99_ms, tenths),
            or_dash(self.max_ms, tenths),
            self.queue_peak.to_string(),
            or_dash(self.rss_growth_bytes, |bytes| binary_size(bytes as f64)),
            or_dash(self.refusal_ns, |ns| format!("{ns} ns")),
        ]
    }
}

/// The nearest-rank quantile of sorted times.
fn quantile(sorted: &[Duration], q: f64) -> Option<Duration> {
    let rank = (sorted.len() as f64 * q).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

const COLUMNS: [&str; 11] = [
    "pool", "accepted", "refused", "shed", "in time", "p50 ms", "p99 ms", "max ms", "queue",
    "memory", "refusal",
];

/// Everything about a measurement but its rows.
pub(crate) struct Report {
    setting: String,
    capacity: f64,
    piece_len: usize,
}

impl Report {
    pub(crate) fn new(
        work: &Work,
        job_time: Duration,
        args: &Args,
        capacity: f64,
        slots: usize,
    ) -> Self {
        let setting = format!(
            "{} of input from {}; a job compresses and hashes {} in {:.2} ms.\n\
             {} workers in each pool; capacity {capacity:.0} jobs/s; {slots} slots in weirpool.",
            binary_size(work.read_len() as f64),
            args.folder.display(),
            binary_size(work.piece_len() as f64),
            milliseconds(job_time),
            args.workers,
        );
        Report { setting, capacity, piece_len: work.piece_len() }
    }

    pub(crate) fn heading(&self) -> String {
        format!("{}\n", self.setting)
    }

    /// The table and what it says.
    pub(crate) fn body(&self, rows: &[Row]) -> String {
        if rows.is_empty() {
            return String::new();
        }
        let mut text = table(rows);
        text.push('\n');
        for sentence in self.sentences(rows) {
            text.push_str(&sentence);
            text.push('\n');
        }
        text
    }

    fn sentences(&self, rows: &[Row]) -> Vec<String> {
        let highest = rows.iter().map(|row| row.load).fold(0.0, f64::max);
        let (calm, flooded): (Vec<_>, Vec<_>) = rows
            .iter()
            .filter(|row| row.load < 1.0 || row.load == highest)
            .partition(|row| row.load < 1.0);
        [
            about_calm(&calm),
            self.about_goodput(&flooded),
            about_refusals(&flooded),
            self.about_longest_queue(&flooded),
            about_generator(rows),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn about_goodput(&self, flooded: &[&Row]) -> Option<String> {
        let load = flooded.first()?.load;
        let mut ranked = flooded.to_vec();
        ranked.sort_by(|a, b| b.good_per_s.total_cmp(&a.good_per_s));
        let shares: Vec<_> = ranked
            .iter()
            .map(|row| {
                let share = percent(row.good_per_s / self.capacity);
                format!("{} {:.0} ({share} of capacity)", row.pool, row.good_per_s)
            })
            .collect();
        Some(format!(
            "At {load}x, jobs per second finished within {} ms: {}.",
            IN_TIME.as_millis(),
            shares.join(", ")
        ))
    }

    fn about_longest_queue(&self, flooded: &[&Row]) -> Option<String> {
        let row = flooded.iter().max_by_key(|row| row.queue_peak)?;
        if row.refused > 0 {
            return None;
        }
        let bodies = binary_size((row.queue_peak * self.piece_len) as f64);
        Some(format!(
            "{} refused nothing, and {} jobs came to wait in it; had each owned its input, as \
             requests do, they would have held {bodies}.",
            row.pool, row.queue_peak
        ))
    }
}

fn about_calm(calm: &[&Row]) -> Option<String> {
    let worst = calm.iter().min_by(|a, b| a.share_in_time().total_cmp(&b.share_in_time()))?;
    let share = percent(worst.share_in_time());
    Some(if worst.share_in_time() >= QUIET_SHARE {
        format!(
            "At {}x there is room for all: no pool finished less than {share} of the jobs in time.",
            worst.load
        )
    } else {
        format!(
            "At {}x {} finished only {share} of the jobs in time: the machine probably had other \
             work meanwhile, so take the figures with care.",
            worst.load, worst.pool
        )
    })
}

fn about_refusals(flooded: &[&Row]) -> Option<String> {
    let row = flooded.iter().find(|row| row.refused > 0)?;
    let refused = percent(row.refused as f64 / row.offered as f64);
    Some(format!(
        "{} said no to {refused} of the arrivals, in {} each; what it took was answered within \
         {} ms at p99, and never more than {} jobs waited.",
        row.pool,
        or_dash(row.refusal_ns, |ns| format!("{ns} ns")),
        or_dash(row.p99_ms, tenths),
        row.queue_peak
    ))
}

fn about_generator(rows: &[Row]) -> Option<String> {
    let lag = rows.iter().map(|row| row.generator_lag).max()?;
    (lag > NOTABLE_LAG).then(|| {
        format!(
            "The load generator, which shares the cores with the pools, was up to {} ms late; the \
             latencies include that.",
            tenths(milliseconds(lag))
        )
    })
}

/// A line for each row, in columns as wide as they need to be, under a line for each load.
fn table(rows: &[Row]) -> String {
    let lines: Vec<_> = rows.iter().map(Row::cells).collect();
    let header = COLUMNS.map(str::to_owned);
    let mut widths = header.each_ref().map(String::len);
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.len().max(*width);
        }
    }
    let mut text = String::from("\n");
    push_line(&mut text, &header, &widths);
    let mut load = 0.0;
    for (row, line) in rows.iter().zip(&lines) {
        if row.load != load {
            load = row.load;
            writeln!(text, "{load}x of capacity, {} offered", row.offered)
                .expect("a String takes any text");
        }
        push_line(&mut text, line, &widths);
    }
    text
}

fn push_line<const N: usize>(text: &mut String, cells: &[String; N], widths: &[usize; N]) {
    for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let written = if column == 0 {
            write!(text, "  {cell:<width$}")
        } else {
            write!(text, "  {cell:>width$}")
        };
        written.expect("a String takes any text");
    }
    text.push('\n');
}

fn or_dash<T>(figure: Option<T>, show: impl FnOnce(T) -> String) -> String {
    figure.map_or_else(|| "-".to_owned(), show)
}

/// To the microsecond: the rest is noise.
fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

fn tenths(ms: f64) -> String {
    if ms < 100.0 { format!("{ms:.1}") } else { format!("{ms:.0}") }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn binary_size(bytes: f64) -> String {
    if bytes == 0.0 {
        return "0".to_owned();
    }
    const UNITS: [&str; 3] = ["KiB", "MiB", "GiB"];
    let mut size = bytes / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    if size < 10.0 {
        format!("{size:.1} {}", UNITS[unit])
    } else {
        format!("{size:.0} {}", UNITS[unit])
    }
}

/// Writes to standard output; whoever has stopped reading there misses nothing.
pub(crate) fn print(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}

/// Finds out before the measurement, rather than after it, that the rows can't be written.
pub(crate) fn check_writable(file: &Path) -> Result<(), AnyError> {
    let opened = fs::OpenOptions::new().append(true).create(true).open(file);
    opened.map(drop).map_err(|error| cannot_write(file, &error))
}

pub(crate) fn write_json(file: &Path, rows: &[Row]) -> Result<(), AnyError> {
    let mut json = serde_json::to_string_pretty(rows)?;
    json.push('\n');
    fs::write(file, json).map_err(|error| cannot_write(file, &error))
}

fn cannot_write(file: &Path, error: &io::Error) -> AnyError {
    format!("cannot write {}: {error}", file.display()).into()
}

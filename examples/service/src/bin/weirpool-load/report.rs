//! The table, one row per figure, so that two runs fit side by side.

use std::io::{self, Write};

use crate::options::Options;
use crate::tally::{Counts, Tally, Times};

const MIB: f64 = (1 << 20) as f64;

pub(crate) fn print(tally: &Tally, rate: f64, capacity: Option<f64>, options: &Options) {
    let name = options.name.as_deref().unwrap_or(&options.server);
    let rows = rows(tally, rate, capacity, options);
    let (gap, width) = match options.is_tsv {
        true => ("\t", 0),
        false => ("  ", rows.iter().map(|(row, _)| row.chars().count()).max().unwrap_or(0)),
    };
    let mut table = format!("{:width$}{gap}{name}\n", "");
    for (row, value) in rows {
        table += &format!("{row:width$}{gap}{value}\n");
    }
    // Nobody reads it any more: nothing to be done.
    let _ = io::stdout().write_all(table.as_bytes());
}

fn rows(
    tally: &Tally,
    rate: f64,
    capacity: Option<f64>,
    options: &Options,
) -> Vec<(String, String)> {
    let deadline_ms = options.deadline.as_millis();
    let load = &tally.load;
    let good_per_s = load.good as f64 / options.duration.as_secs_f64();
    let times = capacity.map_or(String::new(), |capacity| format!(" ({:.1} x)", rate / capacity));
    let of_peak = capacity.map_or(String::new(), |capacity| {
        format!(", {:.0} % of peak", 100.0 * good_per_s / capacity)
    });
    let mut rows: Vec<(String, String)> = vec![
        ("offered per second".into(), format!("{rate:.0}{times}")),
        ("good per second".into(), format!("{good_per_s:.0}{of_peak}")),
        ("offered".into(), load.offered.to_string()),
        (format!("good: 200 within {deadline_ms} ms"), of(load.good, load)),
        ("late or given up".into(), of(load.late, load)),
        ("refused at once: 503".into(), of(load.refused, load)),
        ("dropped after a wait: 503".into(), of(load.shed, load)),
        ("errors".into(), load.errors.to_string()),
        ("good passwords".into(), of(tally.password.good, &tally.password)),
        ("good thumbnails".into(), of(tally.thumbnail.good, &tally.thumbnail)),
        ("accepted p50 ms".into(), ms(&load.accepted, 0.50)),
        ("accepted p99 ms".into(), ms(&load.accepted, 0.99)),
        ("refusal p50 ms".into(), ms(&load.refusals, 0.50)),
        ("refusal p99 ms".into(), ms(&load.refusals, 0.99)),
        ("/healthz good".into(), of(tally.health.good, &tally.health)),
        ("/healthz p50 ms".into(), ms(&tally.health.accepted, 0.50)),
        ("/healthz p99 ms".into(), ms(&tally.health.accepted, 0.99)),
    ];
    rows.extend(memory(&tally.memory));
    rows
}

fn of(part: u64, counts: &Counts) -> String {
    let share = 100.0 * part as f64 / counts.offered.max(1) as f64;
    format!("{part} ({share:.1} %)")
}

fn ms(times: &Times, q: f64) -> String {
    times.quantile_ms(q).map_or("-".to_owned(), |ms| format!("{ms:.1}"))
}

/// A row if the server tells its memory.
fn memory(bytes: &[f64]) -> Option<(String, String)> {
    let most = bytes.iter().copied().reduce(f64::max)?;
    let [start, most, end] = [*bytes.first()?, most, *bytes.last()?].map(|bytes| bytes / MIB);
    Some(("memory MiB: start, most, end".into(), format!("{start:.0}, {most:.0}, {end:.0}")))
}

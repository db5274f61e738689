//! Which charts are drawn of the rows.

use std::time::Duration;

use crate::chart::{Axis, Look, Panel, Rule, Scale, Series};
use crate::numbers::{milliseconds, or_dash, percent, tenths};
use crate::outcome::IN_TIME;
use crate::row::Row;
use crate::slices::Slice;

/// What a chart over time shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Good,
    P50,
    P99,
    Queue,
    Memory,
}

/// The main chart: offered load against good answers, both as shares of the capacity.
pub(crate) fn goodput(rows: &[Row]) -> Panel {
    let loads = loads(rows);
    let (least, most) = (loads.first().copied().unwrap_or(1.0), loads.last().copied());
    let most = most.unwrap_or(1.0).max(least * 1.5);
    let best = rows.iter().map(|row| row.good_share).fold(1.0, f64::max);
    let scale = Scale::linear_to(best * 1.08);
    Panel {
        title: "Good answers as the load grows".to_owned(),
        x: Axis {
            name: "offered load, as a multiple of the measured capacity (log scale)".to_owned(),
            scale: Scale::log(least, most),
            ticks: loads.iter().map(|&load| (load, format!("{load}×"))).collect(),
        },
        y: Axis {
            name: format!("answers within {} ms, % of capacity", IN_TIME.as_millis()),
            scale,
            ticks: [0.0, 0.25, 0.5, 0.75, 1.0]
                .map(|share| (share, format!("{:.0} %", share * 100.0)))
                .to_vec(),
        },
        rules: vec![ideal(least, most)],
        series: of_each_pool(rows, |rows| {
            let points = rows.iter().map(|row| (row.load, Some(row.good_share))).collect();
            (points, rows.iter().map(|row| hint(row)).collect())
        }),
    }
}

/// What can be had: all up to the capacity, and the capacity above it.
fn ideal(least: f64, most: f64) -> Rule {
    let corner = 1.0_f64.clamp(least, most);
    let rise = (0..=8).map(|step| least + (corner - least) * f64::from(step) / 8.0);
    let points: Vec<_> = rise.chain([most]).map(|load| (load, load.min(1.0))).collect();
    Rule { points, label: "all that can be had".to_owned() }
}

fn hint(row: &Row) -> String {
    format!(
        "{} at {}×: {} of capacity, {:.0} good answers/s; p99 {} ms; {} refused, {} shed of {}",
        row.pool,
        row.load,
        percent(row.good_share),
        row.good_per_s,
        or_dash(row.p99_ms, tenths),
        row.refused,
        row.shed,
        row.offered
    )
}

/// One quantity over the time of a run; all rows are of one load.
pub(crate) fn over_time(over: Over, rows: &[&Row]) -> Panel {
    let values = || rows.iter().flat_map(|row| &row.slices).filter_map(|slice| over.value(slice));
    let most = values().fold(0.0, f64::max);
    let scale = over.scale(most);
    let lasts = rows.iter().map(|row| row.offered_for).max().unwrap_or_default();
    let time = Scale::linear_to(lasts.as_secs_f64());
    Panel {
        title: over.title().to_owned(),
        x: Axis {
            name: "seconds".to_owned(),
            ticks: time.ticks().into_iter().map(|tick| (tick, short(tick))).collect(),
            scale: time,
        },
        y: Axis {
            name: over.unit(),
            ticks: scale.ticks().into_iter().map(|tick| (tick, short(tick))).collect(),
            scale,
        },
        rules: over.rule(lasts).into_iter().collect(),
        series: rows
            .iter()
            .map(|row| Series {
                look: Look::of(row.pool),
                label: row.pool.to_owned(),
                points: row
                    .slices
                    .iter()
                    .map(|slice| (slice.at.as_secs_f64(), over.value(slice)))
                    .collect(),
                hints: Vec::new(),
            })
            .collect(),
    }
}

impl Over {
    fn title(self) -> &'static str {
        match self {
            Over::Good => "Good answers",
            Over::P50 => "Latency, median",
            Over::P99 => "Latency, 99th percentile",
            Over::Queue => "Queue",
            Over::Memory => "Memory",
        }
    }

    fn unit(self) -> String {
        match self {
            Over::Good => format!("answers within {} ms, per second", IN_TIME.as_millis()),
            Over::P50 | Over::P99 => "ms from arrival to answer (log scale)".to_owned(),
            Over::Queue => "jobs waiting (log scale)".to_owned(),
            Over::Memory => "MiB more than at the start".to_owned(),
        }
    }

    fn value(self, slice: &Slice) -> Option<f64> {
        match self {
            Over::Good => Some(slice.good as f64 / slice.len.as_secs_f64().max(1e-9)),
            Over::P50 => slice.p50.map(milliseconds),
            Over::P99 => slice.p99.map(milliseconds),
            Over::Queue => slice.queued.map(|queued| queued as f64),
            Over::Memory => slice.rss_growth_bytes.map(|bytes| bytes as f64 / f64::from(1 << 20)),
        }
    }

    fn scale(self, most: f64) -> Scale {
        match self {
            Over::Good => Scale::linear(most),
            Over::P50 | Over::P99 => Scale::log_decades(1.0, most.max(IN_TIME.as_millis() as f64)),
            Over::Queue => Scale::log_decades(1.0, most),
            // Less than a mebibyte is nothing, and should look like it.
            Over::Memory => Scale::linear(most.max(1.0)),
        }
    }

    fn rule(self, lasts: Duration) -> Option<Rule> {
        let limit = IN_TIME.as_millis() as f64;
        let lasts = lasts.as_secs_f64();
        matches!(self, Over::P50 | Over::P99).then(|| Rule {
            points: vec![(0.0, limit), (lasts, limit)],
            label: format!("{limit} ms: too late above"),
        })
    }
}

/// The loads of the rows, least first.
pub(crate) fn loads(rows: &[Row]) -> Vec<f64> {
    let mut loads: Vec<_> = rows.iter().map(|row| row.load).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    loads
}

pub(crate) fn at_load(rows: &[Row], load: f64) -> Vec<&Row> {
    let mut rows: Vec<_> = rows.iter().filter(|row| row.load == load).collect();
    rows.sort_by_key(|row| row.kind as usize);
    rows
}

type Drawn = (Vec<(f64, Option<f64>)>, Vec<String>);

/// One line for each pool that has rows, in the order of the pools.
fn of_each_pool(rows: &[Row], draw: impl Fn(&[&Row]) -> Drawn) -> Vec<Series> {
    let mut sorted: Vec<_> = rows.iter().collect();
    sorted
        .sort_by(|a, b| (a.kind as usize).cmp(&(b.kind as usize)).then(a.load.total_cmp(&b.load)));
    sorted
        .chunk_by(|a, b| a.kind == b.kind)
        .map(|rows| {
            let (points, hints) = draw(rows);
            let pool = rows[0].pool;
            Series { look: Look::of(pool), label: pool.to_owned(), points, hints }
        })
        .collect()
}

/// A figure of an axis.
fn short(value: f64) -> String {
    if value >= 1e6 {
        format!("{} M", value / 1e6)
    } else if value >= 1e4 {
        format!("{} k", value / 1e3)
    } else {
        // Multiples of a step that isn't exact have a tail; nothing shown here needs it.
        let text = format!("{value:.2}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let said = [0.0, 0.30000000000000004, 1.5, 100.0, 1000.0, 2e4, 1e6].map(short);
        assert_eq!(said, ["0", "0.3", "1.5", "100", "1000", "20 k", "1 M"]);
    }

    #[test]
    fn the_ideal_rises_to_the_capacity_and_stays_there() {
        let rule = ideal(0.8, 10.0);
        assert_eq!(rule.points[0], (0.8, 0.8));
        assert_eq!(rule.points[9], (10.0, 1.0));
        assert!(rule.points.iter().all(|&(load, good)| good == load.min(1.0)));
        // All loads on one side of the capacity.
        assert!(ideal(2.5, 5.0).points.iter().all(|&(_, good)| good == 1.0));
        assert!(ideal(0.2, 0.5).points.iter().all(|&(load, good)| good == load));
    }
}

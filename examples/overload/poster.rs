//! The picture for a README: one SVG file that needs nothing else.

use crate::chart::{Legend, Look, Place, Svg, css};
use crate::numbers::percent;
use crate::picture::{Over, at_load, goodput, loads, over_time};
use crate::pools::Kind;
use crate::row::Row;
use crate::words::Setting;

/// Narrow enough for the figures to be read on a phone.
const WIDTH: f64 = 640.0;
const MARGIN: f64 = 10.0;

/// The load whose run is shown over time, if it was offered.
const SHOWN: f64 = 2.5;

pub(crate) fn poster(setting: &Setting, rows: &[Row]) -> String {
    let mut svg = Svg::default();
    let mut y = MARGIN;
    if loads(rows).len() > 1 {
        goodput(rows).draw(&mut svg, Place { x: 0.0, y, width: WIDTH, height: 370.0 });
        y += 380.0;
    }
    let entries = legend(rows);
    let legend = Legend(&entries);
    legend.draw(&mut svg, (20.0, y));
    y += legend.height() + 16.0;
    if let Some(load) = shown_load(rows) {
        y = draw_run(&mut svg, y, load, &at_load(rows, load));
    }
    for sentence in setting.sentences() {
        y += 17.0;
        svg.text("soft label", (8.0, y), &sentence);
    }
    svg.finish("overload", (WIDTH, y + MARGIN), "Thread pools in overload", &describe(rows), &css())
}

/// What happens in the course of one run; returns where the next thing goes.
fn draw_run(svg: &mut Svg, mut y: f64, load: f64, rows: &[&Row]) -> f64 {
    let heading = format!("In the course of a run at {load}× the capacity");
    svg.text("ink title", (8.0, y + 14.0), &heading);
    y += 22.0;
    over_time(Over::P99, rows).draw(svg, Place { x: 0.0, y, width: WIDTH, height: 240.0 });
    y += 246.0;
    let width = WIDTH / 2.0;
    for (x, over) in [(0.0, Over::Queue), (width, Over::Memory)] {
        over_time(over, rows).draw(svg, Place { x, y, width, height: 240.0 });
    }
    y + 246.0
}

pub(crate) fn legend(rows: &[Row]) -> Vec<(Look, &'static str, &'static str)> {
    let shown = |kind: &Kind| rows.iter().any(|row| row.kind == *kind);
    let kinds = Kind::ALL.into_iter().filter(shown);
    kinds.map(|kind| (Look::of(kind.name()), kind.name(), kind.explanation())).collect()
}

fn shown_load(rows: &[Row]) -> Option<f64> {
    let loads = loads(rows);
    loads.iter().copied().find(|&load| load == SHOWN).or(loads.last().copied())
}

/// For those who can't see it.
pub(crate) fn describe(rows: &[Row]) -> String {
    let loads = loads(rows);
    let shares: Vec<_> = loads
        .last()
        .map(|&load| at_load(rows, load))
        .unwrap_or_default()
        .iter()
        .map(|row| format!("{} {}", row.pool, percent(row.good_share)))
        .collect();
    let most = loads.last().copied().unwrap_or(0.0);
    format!(
        "Line charts of how thread pools answer more work than the machine can do. Answers in time at \
         {most} times the capacity, as shares of the capacity: {}.",
        shares.join(", ")
    )
}

//! One chart: axes, lines, and a label at the end of each.

use super::labels::spread;
use super::scale::Scale;
use super::style::Look;
use super::svg::Svg;

/// Where in the picture the panel lies, labels and title included.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// Room around the plot: for the title and the name of the y axis, the labels of the lines, the x
/// axis and the figures of the y axis.
const TOP: f64 = 48.0;
const RIGHT: f64 = 96.0;
const BOTTOM: f64 = 40.0;
const LEFT: f64 = 52.0;

const LABEL_GAP: f64 = 14.0;

pub(crate) struct Axis {
    /// What it shows, with the unit.
    pub(crate) name: String,
    pub(crate) scale: Scale,
    pub(crate) ticks: Vec<(f64, String)>,
}

pub(crate) struct Series {
    pub(crate) look: Look,
    pub(crate) label: String,
    /// A value that is missing leaves a gap.
    pub(crate) points: Vec<(f64, Option<f64>)>,
    /// What to show when a point is pointed at, one for each point; or empty: then only the end of
    /// the line is marked.
    pub(crate) hints: Vec<String>,
}

/// A line for comparison, behind the others.
pub(crate) struct Rule {
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) label: String,
}

pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) rules: Vec<Rule>,
    /// The most important one first: it is painted last.
    pub(crate) series: Vec<Series>,
}

/// The rectangle between the axes.
#[derive(Clone, Copy)]
struct Plot {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Panel {
    pub(crate) fn draw(&self, svg: &mut Svg, place: Place) {
        let plot = Plot {
            left: place.x + LEFT,
            right: place.x + place.width - RIGHT,
            top: place.y + TOP,
            bottom: place.y + place.height - BOTTOM,
        };
        svg.text("ink title", (place.x + 8.0, place.y + 18.0), &self.title);
        svg.text("soft label", (place.x + 8.0, place.y + 36.0), &self.y.name);
        self.draw_axes(svg, plot);
        for rule in &self.rules {
            self.draw_rule(svg, plot, rule);
        }
        let ends: Vec<_> = self.series.iter().map(|series| self.end(plot, series)).collect();
        let labelled: Vec<_> = ends.iter().flatten().map(|&(_, y)| y).collect();
        let range = (plot.top, plot.bottom);
        let mut places = spread(&labelled, LABEL_GAP, range).into_iter();
        let labels: Vec<_> =
            ends.into_iter().map(|end| end.and_then(|end| Some((end, places.next()?)))).collect();
        for (series, label) in self.series.iter().zip(labels).rev() {
            self.draw_series(svg, plot, series, label);
        }
        for rule in &self.rules {
            self.label_rule(svg, plot, rule);
        }
    }

    fn at(&self, plot: Plot, (x, y): (f64, f64)) -> (f64, f64) {
        let (right, up) = (self.x.scale.place(x), self.y.scale.place(y));
        (plot.left + right * (plot.right - plot.left), plot.bottom - up * (plot.bottom - plot.top))
    }

    /// The last point that there is.
    fn end(&self, plot: Plot, series: &Series) -> Option<(f64, f64)> {
        let (x, y) = series.points.iter().rev().find_map(|&(x, y)| Some((x, y?)))?;
        Some(self.at(plot, (x, y)))
    }

    fn draw_axes(&self, svg: &mut Svg, plot: Plot) {
        for (value, text) in &self.y.ticks {
            let y = plot.bottom - self.y.scale.place(*value) * (plot.bottom - plot.top);
            svg.line("grid", (plot.left, y), (plot.right, y));
            svg.text("soft label end", (plot.left - 6.0, y + 4.0), text);
        }
        for (value, text) in &self.x.ticks {
            let x = plot.left + self.x.scale.place(*value) * (plot.right - plot.left);
            svg.line("axis", (x, plot.bottom), (x, plot.bottom + 4.0));
            svg.text("soft label middle", (x, plot.bottom + 17.0), text);
        }
        svg.line("axis", (plot.left, plot.bottom), (plot.right, plot.bottom));
        let middle = (plot.left + plot.right) / 2.0;
        svg.text("soft label middle", (middle, plot.bottom + 34.0), &self.x.name);
    }

    fn draw_rule(&self, svg: &mut Svg, plot: Plot, rule: &Rule) {
        let points: Vec<_> = rule.points.iter().map(|&point| self.at(plot, point)).collect();
        svg.polyline("rule", &points);
    }

    /// Above the right end, on top of whatever passes there.
    fn label_rule(&self, svg: &mut Svg, plot: Plot, rule: &Rule) {
        if let Some(&end) = rule.points.last() {
            let (x, y) = self.at(plot, end);
            svg.text("soft label end halo", (x - 4.0, y - 5.0), &rule.label);
        }
    }

    fn draw_series(
        &self,
        svg: &mut Svg,
        plot: Plot,
        series: &Series,
        label: Option<((f64, f64), f64)>,
    ) {
        svg.open_group(&format!("series {}", series.look.class));
        for stretch in series.points.chunk_by(|a, b| a.1.is_some() == b.1.is_some()) {
            let points: Vec<_> =
                stretch.iter().filter_map(|&(x, y)| Some(self.at(plot, (x, y?)))).collect();
            match points[..] {
                [] => {}
                // A line of no length, with round ends, is a dot.
                [alone] => svg.polyline("", &[alone, alone]),
                _ => svg.polyline("", &points),
            }
        }
        for ((x, y), hint) in series.points.iter().zip(&series.hints) {
            if let Some(y) = y {
                svg.marker(series.look.shape, self.at(plot, (*x, *y)), hint);
            }
        }
        if let Some((end, label_y)) = label {
            if series.hints.is_empty() {
                svg.marker(series.look.shape, end, "");
            }
            let beside = plot.right + 14.0;
            svg.line("leader", (end.0 + 6.0, end.1), (beside - 2.0, label_y));
            svg.text("label", (beside, label_y + 4.0), &series.label);
        }
        svg.close_group();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(points: Vec<(f64, Option<f64>)>) -> String {
        let axis = |scale: Scale| Axis {
            name: "things".to_owned(),
            ticks: scale.ticks().into_iter().map(|tick| (tick, tick.to_string())).collect(),
            scale,
        };
        let look = Look::of("rayon");
        let series = Series { look, label: "r".to_owned(), points, hints: Vec::new() };
        let panel = Panel {
            title: "t".to_owned(),
            x: axis(Scale::linear(10.0)),
            y: axis(Scale::log_decades(1.0, 100.0)),
            rules: Vec::new(),
            series: vec![series],
        };
        let mut svg = Svg::default();
        panel.draw(&mut svg, Place { x: 0.0, y: 0.0, width: 348.0, height: 288.0 });
        svg.finish("p", (348.0, 288.0), "t", "d", "")
    }

    #[test]
    fn values_are_drawn_where_the_axes_say() {
        // The plot is 200 wide from 52, and 200 high from 48.
        let drawn = panel(vec![(0.0, Some(1.0)), (5.0, Some(10.0)), (10.0, Some(100.0))]);
        assert!(drawn.contains("points=\"52,248 152,148 252,48\""), "{drawn}");
    }

    #[test]
    fn a_missing_value_is_a_gap() {
        let some = Some(10.0);
        let drawn = panel(vec![(0.0, some), (1.0, some), (2.0, None), (3.0, some), (4.0, some)]);
        assert_eq!(drawn.matches("<polyline").count(), 2, "{drawn}");
    }

    #[test]
    fn what_is_no_number_does_not_get_into_the_file() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
            let drawn = panel(vec![(bad, Some(bad)), (1.0, Some(bad)), (bad, None)]);
            assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
        }
    }

    #[test]
    fn nothing_to_draw_is_an_empty_chart() {
        for points in [vec![], vec![(1.0, None)]] {
            assert!(!panel(points).contains("<polyline"));
        }
    }
}

//! Which line is what.

use super::style::Look;
use super::svg::Svg;

/// In two columns, a line each: a piece of the line, its name and what it is.
pub(crate) struct Legend<'a>(pub(crate) &'a [(Look, &'a str, &'a str)]);

const LINE: f64 = 20.0;
const COLUMNS: usize = 2;
/// The first column has the longer explanations.
const FIRST_COLUMN: f64 = 362.0;

impl Legend<'_> {
    pub(crate) fn height(&self) -> f64 {
        self.rows() as f64 * LINE
    }

    pub(crate) fn draw(&self, svg: &mut Svg, (x, y): (f64, f64)) {
        for (index, (look, name, explanation)) in self.0.iter().enumerate() {
            let (column, row) = (index / self.rows(), index % self.rows());
            let x = x + column as f64 * FIRST_COLUMN;
            let middle = y + (row as f64 + 0.5) * LINE;
            svg.open_group(&format!("series {}", look.class));
            svg.polyline("", &[(x, middle), (x + 30.0, middle)]);
            svg.marker(look.shape, (x + 15.0, middle), "");
            svg.text("label strong", (x + 38.0, middle + 4.0), name);
            svg.close_group();
            svg.text("ink label", (x + 120.0, middle + 4.0), explanation);
        }
    }

    fn rows(&self) -> usize {
        self.0.len().div_ceil(COLUMNS).max(1)
    }
}

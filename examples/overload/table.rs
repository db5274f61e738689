//! The rows as a table of text.

use std::fmt::Write as _;

use crate::row::{COLUMNS, Row};

/// A line for each row, in columns as wide as they need to be, under a line for each load.
pub(crate) fn table(rows: &[Row]) -> String {
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

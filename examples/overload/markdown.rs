//! The rows as a table for a README: a line for each pool.

use crate::numbers::{binary_size, or_dash, tenths};
use crate::picture::{at_load, loads};
use crate::pools::Kind;
use crate::row::Row;

/// Good answers at every load, then how the highest load was borne.
pub(crate) fn markdown(rows: &[Row]) -> String {
    let loads = loads(rows);
    let Some(&highest) = loads.last() else { return String::new() };
    let mut head = vec!["good answers, % of capacity, at".to_owned()];
    head.extend(loads.iter().map(|load| format!("{load} ×")));
    let at_highest = ["p50 ms", "p99 ms", "longest queue", "memory", "a refusal"];
    head.extend(at_highest.map(|name| format!("{name} at {highest} ×")));
    let mut text = line(&head);
    text.push_str(&line(&vec!["---".to_owned(); head.len()]));
    for kind in Kind::ALL {
        let mut cells = vec![kind.name().to_owned()];
        cells.extend(loads.iter().map(|&load| {
            let row = at_load(rows, load).into_iter().find(|row| row.kind == kind);
            or_dash(row, |row| format!("{:.0}", row.good_share * 100.0))
        }));
        // Without a row at the highest load there is nothing to say of the pool.
        if let Some(row) = at_load(rows, highest).into_iter().find(|row| row.kind == kind) {
            cells.extend([
                or_dash(row.p50_ms, tenths),
                or_dash(row.p99_ms, tenths),
                row.queue_peak.to_string(),
                or_dash(row.rss_growth_bytes, |bytes| binary_size(bytes as f64)),
                or_dash(row.refusal_ns, |ns| format!("{ns} ns")),
            ]);
            text.push_str(&line(&cells));
        }
    }
    text
}

fn line(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pool_has_a_line_of_all_columns() {
        let rows = [
            Row::example(Kind::Rayon, 0.8, 800.0),
            Row::example(Kind::Rayon, 2.5, 10.0),
            Row::example(Kind::Weirpool, 2.5, 990.0),
        ];
        let table = markdown(&rows);
        let lines: Vec<_> = table.lines().collect();
        assert!(lines[2].starts_with("| weirpool | - | 99 | - | 9.0 | 7 | - | 50 ns |"), "{table}");
        assert!(lines[3].starts_with("| rayon | 80 | 1 |"), "{table}");
        assert!(lines.iter().all(|line| line.matches('|').count() == 9), "{table}");
        assert_eq!(markdown(&[]), "");
    }
}

//! The tables.

use std::fmt::Write as _;

use crate::records::Record;
use crate::support::figures::ns;

/// More than this share shed, and the figure is of another shape than the others'.
const MUCH_SHED: f64 = 0.01;

/// One shape with all its pools, the quickest first.
pub(crate) fn of_shape(records: &[Record]) -> String {
    let mut sorted: Vec<_> = records.iter().collect();
    sorted.sort_by(|a, b| a.median_ns.total_cmp(&b.median_ns));
    let shape = records.first().map_or("", |record| &record.shape);
    let mut text = format!(
        "{shape:<16}{:>10} {:>10} {:>10} {:>10} {:>7}\n",
        "median ns", "smallest", "largest", "CPU ns", "ratio"
    );
    for record in sorted {
        let ratio = record.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        write!(
            text,
            "  {:<14}{:>10} {:>10} {:>10} {:>10} {ratio:>7}",
            record.pool,
            ns(record.median_ns),
            ns(record.min_ns),
            ns(record.max_ns),
            ns(record.cpu_ns),
        )
        .unwrap();
        if record.refused_per_job > 0.0 || record.shed_share > 0.0 {
            let mark = if record.shed_share > MUCH_SHED { "  !!" } else { "" };
            write!(
                text,
                "   {:.3} refusals per job ({:.0} % by the CPU gate), {:.3} % shed{mark}",
                record.refused_per_job,
                record.refused_by_the_gate * 100.0,
                record.shed_share * 100.0
            )
            .unwrap();
        }
        text.push('\n');
    }
    text
}

/// Our own ratios, over all numbers of workers.
pub(crate) fn summary(records: &[Record], workers: &[usize]) -> String {
    let mut text = "median ns (ratio to the best peer of the shape)\n".to_owned();
    write!(text, "{:<16}", "").unwrap();
    for workers in workers {
        write!(text, "{:<52}", format!("{workers} workers: weirpool, -bare, best peer")).unwrap();
    }
    text.push('\n');
    let mut shapes: Vec<&str> = records.iter().map(|record| record.shape.as_str()).collect();
    shapes.dedup();
    let mut seen = Vec::new();
    for shape in shapes {
        if seen.contains(&shape) {
            continue;
        }
        seen.push(shape);
        write!(text, "{shape:<16}").unwrap();
        for &workers in workers {
            write!(text, "{:<52}", cell(records, shape, workers)).unwrap();
        }
        text.push('\n');
    }
    text
}

fn cell(records: &[Record], shape: &str, workers: usize) -> String {
    let find = |pool: &str| {
        let is_it = |record: &&Record| {
            record.pool == pool && record.shape == shape && record.workers == workers
        };
        records.iter().find(is_it)
    };
    let ours = |pool| {
        let Some(record) = find(pool) else { return "-".to_owned() };
        let ratio = record.ratio.map_or_else(String::new, |ratio| format!(" ({ratio:.2})"));
        format!("{}{ratio}", ns(record.median_ns))
    };
    let any = records.iter().find(|record| record.shape == shape && record.workers == workers);
    let best = any.and_then(|record| record.best_peer.as_deref()).and_then(find);
    let best = best.map_or("-".to_owned(), |best| format!("{} {}", ns(best.median_ns), best.pool));
    format!("{:<14}{:<14}{best}", ours("weirpool"), ours("weirpool-bare"))
}

//! Medians and quantiles.

/// The value below which the given share of them lies; the list gets sorted.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> f64 {
    assert!(!values.is_empty(), "a quantile of nothing");
    values.sort_by(f64::total_cmp);
    values[(share * (values.len() - 1) as f64).round() as usize]
}

pub(crate) fn median(values: &mut [f64]) -> f64 {
    quantile(values, 0.5)
}

/// A number of nanoseconds for people: three digits or a few more.
pub(crate) fn ns(value: f64) -> String {
    match value {
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

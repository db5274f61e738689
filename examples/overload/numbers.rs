//! Numbers as people read them.

use std::time::Duration;

/// To the microsecond: the rest is noise.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

pub(crate) fn tenths(ms: f64) -> String {
    if ms < 100.0 { format!("{ms:.1}") } else { format!("{ms:.0}") }
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

pub(crate) fn or_dash<T>(figure: Option<T>, show: impl FnOnce(T) -> String) -> String {
    figure.map_or_else(|| "-".to_owned(), show)
}

pub(crate) fn binary_size(bytes: f64) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_two_figures_or_more() {
        let said = [0.0, 100.0, 9.5 * 1024.0, 10.0 * 1024.0, 3.0e6, 5.0e13].map(binary_size);
        assert_eq!(said, ["0", "0.1 KiB", "9.5 KiB", "10 KiB", "2.9 MiB", "46566 GiB"]);
    }
}

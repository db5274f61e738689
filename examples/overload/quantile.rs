//! Quantiles, by the nearest rank: always one of the values, never one in between.

use std::time::Duration;

/// The smallest of the sorted times that at least a share `q` of them doesn't exceed; none of none.
pub(crate) fn quantile(sorted: &[Duration], q: f64) -> Option<Duration> {
    let rank = (sorted.len() as f64 * q).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(times: &[u64]) -> Vec<Duration> {
        times.iter().map(|&ms| Duration::from_millis(ms)).collect()
    }

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let hundred = milliseconds(&(1..=100).collect::<Vec<_>>());
        for (q, ms) in [(0.0, 1), (0.001, 1), (0.5, 50), (0.505, 51), (0.99, 99), (1.0, 100)] {
            assert_eq!(quantile(&hundred, q), Some(Duration::from_millis(ms)), "{q}");
        }
    }

    #[test]
    fn few_values_have_quantiles_too() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&milliseconds(&[7]), 0.99), Some(Duration::from_millis(7)));
        assert_eq!(quantile(&milliseconds(&[1, 2]), 0.5), Some(Duration::from_millis(1)));
        assert_eq!(quantile(&milliseconds(&[1, 2]), 0.51), Some(Duration::from_millis(2)));
    }
}

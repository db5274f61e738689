//! A run over time, cut into slices of equal length.

use std::time::Duration;

use crate::quantile::quantile;
use crate::samples::Sample;

/// As many as a small picture can show.
const MOST_SLICES: usize = 40;

/// Shorter ones hold too few answers for a quantile to mean something.
const SHORTEST: Duration = Duration::from_millis(50);

/// What happened in one slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    /// The middle of the slice.
    pub(crate) at: Duration,
    /// Of the answers given in it, from arrival to answer; none if there were none.
    pub(crate) p50: Option<Duration>,
    pub(crate) p99: Option<Duration>,
    pub(crate) good: usize,
    pub(crate) len: Duration,
    /// The most in the slice; none if nobody looked.
    pub(crate) queued: Option<usize>,
    pub(crate) rss_growth_bytes: Option<u64>,
}

/// An answer, by when it was given and how long it had taken.
#[derive(Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) at: Duration,
    pub(crate) latency: Duration,
}

/// Whatever lies beyond `period` belongs to no slice.
pub(crate) fn slices(
    period: Duration,
    in_time: Duration,
    answers: &[Answer],
    samples: &[Sample],
) -> Vec<Slice> {
    let count = (period.as_nanos() / SHORTEST.as_nanos()).clamp(1, MOST_SLICES as u128) as usize;
    let mut latencies = vec![Vec::new(); count];
    for answer in answers {
        if let Some(slice) = index_of(answer.at, period, count) {
            latencies[slice].push(answer.latency);
        }
    }
    let len = period / count as u32;
    let mut slices: Vec<_> = latencies
        .into_iter()
        .enumerate()
        .map(|(slice, mut latencies)| {
            latencies.sort_unstable();
            Slice {
                at: len * slice as u32 + len / 2,
                p50: quantile(&latencies, 0.5),
                p99: quantile(&latencies, 0.99),
                good: latencies.partition_point(|&latency| latency <= in_time),
                len,
                queued: None,
                rss_growth_bytes: None,
            }
        })
        .collect();
    for sample in samples {
        if let Some(slice) = index_of(sample.at, period, count) {
            let slice = &mut slices[slice];
            slice.queued = slice.queued.max(Some(sample.queued));
            slice.rss_growth_bytes = slice.rss_growth_bytes.max(sample.rss_growth_bytes);
        }
    }
    slices
}

fn index_of(at: Duration, period: Duration, count: usize) -> Option<usize> {
    let slice = at.as_nanos().saturating_mul(count as u128).checked_div(period.as_nanos())?;
    usize::try_from(slice).ok().filter(|&slice| slice < count)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn answer(at: u64, latency: u64) -> Answer {
        Answer { at: ms(at), latency: ms(latency) }
    }

    #[test]
    fn each_answer_belongs_to_the_slice_in_which_it_was_given() {
        let answers = [
            answer(0, 1),
            answer(49, 3),
            answer(50, 30),
            answer(99, 40),
            answer(100, 9),
            answer(150, 99),
        ];
        let slices = slices(ms(150), ms(25), &answers, &[]);
        let seen: Vec<_> = slices.iter().map(|s| (s.at, s.p50, s.p99, s.good)).collect();
        assert_eq!(
            seen,
            [
                (ms(25), Some(ms(1)), Some(ms(3)), 2),
                (ms(75), Some(ms(30)), Some(ms(40)), 0),
                (ms(125), Some(ms(9)), Some(ms(9)), 1),
            ]
        );
    }

    #[test]
    fn the_most_of_a_slice_is_what_it_shows() {
        let sample = |at, queued, bytes| Sample { at: ms(at), queued, rss_growth_bytes: bytes };
        let samples = [sample(1, 5, Some(9)), sample(2, 7, None), sample(60, 1, None)];
        let slices = slices(ms(150), ms(25), &[], &samples);
        let seen: Vec<_> = slices.iter().map(|s| (s.queued, s.rss_growth_bytes)).collect();
        assert_eq!(seen, [(Some(7), Some(9)), (Some(1), None), (None, None)]);
        assert!(slices.iter().all(|s| s.p50.is_none() && s.good == 0));
    }

    #[test]
    fn no_period_is_too_short_or_too_long() {
        for period in [Duration::ZERO, Duration::from_nanos(1), ms(49), Duration::from_secs(9999)] {
            let slices = slices(period, ms(25), &[answer(0, 1)], &[]);
            assert!((1..=MOST_SLICES).contains(&slices.len()));
            let good: usize = slices.iter().map(|s| s.good).sum();
            assert_eq!(good, usize::from(!period.is_zero()));
        }
    }
}

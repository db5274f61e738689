//! When the jobs arrive: an open loop, fixed before the run and the same for every pool.

use std::sync::Arc;
use std::time::Duration;

/// When the jobs arrive, counted from the start of the run.
pub(crate) struct Load {
    pub(crate) arrivals: Arc<[Duration]>,
    pub(crate) period: Duration,
}

/// A stretch of one rate.
pub(crate) struct Phase {
    pub(crate) rate_per_s: f64,
    pub(crate) lasts: Duration,
}

impl Load {
    pub(crate) fn steady(rate_per_s: f64, lasts: Duration, seed: u64) -> Self {
        Self::phases(&[Phase { rate_per_s, lasts }], seed)
    }

    /// Poisson arrivals whose rate changes from phase to phase.
    pub(crate) fn phases(phases: &[Phase], seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut arrivals = Vec::new();
        let mut begins_s = 0.0;
        for phase in phases {
            let ends_s = begins_s + phase.lasts.as_secs_f64();
            // Arrivals have no memory: the first gap of a phase may begin with the phase.
            let mut due_s = begins_s;
            loop {
                // `f64` is below 1, so the logarithm is finite.
                due_s -= (1.0 - rng.f64()).ln() / phase.rate_per_s;
                if due_s >= ends_s {
                    break;
                }
                arrivals.push(Duration::from_secs_f64(due_s));
            }
            begins_s = ends_s;
        }
        Load { arrivals: arrivals.into(), period: Duration::from_secs_f64(begins_s) }
    }

    /// Jobs that all arrive at the start.
    pub(crate) fn at_once(jobs: usize) -> Self {
        Load { arrivals: vec![Duration::ZERO; jobs].into(), period: Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(rate_per_s: f64, seconds: u64) -> Phase {
        Phase { rate_per_s, lasts: Duration::from_secs(seconds) }
    }

    #[test]
    fn arrivals_are_in_order_and_as_many_as_the_rates_say() {
        let load = Load::phases(&[phase(1000.0, 2), phase(4000.0, 1)], 7);
        assert!(load.arrivals.is_sorted());
        assert_eq!(load.period, Duration::from_secs(3));
        let first = load.arrivals.partition_point(|&at| at < Duration::from_secs(2));
        let second = load.arrivals.len() - first;
        // Ten standard deviations of a Poisson count.
        assert!((1550..2450).contains(&first), "{first}");
        assert!((3370..4630).contains(&second), "{second}");
    }

    #[test]
    fn the_same_seed_gives_the_same_arrivals() {
        let arrivals = |seed| Load::steady(500.0, Duration::from_secs(1), seed).arrivals;
        assert_eq!(arrivals(3), arrivals(3));
        assert_ne!(arrivals(3), arrivals(4));
    }
}

//! One step of each algorithm: the limit of before and what a window said, to the limit of after.
//!
//! `ratio` is how much slower the jobs of the window were than their baseline; 1 means not at all,
//! and it is never below. Bounds, in-use and freezing are the caller's.

/// Which rule moves the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Aimd,
    Vegas,
    Gradient,
    Bdp,
}

/// A window this much slower than its baseline is AIMD's sign of overload, in place of the time-out
/// that the networks' AIMD waits for.
const AIMD_OVERLOADED: f64 = 2.0;
/// Netflix's `AIMDLimit` backs off by this.
const AIMD_BACKOFF: f64 = 0.9;

/// Adds one, or takes a tenth off.
pub(super) fn aimd(limit: f64, ratio: f64) -> f64 {
    if ratio > AIMD_OVERLOADED { limit * AIMD_BACKOFF } else { limit + 1.0 }
}

/// Netflix's `VegasLimit`: the jobs that queue somewhere behind the workers are the part of the
/// limit by which it is above the limit over the ratio; keep them between 3 and 6 (times lg).
pub(super) fn vegas(limit: f64, ratio: f64) -> f64 {
    let queued = (limit * (1.0 - 1.0 / ratio)).ceil();
    let lg = limit.log10().floor().max(1.0);
    if queued <= lg {
        limit + 6.0 * lg
    } else if queued < 3.0 * lg {
        limit + lg
    } else if queued > 6.0 * lg {
        limit - lg
    } else {
        limit
    }
}

/// Slower than the baseline by less than this is nothing to Gradient2.
const GRADIENT_TOLERANCE: f64 = 1.5;
/// How much of the new value enters in one step.
const GRADIENT_SMOOTHING: f64 = 0.2;
/// Jobs that may always queue; they are also what makes the limit grow.
const GRADIENT_QUEUE: f64 = 4.0;

/// Netflix's `Gradient2Limit`, with the probed baseline in the place of the mean of the last 600
/// samples: in a pool that is saturated for minutes that mean becomes the congested time itself,
/// the gradient is 1 again, and the limit grows without end.
pub(super) fn gradient(limit: f64, ratio: f64) -> f64 {
    let gradient = (GRADIENT_TOLERANCE / ratio).clamp(0.5, 1.0);
    let aim = limit * gradient + GRADIENT_QUEUE;
    limit * (1.0 - GRADIENT_SMOOTHING) + aim * GRADIENT_SMOOTHING
}

/// BBR's `cwnd_gain`: one product runs, as much again waits to run.
const BDP_GAIN: f64 = 2.0;
/// Until the jobs are slower than this, as for Gradient2, the limit rises instead. The product of a
/// pool that isn't congested, but half idle, is small too, and the next burst would be refused for it.
const BDP_TOLERANCE: f64 = 1.5;
/// How far one window lowers the limit towards its aim: one odd window says little, as for Gradient2.
const BDP_SMOOTHING: f64 = 0.2;

/// The bandwidth-delay product: the largest throughput seen lately, times the baseline, times a
/// gain. When more queues behind the workers than the gain allows for (the ratio is above it), the
/// gain falls to 1, so that the queue drains, as in BBR's drain phase. Without congestion the limit
/// gropes upwards one by one, as BBR does by pacing a little above the bandwidth it knows.
pub(super) fn bdp(limit: f64, ratio: f64, largest_product: f64) -> f64 {
    let gain = (BDP_GAIN * BDP_GAIN / ratio).clamp(1.0, BDP_GAIN);
    let aim = gain * largest_product;
    if ratio <= BDP_TOLERANCE {
        aim.max(limit + 1.0)
    } else if aim < limit {
        limit + BDP_SMOOTHING * (aim - limit)
    } else {
        aim
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(step: impl Fn(f64, f64) -> f64, table: &[(f64, f64, f64)]) {
        for &(limit, ratio, expected) in table {
            let after = step(limit, ratio);
            assert!((after - expected).abs() < 1e-9, "{limit} at {ratio}: {after}, not {expected}");
        }
    }

    #[test]
    fn aimd_adds_one_and_takes_a_tenth() {
        check(
            aimd,
            &[
                (20.0, 1.0, 21.0),
                (20.0, 2.0, 21.0),
                (20.0, 2.001, 18.0),
                (20.0, 1e9, 18.0),
                (1.0, 1.0, 2.0),
                (1.0, 3.0, 0.9),
            ],
        );
    }

    // Each branch of `VegasLimit`, with alpha 3, beta 6 and threshold 1, all times lg.
    #[test]
    fn vegas_keeps_three_to_six_in_the_queue() {
        check(
            vegas,
            &[
                (20.0, 1.0, 26.0),         // q = 0
                (20.0, 1.05, 26.0),        // q = 0.95, up to lg
                (20.0, 20.0 / 18.5, 21.0), // q = 1.5, up to 2
                (20.0, 20.0 / 17.5, 20.0), // 3
                (20.0, 20.0 / 14.5, 20.0), // 6
                (20.0, 20.0 / 13.5, 19.0), // 7
                (20.0, 1e9, 19.0),         // q = 20
                (9.0, 1.0, 15.0),          // lg is never below 1
                (99.0, 1.0, 105.0),        // ... and is rounded down
                (100.0, 1.0, 112.0),       // lg = 2
                (100.0, 100.0 / 98.5, 112.0),
                (100.0, 100.0 / 95.5, 102.0),
                (100.0, 100.0 / 88.5, 100.0),
                (100.0, 100.0 / 87.5, 98.0),
                (1000.0, 1.0, 1018.0),
                (1.0, 1e9, 7.0), // one job alone is no queue
            ],
        );
    }

    // `Gradient2Limit` with tolerance 1.5, smoothing 0.2 and a queue of 4.
    #[test]
    fn gradient_tolerates_half_as_much_again() {
        check(
            gradient,
            &[
                (20.0, 1.0, 20.8),
                (20.0, 1.5, 20.8),
                (20.0, 2.0, 19.8),   // gradient 0.75
                (20.0, 3.0, 18.8),   // gradient 0.5
                (20.0, 100.0, 18.8), // ... which is the least
                (8.0, 100.0, 8.0),   // where least and queue meet
                (1000.0, 1.0, 1000.8),
            ],
        );
    }

    #[test]
    fn bdp_is_twice_the_product_and_once_when_congested() {
        let of_four = |limit, ratio| bdp(limit, ratio, 4.0);
        check(
            of_four,
            &[
                (4.0, 1.0, 8.0),
                (7.0, 1.75, 8.0),
                (8.0, 2.0, 8.0),
                (18.0, 2.0, 16.0),       // a fifth of the way to 8
                (20.0, 8.0 / 3.0, 17.2), // ... to 6, a gain of 1.5
                (19.0, 4.0, 16.0),       // ... to 4, a gain of 1
                (19.0, 1e9, 16.0),
                (20.0, 1.5, 21.0), // not congested: a small product is only little use
                (20.0, 1.0, 21.0),
            ],
        );
    }
}

//! Work that takes as long as it says, in CPU time.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Instant;

/// So many rounds of arithmetic.
///
/// Counted beforehand, not timed while it runs: a body that looks at the clock until its time is up
/// also counts the time in which it was not running, so that two of them on one core would seem to
/// take no longer than one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    rounds: u64,
}

impl Work {
    pub(crate) const NONE: Self = Self { rounds: 0 };

    pub(crate) fn of_ns(ns: u64) -> Self {
        Self { rounds: (ns as f64 / round_ns()) as u64 }
    }

    /// Does it. The result depends on every round, and on the argument.
    #[inline]
    pub(crate) fn run(self, seed: u64) -> u64 {
        let mut value = seed;
        for _ in 0..self.rounds {
            value = black_box(value.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17));
        }
        value
    }
}

/// The time of one round: the best of many tries, since everything that disturbs makes it longer.
fn round_ns() -> f64 {
    static ROUND_NS: OnceLock<f64> = OnceLock::new();
    const ROUNDS: u64 = 20_000;
    *ROUND_NS.get_or_init(|| {
        let once = |_| {
            let started = Instant::now();
            black_box(Work { rounds: ROUNDS }.run(black_box(1)));
            started.elapsed().as_nanos() as f64 / ROUNDS as f64
        };
        (0..200).map(once).fold(f64::INFINITY, f64::min)
    })
}

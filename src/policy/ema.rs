//! An exponential moving average that is weighted by elapsed time.
//!
//! A fixed share per sample would make the average depend on how often it is fed: wrong after a
//! gap, and stuck while nothing happens. Here a sample stands for the time since the one before, and
//! gets the share `1 - exp(-dt / tau)` of that time: the closed form of a low-pass filter of first
//! order whose input was constant meanwhile.

/// The average of a value over about the last `tau` nanoseconds.
#[derive(Debug, Clone)]
pub(crate) struct Ema {
    tau_ns: f64,
    at_ns: u64,
    value: Option<f64>,
}

impl Ema {
    /// With a time constant of zero the average is the newest sample.
    pub(crate) fn new(tau_ns: u64) -> Self {
        Self { tau_ns: tau_ns as f64, at_ns: 0, value: None }
    }

    /// Adds what the value was since the last sample.
    ///
    /// The first sample is the average at once: there is nothing to be biased towards. A sample
    /// without elapsed time has no weight; if time ran backwards it only sets the new beginning. What
    /// is not finite is dropped, so that one bad sample can't stay in the average for ever.
    pub(crate) fn add(&mut self, now_ns: u64, sample: f64) {
        if !sample.is_finite() {
            return;
        }
        let elapsed_ns = now_ns.saturating_sub(self.at_ns);
        self.at_ns = now_ns;
        let Some(value) = self.value else {
            self.value = Some(sample);
            return;
        };
        if elapsed_ns == 0 {
            return;
        }
        // `exp_m1` keeps the digits of a share far below one.
        let share = -(-(elapsed_ns as f64) / self.tau_ns).exp_m1();
        let mixed = value * (1.0 - share) + sample * share;
        // Rounding must not carry it past what it averages.
        self.value = Some(mixed.clamp(value.min(sample), value.max(sample)));
    }

    /// Lets the next sample stand for the time from `now_ns` on: what came before is unknown.
    pub(crate) fn rebase(&mut self, now_ns: u64) {
        self.at_ns = now_ns;
    }

    /// The average, always finite; none before the first sample.
    pub(crate) fn value(&self) -> Option<f64> {
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const S: u64 = 1_000 * MS;

    /// An average of 15 s that stands at `base` at the time of 100 s.
    fn at(base: f64) -> Ema {
        let mut ema = Ema::new(15 * S);
        ema.add(100 * S, base);
        ema
    }

    #[track_caller]
    fn check(ema: &Ema, expected: f64) {
        let value = ema.value().unwrap();
        assert!((value - expected).abs() < 5e-4, "{value} instead of {expected}");
    }

    #[test]
    fn a_sample_weighs_as_much_as_its_time() {
        for (base, gap_ns, sample, expected) in [
            (0.4, 30 * S, 1.0, 0.919),
            (0.95, 60 * S, 0.0, 0.0174),
            (0.3, S, 1.0, 0.345),
            (0.3, 15 * S, 1.0, 0.7425),
            (0.8, 3_600 * S, 0.0, 0.0),
        ] {
            let mut ema = at(base);
            ema.add(100 * S + gap_ns, sample);
            check(&ema, expected);
        }
    }

    #[test]
    fn the_first_sample_is_not_pulled_towards_zero() {
        let mut ema = Ema::new(15 * S);
        assert_eq!(ema.value(), None);
        ema.add(0, 0.9);
        assert_eq!(ema.value(), Some(0.9));
    }

    #[test]
    fn many_small_steps_of_a_constant_change_nothing() {
        let mut ema = at(0.5);
        for step in 1..=1_000 {
            ema.add(100 * S + step * MS, 0.5);
        }
        assert!((ema.value().unwrap() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn one_long_step_equals_many_short_ones() {
        let (mut one, mut many) = (at(0.2), at(0.2));
        one.add(107 * S, 0.9);
        for step in 1..=7_000 {
            many.add(100 * S + step * MS, 0.9);
        }
        assert!((one.value().unwrap() - many.value().unwrap()).abs() < 1e-9);
    }

    #[test]
    fn no_time_and_backward_time_change_nothing_and_a_new_beginning_is_made() {
        let mut ema = at(0.5);
        ema.add(100 * S, 1.0);
        check(&ema, 0.5);
        ema.add(90 * S, 1.0);
        check(&ema, 0.5);
        ema.add(91 * S, 1.0);
        check(&ema, 0.5 + 0.5 * 0.0645);
    }

    #[test]
    fn after_a_rebase_a_sample_stands_for_the_time_since() {
        let mut ema = at(0.3);
        ema.rebase(3_600 * S);
        ema.add(3_601 * S, 1.0);
        check(&ema, 0.345);
    }

    #[test]
    fn it_stays_finite_whatever_comes() {
        let mut ema = at(0.5);
        for (now_ns, sample) in
            [(101 * S, f64::NAN), (102 * S, f64::INFINITY), (103 * S, f64::NEG_INFINITY)]
        {
            ema.add(now_ns, sample);
            check(&ema, 0.5);
        }
        for (now_ns, sample) in [(u64::MAX, f64::MAX), (0, f64::MIN), (u64::MAX, f64::MIN)] {
            ema.add(now_ns, sample);
            assert!(ema.value().unwrap().is_finite());
        }
    }

    #[test]
    fn without_a_time_constant_the_newest_sample_counts() {
        let mut ema = Ema::new(0);
        ema.add(5, 0.1);
        ema.add(5, 0.2);
        assert_eq!(ema.value(), Some(0.1));
        ema.add(6, 0.3);
        assert_eq!(ema.value(), Some(0.3));
    }
}

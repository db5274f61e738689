//! From readings of a CPU source to the share of the CPU in use, and its average.
//!
//! Sources are other people's files and other people's code: a counter may start again from zero, a
//! clock may jump, a reading may be no number. None of that may reach the average, or the gate that
//! rests on it would refuse for no reason, or for ever.

use super::ema::Ema;

/// One reading of a source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Reading {
    /// The share of the CPU in use since the last reading.
    Busy(f64),
    /// CPU time used since some beginning, and the cores that could be used.
    Cumulative { cpu_ns: u64, cores: f64 },
}

/// Turns readings into a share from 0 to 1 and averages it over time.
#[derive(Debug, Clone)]
pub(crate) struct CpuMeter {
    ema: Ema,
    /// The last use of the source that counted; where the next interval begins.
    last_ns: Option<u64>,
    /// The counter at the beginning of the interval, of a source that counts.
    base_cpu_ns: Option<u64>,
    /// When the average was last moved.
    moved_ns: Option<u64>,
    ignored: u64,
}

impl CpuMeter {
    pub(crate) fn new(tau_ns: u64) -> Self {
        Self { ema: Ema::new(tau_ns), last_ns: None, base_cpu_ns: None, moved_ns: None, ignored: 0 }
    }

    /// Takes one reading.
    ///
    /// The first reading of a counter only sets its beginning. Without elapsed time a reading
    /// changes nothing, and the CPU used meanwhile counts in the next one. A counter or a clock that
    /// went backwards is a new beginning: the average stays, and the interval is unknown. What is
    /// not a number, negative or infinite is dropped; a share above 1 counts as 1.
    pub(crate) fn take(&mut self, now_ns: u64, reading: Reading) {
        if !is_sane(reading) {
            self.ignored = self.ignored.saturating_add(1);
            return;
        }
        if self.last_ns.is_some_and(|last_ns| now_ns < last_ns) {
            self.ignored = self.ignored.saturating_add(1);
            self.begin(now_ns, reading);
            return;
        }
        match reading {
            Reading::Busy(share) => {
                self.base_cpu_ns = None;
                self.average(now_ns, share);
            }
            Reading::Cumulative { cpu_ns, cores } => self.take_counter(now_ns, cpu_ns, cores),
        }
    }

    fn take_counter(&mut self, now_ns: u64, cpu_ns: u64, cores: f64) {
        let reading = Reading::Cumulative { cpu_ns, cores };
        let (Some(last_ns), Some(base_cpu_ns)) = (self.last_ns, self.base_cpu_ns) else {
            return self.begin(now_ns, reading);
        };
        let Some(used_ns) = cpu_ns.checked_sub(base_cpu_ns) else {
            self.ignored = self.ignored.saturating_add(1);
            return self.begin(now_ns, reading);
        };
        if now_ns == last_ns {
            return;
        }
        let could_ns = (now_ns - last_ns) as f64 * cores;
        self.base_cpu_ns = Some(cpu_ns);
        self.average(now_ns, used_ns as f64 / could_ns);
    }

    /// A beginning without a past.
    fn begin(&mut self, now_ns: u64, reading: Reading) {
        self.last_ns = Some(now_ns);
        self.ema.rebase(now_ns);
        self.base_cpu_ns = match reading {
            Reading::Busy(_) => None,
            Reading::Cumulative { cpu_ns, .. } => Some(cpu_ns),
        };
    }

    fn average(&mut self, now_ns: u64, share: f64) {
        self.ema.add(now_ns, share.min(1.0));
        self.last_ns = Some(now_ns);
        self.moved_ns = Some(now_ns);
    }

    /// The average share of the CPU in use, from 0 to 1; none before the first interval.
    pub(crate) fn value(&self) -> Option<f64> {
        self.ema.value()
    }

    /// The average if it was moved within the last `max_age_ns`. What is older says nothing about
    /// now: a gate that refuses all would otherwise wait for ever for the sample that opens it, if
    /// only accepted work takes samples.
    pub(crate) fn fresh(&self, now_ns: u64, max_age_ns: u64) -> Option<f64> {
        let age_ns = now_ns.saturating_sub(self.moved_ns?);
        if age_ns <= max_age_ns { self.value() } else { None }
    }

    /// How many readings made no sense: no number, or backwards.
    pub(crate) fn ignored(&self) -> u64 {
        self.ignored
    }
}

fn is_sane(reading: Reading) -> bool {
    match reading {
        Reading::Busy(share) => share.is_finite() && share >= 0.0,
        Reading::Cumulative { cores, .. } => cores.is_finite() && cores > 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const TAU: u64 = 15 * S;

    fn counter(cpu_s: f64, cores: f64) -> Reading {
        Reading::Cumulative { cpu_ns: (cpu_s * S as f64) as u64, cores }
    }

    #[track_caller]
    fn check(meter: &CpuMeter, value: Option<f64>, ignored: u64) {
        assert_eq!(meter.ignored(), ignored);
        match (meter.value(), value) {
            (Some(is), Some(expected)) => assert!((is - expected).abs() < 1e-9, "{is}, {expected}"),
            (is, expected) => assert_eq!(is, expected),
        }
    }

    #[test]
    fn first_sample_zero_interval_counter_and_clock_going_backwards() {
        let mut meter = CpuMeter::new(TAU);
        meter.take(100 * S, counter(50.0, 1.0));
        check(&meter, None, 0);
        meter.take(100 * S, counter(50.0, 1.0));
        check(&meter, None, 0);
        meter.take(101 * S, counter(40.0, 1.0));
        check(&meter, None, 1);
        meter.take(101 * S, counter(41.0, 1.0));
        check(&meter, None, 1);
        meter.take(99 * S, counter(42.0, 1.0));
        check(&meter, None, 2);
        meter.take(102 * S, counter(43.0, 1.0));
        check(&meter, Some(1.0 / 3.0), 2);
    }

    #[test]
    fn a_new_beginning_keeps_the_average_and_gives_the_unknown_time_no_weight() {
        let mut meter = CpuMeter::new(TAU);
        meter.take(0, counter(0.0, 1.0));
        meter.take(S, counter(0.3, 1.0));
        check(&meter, Some(0.3), 0);
        meter.take(3_600 * S, counter(0.1, 1.0));
        check(&meter, Some(0.3), 1);
        meter.take(3_601 * S, counter(1.1, 1.0));
        let expected = 0.3 + 0.7 * (1.0 - (-1.0_f64 / 15.0).exp());
        check(&meter, Some(expected), 1);
    }

    #[test]
    fn a_pause_of_the_process_is_idle_time() {
        let mut meter = CpuMeter::new(0);
        meter.take(0, counter(0.0, 1.0));
        meter.take(3_600 * S, counter(1.0, 1.0));
        check(&meter, Some(1.0 / 3_600.0), 0);
    }

    #[test]
    fn what_is_no_share_is_dropped_and_counted_and_too_much_is_all() {
        let mut meter = CpuMeter::new(TAU);
        for (nth, share) in [f64::NAN, -1.0, f64::INFINITY, f64::NEG_INFINITY].iter().enumerate() {
            meter.take(nth as u64 * S, Reading::Busy(*share));
            check(&meter, None, nth as u64 + 1);
        }
        meter.take(4 * S, Reading::Busy(7.3));
        check(&meter, Some(1.0), 4);
        for cores in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            meter.take(5 * S, counter(1.0, cores));
        }
        check(&meter, Some(1.0), 8);
    }

    #[test]
    fn a_counter_of_many_cores_and_its_extremes_stay_within_bounds() {
        for (from, to, cores, expected) in [
            (0, 1_900_000_000, 2.0, 0.95),
            (0, 1_900_000_000, 64.0, 1.9 / 64.0),
            (0, 500_000_000, 0.5, 1.0),
            (0, u64::MAX, f64::MIN_POSITIVE, 1.0),
            (u64::MAX, u64::MAX, 1e300, 0.0),
        ] {
            let mut meter = CpuMeter::new(TAU);
            meter.take(S, Reading::Cumulative { cpu_ns: from, cores });
            meter.take(2 * S, Reading::Cumulative { cpu_ns: to, cores });
            check(&meter, Some(expected), 0);
        }
    }

    #[test]
    fn what_was_used_without_elapsed_time_counts_in_the_next_interval() {
        let mut meter = CpuMeter::new(TAU);
        meter.take(S, counter(1.0, 1.0));
        meter.take(S, counter(1.5, 1.0));
        meter.take(2 * S, counter(1.75, 1.0));
        check(&meter, Some(0.75), 0);
    }

    #[test]
    fn an_old_average_is_no_news() {
        let mut meter = CpuMeter::new(TAU);
        assert_eq!(meter.fresh(9 * S, S), None);
        meter.take(10 * S, Reading::Busy(0.95));
        assert_eq!(meter.fresh(11 * S, S), Some(0.95));
        assert_eq!(meter.fresh(9 * S, S), Some(0.95));
        assert_eq!(meter.fresh(11 * S + 1, S), None);
        meter.take(70 * S, Reading::Busy(0.0));
        let value = meter.fresh(70 * S, S).unwrap();
        assert!((value - 0.0174).abs() < 5e-5, "{value}");
    }

    #[test]
    fn a_source_that_changes_its_way_of_reading_starts_again() {
        let mut meter = CpuMeter::new(0);
        meter.take(S, counter(5.0, 1.0));
        meter.take(2 * S, Reading::Busy(0.5));
        meter.take(3 * S, counter(9.0, 1.0));
        check(&meter, Some(0.5), 0);
        meter.take(4 * S, counter(9.25, 1.0));
        check(&meter, Some(0.25), 0);
    }
}

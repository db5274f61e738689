//! From values to places.

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Linear,
    Log,
}

/// A range of values, on a linear or logarithmic axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    kind: Kind,
    from: f64,
    to: f64,
}

impl Scale {
    /// From 0 to a round number at or above `max`.
    pub(crate) fn linear(max: f64) -> Self {
        let max = if max.is_finite() && max > 0.0 { max } else { 1.0 };
        Scale { kind: Kind::Linear, from: 0.0, to: round_up(max) }
    }

    /// From 0 to exactly `max`.
    pub(crate) fn linear_to(max: f64) -> Self {
        let to = if max.is_finite() && max > 0.0 { max } else { 1.0 };
        Scale { kind: Kind::Linear, from: 0.0, to }
    }

    /// From `from`, above 0, to `to`, and at least a factor of 10 unless `exactly` is called.
    pub(crate) fn log_decades(from: f64, max: f64) -> Self {
        let max = if max.is_finite() { max.max(from) } else { from };
        let decades = (max / from).log10().ceil().max(1.0);
        Scale { kind: Kind::Log, from, to: from * 10_f64.powf(decades) }
    }

    /// From one to the other, both above 0.
    pub(crate) fn log(from: f64, to: f64) -> Self {
        Scale { kind: Kind::Log, from, to: to.max(from * 1.01) }
    }

    /// Where the value lies, 0 at the beginning and 1 at the end of the range. A value outside, or
    /// one that is no number, is put at the nearer end, or the beginning.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let place = match self.kind {
            Kind::Linear => (value - self.from) / (self.to - self.from),
            Kind::Log if value > 0.0 => (value / self.from).ln() / (self.to / self.from).ln(),
            Kind::Log => 0.0,
        };
        if place.is_nan() { 0.0 } else { place.clamp(0.0, 1.0) }
    }

    /// Round values for the axis, both ends included if they are round.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        match self.kind {
            Kind::Linear => {
                let step = step(self.to);
                // A little more, since the multiples are not exact.
                let count = (self.to / step * (1.0 + 1e-9)) as usize;
                (0..=count).map(|n| n as f64 * step).collect()
            }
            Kind::Log => {
                let first = self.from.log10().ceil() as i32;
                let last = (self.to.log10() + 1e-9).floor() as i32;
                (first..=last).map(|exponent| 10_f64.powi(exponent)).collect()
            }
        }
    }
}

/// 1, 2 or 5 times a power of ten, of which three to six make up `max`.
fn step(max: f64) -> f64 {
    let rough = max / 6.0;
    let magnitude = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|&n| n * magnitude >= rough * 0.999);
    step.unwrap_or(10.0) * magnitude
}

fn round_up(max: f64) -> f64 {
    let step = step(max);
    (max / step * (1.0 - 1e-9)).ceil() * step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_scale_begins_at_zero_and_ends_at_a_round_number() {
        for (max, to, ticks) in [
            (1.07, 1.2, 7),
            (100.0, 100.0, 6),
            (4321.0, 5000.0, 6),
            (0.0, 1.0, 6),
            (f64::NAN, 1.0, 6),
            (f64::INFINITY, 1.0, 6),
        ] {
            let scale = Scale::linear(max);
            let seen = scale.ticks();
            assert_eq!((scale.from, seen.len()), (0.0, ticks), "{max}: {seen:?}");
            assert!((scale.to - to).abs() < 1e-9, "{max}: {}", scale.to);
            assert!((seen[seen.len() - 1] - to).abs() < 1e-9, "{max}: {seen:?}");
        }
    }

    #[test]
    fn a_log_scale_covers_whole_decades() {
        let scale = Scale::log_decades(1.0, 1234.0);
        assert_eq!(scale.ticks(), [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
        assert_eq!(Scale::log_decades(1.0, f64::NAN).ticks(), [1.0, 10.0]);
        assert_eq!(Scale::log_decades(1.0, 10.0).ticks(), [1.0, 10.0]);
        assert!((scale.place(100.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn every_value_has_a_place() {
        let scales = [Scale::linear(10.0), Scale::log(0.8, 10.0), Scale::log(3.0, 3.0)];
        for scale in scales {
            for (value, place) in [
                (scale.from, 0.0),
                (scale.to, 1.0),
                (-5.0, 0.0),
                (1e300, 1.0),
                (f64::NAN, 0.0),
                (f64::INFINITY, 1.0),
                (f64::NEG_INFINITY, 0.0),
            ] {
                assert_eq!(scale.place(value), place, "{value} on {scale:?}");
            }
        }
        assert_eq!(Scale::linear(10.0).place(5.0), 0.5);
    }
}

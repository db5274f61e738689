//! From the average CPU use to refusals: a ramp between two bounds, or steps.
//!
//! # When the ramp oscillates
//!
//! The ramp closes a loop: what it refuses lowers the CPU use that it decides by. With an offered
//! load of `k` times the capacity the use is `k (1 - p)`, and `p` rises by `1 / (hi - lo)` per unit of
//! use. One sample moves the average by the share `alpha` of the difference, so that an error becomes
//! `1 - alpha (1 + k / (hi - lo))` times itself per sample. That dies out while
//!
//! ```text
//! alpha < 2 / (1 + k / (hi - lo))
//! ```
//!
//! and swings from "refuse all" to "admit all" above. With the bounds 0.80 and 0.95 and ten times the
//! capacity that is 0.0296 per sample; samples each 100 ms and an average over 4 s have 0.0247.
//! Steps are a ramp of no width, which is never stable: they are there for who wants them.

/// How urgent a job is, as far as refusing it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    Low,
    Normal,
    High,
    Critical,
}

impl Urgency {
    pub(crate) const ALL: [Self; 4] = [Self::Low, Self::Normal, Self::High, Self::Critical];
}

/// A setting that makes no sense.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BadShare {
    pub(crate) setting: &'static str,
    pub(crate) value: f64,
    pub(crate) expected: &'static str,
}

fn check(
    setting: &'static str,
    value: f64,
    least: f64,
    expected: &'static str,
) -> Result<(), BadShare> {
    // Written so that NaN fails.
    if value > 0.0 && value >= least && value <= 1.0 {
        Ok(())
    } else {
        Err(BadShare { setting, value, expected })
    }
}

/// Refuses none at or below `lo`, all at or above `hi`, and a growing share between.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ramp {
    lo: f64,
    hi: f64,
}

impl Ramp {
    /// `0 < lo <= hi <= 1`; equal bounds make a step, which refuses at the bound itself.
    pub(crate) fn new(lo: f64, hi: f64) -> Result<Self, BadShare> {
        check("lo", lo, 0.0, "above 0 and at most 1")?;
        check("hi", hi, lo, "at least lo and at most 1")?;
        Ok(Self { lo, hi })
    }

    /// The share of `Normal` jobs to refuse at this CPU use. No data, or no number: none.
    pub(crate) fn share(&self, busy: Option<f64>) -> f64 {
        let Some(busy) = busy else { return 0.0 };
        if busy >= self.hi {
            1.0
        } else if busy > self.lo {
            // Between them, so they differ.
            (busy - self.lo) / (self.hi - self.lo)
        } else {
            0.0
        }
    }
}

/// The share of the jobs of one urgency that is refused while `share` of `Normal` ones are.
///
/// `Low` stands before the gate twice, and is refused at least as often; `High` only if it is refused
/// twice, so at most as often. Where all `Normal` jobs are refused, both are.
pub(crate) fn share_of(urgency: Urgency, share: f64) -> f64 {
    match urgency {
        Urgency::Low => 1.0 - (1.0 - share) * (1.0 - share),
        Urgency::Normal => share,
        Urgency::High => share * share,
        Urgency::Critical => 0.0,
    }
}

/// CPU use above which the limit is halved, `Low` jobs refused, all but `Critical` ones refused.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Steps {
    pub(crate) halve: f64,
    pub(crate) drop_low: f64,
    pub(crate) refuse: f64,
}

impl Default for Steps {
    fn default() -> Self {
        Self { halve: 0.70, drop_low: 0.80, refuse: 0.85 }
    }
}

/// What is done at a CPU use; each level also does what the ones before it do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Nothing.
    Open,
    /// The limit is half of what it would be.
    Halved,
    /// `Low` jobs are refused.
    NoLow,
    /// All but `Critical` jobs are refused.
    Refusing,
}

impl Steps {
    /// `0 < halve <= drop_low <= refuse <= 1`.
    pub(crate) fn new(halve: f64, drop_low: f64, refuse: f64) -> Result<Self, BadShare> {
        check("halve", halve, 0.0, "above 0 and at most 1")?;
        check("drop_low", drop_low, halve, "at least halve and at most 1")?;
        check("refuse", refuse, drop_low, "at least drop_low and at most 1")?;
        Ok(Self { halve, drop_low, refuse })
    }

    /// The level at this CPU use. No data, or no number: open.
    pub(crate) fn level(&self, busy: Option<f64>) -> Level {
        let above = |bound: f64| busy.is_some_and(|busy| busy > bound);
        if above(self.refuse) {
            Level::Refusing
        } else if above(self.drop_low) {
            Level::NoLow
        } else if above(self.halve) {
            Level::Halved
        } else {
            Level::Open
        }
    }
}

impl Level {
    /// Whether the limit is halved.
    pub(crate) fn halves(self) -> bool {
        self >= Self::Halved
    }

    /// Whether jobs of this urgency are refused.
    pub(crate) fn refuses(self, urgency: Urgency) -> bool {
        match urgency {
            Urgency::Low => self >= Self::NoLow,
            Urgency::Normal | Urgency::High => self == Self::Refusing,
            Urgency::Critical => false,
        }
    }
}

#[cfg(test)]
mod tests;

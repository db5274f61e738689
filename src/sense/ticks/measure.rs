//! At which rate the counter runs, and whether to believe it.

use super::rate::{Pair, Rate};

/// How long a measure takes at least. Its ends are exact to some 100 ns, so it is to some 10⁻⁵.
pub(super) const STRETCH_NS: u64 = 16_000_000;

/// A longer one proves nothing: the machine may have slept, while the counter went on and the clock
/// didn't. What was known before has become too old by then.
pub(super) const LONGEST_NS: u64 = 1_000_000_000;

/// The measures so far.
#[derive(Debug)]
pub(super) struct Measure {
    /// Where the present stretch began.
    base: Option<Pair>,
    /// The rate in the stretch before.
    measured: Option<Rate>,
    /// It was the same in two stretches, one after the other.
    is_confirmed: bool,
    /// How often two stretches disagreed.
    contradictions: u32,
}

/// What follows from a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// To be used from now on; without one the kernel is asked each time.
    pub(super) rate: Option<Rate>,
    /// When the next pair is wanted.
    pub(super) due_ns: u64,
}

impl Measure {
    pub(super) const fn new() -> Self {
        Self { base: None, measured: None, is_confirmed: false, contradictions: 0 }
    }

    /// Nothing is known yet, or nothing any more after a contradiction.
    pub(super) fn is_at_beginning(&self) -> bool {
        self.base.is_none()
    }

    /// Takes the pair of `now_ns`; none if the kernel's answer came too late to make one.
    pub(super) fn note(&mut self, now_ns: u64, pair: Option<Pair>) -> Verdict {
        let recent = |base: &Pair| {
            now_ns.checked_sub(base.ns).is_some_and(|elapsed_ns| elapsed_ns <= LONGEST_NS)
        };
        let Some(base) = self.base.filter(recent) else {
            return self.begin(now_ns, pair);
        };
        let Some(pair) = pair else {
            return self.go_on(now_ns);
        };
        if pair.ns.saturating_sub(base.ns) < STRETCH_NS {
            return self.go_on(base.ns);
        }
        let Some(rate) = Rate::between(base, pair) else {
            return self.contradict(now_ns);
        };
        if self.measured.is_some_and(|before| !rate.agrees_with(before)) {
            return self.contradict(now_ns);
        }
        self.is_confirmed = self.measured.is_some();
        self.measured = Some(rate);
        self.base = Some(pair);
        self.go_on(pair.ns)
    }

    /// From here on, with nothing known.
    fn begin(&mut self, now_ns: u64, pair: Option<Pair>) -> Verdict {
        (self.base, self.measured, self.is_confirmed) = (pair, None, false);
        self.go_on(now_ns)
    }

    fn go_on(&self, from_ns: u64) -> Verdict {
        let rate = self.measured.filter(|_| self.is_confirmed);
        Verdict { rate, due_ns: from_ns.saturating_add(STRETCH_NS) }
    }

    /// The counter, or the kernel's clock, is not what it was: another look some time later.
    fn contradict(&mut self, now_ns: u64) -> Verdict {
        self.begin(now_ns, None);
        self.contradictions = self.contradictions.saturating_add(1);
        let pause_ns = 4_u64.checked_pow(self.contradictions).unwrap_or(u64::MAX);
        let pause_ns = pause_ns.saturating_mul(STRETCH_NS);
        Verdict { rate: None, due_ns: now_ns.saturating_add(pause_ns) }
    }
}

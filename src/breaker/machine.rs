//! The breaker's decisions: pure arithmetic, with the clock's reading passed in.

use std::time::Duration;

use super::error::Open;
use super::probes::{ProbeId, Probes};
use super::settings::Settings;
use super::types::{Snapshot, State, Transition};
use super::window::{Sample, Window};
use crate::sense::steady::{Steady, TOLERANCE_NS};

/// A right to call: what it belongs to. Worthless once the generation has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) generation: u64,
    /// None for a call that isn't a probe.
    pub(super) probe: Option<ProbeId>,
}

/// What a call came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Success,
    Failure,
    /// Says nothing about the dependency.
    Ignored,
    /// Nobody waited for the end.
    GivenUp,
}

impl Ending {
    /// What is recorded, if anything.
    ///
    /// A call given up after it had become slow is slow: in async code a time-out drops the call,
    /// and a breaker that forgot those would never see a dependency that hangs.
    fn sample(self, slow: bool) -> Option<Sample> {
        match self {
            Self::Success => Some(Sample { failed: false, slow }),
            Self::Failure => Some(Sample { failed: true, slow }),
            Self::GivenUp if slow => Some(Sample { failed: false, slow }),
            Self::GivenUp | Self::Ignored => None,
        }
    }
}

/// The state, with what exists only in it.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Closed,
    Open { until_ns: u64, lasting_ns: u64 },
    HalfOpen { succeeded: usize },
    ForcedOpen,
    ForcedClosed,
}

impl Phase {
    fn state(self) -> State {
        match self {
            Self::Closed => State::Closed,
            Self::Open { .. } => State::Open,
            Self::HalfOpen { .. } => State::HalfOpen,
            Self::ForcedOpen => State::ForcedOpen,
            Self::ForcedClosed => State::ForcedClosed,
        }
    }
}

/// An answer, and the change of state that it came with: every step changes the state at most once.
#[must_use]
pub(super) struct Step<T> {
    pub(super) answer: T,
    pub(super) change: Option<Transition>,
}

/// A breaker without its lock.
#[derive(Debug)]
pub(super) struct Machine {
    settings: Settings,
    phase: Phase,
    generation: u64,
    time: Steady,
    window: Window,
    probes: Probes,
    next_cool_down_ns: u64,
    late: u64,
}

impl Machine {
    pub(super) fn new(settings: Settings, reading_ns: u64) -> Self {
        Self {
            settings,
            phase: Phase::Closed,
            generation: 0,
            time: Steady::starting_at(reading_ns),
            window: Window::new(settings.window, settings.buckets),
            probes: Probes::new(settings.probes),
            next_cool_down_ns: settings.cool_down_ns,
            late: 0,
        }
    }

    pub(super) fn state(&self) -> State {
        self.phase.state()
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Asks for the right to call.
    pub(super) fn acquire(&mut self, reading_ns: u64) -> Step<Result<Ticket, Open>> {
        let now_ns = self.time.advance(reading_ns);
        let mut change = None;
        let answer = match self.phase {
            Phase::Closed | Phase::ForcedClosed => Ok(self.ticket(None)),
            Phase::ForcedOpen => Err(Open::new(State::ForcedOpen, None)),
            Phase::Open { until_ns, .. } if now_ns < until_ns => {
                Err(Open::new(State::Open, Some(until_ns - now_ns)))
            }
            Phase::Open { .. } => {
                change = Some(self.enter(Phase::HalfOpen { succeeded: 0 }));
                self.admit_probe(now_ns, 0)
            }
            Phase::HalfOpen { succeeded } => self.admit_probe(now_ns, succeeded),
        };
        Step { answer, change }
    }

    /// A probe is let in while those inside and those that succeeded are fewer than are needed to
    /// close: one more could tell nothing new.
    fn admit_probe(&mut self, now_ns: u64, succeeded: usize) -> Result<Ticket, Open> {
        self.probes.reclaim(now_ns);
        if succeeded + self.probes.inside() >= self.settings.probes {
            return Err(Open::new(State::HalfOpen, self.until_next_probe_ns(now_ns)));
        }
        let lease_end_ns = now_ns.saturating_add(self.settings.probe_lease_ns);
        let probe = self.probes.admit(lease_end_ns);
        Ok(self.ticket(Some(probe)))
    }

    fn ticket(&self, probe: Option<ProbeId>) -> Ticket {
        Ticket { generation: self.generation, probe }
    }

    /// Takes the end of a call in.
    pub(super) fn end(
        &mut self,
        ticket: Ticket,
        ending: Ending,
        slow: bool,
        reading_ns: u64,
    ) -> Step<()> {
        let now_ns = self.time.advance(reading_ns);
        self.probes.reclaim(now_ns);
        let in_time = ticket.generation == self.generation
            && ticket.probe.is_none_or(|probe| self.probes.leave(probe));
        let change = if in_time {
            let sample = ending.sample(slow);
            sample.and_then(|sample| self.learn(sample, now_ns))
        } else {
            self.late = self.late.saturating_add(1);
            None
        };
        Step { answer: (), change }
    }

    /// Draws the conclusion from one call of the present state.
    fn learn(&mut self, sample: Sample, now_ns: u64) -> Option<Transition> {
        match self.phase {
            Phase::Closed => {
                self.record(sample, now_ns);
                self.must_open().then(|| self.open(now_ns))
            }
            Phase::ForcedClosed => {
                self.record(sample, now_ns);
                None
            }
            Phase::HalfOpen { .. } if sample.failed || sample.slow => Some(self.open(now_ns)),
            Phase::HalfOpen { succeeded } if succeeded + 1 < self.settings.probes => {
                self.phase = Phase::HalfOpen { succeeded: succeeded + 1 };
                None
            }
            Phase::HalfOpen { .. } => Some(self.start_anew()),
            // No right to call was given in these states.
            Phase::Open { .. } | Phase::ForcedOpen => None,
        }
    }

    fn record(&mut self, sample: Sample, now_ns: u64) {
        self.window.advance(now_ns);
        self.window.add(sample);
    }

    fn must_open(&self) -> bool {
        let counts = self.window.total();
        let reaches = |rate: Option<f64>, limit: f64| rate.is_some_and(|rate| rate >= limit);
        counts.calls >= self.settings.min_volume
            && (reaches(counts.failure_rate(), self.settings.failure_rate)
                || self.settings.slow.is_some_and(|slow| reaches(counts.slow_rate(), slow.rate)))
    }

    /// Refuses calls for a cool-down; the next one is longer, unless the breaker closes before.
    fn open(&mut self, now_ns: u64) -> Transition {
        let lasting_ns = self.next_cool_down_ns;
        self.next_cool_down_ns = self.settings.longer(lasting_ns);
        self.enter(Phase::Open { until_ns: now_ns.saturating_add(lasting_ns), lasting_ns })
    }

    /// Closed, with nothing remembered.
    fn start_anew(&mut self) -> Transition {
        self.next_cool_down_ns = self.settings.cool_down_ns;
        let change = self.enter(Phase::Closed);
        self.window.clear();
        change
    }

    /// The one place where the state changes. All rights to call end with it.
    fn enter(&mut self, phase: Phase) -> Transition {
        self.window.advance(self.time.now_ns());
        let from = self.phase.state();
        self.phase = phase;
        self.generation = self.generation.wrapping_add(1);
        self.probes.clear();
        let cool_down = match phase {
            Phase::Open { lasting_ns, .. } => Some(Duration::from_nanos(lasting_ns)),
            _ => None,
        };
        Transition {
            from,
            to: phase.state(),
            generation: self.generation,
            counts: self.window.total(),
            cool_down,
        }
    }

    pub(super) fn force_open(&mut self, reading_ns: u64) -> Step<()> {
        self.force(Phase::ForcedOpen, reading_ns)
    }

    pub(super) fn force_closed(&mut self, reading_ns: u64) -> Step<()> {
        self.force(Phase::ForcedClosed, reading_ns)
    }

    fn force(&mut self, phase: Phase, reading_ns: u64) -> Step<()> {
        self.look(reading_ns);
        let change = (self.state() != phase.state()).then(|| {
            let change = self.enter(phase);
            self.window.clear();
            change
        });
        Step { answer: (), change }
    }

    /// Ends what was forced.
    pub(super) fn automatic(&mut self, reading_ns: u64) -> Step<()> {
        self.look(reading_ns);
        let change = self.state().is_forced().then(|| self.start_anew());
        Step { answer: (), change }
    }

    /// Brings what depends on the time alone up to date.
    fn look(&mut self, reading_ns: u64) -> u64 {
        let now_ns = self.time.advance(reading_ns);
        self.window.advance(now_ns);
        self.probes.reclaim(now_ns);
        now_ns
    }

    /// What there is to see; the counts that the machine doesn't keep are left at zero.
    pub(super) fn snapshot(&mut self, reading_ns: u64) -> Snapshot {
        let now_ns = self.look(reading_ns);
        Snapshot {
            state: self.state(),
            generation: self.generation,
            counts: self.window.total(),
            probes_inside: self.probes.inside(),
            probes_succeeded: match self.phase {
                Phase::HalfOpen { succeeded } => succeeded,
                _ => 0,
            },
            next_probe_in: self.until_next_probe_ns(now_ns).map(Duration::from_nanos),
            cool_down: Duration::from_nanos(match self.phase {
                Phase::Open { lasting_ns, .. } => lasting_ns,
                _ => self.next_cool_down_ns,
            }),
            refused: 0,
            late: self.late,
            contained_panics: 0,
            missed_transitions: 0,
        }
    }

    /// How long at most until the next call is let through as a probe.
    fn until_next_probe_ns(&self, now_ns: u64) -> Option<u64> {
        match self.phase {
            Phase::Open { until_ns, .. } => Some(until_ns.saturating_sub(now_ns)),
            Phase::HalfOpen { succeeded }
                if succeeded + self.probes.inside() < self.settings.probes =>
            {
                Some(0)
            }
            Phase::HalfOpen { .. } => {
                self.probes.first_end_ns().map(|end_ns| end_ns.saturating_sub(now_ns))
            }
            Phase::Closed | Phase::ForcedOpen | Phase::ForcedClosed => None,
        }
    }

    /// Between which two readings of the clock an open breaker refuses without a question. Below
    /// the first one the clock has been set back, and above the second the cool-down is over.
    pub(super) fn refuses_between(&self) -> Option<(u64, u64)> {
        let Phase::Open { until_ns, .. } = self.phase else { return None };
        let reading_ns = self.time.reading_ns();
        let left_ns = until_ns.saturating_sub(self.time.now_ns());
        Some((reading_ns.saturating_sub(TOLERANCE_NS), reading_ns.saturating_add(left_ns)))
    }
}

//! When the CPU itself says no.

use std::fmt;
use std::time::Duration;

use crate::cpu::{CpuSource, Process};
use crate::error::BuildError;
use crate::policy::ramp::{BadShare, Ramp, Steps};
use crate::schedule::gauge::{Arm, GateSettings, Gating};

/// What the pool does about a busy CPU, for [`Builder::cpu_gate`](crate::Builder::cpu_gate).
///
/// A CPU that is fully used by the pool's own jobs is no reason to refuse anything: what is too much
/// then waits in the queue, and [`QueueDelay`](crate::QueueDelay) sees to that. The gate is for what
/// the queue doesn't tell: a quota that stops the process, other threads of it, other processes. By
/// default it is [armed](Arm) only while the CPU is *contended* like that, and the first answer to a
/// quota is to let [fewer workers](ActiveWorkers) take jobs.
///
/// The gate follows an average of the CPU use over a [time constant](Self::time_constant), weighted by
/// elapsed time. Between two bounds it refuses with a probability that grows from 0 to 1; low work
/// twice as readily, high work half, [`Priority::Critical`](crate::Priority::Critical) never. Neither
/// does work meet it that is submitted from inside a body, or that waits for its slot
/// ([`Pool::submit`](crate::Pool::submit)).
///
/// It has no thread of its own: workers that end a job and submits that are accepted look whether a
/// [sample](Self::sample_every) is due.
///
/// # Stability
/// What is refused lowers the CPU use by which it is refused. That settles while
/// `sample_every / time_constant` is below `2 / (1 + k / (hi - lo))` at `k` times the capacity: with
/// the defaults up to nearly 12 times. Steps never settle between two levels.
///
/// ```
/// use std::time::Duration;
/// use weirpool::{Arm, CpuGate, Pool};
///
/// // The classic ramp: refuse whenever the CPU is busy, whoever keeps it so.
/// let gate = CpuGate::between(0.70, 0.90).armed(Arm::Always);
/// let pool = Pool::builder().workers(2).cpu_gate(gate).build()?;
/// # pool.shutdown(weirpool::Shutdown::Drain, None);
///
/// let error = Pool::builder().cpu_gate(CpuGate::between(0.9, 0.7)).build().unwrap_err();
/// assert!(error.to_string().starts_with("cpu_gate.hi = 0.7"));
/// # Ok::<(), weirpool::BuildError>(())
/// ```
pub struct CpuGate {
    rule: Rule,
    arm: Arm,
    time_constant: Duration,
    sample_every: Duration,
    source: Box<dyn CpuSource>,
    active_workers: Option<ActiveWorkers>,
}

/// As it was set; validated when the pool is built.
#[derive(Clone, Copy, Debug)]
enum Rule {
    Between(f64, f64),
    Steps(f64, f64, f64),
}

/// Whether fewer workers take jobs while a quota throttles the process, for
/// [`Builder::active_workers`](crate::Builder::active_workers).
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum ActiveWorkers {
    /// As many as the quota bears. While it stops the process in the middle of jobs, 5 % fewer per
    /// 100 ms, then 1 % more. At least one. Others who take CPU change nothing: fewer workers would get
    /// less of it.
    ///
    /// For a moment (up to a tenth of a second) jobs may then wait for a worker although one is
    /// idle. Bodies that wait for *other jobs* by other means than a join should use `Fixed`.
    #[default]
    Adaptive,
    /// Always all of them.
    Fixed,
}

impl CpuGate {
    /// The default bounds of the ramp.
    pub const DEFAULT_BOUNDS: (f64, f64) = (0.80, 0.95);

    /// Refuses none at or below `lo`, all at or above `hi`, and a growing share between; both are
    /// shares of the CPU, `0 < lo <= hi <= 1`.
    pub fn between(lo: f64, hi: f64) -> Self {
        Self::new(Rule::Between(lo, hi))
    }

    /// In steps: above `halve` the limit is half the capacity, above `drop_low` low work is refused,
    /// above `refuse` all but critical work; `0 < halve <= drop_low <= refuse <= 1`, usually 0.70,
    /// 0.80 and 0.85. Steps swing at a load above the capacity; prefer the ramp.
    pub fn steps(halve: f64, drop_low: f64, refuse: f64) -> Self {
        Self::new(Rule::Steps(halve, drop_low, refuse))
    }

    fn new(rule: Rule) -> Self {
        Self {
            rule,
            arm: Arm::default(),
            time_constant: Duration::from_secs(4),
            sample_every: Duration::from_millis(100),
            source: Box::new(Process::new()),
            active_workers: None,
        }
    }

    /// When it refuses at all. Default [`Arm::Contended`].
    #[must_use]
    pub fn armed(self, arm: Arm) -> Self {
        Self { arm, ..self }
    }

    /// The time over which CPU use is averaged, above zero. Default 4 s.
    #[must_use]
    pub fn time_constant(self, time_constant: Duration) -> Self {
        Self { time_constant, ..self }
    }

    /// How often the source is read at most, above zero. Default 100 ms.
    #[must_use]
    pub fn sample_every(self, sample_every: Duration) -> Self {
        Self { sample_every, ..self }
    }

    /// Where the figures come from. Default [`Process`]. Its code runs on the pool's threads and on
    /// those that submit, never on two at a time; a panic in it is contained and counts as no reading.
    #[must_use]
    pub fn source(self, source: impl CpuSource) -> Self {
        Self { source: Box::new(source), ..self }
    }

    /// The same as [`Builder::active_workers`](crate::Builder::active_workers).
    #[must_use]
    pub fn active_workers(self, active_workers: ActiveWorkers) -> Self {
        Self { active_workers: Some(active_workers), ..self }
    }

    pub(crate) fn chosen_active_workers(&self) -> Option<ActiveWorkers> {
        self.active_workers
    }

    /// What the pool goes by, if it makes sense.
    pub(crate) fn check(self) -> Result<GateSettings, BuildError> {
        let rule = match self.rule {
            Rule::Between(lo, hi) => Ramp::new(lo, hi).map(Gating::Ramp),
            Rule::Steps(halve, drop_low, refuse) => {
                Steps::new(halve, drop_low, refuse).map(Gating::Steps)
            }
        };
        Ok(GateSettings {
            rule: rule.map_err(bad_share)?,
            arm: self.arm,
            time_constant_ns: BuildError::check_ns("cpu_gate.time_constant", self.time_constant)?,
            sample_every_ns: BuildError::check_ns("cpu_gate.sample_every", self.sample_every)?,
            source: self.source,
        })
    }
}

fn bad_share(BadShare { setting, value, expected }: BadShare) -> BuildError {
    let setting = match setting {
        "lo" => "cpu_gate.lo",
        "hi" => "cpu_gate.hi",
        "halve" => "cpu_gate.halve",
        "drop_low" => "cpu_gate.drop_low",
        _ => "cpu_gate.refuse",
    };
    BuildError::invalid(setting, value, expected)
}

impl Default for CpuGate {
    fn default() -> Self {
        let (lo, hi) = Self::DEFAULT_BOUNDS;
        Self::between(lo, hi)
    }
}

impl fmt::Debug for CpuGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CpuGate")
            .field("rule", &self.rule)
            .field("arm", &self.arm)
            .field("time_constant", &self.time_constant)
            .field("sample_every", &self.sample_every)
            .finish_non_exhaustive()
    }
}

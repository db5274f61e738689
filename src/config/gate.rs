//! The CPU gate as data. It has a type of its own because a [`CpuGate`] holds code: its source.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::time;
use crate::builder::Builder;
use crate::cpu::{Cgroup, Host, Workers};
use crate::cpu_gate::CpuGate;
use crate::schedule::Arm;

/// The settings of a [`CpuGate`].
///
/// ```
/// use weirpool::config::{GateConfig, GateRule};
///
/// let gate: GateConfig = serde_json::from_str(r#"{"rule": "off"}"#)?;
/// assert_eq!(gate.rule, GateRule::Off);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GateConfig {
    /// What it does at which CPU use.
    pub rule: GateRule,
    /// See [`CpuGate::armed`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arm: Option<Arm>,
    /// See [`CpuGate::time_constant`].
    #[serde(skip_serializing_if = "Option::is_none", with = "time::option")]
    pub time_constant: Option<Duration>,
    /// See [`CpuGate::sample_every`].
    #[serde(skip_serializing_if = "Option::is_none", with = "time::option")]
    pub sample_every: Option<Duration>,
    /// See [`CpuGate::source`].
    pub source: GateSource,
}

/// What a [`CpuGate`] does at which CPU use.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum GateRule {
    /// Nothing: [`Builder::no_cpu_gate`].
    Off,
    /// See [`CpuGate::between`]. The default, with [`CpuGate::DEFAULT_BOUNDS`].
    Between {
        /// At or below it none is refused.
        lo: f64,
        /// At or above it all are.
        hi: f64,
    },
    /// See [`CpuGate::steps`].
    Steps {
        /// Above it the limit is half the capacity.
        halve: f64,
        /// Above it low work is refused.
        drop_low: f64,
        /// Above it all but critical work is.
        refuse: f64,
    },
}

impl Default for GateRule {
    fn default() -> Self {
        let (lo, hi) = CpuGate::DEFAULT_BOUNDS;
        Self::Between { lo, hi }
    }
}

/// Where a [`CpuGate`] gets its figures from: one of the sources in [`cpu`](mod@crate::cpu).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GateSource {
    /// [`cpu::Process`](crate::cpu::Process).
    #[default]
    Process,
    /// [`cpu::Workers`](crate::cpu::Workers).
    Workers,
    /// [`cpu::Cgroup`](crate::cpu::Cgroup).
    Cgroup,
    /// [`cpu::Host`](crate::cpu::Host).
    Host,
}

impl GateConfig {
    pub(super) fn set(&self, builder: Builder) -> Builder {
        let mut gate = match self.rule {
            GateRule::Off => return builder.no_cpu_gate(),
            GateRule::Between { lo, hi } => CpuGate::between(lo, hi),
            GateRule::Steps { halve, drop_low, refuse } => CpuGate::steps(halve, drop_low, refuse),
        };
        if let Some(arm) = self.arm {
            gate = gate.armed(arm);
        }
        if let Some(time_constant) = self.time_constant {
            gate = gate.time_constant(time_constant);
        }
        if let Some(sample_every) = self.sample_every {
            gate = gate.sample_every(sample_every);
        }
        builder.cpu_gate(match self.source {
            GateSource::Process => gate,
            GateSource::Workers => gate.source(Workers::new()),
            GateSource::Cgroup => gate.source(Cgroup::new()),
            GateSource::Host => gate.source(Host::new()),
        })
    }
}

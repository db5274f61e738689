//! A pool's settings as data, from whatever format serde reads. With the feature `serde`.
//!
//! ```
//! use weirpool::config::Config;
//!
//! let config: Config = serde_json::from_str(
//!     r#"{
//!         "name": "thumbs",
//!         "workers": 2,
//!         "capacity": 512,
//!         "critical_reserve": 4,
//!         "max_bytes": 268435456,
//!         "queue_delay": { "graded": { "target": "5ms" } },
//!         "cpu_gate": { "rule": { "between": { "lo": 0.8, "hi": 0.95 } }, "arm": "contended" },
//!         "limit": { "algorithm": "vegas", "min": 5 },
//!         "partitions": { "interactive": { "reserved": 16 }, "batch": { "max": 128 } }
//!     }"#,
//! )?;
//! // Hooks and clocks are code, so they are set on the builder.
//! let pool = config.builder().on_thread_start(|| println!("up")).build()?;
//! assert_eq!(pool.capacity(), 512);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is written how
//!
//! - What isn't set is as if its method of [`Builder`] were not called.
//! - Names that aren't known are refused, and so is a partition that is there twice: a typing error
//!   doesn't silently become a default. Values are judged by [`Builder::build`], as if set by hand.
//! - Times are text with a unit: `"250us"`, `"5ms"`, `"1.5s"`, `"2m"`, `"1h"` (also `ns`, `µs`, `min`). A number
//!   without one is refused.
//! - Bytes are bytes, shares are from 0 to 1.
//! - Choices are names in snake case, with their own settings if they have some:
//!
//! | setting | values |
//! |---|---|
//! | `profile` | `"service"` (default), `"batch"`: what the others add to |
//! | `queue_delay` | `"off"`, `{"graded": {"target"}}`, `{"codel": {"target", "interval"}}`, `{"rfc8289": {"target", "interval"}}`, `{"cutoff": {"max"}}`; `target` and `interval` have the usual defaults |
//! | `cpu_gate.rule` | `"off"`, `{"between": {"lo", "hi"}}`, `{"steps": {"halve", "drop_low", "refuse"}}` |
//! | `cpu_gate.arm` | `"contended"`, `"backlogged"`, `"always"` |
//! | `cpu_gate.source` | `"process"`, `"workers"`, `"cgroup"`, `"host"` |
//! | `active_workers` | `"adaptive"`, `"fixed"` |
//! | `limit.algorithm` | `"fixed"`, `"aimd"`, `"vegas"`, `"gradient"`, `"bdp"` |
//!
//! [`QueueDelay`], [`Limit`], [`Partition`], [`Arm`](crate::Arm), [`ActiveWorkers`] and
//! [`Priority`](crate::Priority) can be used in configurations of your own, too.
//! [`Snapshot`](crate::Snapshot), its parts and [`Load`](crate::Load) can be written, with times as
//! numbers of seconds whose names say so.

mod forms;
mod gate;
mod time;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::admission::partition::Partition;
use crate::builder::Builder;
use crate::cpu_gate::ActiveWorkers;
use crate::error::BuildError;
use crate::limit::Limit;
use crate::pool::Pool;
use crate::queue_delay::QueueDelay;

pub use gate::{GateConfig, GateRule, GateSource};

/// The settings of a pool, for [`Builder`]; see the [module](self) for how they are written.
///
/// ```
/// use std::time::Duration;
/// use weirpool::config::{Config, Profile};
///
/// let config = Config {
///     profile: Profile::Batch,
///     workers: Some(2),
///     ageing_bound: Some(Duration::from_millis(1500)),
///     ..Config::default()
/// };
/// let text = serde_json::to_string(&config)?;
/// assert_eq!(text, r#"{"profile":"batch","workers":2,"ageing_bound":"1500ms"}"#);
/// assert_eq!(serde_json::from_str::<Config>(&text)?, config);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What the other settings add to.
    pub profile: Profile,
    /// See [`Builder::name`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// See [`Builder::workers`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
    /// See [`Builder::capacity`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<usize>,
    /// See [`Builder::critical_reserve`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub critical_reserve: Option<usize>,
    /// See [`Builder::max_bytes`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// See [`Builder::queue_delay`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_delay: Option<QueueDelay>,
    /// See [`Builder::cpu_gate`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_gate: Option<GateConfig>,
    /// See [`Builder::active_workers`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_workers: Option<ActiveWorkers>,
    /// See [`Builder::limit`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// See [`Builder::partition`]: by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "forms::partitions")]
    pub partitions: BTreeMap<String, Partition>,
    /// See [`Builder::stack_size`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack_size: Option<usize>,
    /// See [`Builder::ageing_bound`].
    #[serde(skip_serializing_if = "Option::is_none", with = "time::option")]
    pub ageing_bound: Option<Duration>,
    /// See [`Builder::seed`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// What a [`Config`] begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Profile {
    /// All protections: [`Pool::builder`].
    #[default]
    Service,
    /// Nothing but the bounds: [`Builder::batch`].
    Batch,
}

impl Config {
    /// A builder with these settings, of which nothing is checked yet.
    pub fn builder(&self) -> Builder {
        let mut builder = Pool::builder();
        if self.profile == Profile::Batch {
            builder = builder.batch();
        }
        builder = set(builder, self.name.clone(), Builder::name);
        builder = set(builder, self.workers, Builder::workers);
        builder = set(builder, self.capacity, Builder::capacity);
        builder = set(builder, self.critical_reserve, Builder::critical_reserve);
        builder = set(builder, self.max_bytes, Builder::max_bytes);
        builder = set(builder, self.queue_delay, Builder::queue_delay);
        builder = set(builder, self.cpu_gate.as_ref(), |builder, gate| gate.set(builder));
        builder = set(builder, self.active_workers, Builder::active_workers);
        builder = set(builder, self.limit.clone(), Builder::limit);
        builder = set(builder, self.stack_size, Builder::stack_size);
        builder = set(builder, self.ageing_bound, Builder::ageing_bound);
        builder = set(builder, self.seed, Builder::seed);
        self.partitions
            .iter()
            .fold(builder, |builder, (name, partition)| builder.partition(name, *partition))
    }

    /// Starts a pool with these settings: short for `self.builder().build()`.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn build(&self) -> Result<Pool, BuildError> {
        self.builder().build()
    }
}

fn set<V>(builder: Builder, value: Option<V>, with: impl Fn(Builder, V) -> Builder) -> Builder {
    match value {
        Some(value) => with(builder, value),
        None => builder,
    }
}

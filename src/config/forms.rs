//! How the pool's own types of settings are written: as plain forms, so that the types stay free to
//! change.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::time;
use crate::admission::partition::Partition;
use crate::limit::Limit;
use crate::policy::limit::Algorithm;
use crate::queue_delay::{Kind, QueueDelay};

/// Writes and reads a type as its form.
macro_rules! written_as {
    ($type:ty, $form:ty) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                <$form>::from(self).serialize(to)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                <$form>::deserialize(from).map(Self::from)
            }
        }
    };
}

written_as!(QueueDelay, QueueDelayForm);
written_as!(Limit, LimitForm);
written_as!(Partition, PartitionForm);

#[derive(Serialize, Deserialize)]
#[serde(rename = "QueueDelay", rename_all = "snake_case", deny_unknown_fields)]
enum QueueDelayForm {
    Off,
    Graded {
        #[serde(with = "time", default = "default_target")]
        target: Duration,
    },
    Codel {
        #[serde(with = "time", default = "default_target")]
        target: Duration,
        #[serde(with = "time", default = "default_interval")]
        interval: Duration,
    },
    Rfc8289 {
        #[serde(with = "time", default = "default_target")]
        target: Duration,
        #[serde(with = "time", default = "default_interval")]
        interval: Duration,
    },
    Cutoff {
        #[serde(with = "time")]
        max: Duration,
    },
}

fn default_target() -> Duration {
    QueueDelay::DEFAULT_TARGET
}

fn default_interval() -> Duration {
    QueueDelay::DEFAULT_INTERVAL
}

impl From<&QueueDelay> for QueueDelayForm {
    fn from(QueueDelay(kind): &QueueDelay) -> Self {
        match *kind {
            Kind::Off => Self::Off,
            Kind::Graded { target } => Self::Graded { target },
            Kind::Codel { target, interval } => Self::Codel { target, interval },
            Kind::Rfc8289 { target, interval } => Self::Rfc8289 { target, interval },
            Kind::Cutoff { max } => Self::Cutoff { max },
        }
    }
}

impl From<QueueDelayForm> for QueueDelay {
    fn from(form: QueueDelayForm) -> Self {
        match form {
            QueueDelayForm::Off => Self::off(),
            QueueDelayForm::Graded { target } => Self::graded(target),
            QueueDelayForm::Codel { target, interval } => Self::codel(target, interval),
            QueueDelayForm::Rfc8289 { target, interval } => Self::rfc8289(target, interval),
            QueueDelayForm::Cutoff { max } => Self::cutoff(max),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename = "Limit", deny_unknown_fields)]
struct LimitForm {
    algorithm: AlgorithmForm,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    initial: Option<usize>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AlgorithmForm {
    Fixed,
    Aimd,
    Vegas,
    Gradient,
    Bdp,
}

impl From<&Limit> for LimitForm {
    fn from(limit: &Limit) -> Self {
        let algorithm = match limit.algorithm {
            None => AlgorithmForm::Fixed,
            Some(Algorithm::Aimd) => AlgorithmForm::Aimd,
            Some(Algorithm::Vegas) => AlgorithmForm::Vegas,
            Some(Algorithm::Gradient) => AlgorithmForm::Gradient,
            Some(Algorithm::Bdp) => AlgorithmForm::Bdp,
        };
        Self { algorithm, min: (limit.min != 1).then_some(limit.min), initial: limit.initial }
    }
}

impl From<LimitForm> for Limit {
    fn from(form: LimitForm) -> Self {
        let mut limit = match form.algorithm {
            AlgorithmForm::Fixed => Self::fixed(),
            AlgorithmForm::Aimd => Self::aimd(),
            AlgorithmForm::Vegas => Self::vegas(),
            AlgorithmForm::Gradient => Self::gradient(),
            AlgorithmForm::Bdp => Self::bdp(),
        };
        if let Some(min) = form.min {
            limit = limit.min(min);
        }
        if let Some(initial) = form.initial {
            limit = limit.initial(initial);
        }
        limit
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename = "Partition", default, deny_unknown_fields)]
#[derive(Default)]
struct PartitionForm {
    reserved: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<usize>,
}

impl From<&Partition> for PartitionForm {
    fn from(Partition { reserved, max }: &Partition) -> Self {
        Self { reserved: *reserved, max: *max }
    }
}

impl From<PartitionForm> for Partition {
    fn from(PartitionForm { reserved, max }: PartitionForm) -> Self {
        Self { reserved, max }
    }
}

/// Partitions by name, each once: some formats let the last of two win without a word.
pub(super) fn partitions<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, Partition>, D::Error> {
    from.deserialize_map(Partitions)
}

struct Partitions;

impl<'de> Visitor<'de> for Partitions {
    type Value = BTreeMap<String, Partition>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("partitions by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut partitions = BTreeMap::new();
        while let Some((name, partition)) = map.next_entry::<String, Partition>()? {
            if partitions.contains_key(&name) {
                return Err(de::Error::custom(format_args!(
                    "the partition {name:?} is there twice"
                )));
            }
            partitions.insert(name, partition);
        }
        Ok(partitions)
    }
}

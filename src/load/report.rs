//! The report itself.

use std::collections::BTreeMap;

use super::error::quote;
use super::{LoadError, binary, json, text};
use crate::observe::load::Load;

/// Name of the header field that [`LoadReport`]s travel in, with an answer or in its trailers.
pub const ENDPOINT_LOAD_METRICS: &str = "endpoint-load-metrics";

/// Name of the gRPC metadata that carries a report in protobuf's encoding; as a header field its value
/// is in base64, without the `BIN ` in front. [`LoadReport::from_bin`] reads it.
pub const ENDPOINT_LOAD_METRICS_BIN: &str = "endpoint-load-metrics-bin";

/// The load of a server as it tells its clients and load balancers: an ORCA report.
///
/// ORCA (*Open Request Cost Aggregation*) is what Envoy, gRPC and others balance by; the message is
/// `xds.data.orca.v3.OrcaLoadReport`. A report travels in the header field
/// [`endpoint-load-metrics`](ENDPOINT_LOAD_METRICS), in one of three forms:
///
/// ```text
/// TEXT cpu_utilization=0.3,mem_utilization=0.8,named_metrics.queued=12
/// JSON {"cpu_utilization":0.3,"mem_utilization":0.8,"named_metrics":{"queued":12}}
/// BIN CTMzMzMzM9M/EZqZmZmZmek/…
/// ```
///
/// All three are read, the first two written. In text both `=` and `:` separate name and value
/// (Envoy reads both; older versions only `:`); `=` is written. The names of JSON's members may be in
/// snake or camel case. As in Envoy's reader, a name that isn't known is an error, and so is one that
/// is there twice. The message's `rps` (deprecated) and `request_cost` are read over.
///
/// No figure is ever negative but named metrics, and none is NaN or infinite: reading such a value is
/// an error, and when a report is written it is left out. So are, from text, names that it can't
/// carry: empty, or with commas, equals signs, colons, blanks or anything else than visible ASCII.
///
/// # From a pool
///
/// [`LoadReport::from`] a [`Load`] sets `application_utilization` to the load's score, and the named
/// metrics `in_flight` and `capacity`; `cpu_utilization` to the CPU use, if the pool knows it. gRPC
/// and Envoy weigh by `application_utilization` if it is there and not 0, else by `cpu_utilization`
/// (gRFC A58), and so does [`utilization`](Self::utilization).
///
/// ```
/// use weirpool::load::LoadReport;
///
/// let report = LoadReport { cpu_utilization: Some(0.3), ..LoadReport::default() };
/// assert_eq!(report.to_text().as_deref(), Some("TEXT cpu_utilization=0.3"));
/// assert_eq!(report.to_json(), r#"JSON {"cpu_utilization":0.3}"#);
/// assert_eq!(LoadReport::parse("TEXT cpu_utilization:0.3")?, report);
/// # Ok::<(), weirpool::load::LoadError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadReport {
    /// CPU in use as a share of what there is: 0 none, 1 all, more if that is a soft limit.
    pub cpu_utilization: Option<f64>,
    /// Memory in use as a share of what there is, from 0 to 1.
    pub mem_utilization: Option<f64>,
    /// Use of whatever the application is bound by: 0 none, 1 all, more if that is a soft limit.
    pub application_utilization: Option<f64>,
    /// Requests a second that the server is serving.
    pub rps_fractional: Option<f64>,
    /// Errors a second.
    pub eps: Option<f64>,
    /// Use of other resources by name, each from 0 to 1.
    pub utilization: BTreeMap<String, f64>,
    /// Anything else by name, in units of its own.
    pub named_metrics: BTreeMap<String, f64>,
}

/// The metrics that are no maps.
pub(super) const FIELDS: [&str; 5] =
    ["cpu_utilization", "mem_utilization", "application_utilization", "rps_fractional", "eps"];

/// Members of the message that a report has no field for.
pub(super) const READ_OVER: [&str; 2] = ["rps", "request_cost"];

/// The two maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Map {
    Utilization,
    Named,
}

impl Map {
    pub(super) const ALL: [Self; 2] = [Self::Named, Self::Utilization];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Utilization => "utilization",
            Self::Named => "named_metrics",
        }
    }
}

impl LoadReport {
    /// Reads the value of the header field, in any of its three forms.
    ///
    /// # Errors
    ///
    /// A [`LoadError`] that names the first thing wrong.
    pub fn parse(value: &str) -> Result<Self, LoadError> {
        if let Some(text) = value.strip_prefix("TEXT ") {
            text::read(text)
        } else if let Some(json) = value.strip_prefix("JSON ") {
            json::read(json)
        } else if let Some(base64) = value.strip_prefix("BIN ") {
            binary::read(base64)
        } else {
            Err(LoadError::Format(quote(value.split(' ').next().unwrap_or_default())))
        }
    }

    /// Reads base64 of the binary message, padded or not: the value of
    /// [`endpoint-load-metrics-bin`](ENDPOINT_LOAD_METRICS_BIN), or what follows `BIN `.
    ///
    /// # Errors
    ///
    /// A [`LoadError`] that names the first thing wrong.
    ///
    /// ```
    /// use weirpool::load::LoadReport;
    ///
    /// let report = LoadReport::from_bin("CQAAAAAAAOA/")?;
    /// assert_eq!(report.cpu_utilization, Some(0.5));
    /// # Ok::<(), weirpool::load::LoadError>(())
    /// ```
    pub fn from_bin(base64: &str) -> Result<Self, LoadError> {
        binary::read(base64)
    }

    /// The header field's value as text, `TEXT ` in front. None if there is nothing to say: that form
    /// has no empty report.
    pub fn to_text(&self) -> Option<String> {
        text::write(self)
    }

    /// The header field's value as JSON, `JSON ` in front; ASCII only.
    pub fn to_json(&self) -> String {
        json::write(self)
    }

    /// The figure to balance and to pace by: `application_utilization`, or `cpu_utilization` where the
    /// former is missing or 0.
    pub fn utilization(&self) -> Option<f64> {
        let of_application = self.application_utilization.filter(|used| *used > 0.0);
        of_application.or(self.cpu_utilization).or(self.application_utilization)
    }

    pub(super) fn field(&self, name: &str) -> Option<f64> {
        match name {
            "cpu_utilization" => self.cpu_utilization,
            "mem_utilization" => self.mem_utilization,
            "application_utilization" => self.application_utilization,
            "rps_fractional" => self.rps_fractional,
            "eps" => self.eps,
            _ => None,
        }
    }

    fn field_mut(&mut self, name: &str) -> Option<&mut Option<f64>> {
        match name {
            "cpu_utilization" => Some(&mut self.cpu_utilization),
            "mem_utilization" => Some(&mut self.mem_utilization),
            "application_utilization" => Some(&mut self.application_utilization),
            "rps_fractional" => Some(&mut self.rps_fractional),
            "eps" => Some(&mut self.eps),
            _ => None,
        }
    }

    pub(super) fn map(&self, map: Map) -> &BTreeMap<String, f64> {
        match map {
            Map::Utilization => &self.utilization,
            Map::Named => &self.named_metrics,
        }
    }

    /// Sets a metric that was read.
    pub(super) fn set_field(&mut self, name: &str, value: f64) -> Result<(), LoadError> {
        let Some(field) = self.field_mut(name) else {
            return Err(LoadError::Unknown(quote(name)));
        };
        if field.is_some() {
            return Err(LoadError::Duplicate(quote(name)));
        }
        *field = Some(checked(value, false, || quote(name))?);
        Ok(())
    }

    /// Sets an entry of a map that was read.
    pub(super) fn set_entry(&mut self, map: Map, key: &str, value: f64) -> Result<(), LoadError> {
        if key.is_empty() {
            return Err(LoadError::Missing("the name of a metric"));
        }
        let name = || quote(&format!("{}.{key}", map.name()));
        let value = checked(value, map == Map::Named, name)?;
        let entries = match map {
            Map::Utilization => &mut self.utilization,
            Map::Named => &mut self.named_metrics,
        };
        match entries.insert(key.to_owned(), value) {
            None => Ok(()),
            Some(_) => Err(LoadError::Duplicate(name())),
        }
    }

    /// The metrics that can be written, in a fixed order; keys of maps after a dot.
    pub(super) fn writable_fields(&self) -> impl Iterator<Item = (&'static str, f64)> {
        FIELDS.into_iter().filter_map(|name| {
            let value = self.field(name).filter(|value| is_allowed(*value, false))?;
            Some((name, positive_zero(value)))
        })
    }

    /// The entries of a map that can be written.
    pub(super) fn writable_entries(&self, map: Map) -> impl Iterator<Item = (&str, f64)> {
        self.map(map)
            .iter()
            .filter(move |(key, value)| !key.is_empty() && is_allowed(**value, map == Map::Named))
            .map(|(key, value)| (key.as_str(), positive_zero(*value)))
    }
}

fn is_allowed(value: f64, may_be_negative: bool) -> bool {
    value.is_finite() && (may_be_negative || value >= 0.0)
}

/// Minus zero is no less than zero, but would be written with its sign.
fn positive_zero(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { value }
}

fn checked(
    value: f64,
    may_be_negative: bool,
    name: impl FnOnce() -> String,
) -> Result<f64, LoadError> {
    if !value.is_finite() {
        Err(LoadError::NotFinite(name()))
    } else if value < 0.0 && !may_be_negative {
        Err(LoadError::Negative(name()))
    } else {
        Ok(positive_zero(value))
    }
}

impl From<&Load> for LoadReport {
    fn from(load: &Load) -> Self {
        let named = [("in_flight", load.in_flight), ("capacity", load.capacity)];
        Self {
            cpu_utilization: load.cpu,
            application_utilization: Some(load.score),
            named_metrics: named.map(|(name, slots)| (name.to_owned(), slots as f64)).into(),
            ..Self::default()
        }
    }
}

impl From<Load> for LoadReport {
    fn from(load: Load) -> Self {
        Self::from(&load)
    }
}

//! `name=value,name=value`

use std::fmt::Write;

use super::error::quote;
use super::report::{Map, READ_OVER};
use super::{LoadError, LoadReport};

pub(super) fn read(text: &str) -> Result<LoadReport, LoadError> {
    let mut report = LoadReport::default();
    for metric in text.split(',') {
        let metric = trim(metric);
        let (name, value) = metric.split_once(['=', ':']).unwrap_or((metric, ""));
        let (name, value) = (trim(name), trim(value));
        if name.is_empty() {
            return Err(LoadError::Missing("the name of a metric"));
        }
        if value.is_empty() {
            return Err(LoadError::Missing("the value of a metric"));
        }
        let number = number(value).ok_or_else(|| LoadError::NotANumber(quote(name)))?;
        let entry = Map::ALL.into_iter().find_map(|map| {
            let key = name.strip_prefix(map.name())?.strip_prefix('.')?;
            Some((map, key))
        });
        match entry {
            Some((map, key)) => report.set_entry(map, key, number)?,
            None if is_read_over(name) => {}
            None => report.set_field(name, number)?,
        }
    }
    Ok(report)
}

/// Whether it is a member of the message that a report has no field for.
fn is_read_over(name: &str) -> bool {
    let (member, _) = name.split_once('.').unwrap_or((name, ""));
    READ_OVER.contains(&member)
}

fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

/// NaN and infinities are read, too, so that the error can say what they are.
fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

pub(super) fn write(report: &LoadReport) -> Option<String> {
    let mut text = String::new();
    let mut add = |prefix: &str, dot: &str, name: &str, value: f64| {
        let separator = if text.is_empty() { "TEXT " } else { "," };
        // Writing to a string can't fail.
        let _ = write!(text, "{separator}{prefix}{dot}{name}={}", Number(value));
    };
    for (name, value) in report.writable_fields() {
        add("", "", name, value);
    }
    for map in Map::ALL {
        for (key, value) in report.writable_entries(map).filter(|(key, _)| fits(key)) {
            add(map.name(), ".", key, value);
        }
    }
    (!text.is_empty()).then_some(text)
}

/// Whether a name survives the way through text: visible ASCII without separators.
fn fits(key: &str) -> bool {
    key.bytes().all(|byte| byte.is_ascii_graphic() && !b",=:".contains(&byte))
}

/// The shortest digits that give the number back, in a form that every reader knows.
pub(super) struct Number(pub(super) f64);

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let size = self.0.abs();
        // Without an exponent the largest numbers have 300 digits.
        if size == 0.0 || (1e-5..1e16).contains(&size) {
            write!(f, "{}", self.0)
        } else {
            write!(f, "{:e}", self.0)
        }
    }
}

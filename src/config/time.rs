//! Times as text with a unit.

use std::fmt;
use std::time::Duration;

use serde::de::{self, Visitor};
use serde::{Deserializer, Serializer};

const NS_PER_S: u128 = 1_000_000_000;

/// The units in nanoseconds, the largest first; of two names for one the first is written.
const UNITS: [(&str, u128); 8] = [
    ("h", 3600 * NS_PER_S),
    ("m", 60 * NS_PER_S),
    ("min", 60 * NS_PER_S),
    ("s", NS_PER_S),
    ("ms", 1_000_000),
    ("us", 1000),
    ("µs", 1000),
    ("ns", 1),
];

/// Writes a time in the largest unit up to seconds that needs no decimals.
pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&Written(*time))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    from.deserialize_str(Text)
}

/// The same where there may be none.
pub(super) mod option {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    #[derive(Deserialize)]
    struct Time(#[serde(with = "super")] Duration);

    pub(crate) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => to.serialize_some(&super::Written(*time).to_string()),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<Time>::deserialize(from)?.map(|Time(time)| time))
    }
}

struct Written(Duration);

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.as_nanos();
        let units = UNITS.iter().filter(|(_, unit_ns)| *unit_ns <= NS_PER_S);
        for (unit, unit_ns) in units {
            if ns % unit_ns == 0 {
                return write!(f, "{}{unit}", ns / unit_ns);
            }
        }
        unreachable!("every time is a whole number of nanoseconds")
    }
}

struct Text;

impl Visitor<'_> for Text {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time with its unit, such as \"5ms\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
        parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

/// Digits, with decimals or without, and a unit; blanks may stand between and around.
fn parse(text: &str) -> Option<Duration> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(unit_at);
    let (_, unit_ns) = UNITS.into_iter().find(|(name, _)| *name == unit.trim_start())?;
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    if decimals.contains('.') {
        return None;
    }
    let mut ns = whole.parse::<u128>().ok()?.checked_mul(unit_ns)?;
    let mut place_ns = unit_ns;
    // An empty number of decimals is none at all.
    for digit in (!decimals.is_empty()).then_some(decimals)?.bytes() {
        place_ns /= 10;
        ns = ns.checked_add(place_ns * u128::from(digit - b'0'))?;
    }
    let seconds = u64::try_from(ns / NS_PER_S).ok()?;
    Some(Duration::new(seconds, (ns % NS_PER_S) as u32))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_and_a_unit() {
        for (text, ns) in [
            ("0s", 0),
            ("250us", 250_000),
            ("250µs", 250_000),
            ("5ms", 5_000_000),
            ("1.5s", 1_500_000_000),
            ("0.000000001s", 1),
            ("0.0000000019s", 1),
            (" 2 m ", 120_000_000_000),
            ("2min", 120_000_000_000),
            ("0.5h", 1_800_000_000_000),
            ("1.25m", 75_000_000_000),
        ] {
            assert_eq!(parse(text), Some(Duration::from_nanos(ns)), "{text}");
        }
        let none =
            ["", "5", "ms", "-5ms", "5 m s", "5.ms", ".5ms", "1.2.3s", "1e3s", "inf s", "5MS"];
        for text in none.into_iter().chain(["99999999999999999999999999999999999999999h"]) {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let times = [
            (Duration::ZERO, "0s"),
            (Duration::from_millis(5), "5ms"),
            (Duration::from_millis(1500), "1500ms"),
            (Duration::from_secs(90), "90s"),
            (Duration::from_nanos(1_000_001), "1000001ns"),
            (Duration::MAX, "18446744073709551615999999999ns"),
        ];
        for (time, text) in times {
            assert_eq!(Written(time).to_string(), text);
            assert_eq!(parse(text), Some(time));
        }
    }
}

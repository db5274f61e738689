//! Base64 of the message `xds.data.orca.v3.OrcaLoadReport` in protobuf's encoding. Read only.

use super::report::Map;
use super::{LoadError, LoadReport};

/// The numbers of the message's fields.
mod number {
    pub(super) const CPU_UTILIZATION: u64 = 1;
    pub(super) const MEM_UTILIZATION: u64 = 2;
    pub(super) const UTILIZATION: u64 = 5;
    pub(super) const RPS_FRACTIONAL: u64 = 6;
    pub(super) const EPS: u64 = 7;
    pub(super) const NAMED_METRICS: u64 = 8;
    pub(super) const APPLICATION_UTILIZATION: u64 = 9;
}

pub(super) fn read(base64: &str) -> Result<LoadReport, LoadError> {
    let bytes = decode(base64.trim_matches([' ', '\t']))?;
    let mut report = LoadReport::default();
    let mut message = Message(&bytes);
    while let Some((number, value)) = message.next_field()? {
        let field = match number {
            number::CPU_UTILIZATION => "cpu_utilization",
            number::MEM_UTILIZATION => "mem_utilization",
            number::APPLICATION_UTILIZATION => "application_utilization",
            number::RPS_FRACTIONAL => "rps_fractional",
            number::EPS => "eps",
            number::UTILIZATION => {
                entry(&mut report, Map::Utilization, &value)?;
                continue;
            }
            number::NAMED_METRICS => {
                entry(&mut report, Map::Named, &value)?;
                continue;
            }
            // As protobuf has it: an older reader reads over what is new to it.
            _ => continue,
        };
        report.set_field(field, value.double()?)?;
    }
    Ok(report)
}

/// An entry of a map is a message of its own: the key is field 1, the value field 2.
fn entry(report: &mut LoadReport, map: Map, value: &Value<'_>) -> Result<(), LoadError> {
    let (mut key, mut number) = ("", 0.0);
    let mut message = Message(value.bytes()?);
    while let Some((field, value)) = message.next_field()? {
        match field {
            1 => {
                key = std::str::from_utf8(value.bytes()?)
                    .map_err(|_| LoadError::Binary("a name is not UTF-8"))?;
            }
            2 => number = value.double()?,
            _ => {}
        }
    }
    report.set_entry(map, key, number)
}

enum Value<'a> {
    Varint,
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
    Fixed32,
}

impl<'a> Value<'a> {
    fn double(&self) -> Result<f64, LoadError> {
        match self {
            Self::Fixed64(bytes) => Ok(f64::from_le_bytes(*bytes)),
            _ => Err(LoadError::Binary("a metric is no double")),
        }
    }

    fn bytes(&self) -> Result<&'a [u8], LoadError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(LoadError::Binary("a map or a name is no string of bytes")),
        }
    }
}

struct Message<'a>(&'a [u8]);

impl<'a> Message<'a> {
    fn next_field(&mut self) -> Result<Option<(u64, Value<'a>)>, LoadError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => {
                self.varint()?;
                Value::Varint
            }
            1 => {
                let bytes = self.take(8)?;
                Value::Fixed64(bytes.try_into().map_err(|_| CUT_OFF)?)
            }
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| CUT_OFF)?;
                Value::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Value::Fixed32
            }
            _ => return Err(LoadError::Binary("a field has no known type")),
        };
        Ok(Some((tag >> 3, value)))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], LoadError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(CUT_OFF)?;
        self.0 = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, LoadError> {
        let mut number = 0;
        for place in 0..10 {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(LoadError::Binary("a number is too long"))
    }
}

const CUT_OFF: LoadError = LoadError::Binary("it is cut off");

/// Base64 in the standard alphabet (RFC 4648), with or without padding.
fn decode(base64: &str) -> Result<Vec<u8>, LoadError> {
    let digits = base64.trim_end_matches('=');
    let padding = base64.len() - digits.len();
    if padding > 2 || digits.len() % 4 == 1 || (padding > 0 && base64.len() % 4 != 0) {
        return Err(LoadError::Binary("base64 of an impossible length"));
    }
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    let (mut bits, mut count) = (0_u32, 0);
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return Err(LoadError::Binary("a character that base64 doesn't have")),
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Ok(bytes)
}

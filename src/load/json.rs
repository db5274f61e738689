//! `{"name":value,"map":{"name":value}}`
//!
//! All of JSON is read that a report can consist of: objects, strings, numbers, null. Names may be
//! written in snake or camel case, and numbers as strings, as protobuf's JSON allows; a null is a
//! metric that isn't there. Objects don't nest deeper than a map in a report, so nothing recurses.

use std::fmt::Write;

use super::error::quote;
use super::report::{FIELDS, Map, READ_OVER};
use super::text::Number;
use super::{LoadError, LoadReport};

pub(super) fn write(report: &LoadReport) -> String {
    let mut json = String::from("JSON {");
    for (name, value) in report.writable_fields() {
        member(&mut json, name, value);
    }
    for map in Map::ALL {
        let mut entries = report.writable_entries(map).peekable();
        if entries.peek().is_none() {
            continue;
        }
        key(&mut json, map.name());
        json.push('{');
        for (name, value) in entries {
            member(&mut json, name, value);
        }
        json.push('}');
    }
    json.push('}');
    json
}

fn member(json: &mut String, name: &str, value: f64) {
    key(json, name);
    // Writing to a string can't fail.
    let _ = write!(json, "{}", Number(value));
}

fn key(json: &mut String, name: &str) {
    json.push_str(if json.ends_with('{') { "\"" } else { ",\"" });
    for unit in name.encode_utf16() {
        match char::from_u32(u32::from(unit)) {
            Some(quoted @ ('"' | '\\')) => json.extend(['\\', quoted]),
            Some(plain @ ' '..='~') => json.push(plain),
            // A header field is best kept to ASCII, and must not contain controls.
            _ => {
                let _ = write!(json, "\\u{unit:04x}");
            }
        }
    }
    json.push_str("\":");
}

pub(super) fn read(json: &str) -> Result<LoadReport, LoadError> {
    let mut reader = Reader { json: json.as_bytes(), at: 0 };
    let mut report = LoadReport::default();
    reader.members(|reader, name| {
        let name = snake_case(name);
        if let Some(map) = Map::ALL.into_iter().find(|map| map.name() == name) {
            return reader.map(|key, value| report.set_entry(map, key, value));
        }
        if READ_OVER.contains(&name.as_str()) {
            return if reader.peek() == Some(b'{') {
                reader.map(|_, _| Ok(()))
            } else {
                reader.number(&name).map(drop)
            };
        }
        if !FIELDS.contains(&name.as_str()) {
            return Err(LoadError::Unknown(quote(&name)));
        }
        match reader.number(&name)? {
            Some(value) => report.set_field(&name, value),
            None => Ok(()),
        }
    })?;
    reader.blanks();
    if reader.at < json.len() { Err(reader.expected("the end")) } else { Ok(report) }
}

/// `cpuUtilization` is another spelling of `cpu_utilization`.
fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 2);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

struct Reader<'a> {
    json: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn expected(&self, expected: &'static str) -> LoadError {
        LoadError::Json { at: self.at, expected }
    }

    fn blanks(&mut self) {
        let rest = &self.json[self.at..];
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at += rest.iter().take_while(|byte| blank(byte)).count();
    }

    /// The next byte that is not blank.
    fn peek(&mut self) -> Option<u8> {
        self.blanks();
        self.json.get(self.at).copied()
    }

    fn take(&mut self, byte: u8, expected: &'static str) -> Result<(), LoadError> {
        if self.peek() != Some(byte) {
            return Err(self.expected(expected));
        }
        self.at += 1;
        Ok(())
    }

    /// An object; `member` reads each value.
    fn members(
        &mut self,
        mut member: impl FnMut(&mut Self, &str) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        self.take(b'{', "an object")?;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            let name = self.string()?;
            self.take(b':', "a colon")?;
            member(self, &name)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.expected("a comma or the end of the object")),
            }
        }
    }

    /// An object of numbers, or null.
    fn map(
        &mut self,
        mut entry: impl FnMut(&str, f64) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        if self.peek() == Some(b'n') {
            return self.null();
        }
        self.members(|reader, key| match reader.number(key)? {
            Some(value) => entry(key, value),
            None => Ok(()),
        })
    }

    fn null(&mut self) -> Result<(), LoadError> {
        if !self.json[self.at..].starts_with(b"null") {
            return Err(self.expected("a number"));
        }
        self.at += 4;
        Ok(())
    }

    /// A number, also as a string, or null. NaN and infinities, which protobuf's JSON allows as
    /// strings, are for the report to refuse.
    fn number(&mut self, name: &str) -> Result<Option<f64>, LoadError> {
        match self.peek() {
            Some(b'n') => self.null().map(|()| None),
            Some(b'"') => {
                let text = self.string()?;
                let is_word = matches!(&*text, "NaN" | "Infinity" | "-Infinity");
                if is_word || number_length(text.as_bytes()) == text.len() {
                    if let Ok(number) = text.parse() {
                        return Ok(Some(number));
                    }
                }
                Err(LoadError::NotANumber(quote(name)))
            }
            _ => {
                let length = number_length(&self.json[self.at..]);
                let digits = &self.json[self.at..self.at + length];
                let number = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
                let number = number.ok_or_else(|| self.expected("a number"))?;
                self.at += length;
                Ok(Some(number))
            }
        }
    }

    fn string(&mut self) -> Result<String, LoadError> {
        self.take(b'"', "a string")?;
        let mut bytes = Vec::new();
        loop {
            let Some(&byte) = self.json.get(self.at) else {
                return Err(self.expected("the end of a string"));
            };
            match byte {
                b'"' => break,
                b'\\' => {
                    let letter = self.escape()?;
                    bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                }
                0..=0x1f => return Err(self.expected("a character that is no control")),
                _ => {
                    bytes.push(byte);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        // The whole is UTF-8, and was only cut before and after ASCII.
        String::from_utf8(bytes).map_err(|_| self.expected("UTF-8"))
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<char, LoadError> {
        self.at += 1;
        let byte = self.json.get(self.at).copied();
        let letter = match byte {
            Some(b'"' | b'\\' | b'/') => byte.map(char::from),
            Some(b'b') => Some('\u{8}'),
            Some(b'f') => Some('\u{c}'),
            Some(b'n') => Some('\n'),
            Some(b'r') => Some('\r'),
            Some(b't') => Some('\t'),
            Some(b'u') => return self.unicode_escape(),
            _ => None,
        };
        let letter = letter.ok_or_else(|| self.expected("an escape sequence"))?;
        self.at += 1;
        Ok(letter)
    }

    /// `u` and four hexadecimal digits; two of them with a backslash between for what UTF-16 writes as
    /// a pair.
    fn unicode_escape(&mut self) -> Result<char, LoadError> {
        let begun = self.at;
        let mut units = [self.hex()?, 0];
        let is_first_of_pair = (0xd800..0xdc00).contains(&units[0]);
        let mut count = 1;
        if is_first_of_pair && self.json[self.at..].starts_with(b"\\u") {
            self.at += 1;
            units[1] = self.hex()?;
            count = 2;
        }
        let mut letters = char::decode_utf16(units.into_iter().take(count));
        match (letters.next(), letters.next()) {
            (Some(Ok(letter)), None) => Ok(letter),
            _ => {
                self.at = begun;
                Err(self.expected("a whole character"))
            }
        }
    }

    fn hex(&mut self) -> Result<u16, LoadError> {
        let digits = self.json.get(self.at + 1..self.at + 5);
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let text = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let unit = text.and_then(|text| u16::from_str_radix(text, 16).ok());
        let unit = unit.ok_or_else(|| self.expected("four hexadecimal digits"))?;
        self.at += 5;
        Ok(unit)
    }
}

/// How many bytes a JSON number at the start of `json` takes; 0 if there is none.
fn number_length(json: &[u8]) -> usize {
    let digits = |from: usize| {
        json.get(from..).map_or(0, |rest| rest.iter().take_while(|b| b.is_ascii_digit()).count())
    };
    let mut at = usize::from(json.first() == Some(&b'-'));
    let whole = digits(at);
    if whole == 0 || (whole > 1 && json[at] == b'0') {
        return 0;
    }
    at += whole;
    if json.get(at) == Some(&b'.') {
        match digits(at + 1) {
            0 => return 0,
            fraction => at += 1 + fraction,
        }
    }
    if matches!(json.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(json.get(at + 1), Some(b'+' | b'-')));
        match digits(at + 1 + sign) {
            0 => return 0,
            exponent => at += 1 + sign + exponent,
        }
    }
    at
}

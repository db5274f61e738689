//! Dates as HTTP writes them: RFC 9110, section 5.6.7.
//!
//! Three forms are read and one is written. Civil dates are converted with the algorithms of Howard
//! Hinnant ("chrono-compatible low-level date algorithms"), in whole seconds since 1970.

use std::fmt::Write;

const DAYS: [&str; 7] =
    ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

const DAY_S: u64 = 86_400;

/// The last second that has a date with four digits for the year: the end of 9999.
pub(crate) const LAST_S: u64 = 253_402_300_799;

/// What is wrong with a date, in words.
pub(crate) type Wrong = &'static str;

/// Writes seconds since 1970 as `Sun, 06 Nov 1994 08:49:37 GMT`; what is later than 9999, as its end.
pub(crate) fn write(since_1970_s: u64) -> String {
    let at = since_1970_s.min(LAST_S);
    let (days, second) = (at / DAY_S, at % DAY_S);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let name = &DAYS[(days % 7) as usize][..3];
    let month = MONTHS[month as usize - 1];
    let mut text = String::with_capacity(29);
    // Writing to a string can't fail.
    let _ =
        write!(text, "{name}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT");
    text
}

/// Reads a date in any of the three forms, as seconds since 1970.
///
/// The year of an RFC 850 date has two digits; the century is chosen so that the date is not more than
/// 50 years after `now_s`. The name of the day must be one, but is not checked against the date; a leap
/// second is the second after.
pub(crate) fn parse(text: &str, now_s: u64) -> Result<u64, Wrong> {
    let bytes = text.as_bytes();
    match bytes.iter().position(|byte| *byte == b',') {
        Some(3) => imf_fixdate(text),
        Some(_) => rfc850(text, now_s),
        None => asctime(text),
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn imf_fixdate(text: &str) -> Result<u64, Wrong> {
    let mut rest = Reader { rest: text.as_bytes() };
    rest.day_name(true)?;
    rest.word(b", ")?;
    let day = rest.number(2)?;
    rest.word(b" ")?;
    let month = rest.month()?;
    rest.word(b" ")?;
    let year = rest.number(4)?;
    rest.word(b" ")?;
    let time = rest.time()?;
    rest.word(b" GMT")?;
    rest.end()?;
    seconds_since_1970(year, month, day, time)
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn rfc850(text: &str, now_s: u64) -> Result<u64, Wrong> {
    let mut rest = Reader { rest: text.as_bytes() };
    rest.day_name(false)?;
    rest.word(b", ")?;
    let day = rest.number(2)?;
    rest.word(b"-")?;
    let month = rest.month()?;
    rest.word(b"-")?;
    let short_year = rest.number(2)?;
    rest.word(b" ")?;
    let time = rest.time()?;
    rest.word(b" GMT")?;
    rest.end()?;

    let (this_year, ..) = civil(now_s.min(LAST_S) / DAY_S);
    let latest = latest_year_50_years_on(now_s, this_year, (month, day, time));
    let year = latest - (latest + 100 - short_year) % 100;
    seconds_since_1970(year, month, day, time)
}

/// The last year in which this day and time is not more than 50 years after now.
fn latest_year_50_years_on(now_s: u64, this_year: u64, at: (u64, u64, u64)) -> u64 {
    let (month, day, time) = at;
    let (_, now_month, now_day) = civil(now_s.min(LAST_S) / DAY_S);
    let is_later = (month, day, time) > (now_month, now_day, now_s % DAY_S);
    (this_year + 50 - u64::from(is_later)).min(9999)
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime(text: &str) -> Result<u64, Wrong> {
    let mut rest = Reader { rest: text.as_bytes() };
    rest.day_name(true)?;
    rest.word(b" ")?;
    let month = rest.month()?;
    rest.word(b" ")?;
    let day = if rest.word(b" ").is_ok() { rest.number(1)? } else { rest.number(2)? };
    rest.word(b" ")?;
    let time = rest.time()?;
    rest.word(b" ")?;
    let year = rest.number(4)?;
    rest.end()?;
    seconds_since_1970(year, month, day, time)
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn word(&mut self, word: &[u8]) -> Result<(), Wrong> {
        self.rest = self.rest.strip_prefix(word).ok_or("a separator or GMT is missing")?;
        Ok(())
    }

    fn number(&mut self, digits: usize) -> Result<u64, Wrong> {
        let (number, rest) = self.rest.split_at_checked(digits).ok_or("it is too short")?;
        self.rest = rest;
        number.iter().try_fold(0, |sum, byte| match byte {
            b'0'..=b'9' => Ok(sum * 10 + u64::from(byte - b'0')),
            _ => Err("a digit is missing"),
        })
    }

    fn day_name(&mut self, short: bool) -> Result<(), Wrong> {
        let names = DAYS.iter().map(|name| if short { &name[..3] } else { name });
        for name in names {
            if self.word(name.as_bytes()).is_ok() {
                return Ok(());
            }
        }
        Err("the day's name is none")
    }

    fn month(&mut self) -> Result<u64, Wrong> {
        for (number, name) in (1..).zip(MONTHS) {
            if self.word(name.as_bytes()).is_ok() {
                return Ok(number);
            }
        }
        Err("the month's name is none")
    }

    /// Second of the day.
    fn time(&mut self) -> Result<u64, Wrong> {
        let hour = self.number(2)?;
        self.word(b":")?;
        let minute = self.number(2)?;
        self.word(b":")?;
        let second = self.number(2)?;
        if hour > 23 || minute > 59 || second > 60 {
            return Err("there is no such time of day");
        }
        Ok(hour * 3600 + minute * 60 + second)
    }

    fn end(&self) -> Result<(), Wrong> {
        if self.rest.is_empty() { Ok(()) } else { Err("something follows the date") }
    }
}

fn seconds_since_1970(year: u64, month: u64, day: u64, second: u64) -> Result<u64, Wrong> {
    if day == 0 || day > days_of_month(year, month) {
        return Err("the month has no such day");
    }
    if !(1970..=9999).contains(&year) {
        return Err("the year is not from 1970 to 9999");
    }
    Ok(days_since_1970(year, month, day) * DAY_S + second)
}

fn days_of_month(year: u64, month: u64) -> u64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + u64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 0000-03-01, where the count of years begins in March so that a leap day is the last.
const DAYS_TO_1970: u64 = 719_468;
const DAYS_OF_400_YEARS: u64 = 146_097;

fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let month_from_march = (month + 9) % 12;
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_OF_400_YEARS + day_of_era - DAYS_TO_1970
}

/// Year, month and day of so many days after 1970-01-01.
fn civil(days_since_1970: u64) -> (u64, u64, u64) {
    let days = days_since_1970 + DAYS_TO_1970;
    let (era, day_of_era) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let leap_days = day_of_era / 1460 + day_of_era / 146_096;
    let year_of_era = (day_of_era + day_of_era / 36_524 - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

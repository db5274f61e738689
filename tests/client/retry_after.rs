//! `RetryAfter`: seconds and all three forms of a date, read and written as the crate `httpdate`
//! does, and what is said of a value that is wrong.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::prelude::*;
use weirpool::client::RetryAfter;

use crate::{MS, SECOND};

/// 2019-12-31 23:59:59: from then on a year `69` is 2069 and `70` is 1970, which is how the judge,
/// httpdate, takes them at all times.
const NOW_S: u64 = 1_577_836_799;

fn at(since_1970_s: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(since_1970_s)
}

fn parse(value: &str) -> Option<RetryAfter> {
    RetryAfter::parse(value, at(NOW_S)).ok()
}

#[test]
fn seconds_and_all_three_forms_of_a_date() {
    for value in [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        " \tSun, 06 Nov 1994 08:49:37 GMT ",
    ] {
        assert_eq!(parse(value), Some(RetryAfter::At(784_111_777)), "{value}");
    }
    assert_eq!(parse("120"), Some(RetryAfter::Seconds(120)));
    assert_eq!(parse(" 0 "), Some(RetryAfter::Seconds(0)));
    assert_eq!(parse("99999999999999999999999"), Some(RetryAfter::Seconds(u64::MAX)));
    assert_eq!(parse("Sat, 30 Jun 2012 23:59:60 GMT"), Some(RetryAfter::At(1_341_100_800)));
}

#[test]
fn the_century_of_a_short_year_is_at_most_50_years_ahead() {
    let year_of = |short: &str, now: &str| {
        let now = httpdate::parse_http_date(now).unwrap();
        let value = format!("Monday, {short} 12:00:00 GMT");
        let RetryAfter::At(date) = RetryAfter::parse(&value, now).unwrap() else {
            panic!("{value} is a date");
        };
        httpdate::fmt_http_date(at(date))[12..16].to_owned()
    };
    let now = "Wed, 15 Jul 2026 12:00:00 GMT";
    assert_eq!(year_of("15-Jul-26", now), "2026");
    assert_eq!(year_of("15-Jul-76", now), "2076");
    assert_eq!(year_of("16-Jul-76", now), "1976");
    assert_eq!(year_of("01-Jan-77", now), "1977");
    assert_eq!(year_of("01-Jan-00", "Fri, 31 Dec 2049 00:00:00 GMT"), "2000");
    assert_eq!(year_of("01-Jan-00", "Sat, 01 Jan 2050 12:00:00 GMT"), "2100");
}

#[test]
fn what_is_wrong_is_said() {
    for (value, wrong) in [
        ("", "it is empty"),
        ("-1", "it is neither a whole number nor a date"),
        ("+1", "it is neither a whole number nor a date"),
        ("1.5", "it is neither a whole number nor a date"),
        ("soon", "the day's name is none"),
        ("Sun, 6 Nov 1994 08:49:37 GMT", "a digit is missing"),
        ("Sun, 06 Nob 1994 08:49:37 GMT", "the month's name is none"),
        ("Sun, 06 Nov 1994 08:49:37 CET", "a separator or GMT is missing"),
        ("Sun, 06 Nov 1994 08:49:37 GMT;", "something follows the date"),
        ("Sun, 06 Nov 1994 24:00:00 GMT", "there is no such time of day"),
        ("Tue, 29 Feb 2022 00:00:00 GMT", "the month has no such day"),
        ("Wed, 00 Feb 2022 00:00:00 GMT", "the month has no such day"),
        ("Wed, 31 Dec 1969 23:59:59 GMT", "the year is not from 1970 to 9999"),
    ] {
        let error = RetryAfter::parse(value, at(NOW_S)).unwrap_err().to_string();
        assert_eq!(error, format!("not a value of Retry-After: {wrong}"), "{value}");
    }
}

#[test]
fn a_wait_is_written_in_whole_seconds_and_at_least_one() {
    for (wait, value) in [
        (Duration::ZERO, "1"),
        (Duration::from_nanos(1), "1"),
        (SECOND, "1"),
        (SECOND + Duration::from_nanos(1), "2"),
        (Duration::MAX, "18446744073709551615"),
    ] {
        assert_eq!(RetryAfter::after(wait).to_string(), value);
    }
}

#[test]
fn a_date_becomes_a_wait() {
    let date = RetryAfter::At(1000);
    assert_eq!(date.wait(at(990)), 10 * SECOND);
    assert_eq!(date.wait(at(990) + 500 * MS), 9500 * MS);
    assert_eq!(date.wait(at(2000)), Duration::ZERO);
    assert_eq!(date.wait(UNIX_EPOCH - SECOND), 1000 * SECOND);
    assert_eq!(RetryAfter::At(u64::MAX).to_string(), "Fri, 31 Dec 9999 23:59:59 GMT");
    assert_eq!(RetryAfter::from(at(7) + MS), RetryAfter::At(8));
    assert_eq!(RetryAfter::from(UNIX_EPOCH - SECOND), RetryAfter::At(0));
}

/// The two other forms of the date that httpdate writes.
fn other_forms(imf: &str) -> [String; 2] {
    let words: Vec<&str> = imf.split(' ').collect();
    let [name, day, month, year, time] = words[..5] else { panic!("{imf}") };
    let short = name.trim_end_matches(',');
    let long = match short {
        "Tue" => "Tuesday".to_owned(),
        "Wed" => "Wednesday".to_owned(),
        "Thu" => "Thursday".to_owned(),
        "Sat" => "Saturday".to_owned(),
        other => format!("{other}day"),
    };
    let day_without_zero = day.strip_prefix('0').map_or(day.to_owned(), |d| format!(" {d}"));
    [
        format!("{long}, {day}-{month}-{} {time} GMT", &year[2..]),
        format!("{short} {month} {day_without_zero} {time} {year}"),
    ]
}

proptest! {
    #[test]
    fn dates_are_written_and_read_as_httpdate_does(second in 0..253_402_300_800_u64) {
        let written = httpdate::fmt_http_date(at(second));
        let ours = RetryAfter::At(second);
        prop_assert_eq!(ours.to_string(), written.clone());
        prop_assert_eq!(parse(&written), Some(ours));
        let [rfc850, asctime] = other_forms(&written);
        prop_assert_eq!(parse(&asctime), Some(ours));
        let judged = httpdate::parse_http_date(&rfc850);
        if let (Some(RetryAfter::At(short)), Ok(judged)) = (parse(&rfc850), judged) {
            prop_assert_eq!(at(short), judged);
        }
        if second < NOW_S {
            prop_assert_eq!(parse(&rfc850), Some(ours));
        }
    }

    #[test]
    fn no_input_is_too_odd(
        value in prop_oneof![
            "\\PC*", "[0-9]{0,30}", "(Sun|Monday|Tue),? [ -~]{0,30}",
            "Sun, [0-9]{2} Nov [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT",
            "Sunday, [0-9]{2}-Feb-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT",
        ],
        now in any::<u64>(),
    ) {
        let now = at(now % (1 << 40));
        if let Ok(read) = RetryAfter::parse(&value, now) {
            read.wait(now);
            prop_assert_eq!(RetryAfter::parse(&read.to_string(), now), Ok(read));
        } else if let Ok(date) = httpdate::parse_http_date(&value) {
            // Reading less than httpdate is allowed where it looks away.
            prop_assert!(date < UNIX_EPOCH, "{}", value);
        }
    }
}

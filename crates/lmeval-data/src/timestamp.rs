//! ISO 8601 date-times and Unix timestamps.

use lmeval_pycompat::datetime::{Date, DateTime};

/// Parses `YYYY-MM-DD`, optionally followed by a space or `T` and a time of `hh`, `hh:mm` or `hh:mm:ss` with an
/// optional zone. The result is in UTC without a zone. Fractional and leap seconds are rejected.
pub(crate) fn parse(text: &str) -> Option<DateTime> {
    let bytes = text.as_bytes();
    let date = parse_date(bytes.get(..10)?)?;
    if bytes.len() == 10 {
        return DateTime::new(date, (0, 0, 0), 0, None);
    }
    if !matches!(bytes[10], b' ' | b'T') {
        return None;
    }
    let (clock, offset) = split_zone(&bytes[11..])?;
    let (hour, minute, second) = match clock {
        [_, _] => (two(clock)?, 0, 0),
        [_, _, b':', _, _] => (two(clock)?, two(&clock[3..])?, 0),
        [_, _, b':', _, _, b':', _, _] => (two(clock)?, two(&clock[3..])?, two(&clock[6..])?),
        _ => return None,
    };
    let moment = DateTime::new(date, (hour, minute, second), 0, None)?;
    if offset == 0 { Some(moment) } else { from_micros((seconds(moment) - offset).checked_mul(1_000_000)?) }
}

fn two(bytes: &[u8]) -> Option<u32> {
    match bytes {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9', ..] => {
            Some(u32::from(tens - b'0') * 10 + u32::from(ones - b'0'))
        }
        _ => None,
    }
}

fn parse_date(bytes: &[u8]) -> Option<Date> {
    if bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    Date::new(two(bytes)? * 100 + two(&bytes[2..])?, two(&bytes[5..])?, two(&bytes[8..])?)
}

/// The clock part, and the zone in seconds east of UTC.
fn split_zone(bytes: &[u8]) -> Option<(&[u8], i64)> {
    if let [clock @ .., b'Z'] = bytes {
        return Some((clock, 0));
    }
    let Some(at) = bytes.iter().position(|byte| matches!(byte, b'+' | b'-')) else {
        return Some((bytes, 0));
    };
    let (clock, zone) = bytes.split_at(at);
    let (hours, minutes) = match &zone[1..] {
        digits @ [_, _] => (two(digits)?, 0),
        digits @ [_, _, _, _] => (two(digits)?, two(&digits[2..])?),
        digits @ [_, _, b':', _, _] => (two(digits)?, two(&digits[3..])?),
        _ => return None,
    };
    if hours > 23 || minutes > 59 {
        return None;
    }
    let offset = i64::from(hours) * 3600 + i64::from(minutes) * 60;
    Some((clock, if zone[0] == b'-' { -offset } else { offset }))
}

/// Seconds from the Unix epoch to a date-time without a zone.
pub(crate) fn seconds(moment: DateTime) -> i64 {
    let (hour, minute, second) = moment.time();
    moment.date().unix_days() * 86_400 + i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second)
}

/// Converts microseconds since the Unix epoch.
pub(crate) fn from_micros(micros: i64) -> Option<DateTime> {
    with_offset(micros, None)
}

/// Converts to a zone given in seconds east of UTC.
pub(crate) fn with_offset(micros: i64, offset: Option<i32>) -> Option<DateTime> {
    let local = micros.checked_add(i64::from(offset.unwrap_or(0)) * 1_000_000)?;
    let date = Date::from_unix_days(local.div_euclid(86_400_000_000))?;
    let rest = local.rem_euclid(86_400_000_000);
    let second = (rest / 1_000_000) as u32;
    DateTime::new(date, (second / 3600, second / 60 % 60, second % 60), (rest % 1_000_000) as u32, offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_date_times() {
        for (text, expected) in [
            ("2020-01-01", Some("2020-01-01 00:00:00")),
            ("2020-01-01T10:00:00", Some("2020-01-01 10:00:00")),
            ("2020-01-01 10:05", Some("2020-01-01 10:05:00")),
            ("2020-01-01T10", Some("2020-01-01 10:00:00")),
            ("2020-01-01T10:00:00Z", Some("2020-01-01 10:00:00")),
            ("2020-01-01T10:00:00+05:30", Some("2020-01-01 04:30:00")),
            ("2020-01-01T10:00:00+0530", Some("2020-01-01 04:30:00")),
            ("2020-01-01T10:00:00-05", Some("2020-01-01 15:00:00")),
            ("0001-01-01", Some("0001-01-01 00:00:00")),
            ("9999-12-31", Some("9999-12-31 00:00:00")),
            ("2020-01-01T10:00:00.5", None),
            ("2020-1-1", None),
            ("2020-02-30", None),
            ("2020-01-01Z", None),
            ("2020-01-01T", None),
            ("2020-01-01T1000", None),
            ("2020-01-01 10:00:60", None),
            ("20200101", None),
            ("é020-01-01", None),
        ] {
            assert_eq!(parse(text).map(|moment| moment.to_string()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn converts_negative_timestamps_and_zones() {
        assert_eq!(from_micros(-1).unwrap().to_string(), "1969-12-31 23:59:59.999999");
        assert_eq!(with_offset(0, Some(-3600)).unwrap().to_string(), "1969-12-31 23:00:00-01:00");
    }
}

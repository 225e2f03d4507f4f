//! Dates and times.

use crate::datetime::{Date, DateTime};
use crate::value::Value;

/// The fields of a timestamp as written, not yet checked against the calendar.
pub(super) struct Timestamp {
    year: u32,
    month: u32,
    day: u32,
    time: Option<Time>,
    length: usize,
}

struct Time {
    hour: u32,
    minute: u32,
    second: u32,
    microsecond: u32,
    offset: Option<i32>,
}

/// The rest of the input.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take(&mut self, byte: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(())
    }

    /// Reads a number with `least` to `most` digits.
    fn number(&mut self, least: usize, most: usize) -> Option<u32> {
        let digits = self.0.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
        if digits < least {
            return None;
        }
        let (number, rest) = self.0.split_at(digits);
        self.0 = rest;
        Some(number.iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0')))
    }

    fn skip_whitespace(&mut self) -> bool {
        let length = self.0.len();
        while let [b' ' | b'\t', rest @ ..] = self.0 {
            self.0 = rest;
        }
        self.0.len() < length
    }
}

impl Timestamp {
    /// Parses `2001-12-14` or `2001-12-14 21:59:43.10 -5:00`; `None` if the string has another form.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut rest = Rest(text.as_bytes());
        let year = rest.number(4, 4)?;
        rest.take(b'-')?;
        let month = rest.number(1, 2)?;
        rest.take(b'-')?;
        let day = rest.number(1, 2)?;
        let time = if rest.0.is_empty() { None } else { Some(Time::parse(&mut rest)?) };
        Some(Self { year, month, day, time, length: text.len() })
    }

    /// Whether this is a timestamp without a tag: a date alone needs all its digits.
    pub(super) fn is_implicit(&self) -> bool {
        self.time.is_some() || self.length == "YYYY-MM-DD".len()
    }

    /// The date or datetime, if the calendar has it.
    pub(super) fn value(&self) -> Option<Value> {
        let date = Date::new(self.year, self.month, self.day)?;
        let Some(time) = &self.time else {
            return Some(Value::Date(date));
        };
        let clock = (time.hour, time.minute, time.second);
        DateTime::new(date, clock, time.microsecond, time.offset).map(Value::DateTime)
    }
}

impl Time {
    fn parse(rest: &mut Rest<'_>) -> Option<Self> {
        if rest.take(b'T').is_none() && rest.take(b't').is_none() && !rest.skip_whitespace() {
            return None;
        }
        let hour = rest.number(1, 2)?;
        rest.take(b':')?;
        let minute = rest.number(2, 2)?;
        rest.take(b':')?;
        let second = rest.number(2, 2)?;
        let mut microsecond = 0;
        if rest.take(b'.').is_some() {
            let mut scale = 100_000;
            while let Some(digit) = rest.number(1, 1) {
                microsecond += digit * scale;
                scale /= 10;
            }
        }
        let mut offset = None;
        if !rest.0.is_empty() {
            rest.skip_whitespace();
            offset = Some(Self::zone(rest)?);
        }
        rest.0.is_empty().then_some(Self { hour, minute, second, microsecond, offset })
    }

    /// Parses the time zone, in seconds east of UTC.
    fn zone(rest: &mut Rest<'_>) -> Option<i32> {
        if rest.take(b'Z').is_some() {
            return Some(0);
        }
        let sign = if rest.take(b'-').is_some() { -1 } else { rest.take(b'+').map(|()| 1)? };
        let hours = rest.number(1, 2)?;
        let minutes = if rest.take(b':').is_some() { rest.number(2, 2)? } else { 0 };
        Some(sign * (hours * 3600 + minutes * 60) as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Option<String> {
        match Timestamp::parse(text)?.value()? {
            Value::Date(date) => Some(date.to_string()),
            Value::DateTime(moment) => Some(moment.to_string()),
            _ => None,
        }
    }

    #[test]
    fn parses_timestamps() {
        assert_eq!(shown("2001-1-2").as_deref(), Some("2001-01-02"));
        assert_eq!(
            shown("2001-12-14t21:59:43.10-05:00").as_deref(),
            Some("2001-12-14 21:59:43.100000-05:00")
        );
        assert_eq!(
            shown("2001-12-14 \t1:59:43.1234569 Z").as_deref(),
            Some("2001-12-14 01:59:43.123456+00:00")
        );
        assert_eq!(shown("2001-12-14 1:59:43 +3").as_deref(), Some("2001-12-14 01:59:43+03:00"));
        for wrong in
            ["2001-12", "2001-12-14 1:59", "2001-12-14 1:59:43 ", "2001-12-14 1:59:43 z", "2001-12-14T"]
        {
            assert!(Timestamp::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn rejects_dates_outside_the_calendar() {
        for wrong in ["2001-02-29", "0000-01-01", "2001-01-01 24:00:00", "2001-01-01 00:00:00 +24:00"] {
            assert!(Timestamp::parse(wrong).is_some_and(|found| found.value().is_none()), "{wrong}");
        }
    }

    #[test]
    fn untagged_date_needs_all_digits() {
        let implicit = |text| Timestamp::parse(text).is_some_and(|found| found.is_implicit());
        assert!(implicit("2001-01-02"));
        assert!(implicit("2001-1-2 1:00:00"));
        assert!(!implicit("2001-1-2"));
    }
}

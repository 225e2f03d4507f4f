//! `datetime.date` and `datetime.datetime`, validated on construction.

use std::fmt;
use std::hash::{Hash, Hasher};

use jiff::SignedDuration;

/// The origin of day counts. Jiff can add durations over its full calendar range only from here.
const UNIX_EPOCH: jiff::civil::Date = jiff::civil::Date::constant(1970, 1, 1);

/// A calendar date in the years 1 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(jiff::civil::Date);

impl Date {
    /// Creates a date; `None` if the calendar has no such day.
    pub fn new(year: u32, month: u32, day: u32) -> Option<Self> {
        let (year, month, day) = (year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?);
        jiff::civil::Date::new(year, month, day).ok().filter(|date| date.year() >= 1).map(Self)
    }

    /// The date a number of days after the Unix epoch.
    pub fn from_unix_days(days: i64) -> Option<Self> {
        let hours = i64::from(i32::try_from(days).ok()?) * 24;
        let date = UNIX_EPOCH.checked_add(SignedDuration::from_hours(hours));
        date.ok().filter(|date| date.year() >= 1).map(Self)
    }

    /// The year, 1 to 9999.
    pub fn year(self) -> u16 {
        self.0.year().unsigned_abs()
    }

    /// The month, from 1.
    pub fn month(self) -> u8 {
        self.0.month().unsigned_abs()
    }

    /// The day of the month, from 1.
    pub fn day(self) -> u8 {
        self.0.day().unsigned_abs()
    }

    /// Days since 0001-01-01, as `date.toordinal() - 1`.
    pub fn days(self) -> i64 {
        self.unix_days() + 719_162
    }

    /// Days since the Unix epoch.
    pub fn unix_days(self) -> i64 {
        self.0.duration_since(UNIX_EPOCH).as_hours() / 24
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A date with a time of day, and optionally a time zone.
#[derive(Clone, Copy, Debug)]
pub struct DateTime {
    date: Date,
    hour: u8,
    minute: u8,
    second: u8,
    microsecond: u32,
    offset: Option<i32>,
}

impl DateTime {
    /// Creates a datetime; `None` if a field is out of range. `offset` is in seconds east of UTC, and must be less than
    /// a day.
    pub fn new(
        date: Date,
        (hour, minute, second): (u32, u32, u32),
        microsecond: u32,
        offset: Option<i32>,
    ) -> Option<Self> {
        let fits = hour < 24
            && minute < 60
            && second < 60
            && microsecond < 1_000_000
            && offset.is_none_or(|seconds| seconds.abs() < 86_400);
        fits.then_some(Self {
            date,
            hour: hour as u8,
            minute: minute as u8,
            second: second as u8,
            microsecond,
            offset,
        })
    }

    /// The date part, in the datetime's own zone.
    pub fn date(self) -> Date {
        self.date
    }

    /// Hour, minute, second.
    pub fn time(self) -> (u8, u8, u8) {
        (self.hour, self.minute, self.second)
    }

    /// The fraction of the second in microseconds.
    pub fn microsecond(self) -> u32 {
        self.microsecond
    }

    /// Seconds east of UTC, if the datetime has a zone.
    pub fn offset(self) -> Option<i32> {
        self.offset
    }

    /// Microseconds since 0001-01-01 in UTC (or without a zone), for comparisons.
    fn instant(self) -> i128 {
        let seconds = i128::from(self.date.days()) * 86_400
            + i128::from(self.hour) * 3600
            + i128::from(self.minute) * 60
            + i128::from(self.second)
            - i128::from(self.offset.unwrap_or(0));
        seconds * 1_000_000 + i128::from(self.microsecond)
    }
}

impl Hash for DateTime {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.offset.is_some().hash(state);
        self.instant().hash(state);
    }
}

impl PartialEq for DateTime {
    /// Datetimes with and without a zone are never equal; two with zones are compared in UTC.
    fn eq(&self, other: &Self) -> bool {
        self.offset.is_some() == other.offset.is_some() && self.instant() == other.instant()
    }
}

impl fmt::Display for DateTime {
    /// `str(datetime)`: ISO with a space between date and time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:02}:{:02}:{:02}", self.date, self.hour, self.minute, self.second)?;
        if self.microsecond != 0 {
            write!(f, ".{:06}", self.microsecond)?;
        }
        if let Some(offset) = self.offset {
            let sign = if offset < 0 { '-' } else { '+' };
            let seconds = offset.unsigned_abs();
            write!(f, "{sign}{:02}:{:02}", seconds / 3600, seconds / 60 % 60)?;
            if seconds % 60 != 0 {
                write!(f, ":{:02}", seconds % 60)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_between_days_and_dates() {
        for days in (-719_162..2_932_896).step_by(97) {
            assert_eq!(Date::from_unix_days(days).unwrap().unix_days(), days);
        }
        for out_of_range in [-719_163, 2_932_897, i64::MIN, i64::MAX] {
            assert_eq!(Date::from_unix_days(out_of_range), None);
        }
        assert_eq!(Date::from_unix_days(11_016), Date::new(2000, 2, 29));
        assert_eq!(Date::new(1, 1, 1).unwrap().days(), 0);
    }

    #[test]
    fn rejects_days_outside_the_calendar() {
        for (year, month, day) in
            [(0, 1, 1), (10_000, 1, 1), (2001, 2, 29), (1900, 2, 29), (2000, 13, 1), (2000, 0, 1)]
        {
            assert_eq!(Date::new(year, month, day), None);
        }
        assert_eq!(Date::new(9999, 12, 31).unwrap().to_string(), "9999-12-31");
        assert_eq!(Date::new(1, 2, 3).unwrap().to_string(), "0001-02-03");
    }
}

//! `datetime.date` and `datetime.datetime`: plain fields, checked on construction.

use std::fmt;
use std::hash::{Hash, Hasher};

/// A calendar date in the years 1 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl Date {
    /// The date, or `None` where the calendar has no such day.
    pub fn new(year: u32, month: u32, day: u32) -> Option<Self> {
        let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let days = match month {
            4 | 6 | 9 | 11 => 30,
            2 if leap => 29,
            2 => 28,
            1..=12 => 31,
            _ => return None,
        };
        ((1..=9999).contains(&year) && (1..=days).contains(&day)).then_some(Self {
            year: year as u16,
            month: month as u8,
            day: day as u8,
        })
    }

    /// The year.
    pub fn year(self) -> u16 {
        self.year
    }

    /// The month, from 1.
    pub fn month(self) -> u8 {
        self.month
    }

    /// The day of the month, from 1.
    pub fn day(self) -> u8 {
        self.day
    }

    /// Days since 0001-01-01, as `date.toordinal() - 1`.
    pub fn days(self) -> i64 {
        let year = i64::from(self.year) - 1;
        let leap =
            self.year.is_multiple_of(4) && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400));
        const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let month = BEFORE[usize::from(self.month) - 1] + i64::from(leap && self.month > 2);
        year * 365 + year / 4 - year / 100 + year / 400 + month + i64::from(self.day) - 1
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// A date with a time of day, and perhaps a zone.
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
    /// The moment, or `None` where a field is out of range. `offset` is in seconds east of UTC, and must be
    /// less than a day.
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

    /// The day.
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

    /// Seconds east of UTC, where the moment has a zone.
    pub fn offset(self) -> Option<i32> {
        self.offset
    }

    /// Microseconds since 0001-01-01 in UTC (or in no zone), which orders and equates moments.
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
    /// Moments with and without a zone are never equal; two with zones are compared in UTC.
    fn eq(&self, other: &Self) -> bool {
        self.offset.is_some() == other.offset.is_some() && self.instant() == other.instant()
    }
}

impl fmt::Display for DateTime {
    /// `str(datetime)`: ISO with a blank between date and time.
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

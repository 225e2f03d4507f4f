//! Rules of time zones in text, such as `CET-1CEST,M3.5.0,M10.5.0/3`.

use crate::clock::{civil, days_of};

const HOUR: i64 = 3600;

/// The offset of a zone in any year.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    standard: i64,
    summer: Option<Summer>,
}

/// Summer time: its offset, and when it begins and ends.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Summer {
    offset: i64,
    start: (Day, i64),
    end: (Day, i64),
}

/// A day of every year.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Day {
    /// Counted from 1, without the leap day.
    Plain(i64),
    /// Counted from 0, with the leap day.
    Leap(i64),
    /// A week day of a month: the first, …, fourth, or as fifth the last one.
    Week { month: i64, week: i64, day: i64 },
}

impl Rule {
    /// Reads a rule; `None` for anything that is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut reader = Reader(text);
        reader.name()?;
        let standard = -reader.time()?;
        if reader.0.is_empty() {
            return Some(Self { standard, summer: None });
        }
        reader.name()?;
        let offset = if reader.0.is_empty() || reader.0.starts_with(',') {
            standard + HOUR
        } else {
            -reader.time()?
        };
        // Without dates, the C library takes those of the United States.
        let (start, end) = if reader.0.is_empty() {
            let day = |month, week| Day::Week { month, week, day: 0 };
            ((day(3, 2), 2 * HOUR), (day(11, 1), 2 * HOUR))
        } else {
            (reader.date()?, reader.date()?)
        };
        reader.0.is_empty().then_some(Self { standard, summer: Some(Summer { offset, start, end }) })
    }

    /// The offset at a moment.
    pub(crate) fn offset(&self, seconds: i64) -> i64 {
        let Some(summer) = &self.summer else { return self.standard };
        let (year, _, _) = civil((seconds + self.standard).div_euclid(86_400));
        let at = |(day, time): &(Day, i64), before: i64| day.of(year) * 86_400 + time - before;
        let start = at(&summer.start, self.standard);
        let end = at(&summer.end, summer.offset);
        let is_summer =
            if start < end { (start..end).contains(&seconds) } else { !(end..start).contains(&seconds) };
        if is_summer { summer.offset } else { self.standard }
    }
}

impl Day {
    /// The day of a year, in days since the beginning of 1970.
    fn of(&self, year: i64) -> i64 {
        let first = days_of(year, 1, 1);
        let is_leap = days_of(year + 1, 1, 1) - first == 366;
        match self {
            Self::Leap(day) => first + day,
            Self::Plain(day) => first + day - 1 + i64::from(is_leap && *day >= 60),
            Self::Week { month, week, day } => {
                let start = days_of(year, *month, 1);
                let next = if *month == 12 { days_of(year + 1, 1, 1) } else { days_of(year, month + 1, 1) };
                // The first day of 1970 was a Thursday.
                let weekday = (start + 4).rem_euclid(7);
                let mut found = start + (day - weekday).rem_euclid(7) + 7 * (week - 1);
                while found >= next {
                    found -= 7;
                }
                found
            }
        }
    }
}

struct Reader<'a>(&'a str);

impl Reader<'_> {
    fn take(&mut self, character: char) -> bool {
        match self.0.strip_prefix(character) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// The name of a zone: three letters or more, or anything between angle brackets.
    fn name(&mut self) -> Option<()> {
        if self.take('<') {
            let (_, rest) = self.0.split_once('>')?;
            self.0 = rest;
            return Some(());
        }
        let end = self.0.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(self.0.len());
        self.0 = self.0.get(end..)?;
        (end >= 3).then_some(())
    }

    fn number(&mut self) -> Option<i64> {
        let end = self.0.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.0.len());
        let (digits, rest) = self.0.split_at(end);
        self.0 = rest;
        if digits.len() > 3 { None } else { digits.parse().ok() }
    }

    /// `[+-]hh[:mm[:ss]]` in seconds.
    fn time(&mut self) -> Option<i64> {
        let sign = if self.take('-') {
            -1
        } else {
            self.take('+');
            1
        };
        let mut seconds = self.number()? * HOUR;
        for unit in [60, 1] {
            if !self.take(':') {
                break;
            }
            seconds += self.number()? * unit;
        }
        Some(sign * seconds)
    }

    /// `,date[/time]`.
    fn date(&mut self) -> Option<(Day, i64)> {
        if !self.take(',') {
            return None;
        }
        let day = if self.take('M') {
            let month = self.number()?;
            let week = if self.take('.') { self.number()? } else { return None };
            let day = if self.take('.') { self.number()? } else { return None };
            let fits = (1..=12).contains(&month) && (1..=5).contains(&week) && (0..=6).contains(&day);
            fits.then_some(Day::Week { month, week, day })?
        } else if self.take('J') {
            Day::Plain(self.number()?)
        } else {
            Day::Leap(self.number()?)
        };
        let time = if self.take('/') { self.time()? } else { 2 * HOUR };
        Some((day, time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summer_time_begins_and_ends() {
        let rule = Rule::parse("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        // 2026-03-29 01:00 and 2026-10-25 01:00, universal time.
        for (moment, offset) in
            [(1_774_745_999, 3600), (1_774_746_000, 7200), (1_792_889_999, 7200), (1_792_890_000, 3600)]
        {
            assert_eq!(rule.offset(moment), offset, "{moment}");
        }
    }

    #[test]
    fn texts_that_are_no_rules() {
        for text in ["", "X", "UTC", "ABC1DEF,M13.1.0,M1.1.0", "ABC1DEF,M3.1.0", "ABC1 ", "<A1", "ABC12345"] {
            assert_eq!(Rule::parse(text), None, "{text}");
        }
    }
}

//! The time stamp in file names.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::zone::TimeZone;

const SECONDS_A_DAY: i64 = 86_400;

/// A moment: microseconds since the beginning of 1970, in universal time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(i64);

impl Moment {
    /// A moment by its microseconds since the beginning of 1970.
    pub fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Now.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    /// Seconds since the beginning of 1970, as `date` states them.
    pub fn unix_seconds(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The time stamp of files: local time in ISO 8601 with `-` for `:`, without the fraction where it is zero.
    ///
    /// ```
    /// use lmeval_report::{Moment, TimeZone};
    ///
    /// let moment = Moment::from_micros(1_794_710_810_151_442);
    /// assert_eq!(moment.stamp(&TimeZone::utc()), "2026-11-15T02-46-50.151442");
    /// ```
    pub fn stamp(self, zone: &TimeZone) -> String {
        let seconds = self.0.div_euclid(1_000_000);
        let micros = self.0.rem_euclid(1_000_000);
        let local = seconds + zone.offset(seconds);
        let (year, month, day) = civil(local.div_euclid(SECONDS_A_DAY));
        let clock = local.rem_euclid(SECONDS_A_DAY);
        let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
        let stamp = format!("{year:04}-{month:02}-{day:02}T{hour:02}-{minute:02}-{second:02}");
        if micros == 0 { stamp } else { format!("{stamp}.{micros:06}") }
    }
}

/// Year, month and day of a number of days since the beginning of 1970.
pub(crate) fn civil(days: i64) -> (i64, i64, i64) {
    // Years begin in March here, so that the leap day is the last of its year.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// The number of days since the beginning of 1970 of a date.
pub(crate) fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_days_agree() {
        for days in (-800_000..800_000).step_by(97) {
            let (year, month, day) = civil(days);
            assert_eq!(days_of(year, month, day), days);
        }
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
    }

    #[test]
    fn whole_seconds_have_no_fraction() {
        let moment = Moment::from_micros(1_794_710_810_000_000);
        assert_eq!(moment.stamp(&TimeZone::utc()), "2026-11-15T02-46-50");
    }
}

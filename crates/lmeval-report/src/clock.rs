//! The time stamp in file names.

use jiff::Timestamp;

use crate::zone::TimeZone;

/// A point in time, with microsecond precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Timestamp);

impl Moment {
    /// Converts microseconds since the Unix epoch, saturating at the end of the year 9999.
    pub fn from_micros(micros: i64) -> Self {
        let limit = if micros < 0 { Timestamp::MIN } else { Timestamp::MAX };
        Self(Timestamp::from_microsecond(micros).unwrap_or(limit))
    }

    /// The current time.
    pub fn now() -> Self {
        Self::from_micros(Timestamp::now().as_microsecond())
    }

    /// The next microsecond.
    pub(crate) fn next(self) -> Self {
        Self::from_micros(self.0.as_microsecond() + 1)
    }

    /// Seconds since the Unix epoch, for the key `date`.
    pub fn unix_seconds(self) -> f64 {
        self.0.as_microsecond() as f64 / 1e6
    }

    /// The time stamp in file names: local time in ISO 8601 with `-` for `:`, without a zero fraction.
    ///
    /// ```
    /// use lmeval_report::{Moment, TimeZone};
    ///
    /// let moment = Moment::from_micros(1_794_710_810_151_442);
    /// assert_eq!(moment.stamp(&TimeZone::utc()), "2026-11-15T02-46-50.151442");
    /// ```
    pub fn stamp(self, zone: &TimeZone) -> String {
        let local = zone.0.to_datetime(self.0);
        let stamp = local.strftime("%Y-%m-%dT%H-%M-%S");
        match local.subsec_nanosecond() / 1000 {
            0 => stamp.to_string(),
            micros => format!("{stamp}.{micros:06}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_seconds_have_no_fraction() {
        let moment = Moment::from_micros(1_794_710_810_000_000);
        assert_eq!(moment.stamp(&TimeZone::utc()), "2026-11-15T02-46-50");
    }

    #[test]
    fn saturates_at_the_limits() {
        assert!(Moment::from_micros(i64::MAX).stamp(&TimeZone::utc()).starts_with("9999-12-"));
        assert_eq!(Moment::from_micros(-1).stamp(&TimeZone::utc()), "1969-12-31T23-59-59.999999");
    }
}

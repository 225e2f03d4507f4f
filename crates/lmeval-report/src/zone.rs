//! The local time zone, from the system and `TZ`.

use std::path::Path;

use jiff::tz;

/// A time zone: the UTC offset at any moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeZone(pub(crate) tz::TimeZone);

/// The C library's default for daylight saving rules without dates.
const UNITED_STATES: &str = ",M3.2.0,M11.1.0";

impl TimeZone {
    /// Coordinated universal time.
    pub fn utc() -> Self {
        Self(tz::TimeZone::UTC)
    }

    /// The local zone: the one named by `tz`, the value of `TZ`, or else the system's. An invalid zone means UTC, as in
    /// the C library.
    pub fn local(tz: Option<&str>) -> Self {
        let Some(tz) = tz else { return Self(tz::TimeZone::system()) };
        let name = tz.strip_prefix(':').unwrap_or(tz);
        Self(from_file(name).or_else(|| from_rule(name)).unwrap_or(tz::TimeZone::UTC))
    }
}

/// Reads a zone by its name in the system's database or by its path.
fn from_file(name: &str) -> Option<tz::TimeZone> {
    if name.is_empty() || name.split('/').any(|part| part == "..") {
        return None;
    }
    let read = |path: &Path| tz::TimeZone::tzif(name, &fs_err::read(path).ok()?).ok();
    // An absolute path replaces the folder it is joined to.
    ["/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo"]
        .into_iter()
        .find_map(|folder| read(&Path::new(folder).join(name)))
        // Windows has no such files; jiff includes a database there.
        .or_else(|| tz::TimeZone::get(name).ok())
}

/// Parses a POSIX rule such as `CET-1CEST,M3.5.0,M10.5.0/3`.
fn from_rule(rule: &str) -> Option<tz::TimeZone> {
    let zone = tz::TimeZone::posix(rule).or_else(|_| tz::TimeZone::posix(&format!("{rule}{UNITED_STATES}")));
    zone.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(tz: &str, second: i64) -> i32 {
        let moment = jiff::Timestamp::from_second(second).unwrap();
        TimeZone::local(Some(tz)).0.to_offset(moment).seconds()
    }

    #[test]
    fn parses_posix_rules() {
        assert_eq!(offset("XYZ-5:30", 0), 19_800);
        // 2026-03-29 01:00 and 2026-10-25 01:00, UTC.
        for (moment, expected) in
            [(1_774_745_999, 3600), (1_774_746_000, 7200), (1_792_889_999, 7200), (1_792_890_000, 3600)]
        {
            assert_eq!(offset("CET-1CEST,M3.5.0,M10.5.0/3", moment), expected, "{moment}");
        }
        // Without dates: 2026-03-08 10:00 and 2026-11-01 09:00, UTC.
        for (moment, expected) in
            [(1_772_963_999, -28_800), (1_772_964_000, -25_200), (1_793_523_600, -28_800)]
        {
            assert_eq!(offset("ABC8DEF", moment), expected, "{moment}");
        }
    }

    #[test]
    fn invalid_zones_are_utc() {
        for tz in [
            "",
            ":",
            "no such zone",
            "../../etc/passwd",
            "/etc/passwd",
            "ABC1DEF,M13.1.0,M1.1.0",
            "<A1",
            "\0",
        ] {
            assert_eq!(TimeZone::local(Some(tz)), TimeZone::utc(), "{tz}");
        }
    }
}

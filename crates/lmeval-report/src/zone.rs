//! The local time zone, as the system's files and `TZ` give it.

use std::path::Path;

use crate::posix_zone::Rule;

/// How far local time is ahead of universal time, at any moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeZone {
    /// Moments at which the offset changes, ascending, each with the offset from then on.
    changes: Vec<(i64, i64)>,
    /// The offset before the first change.
    first: i64,
    /// The rule behind the last change.
    rule: Option<Rule>,
}

impl TimeZone {
    /// Universal time.
    pub fn utc() -> Self {
        Self::default()
    }

    /// The zone of this machine: what `tz`, the value of `TZ`, names, else `/etc/localtime`. A zone that cannot be read
    /// counts as universal time, as it does for the C library.
    pub fn local(tz: Option<&str>) -> Self {
        let Some(tz) = tz else {
            return Self::read(Path::new("/etc/localtime")).unwrap_or_default();
        };
        let name = tz.strip_prefix(':').unwrap_or(tz);
        if name.is_empty() {
            return Self::utc();
        }
        let named = if name.starts_with('/') {
            Self::read(Path::new(name))
        } else if name.split('/').any(|part| part == "..") {
            None
        } else {
            ["/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo"]
                .into_iter()
                .find_map(|folder| Self::read(&Path::new(folder).join(name)))
        };
        named.or_else(|| Some(Self { rule: Some(Rule::parse(name)?), ..Self::default() })).unwrap_or_default()
    }

    /// Seconds that local time is ahead of universal time at a moment, in seconds since the beginning of 1970.
    pub fn offset(&self, seconds: i64) -> i64 {
        let behind = self.changes.partition_point(|(moment, _)| *moment <= seconds);
        match (&self.rule, behind) {
            (Some(rule), behind) if behind == self.changes.len() => rule.offset(seconds),
            (_, 0) => self.first,
            (_, behind) => self.changes[behind - 1].1,
        }
    }

    fn read(path: &Path) -> Option<Self> {
        Self::parse(&fs_err::read(path).ok()?)
    }

    /// Reads a time zone file (RFC 9636).
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let header = Header::parse(bytes)?;
        if header.version == 0 {
            return Self::parse_block(&header, bytes.get(44..)?, 4);
        }
        // The first block is for old readers; the second has the same layout with longer numbers.
        let second = bytes.get(44 + header.length(4)..)?;
        let header = Header::parse(second)?;
        let mut zone = Self::parse_block(&header, second.get(44..)?, 8)?;
        let footer = second.get(44 + header.length(8)..)?;
        let footer = std::str::from_utf8(footer).ok()?.trim_matches('\n');
        zone.rule = if footer.is_empty() { None } else { Some(Rule::parse(footer)?) };
        Some(zone)
    }

    fn parse_block(header: &Header, block: &[u8], width: usize) -> Option<Self> {
        let moments = block.get(..header.changes * width)?;
        let kinds_at = header.changes * width;
        let kinds = block.get(kinds_at..kinds_at + header.changes)?;
        let types_at = kinds_at + header.changes;
        let types = block.get(types_at..types_at + header.types * 6)?;
        let offsets: Vec<i64> = types.chunks_exact(6).map(|kind| big_endian(&kind[..4])).collect();
        let changes = moments
            .chunks_exact(width)
            .zip(kinds)
            .map(|(moment, kind)| Some((big_endian(moment), *offsets.get(usize::from(*kind))?)))
            .collect::<Option<Vec<_>>>()?;
        Some(Self { changes, first: *offsets.first()?, rule: None })
    }
}

/// The counts at the beginning of a block.
struct Header {
    version: u8,
    universal: usize,
    standard: usize,
    leaps: usize,
    changes: usize,
    types: usize,
    characters: usize,
}

impl Header {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let header = bytes.get(..44)?;
        if &header[..4] != b"TZif" {
            return None;
        }
        let count = |place: usize| {
            usize::try_from(big_endian(&header[20 + 4 * place..24 + 4 * place]))
                .ok()
                // No file of a zone is as large; sums of counts stay far from overflow.
                .filter(|count| *count < 1 << 20)
        };
        Some(Self {
            version: header[4],
            universal: count(0)?,
            standard: count(1)?,
            leaps: count(2)?,
            changes: count(3)?,
            types: count(4)?,
            characters: count(5)?,
        })
    }

    /// The number of bytes of the block behind the header.
    fn length(&self, width: usize) -> usize {
        self.changes * (width + 1)
            + self.types * 6
            + self.characters
            + self.leaps * (width + 4)
            + self.standard
            + self.universal
    }
}

/// A signed number of four or eight bytes.
fn big_endian(bytes: &[u8]) -> i64 {
    let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    bytes.iter().fold(if negative { -1 } else { 0 }, |number, byte| (number << 8) | i64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_files_are_no_zone() {
        assert_eq!(TimeZone::parse(b""), None);
        let mut bytes = b"TZif2".to_vec();
        bytes.resize(44, 0);
        bytes[23] = 200;
        assert_eq!(TimeZone::parse(&bytes), None);
        bytes.resize(4000, 0xff);
        assert_eq!(TimeZone::parse(&bytes), None);
    }

    #[test]
    fn rules_in_the_variable_work() {
        let zone = TimeZone::local(Some("XYZ-5:30"));
        assert_eq!(zone.offset(0), 19_800);
        assert_eq!(TimeZone::local(Some("no such zone")), TimeZone::utc());
        assert_eq!(TimeZone::local(Some("")), TimeZone::utc());
        assert_eq!(TimeZone::local(Some("../../etc/passwd")), TimeZone::utc());
    }
}

//! The file header: magic bytes, format version, checksum.

use std::path::Path;

use crate::error::{Error, ErrorKind};

/// The size of the header in bytes.
pub(crate) const SIZE: usize = 16;

/// The format version that new journals get.
const VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"LMEVJRNL";

/// How messages describe an old response cache.
pub(crate) const SQLITE: &str = "an SQLite database";

/// The state of a file's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// A valid header of a supported version.
    Complete,
    /// An empty file, or a header cut off by a killed process.
    Unfinished,
    /// An invalid header followed by valid records.
    Damaged,
}

/// The header of a new journal: magic, version, checksum of both.
pub(crate) fn encode() -> [u8; SIZE] {
    encode_version(VERSION)
}

fn encode_version(version: u32) -> [u8; SIZE] {
    let mut header = [0; SIZE];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&version.to_le_bytes());
    let checksum = crc32fast::hash(&header[..12]);
    header[12..].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// Classifies a file by its first [`SIZE`] bytes, or by all of its bytes if it is shorter.
pub(crate) fn check(start: &[u8], path: &Path) -> Result<Header, Error> {
    let path = || path.to_owned();
    if start.len() < SIZE && encode().starts_with(start) {
        return Ok(Header::Unfinished);
    }
    if !is_journal(start) {
        return Err(ErrorKind::Foreign { path: path(), what: describe(start) }.into());
    }
    let Some((header, _)) = start.split_first_chunk::<SIZE>() else {
        return Err(ErrorKind::Header { path: path() }.into());
    };
    let [_, _, _, _, _, _, _, _, v0, v1, v2, v3, ..] = *header;
    let found = u32::from_le_bytes([v0, v1, v2, v3]);
    if encode_version(found) != *header {
        return Err(ErrorKind::Header { path: path() }.into());
    }
    if found != VERSION {
        return Err(ErrorKind::Newer { path: path(), found, known: VERSION }.into());
    }
    Ok(Header::Complete)
}

/// Whether the magic bytes match, whatever the version and state.
pub(crate) fn is_journal(start: &[u8]) -> bool {
    start.starts_with(MAGIC)
}

fn describe(start: &[u8]) -> &'static str {
    match start {
        _ if start.starts_with(b"SQLite format 3\0") => SQLITE,
        [0x1f, 0x8b, ..] => "a gzip file",
        [b'{' | b'[', ..] => "a JSON file",
        _ if start.iter().all(|byte| *byte == 0) => "a file of zeros",
        _ => "an unknown kind of file",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classify(start: &[u8]) -> Result<Header, String> {
        check(start, Path::new("a.journal")).map_err(|error| error.to_string())
    }

    #[test]
    fn accepts_complete_and_truncated_headers() {
        let header = encode();
        assert_eq!(classify(&header), Ok(Header::Complete));
        for length in 0..SIZE {
            assert_eq!(classify(&header[..length]), Ok(Header::Unfinished), "{length}");
        }
    }

    #[test]
    fn names_other_kinds_of_files() {
        let text = |what| Err(format!("`a.journal` is {what}, not an answer journal"));
        assert_eq!(classify(b"SQLite format 3\0"), text("an SQLite database"));
        assert_eq!(classify(b"{\"a\": 1}"), text("a JSON file"));
        assert_eq!(classify(b"short"), text("an unknown kind of file"));
        assert_eq!(classify(&[0; 16]), text("a file of zeros"));
    }

    #[test]
    fn names_newer_version() {
        let message = "`a.journal` has format version 7; this version of lm-eval reads versions up to 1";
        assert_eq!(classify(&encode_version(7)), Err(message.to_owned()));
    }

    #[test]
    fn detects_every_flipped_bit() {
        for bit in 0..SIZE * 8 {
            let mut header = encode();
            header[bit / 8] ^= 1 << (bit % 8);
            classify(&header).unwrap_err();
        }
    }
}

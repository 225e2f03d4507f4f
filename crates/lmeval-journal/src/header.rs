//! The first bytes of a journal: what the file is, and in which version.

use std::path::Path;

use crate::error::{Error, ErrorKind};

/// The number of bytes of a header.
pub(crate) const SIZE: usize = 16;

/// The version that is written.
const VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"LMEVJRNL";

/// What an old response cache is called in messages.
pub(crate) const SQLITE: &str = "an SQLite database";

/// What stands at the beginning of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// A whole header of a version that is known.
    Complete,
    /// Nothing, or a header that was being written when its process ended.
    Unfinished,
    /// Something else, with sound records behind it.
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

/// Judges the first bytes of a file: [`SIZE`] of them, or all where there are fewer.
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

/// Whether a file that begins so is a journal, of whatever version and state.
pub(crate) fn is_journal(start: &[u8]) -> bool {
    start.starts_with(MAGIC)
}

fn describe(start: &[u8]) -> &'static str {
    match start {
        _ if start.starts_with(b"SQLite format 3\0") => SQLITE,
        [0x1f, 0x8b, ..] => "a gzip file",
        [b'{' | b'[', ..] => "a JSON file",
        _ if start.iter().all(|byte| *byte == 0) => "a file of zeros",
        _ => "a file of another kind",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(start: &[u8]) -> Result<Header, String> {
        check(start, Path::new("a.journal")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_header_is_whole_or_a_beginning_of_one() {
        let header = encode();
        assert_eq!(judge(&header), Ok(Header::Complete));
        for length in 0..SIZE {
            assert_eq!(judge(&header[..length]), Ok(Header::Unfinished), "{length}");
        }
    }

    #[test]
    fn other_files_are_named() {
        let text = |what| Err(format!("`a.journal` is {what}, not a journal of answers"));
        assert_eq!(judge(b"SQLite format 3\0"), text("an SQLite database"));
        assert_eq!(judge(b"{\"a\": 1}"), text("a JSON file"));
        assert_eq!(judge(b"short"), text("a file of another kind"));
        assert_eq!(judge(&[0; 16]), text("a file of zeros"));
    }

    #[test]
    fn a_later_version_is_named() {
        let message = "`a.journal` has format version 7; this version of lm-eval reads versions up to 1";
        assert_eq!(judge(&encode_version(7)), Err(message.to_owned()));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        for bit in 0..SIZE * 8 {
            let mut header = encode();
            header[bit / 8] ^= 1 << (bit % 8);
            judge(&header).unwrap_err();
        }
    }
}

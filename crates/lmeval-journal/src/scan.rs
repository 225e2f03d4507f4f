//! Iterates over the records of a file, skipping damage.

use std::io::{self, Read};

use crate::header;
use crate::record::{self, HEAD, MARKER};

/// The size of one read in bytes.
const CHUNK: usize = 256 << 10;

/// A region of a file without valid records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Its first byte in the file.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Everything found besides records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scanned {
    /// Damaged regions that are followed by valid records.
    pub(crate) damage: Vec<Damage>,
    /// The end of the last valid record.
    pub(crate) end: u64,
    /// The number of bytes after `end`: an incomplete record.
    pub(crate) tail: u64,
}

/// Calls `visit` with the offset and the bytes of every valid record.
///
/// `reader` must be positioned after the header. Bytes that do not start a valid record are skipped up to the next
/// marker that does.
pub(crate) fn scan<R: Read>(reader: R, mut visit: impl FnMut(u64, &[u8])) -> io::Result<Scanned> {
    let start = header::SIZE as u64;
    let mut window = Window { reader, buffer: Vec::new(), consumed: 0, offset: start, at_end: false };
    let mut scanned = Scanned { damage: Vec::new(), end: start, tail: 0 };
    loop {
        let available = window.fill(HEAD)?;
        if available.is_empty() {
            scanned.tail = window.offset - scanned.end;
            return Ok(scanned);
        }
        if let Some(size) = record::size(available)
            && let Some(bytes) = window.fill(size)?.get(..size)
            && record::is_sound(bytes)
        {
            let offset = window.offset;
            if offset > scanned.end {
                scanned.damage.push(Damage { offset: scanned.end, bytes: offset - scanned.end });
            }
            window.visit(size, &mut visit);
            scanned.end = window.offset;
            continue;
        }
        // The first byte of a marker occurs only once in it, so the search may resume right after it.
        let available = window.fill(HEAD)?;
        let skipped = available.iter().skip(1).position(|byte| *byte == MARKER[0]);
        let skipped = skipped.map_or(available.len(), |position| position + 1);
        window.consume(skipped);
    }
}

/// A part of the file, buffered.
struct Window<R> {
    reader: R,
    buffer: Vec<u8>,
    /// The number of bytes at the front of the buffer that were processed.
    consumed: usize,
    /// The file offset of the first unprocessed byte.
    offset: u64,
    at_end: bool,
}

impl<R: Read> Window<R> {
    /// The buffered bytes from the current position: at least `wanted`, fewer only at the end of the file.
    fn fill(&mut self, wanted: usize) -> io::Result<&[u8]> {
        let available = self.buffer.len() - self.consumed;
        if available < wanted && !self.at_end {
            self.buffer.drain(..self.consumed);
            self.consumed = 0;
            let missing = (wanted - available).max(CHUNK) as u64;
            let read = self.reader.by_ref().take(missing).read_to_end(&mut self.buffer)?;
            self.at_end = (read as u64) < missing;
        }
        Ok(&self.buffer[self.consumed..])
    }

    fn visit(&mut self, size: usize, visit: &mut impl FnMut(u64, &[u8])) {
        visit(self.offset, &self.buffer[self.consumed..self.consumed + size]);
        self.consume(size);
    }

    fn consume(&mut self, bytes: usize) {
        self.consumed += bytes;
        self.offset += bytes as u64;
    }
}

#[cfg(test)]
mod tests {
    use lmeval_core::{Answer, Response};

    use super::*;
    use crate::key::{Fingerprint, Key};
    use crate::record::{Outcome, StoredEntry};

    fn record(number: u8, text: &str) -> Vec<u8> {
        let key = Key { digest: [number; 16], model: Fingerprint([0; 16]) };
        let outcome = Outcome::Answered(Answer::from(Response::Text(text.into())));
        StoredEntry { key, origin: None, outcome }.encode().unwrap()
    }

    fn found(bytes: &[u8]) -> (Vec<u64>, Scanned) {
        let mut offsets = Vec::new();
        let scanned = scan(bytes, |offset, _| offsets.push(offset)).unwrap();
        (offsets, scanned)
    }

    #[test]
    fn finds_records_after_damage() {
        let (one, two, three) = (record(1, "one"), record(2, "two, longer"), record(3, ""));
        let bytes = [one.clone(), two.clone(), three.clone()].concat();
        let starts = [16, 16 + one.len() as u64, 16 + (one.len() + two.len()) as u64];
        for at in one.len()..one.len() + two.len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                let (offsets, scanned) = found(&damaged);
                assert_eq!(offsets, [starts[0], starts[2]], "{at}");
                assert_eq!(scanned.damage, [Damage { offset: starts[1], bytes: two.len() as u64 }]);
                assert_eq!((scanned.end, scanned.tail), (16 + bytes.len() as u64, 0));
            }
        }
    }

    #[test]
    fn reads_records_larger_than_a_chunk() {
        let long = "long ".repeat(CHUNK);
        let bytes = [record(1, &long), record(2, "short"), record(3, &long)].concat();
        let (offsets, scanned) = found(&bytes);
        assert_eq!(offsets.len(), 3);
        assert_eq!(scanned.end, 16 + bytes.len() as u64);
        let mut damaged = bytes;
        damaged[100] ^= 1;
        let (offsets, scanned) = found(&damaged);
        assert_eq!((offsets.len(), scanned.damage.len()), (2, 1));
    }

    #[test]
    fn skips_bytes_resembling_records() {
        let mut bytes = MARKER.repeat(3);
        bytes.extend(record(1, "a"));
        bytes.extend([0xf5; 5]);
        bytes.extend(record(2, "b"));
        bytes.extend(MARKER);
        let (offsets, scanned) = found(&bytes);
        assert_eq!(offsets.len(), 2);
        assert_eq!(scanned.damage.len(), 2);
        assert_eq!(scanned.tail, 4);
    }
}

//! Finds the values of a JSON file without parsing them. Memory is bounded by the longest value.

use crate::error::Error;
use crate::file::DataFile;

/// The size of one read in bytes.
const BLOCK: usize = 1 << 20;

/// A window that moves over a file.
pub(super) struct Scanner<'f> {
    file: &'f DataFile,
    buffer: Vec<u8>,
    /// The file offset of the buffer's first byte.
    start: u64,
    /// The position in the buffer.
    at: usize,
    ended: bool,
}

/// The line ends in a run of whitespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) lines: usize,
}

impl<'f> Scanner<'f> {
    /// A scanner at the start of the file, after a byte-order mark.
    pub(super) fn new(file: &'f DataFile) -> Result<Self, Error> {
        let mut scanner = Self { file, buffer: Vec::new(), start: 0, at: 0, ended: false };
        scanner.more()?;
        if scanner.buffer.starts_with(b"\xef\xbb\xbf") {
            scanner.at = 3;
        }
        Ok(scanner)
    }

    /// Reads another block and drops the bytes before the position.
    fn more(&mut self) -> Result<bool, Error> {
        if self.ended {
            return Ok(false);
        }
        self.buffer.drain(..self.at);
        self.start += self.at as u64;
        self.at = 0;
        let block = self.file.read_at(self.start + self.buffer.len() as u64, BLOCK)?;
        self.ended = block.is_empty();
        self.buffer.extend_from_slice(&block);
        Ok(!self.ended)
    }

    /// The file offset of the position.
    pub(super) fn offset(&self) -> u64 {
        self.start + self.at as u64
    }

    /// The next byte, without consuming it.
    pub(super) fn peek(&mut self) -> Result<Option<u8>, Error> {
        if self.at == self.buffer.len() {
            self.more()?;
        }
        Ok(self.buffer.get(self.at).copied())
    }

    /// Consumes the peeked byte.
    pub(super) fn skip(&mut self) {
        self.at += 1;
    }

    /// Skips whitespace.
    pub(super) fn skip_whitespace(&mut self) -> Result<Gap, Error> {
        let mut gap = Gap::default();
        let mut after_return = false;
        while let Some(byte @ (b' ' | b'\t' | b'\n' | b'\r')) = self.peek()? {
            // `\r\n` is one line end.
            gap.lines += usize::from(byte == b'\r' || (byte == b'\n' && !after_return));
            after_return = byte == b'\r';
            self.at += 1;
        }
        Ok(gap)
    }

    /// Skips the value that starts here and returns its offset and bytes. A value cut off by the end of the file
    /// ends there; the parser reports the error.
    pub(super) fn value(&mut self) -> Result<(u64, &[u8]), Error> {
        let length = match self.peek()? {
            Some(b'{' | b'[') => self.nested()?,
            Some(b'"') => self.string(1)?,
            _ => self.scalar()?,
        };
        let (offset, from) = (self.offset(), self.at);
        self.at += length;
        Ok((offset, &self.buffer[from..self.at]))
    }

    /// The byte at a distance from the position.
    fn ahead(&mut self, distance: usize) -> Result<Option<u8>, Error> {
        while self.at + distance >= self.buffer.len() {
            if !self.more()? {
                return Ok(None);
            }
        }
        Ok(Some(self.buffer[self.at + distance]))
    }

    /// The distance of the end of a string whose first character is at `distance`.
    fn string(&mut self, mut distance: usize) -> Result<usize, Error> {
        loop {
            match memchr::memchr2(b'"', b'\\', &self.buffer[(self.at + distance).min(self.buffer.len())..]) {
                Some(found) => {
                    distance += found + 1;
                    if self.buffer[self.at + distance - 1] == b'"' {
                        return Ok(distance);
                    }
                    distance += 1;
                }
                None => {
                    distance = distance.max(self.buffer.len() - self.at);
                    if !self.more()? {
                        return Ok(distance.min(self.buffer.len() - self.at));
                    }
                }
            }
        }
    }

    fn nested(&mut self) -> Result<usize, Error> {
        let mut depth = 0_usize;
        let mut distance = 0;
        while let Some(byte) = self.ahead(distance)? {
            distance += 1;
            match byte {
                b'"' => distance = self.string(distance)?,
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                _ => {}
            }
        }
        Ok(distance)
    }

    fn scalar(&mut self) -> Result<usize, Error> {
        let mut distance = 0;
        while let Some(byte) = self.ahead(distance)? {
            if matches!(byte, b',' | b':' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r') {
                break;
            }
            distance += 1;
        }
        // A stray separator is returned as a value, so that the scan continues and the parser rejects it.
        Ok(distance.max(usize::from(self.at < self.buffer.len())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_values_across_blocks() {
        let long = format!("\"{}\\\"]\"", "é[".repeat(BLOCK));
        let text = format!("\u{feff} {{\"a\": [1, {{}}, {long}]}}\r\n\n{long} 12,true");
        let file = DataFile::from_memory("x", text.into_bytes());
        let mut scanner = Scanner::new(&file).unwrap();
        assert_eq!(scanner.skip_whitespace().unwrap().lines, 0);
        let (offset, value) = scanner.value().unwrap();
        assert_eq!((offset, value.len()), (4, long.len() + 16));
        assert_eq!(scanner.skip_whitespace().unwrap().lines, 2);
        assert_eq!(scanner.value().unwrap().1, long.as_bytes());
        scanner.skip_whitespace().unwrap();
        assert_eq!(scanner.value().unwrap().1, b"12");
        scanner.skip();
        assert_eq!(scanner.value().unwrap().1, b"true");
        assert_eq!(scanner.peek().unwrap(), None);
    }

    #[test]
    fn truncated_values_end_with_the_file() {
        for text in ["{\"a", "[1, 2", "\"x\\", "{\"a\": \"\\\"", ",", "]"] {
            let file = DataFile::from_memory("x", text.as_bytes().to_vec());
            let mut scanner = Scanner::new(&file).unwrap();
            assert_eq!(scanner.value().unwrap().1, text.as_bytes());
        }
    }
}

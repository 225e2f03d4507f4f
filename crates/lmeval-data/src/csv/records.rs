//! Splits CSV files into records and records into cells.

use std::borrow::Cow;

use crate::error::Error;
use crate::file::DataFile;

/// The size of one read in bytes.
const BLOCK: usize = 1 << 20;

/// The special characters of a CSV file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dialect {
    pub(super) separator: u8,
    /// `None` treats quotes as ordinary characters.
    pub(super) quote: Option<u8>,
    pub(super) skip_blank_lines: bool,
}

/// Iterates over the records of a file.
pub(super) struct Records<'f> {
    file: &'f DataFile,
    dialect: Dialect,
    buffer: Vec<u8>,
    start: u64,
    at: usize,
    ended: bool,
    line: u64,
}

/// One record: its offset, line and content without the line end.
pub(super) struct Record<'r> {
    pub(super) offset: u64,
    pub(super) line: u64,
    pub(super) bytes: &'r [u8],
}

/// The parser state within a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    CellStart,
    Plain,
    Quoted,
    /// After a quote that closes the quoted part or is the first of a doubled one.
    QuoteInQuoted,
}

impl<'f> Records<'f> {
    pub(super) fn new(file: &'f DataFile, dialect: Dialect) -> Result<Self, Error> {
        let mut records = Self { file, dialect, buffer: Vec::new(), start: 0, at: 0, ended: false, line: 1 };
        records.more()?;
        if records.buffer.starts_with(b"\xef\xbb\xbf") {
            records.at = 3;
        }
        Ok(records)
    }

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

    /// The next record that is not a blank line.
    pub(super) fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        loop {
            let line = self.line;
            let Some((from, length)) = self.record()? else {
                return Ok(None);
            };
            let bytes = &self.buffer[from..from + length];
            let blank =
                bytes.iter().all(|byte| matches!(byte, b' ' | b'\t') && *byte != self.dialect.separator);
            if !(blank && self.dialect.skip_blank_lines) {
                let offset = self.start + from as u64;
                return Ok(Some(Record { offset, line, bytes: &self.buffer[from..from + length] }));
            }
        }
    }

    fn at_end(&self) -> bool {
        self.at >= self.buffer.len()
    }

    /// The buffer offset and length of the next record; advances past it and its line end.
    fn record(&mut self) -> Result<Option<(usize, usize)>, Error> {
        if self.at_end() && !self.more()? {
            return Ok(None);
        }
        let (mut distance, mut state, mut lines) = (0, State::CellStart, 0);
        loop {
            if self.at + distance >= self.buffer.len() && !self.more()? {
                if state == State::Quoted {
                    return Err(Error::syntax(self.file.name(), self.line, "a quoted cell is not closed"));
                }
                let from = self.at;
                self.at = self.buffer.len();
                return Ok(Some((from, distance)));
            }
            let byte = self.buffer[self.at + distance];
            lines += u64::from(byte == b'\n');
            let is_quote = Some(byte) == self.dialect.quote;
            state = match state {
                State::Quoted if is_quote => State::QuoteInQuoted,
                State::Quoted => State::Quoted,
                State::CellStart | State::QuoteInQuoted if is_quote => State::Quoted,
                _ if byte == self.dialect.separator => State::CellStart,
                _ if matches!(byte, b'\n' | b'\r') => break,
                _ => State::Plain,
            };
            distance += 1;
        }
        // Look one byte further, because `\r
        // ` is one line end.
        if self.at + distance + 1 >= self.buffer.len() {
            self.more()?;
        }
        let from = self.at;
        self.at += distance + 1;
        if self.buffer[self.at - 1] == b'\r' {
            lines += 1;
            if self.buffer.get(self.at) == Some(&b'\n') {
                self.at += 1;
            }
        }
        self.line += lines;
        Ok(Some((from, distance)))
    }
}

/// Splits a record into cells.
pub(super) fn cells(record: &str, dialect: Dialect) -> Vec<Cow<'_, str>> {
    let bytes = record.as_bytes();
    let mut cells = Vec::new();
    let mut at = 0;
    loop {
        let (cell, end) = cell(record, at, dialect);
        cells.push(cell);
        if end >= bytes.len() {
            return cells;
        }
        at = end + 1;
    }
}

/// The cell that starts at `start`, and the offset of the separator after it.
fn cell(record: &str, start: usize, dialect: Dialect) -> (Cow<'_, str>, usize) {
    let bytes = record.as_bytes();
    let find = |byte: u8, from: usize| memchr::memchr(byte, &bytes[from..]).map(|found| from + found);
    let quote = match dialect.quote {
        Some(quote) if bytes.get(start) == Some(&quote) => quote,
        _ => {
            let end = find(dialect.separator, start).unwrap_or(bytes.len());
            return (Cow::Borrowed(&record[start..end]), end);
        }
    };
    let mut text = String::new();
    let mut at = start + 1;
    loop {
        let close = find(quote, at).unwrap_or(bytes.len());
        text.push_str(&record[at..close]);
        if bytes.get(close + 1) == Some(&quote) {
            text.push(char::from(quote));
            at = close + 2;
            continue;
        }
        // Characters between the closing quote and the separator belong to the cell.
        let after = (close + 1).min(bytes.len());
        let end = find(dialect.separator, after).unwrap_or(bytes.len());
        text.push_str(&record[after..end]);
        return (Cow::Owned(text), end);
    }
}

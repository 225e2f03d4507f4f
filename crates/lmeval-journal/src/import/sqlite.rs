//! Reads the rows of a table from an SQLite file, and nothing more.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::lock::beside;
use crate::medium::read_up_to;

/// What every SQLite file begins with.
pub(super) const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// The size of the header of the file, which stands on its first page.
const FILE_HEADER: usize = 100;

/// More levels than a tree of the largest possible file has.
const MAX_DEPTH: usize = 20;

/// A value in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Column<'a> {
    Null,
    Int(i64),
    Float,
    Text(&'a [u8]),
    Blob(&'a [u8]),
}

/// An SQLite file.
#[derive(Debug)]
pub(super) struct Database {
    path: PathBuf,
    file: File,
    page_size: usize,
    /// What a page holds beside what is reserved at its end.
    usable: usize,
    pages: u64,
}

impl Database {
    /// Opens a file, if all of its content is in it.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let cannot_read = |source| Error::io("read", path, source);
        let file = File::open(path).map_err(cannot_read)?;
        let length = file.metadata().map_err(cannot_read)?.len();
        let mut header = [0; FILE_HEADER];
        let read = read_up_to(&file, &mut header, 0).map_err(cannot_read)?;
        let refuse = |message: &str| Err(Error::import(path, message));
        if length == 0 {
            return refuse("The file is empty");
        }
        if read < FILE_HEADER || !header.starts_with(MAGIC) {
            return refuse("It is not an SQLite database, or it is encrypted");
        }
        let page_size = match u16::from_be_bytes([header[16], header[17]]) {
            1 => 65_536,
            size @ 512.. if size.is_power_of_two() => usize::from(size),
            _ => return refuse("It is damaged: the page size makes no sense"),
        };
        let usable = page_size - usize::from(header[20]);
        if usable < 480 {
            return refuse("It is damaged: the reserved space makes no sense");
        }
        if !(1..=2).contains(&header[19]) {
            return refuse("It has a format that is not known");
        }
        if header[56..60] != [0, 0, 0, 0] && header[56..60] != [0, 0, 0, 1] {
            return refuse("Its texts are not UTF-8");
        }
        if has_wal(path) || has_hot_journal(path) {
            return refuse(
                "It was not closed: changes are left in a `-wal` or `-journal` file beside it. Open it once \
                 with `sqlite3` or Python, read something, and close it",
            );
        }
        let pages = length / page_size as u64;
        Ok(Self { path: path.to_owned(), file, page_size, usable, pages })
    }

    /// Calls `visit` with every row of a table, in the order of the row numbers.
    pub(super) fn rows(
        &self,
        table: &str,
        mut visit: impl FnMut(&[Column<'_>]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut root = None;
        let mut names = Vec::new();
        self.walk(1, &mut |row| {
            if let [Column::Text(b"table"), Column::Text(name), _, Column::Int(page), ..] = row {
                if *name == table.as_bytes() {
                    root = u32::try_from(*page).ok();
                }
                names.push(format!("`{}`", String::from_utf8_lossy(name)));
            }
            Ok(())
        })?;
        let Some(root) = root else {
            let there = if names.is_empty() { "it has none".to_owned() } else { names.join(", ") };
            let message = format!("It has no table `{table}`, which response caches have; tables: {there}");
            return Err(Error::import(&self.path, message));
        };
        self.walk(root, &mut visit)
    }

    /// Goes through a tree of pages.
    fn walk(
        &self,
        root: u32,
        visit: &mut dyn FnMut(&[Column<'_>]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // The pages of a sound file are visited once; a damaged one must not lead in circles.
        let mut left = self.pages;
        // Children are pushed in reverse, so that rows come in order.
        let mut stack = vec![(root, 1)];
        let mut payload = Vec::new();
        while let Some((number, depth)) = stack.pop() {
            left = left.checked_sub(1).ok_or_else(|| self.damaged("pages in a circle", number))?;
            if depth > MAX_DEPTH {
                return Err(self.damaged("too many levels", number));
            }
            let page = self.page(number)?;
            let broken = || self.damaged("a page that makes no sense", number);
            let start = if number == 1 { FILE_HEADER } else { 0 };
            let kind = *page.get(start).ok_or_else(broken)?;
            let cells = usize::from(read_u16(&page, start + 3).ok_or_else(broken)?);
            let head = match kind {
                0x05 => 12,
                0x0d => 8,
                _ => return Err(broken()),
            };
            let cell = |at: usize| read_u16(&page, start + head + 2 * at).map(usize::from).ok_or_else(broken);
            if kind == 0x05 {
                stack.push((read_u32(&page, start + 8).ok_or_else(broken)?, depth + 1));
                for at in (0..cells).rev() {
                    stack.push((read_u32(&page, cell(at)?).ok_or_else(broken)?, depth + 1));
                }
                continue;
            }
            for at in 0..cells {
                let bytes = page[..self.usable].get(cell(at)?..).ok_or_else(broken)?;
                self.payload(bytes, &mut payload, number)?;
                visit(&columns(&payload).ok_or_else(broken)?)?;
            }
        }
        Ok(())
    }

    /// Puts together the content of a cell on a leaf.
    fn payload(&self, mut cell: &[u8], payload: &mut Vec<u8>, page: u32) -> Result<(), Error> {
        let broken = || self.damaged("a row that makes no sense", page);
        let size = varint(&mut cell).ok_or_else(broken)?;
        varint(&mut cell).ok_or_else(broken)?;
        let size = usize::try_from(size).map_err(|_| broken())?;
        if size as u64 > self.pages * self.page_size as u64 {
            return Err(broken());
        }
        let most = self.usable - 35;
        let least = (self.usable - 12) * 32 / 255 - 23;
        let local = match least + size.saturating_sub(least) % (self.usable - 4) {
            _ if size <= most => size,
            local if local <= most => local,
            _ => least,
        };
        payload.clear();
        payload.extend_from_slice(cell.get(..local).ok_or_else(broken)?);
        if local == size {
            return Ok(());
        }
        let mut next = read_u32(cell, local).ok_or_else(broken)?;
        while payload.len() < size {
            let overflow = self.page(next)?;
            next = read_u32(&overflow, 0).ok_or_else(broken)?;
            let part = (size - payload.len()).min(self.usable - 4);
            payload.extend_from_slice(&overflow[4..4 + part]);
        }
        Ok(())
    }

    fn page(&self, number: u32) -> Result<Vec<u8>, Error> {
        let index = u64::from(number).checked_sub(1).filter(|index| *index < self.pages);
        let index = index.ok_or_else(|| self.damaged("a page that is not there", number))?;
        let mut page = vec![0; self.page_size];
        let read = read_up_to(&self.file, &mut page, index * self.page_size as u64);
        match read.map_err(|source| Error::io("read", &self.path, source))? {
            read if read == page.len() => Ok(page),
            _ => Err(self.damaged("a page that is not there", number)),
        }
    }

    fn damaged(&self, what: &str, page: u32) -> Error {
        Error::import(&self.path, format!("The database is damaged: {what}, page {page}"))
    }
}

/// Whether there is a write-ahead log with more than its header.
fn has_wal(path: &Path) -> bool {
    fs_err::metadata(beside(path, "-wal")).is_ok_and(|metadata| metadata.len() > 32)
}

/// Whether there is a rollback journal that is to be played back: the beginning of others is cleared.
fn has_hot_journal(path: &Path) -> bool {
    let mut start = [0; 8];
    let read = File::open(beside(path, "-journal")).and_then(|file| read_up_to(&file, &mut start, 0));
    read.is_ok_and(|read| read == start.len()) && start == [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]
}

/// The values of a row.
fn columns(payload: &[u8]) -> Option<Vec<Column<'_>>> {
    let mut rest = payload;
    let head = usize::try_from(varint(&mut rest)?).ok()?;
    let mut types = payload.get(payload.len() - rest.len()..head)?;
    let mut values = payload.get(head..)?;
    let mut columns = Vec::new();
    while !types.is_empty() {
        let code = varint(&mut types)?;
        let size = match code {
            0 | 8 | 9 => 0,
            1..=4 => code as usize,
            5 => 6,
            6 | 7 => 8,
            12.. => usize::try_from((code - 12) / 2).ok()?,
            _ => return None,
        };
        let (value, behind) = values.split_at_checked(size)?;
        values = behind;
        columns.push(match code {
            0 => Column::Null,
            1..=6 => Column::Int(integer(value)),
            7 => Column::Float,
            8 => Column::Int(0),
            9 => Column::Int(1),
            code if code % 2 == 0 => Column::Blob(value),
            _ => Column::Text(value),
        });
    }
    Some(columns)
}

/// A number in two's complement, highest byte first.
fn integer(bytes: &[u8]) -> i64 {
    let sign = if bytes.first().is_some_and(|first| first & 0x80 != 0) { -1 } else { 0 };
    bytes.iter().fold(sign, |number, byte| number << 8 | i64::from(*byte))
}

/// Seven bits to a byte, highest first; a ninth byte counts whole.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for position in 0..9 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if position == 8 {
            return Some(number << 8 | u64::from(*byte));
        }
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

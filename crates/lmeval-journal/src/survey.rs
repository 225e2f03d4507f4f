//! A scan of a complete file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::error::{Error, ErrorKind};
use crate::header::{self, Header};
use crate::index::{Index, RecordLocation};
use crate::medium::read_up_to;
use crate::record::Record;
use crate::scan::{Damage, Scanned, scan};

/// How many bytes of a file with an invalid header are searched for records.
const SEARCHED: u64 = 64 << 20;

/// The content of a journal file.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub(crate) index: Index,
    pub(crate) scanned: Scanned,
    /// Records with a valid checksum that cannot be decoded.
    pub(crate) unreadable: Vec<Damage>,
    /// The number of valid records.
    pub(crate) records: usize,
    pub(crate) is_header_damaged: bool,
}

impl Survey {
    /// Scans the records after the header.
    pub(crate) fn of(reader: impl Read) -> io::Result<Self> {
        let mut survey = Self::default();
        let Self { index, unreadable, records, .. } = &mut survey;
        let scanned = scan(reader, |offset, bytes| {
            *records += 1;
            match Record::decode(bytes) {
                Some(Record::Model(model)) => index.insert_model(model, offset),
                Some(Record::Entry(entry)) => {
                    let location = RecordLocation { offset, size: bytes.len() as u32, state: entry.state() };
                    index.insert(&entry.key, location);
                }
                Some(Record::Data(data)) => index.insert_data(data, offset),
                None => unreadable.push(Damage { offset, bytes: bytes.len() as u64 }),
            }
        })?;
        survey.scanned = scanned;
        Ok(survey)
    }

    /// All unreadable regions except the tail, in file order.
    pub(crate) fn damage(&self) -> Vec<Damage> {
        let mut damage = [self.scanned.damage.as_slice(), &self.unreadable].concat();
        if self.is_header_damaged {
            damage.push(Damage { offset: 0, bytes: header::SIZE as u64 });
        }
        damage.sort_by_key(|part| part.offset);
        damage
    }
}

/// Opens a journal read-only, positioned after the header; `None` if nothing has been written to it yet.
pub(crate) fn open_for_reading(path: &Path) -> Result<Option<File>, Error> {
    let file = File::open(path).map_err(|source| Error::io("read", path, source))?;
    Ok(match read_header(&file, path)? {
        Header::Complete | Header::Damaged => Some(file),
        Header::Unfinished => None,
    })
}

/// Classifies the header. Where it is damaged, valid records show that the file is a journal.
pub(crate) fn read_header(file: &File, path: &Path) -> Result<Header, Error> {
    let error = match header::check(&first_bytes(file, path)?, path) {
        Err(error) if matches!(error.kind(), ErrorKind::Header { .. } | ErrorKind::Foreign { .. }) => error,
        judged => return judged,
    };
    let mut is_journal = false;
    let start = records(file, path)?.take(SEARCHED);
    scan(start, |_, _| is_journal = true).map_err(|source| Error::io("read", path, source))?;
    if is_journal { Ok(Header::Damaged) } else { Err(error) }
}

/// The bytes at the position of the header.
pub(crate) fn first_bytes(file: &File, path: &Path) -> Result<Vec<u8>, Error> {
    let mut start = vec![0; header::SIZE];
    let read = read_up_to(file, &mut start, 0).map_err(|source| Error::io("read", path, source))?;
    start.truncate(read);
    Ok(start)
}

/// Scans an open file from the end of its header.
pub(crate) fn survey(file: &File, path: &Path) -> Result<Survey, Error> {
    let survey = Survey::of(records(file, path)?);
    let mut survey = survey.map_err(|source| Error::io("read", path, source))?;
    survey.is_header_damaged = read_header(file, path)? == Header::Damaged;
    Ok(survey)
}

/// Positions an open file at its first record.
pub(crate) fn records<'a>(mut file: &'a File, path: &Path) -> Result<&'a File, Error> {
    let start = SeekFrom::Start(header::SIZE as u64);
    file.seek(start).map_err(|source| Error::io("read", path, source))?;
    Ok(file)
}

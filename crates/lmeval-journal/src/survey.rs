//! What a whole file holds.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::error::{Error, ErrorKind};
use crate::header::{self, Header};
use crate::index::{Index, Slot};
use crate::medium::read_up_to;
use crate::record::Record;
use crate::scan::{Damage, Scanned, scan};

/// How much of a file with an unknown beginning is searched for records, in bytes.
const SEARCHED: u64 = 64 << 20;

/// What a file holds.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub(crate) index: Index,
    pub(crate) scanned: Scanned,
    /// Sound records whose content makes no sense.
    pub(crate) unreadable: Vec<Damage>,
    /// Sound records.
    pub(crate) records: usize,
    /// Whether the header is damaged.
    pub(crate) is_header_damaged: bool,
}

impl Survey {
    /// Surveys the records behind a header.
    pub(crate) fn of(reader: impl Read) -> io::Result<Self> {
        let mut survey = Self::default();
        let Self { index, unreadable, records, .. } = &mut survey;
        let scanned = scan(reader, |offset, bytes| {
            *records += 1;
            match Record::decode(bytes) {
                Some(Record::Model(model)) => index.insert_model(model, offset),
                Some(Record::Entry(entry)) => {
                    let slot = Slot { offset, size: bytes.len() as u32, is_answered: entry.is_answered() };
                    index.insert(&entry.key, slot);
                }
                None => unreadable.push(Damage { offset, bytes: bytes.len() as u64 }),
            }
        })?;
        survey.scanned = scanned;
        Ok(survey)
    }

    /// All parts that hold nothing that can be read, in the order of the file, but for the tail.
    pub(crate) fn damage(&self) -> Vec<Damage> {
        let mut damage = [self.scanned.damage.as_slice(), &self.unreadable].concat();
        if self.is_header_damaged {
            damage.push(Damage { offset: 0, bytes: header::SIZE as u64 });
        }
        damage.sort_by_key(|part| part.offset);
        damage
    }
}

/// A journal that is only read: its file behind the header, or `None` where nothing has been written to it yet.
pub(crate) fn open_for_reading(path: &Path) -> Result<Option<File>, Error> {
    let file = File::open(path).map_err(|source| Error::io("read", path, source))?;
    Ok(match read_header(&file, path)? {
        Header::Complete | Header::Damaged => Some(file),
        Header::Unfinished => None,
    })
}

/// Judges the header of a file. Records are found without it, so where it is damaged they show what the file is.
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

/// The bytes where the header should be.
pub(crate) fn first_bytes(file: &File, path: &Path) -> Result<Vec<u8>, Error> {
    let mut start = vec![0; header::SIZE];
    let read = read_up_to(file, &mut start, 0).map_err(|source| Error::io("read", path, source))?;
    start.truncate(read);
    Ok(start)
}

/// Surveys an open file from behind its header.
pub(crate) fn survey(file: &File, path: &Path) -> Result<Survey, Error> {
    let survey = Survey::of(records(file, path)?);
    let mut survey = survey.map_err(|source| Error::io("read", path, source))?;
    survey.is_header_damaged = read_header(file, path)? == Header::Damaged;
    Ok(survey)
}

/// The records of an open file.
pub(crate) fn records<'a>(mut file: &'a File, path: &Path) -> Result<&'a File, Error> {
    let start = SeekFrom::Start(header::SIZE as u64);
    file.seek(start).map_err(|source| Error::io("read", path, source))?;
    Ok(file)
}

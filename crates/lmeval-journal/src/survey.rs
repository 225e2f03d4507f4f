//! What a whole file holds.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::error::Error;
use crate::header::{self, Header};
use crate::index::{Index, Slot};
use crate::medium::read_up_to;
use crate::record::Record;
use crate::scan::{Damage, Scanned, scan};

/// What a file holds.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub(crate) index: Index,
    pub(crate) scanned: Scanned,
    /// Sound records whose content makes no sense.
    pub(crate) unreadable: Vec<Damage>,
    /// Sound records.
    pub(crate) records: usize,
}

impl Survey {
    /// Surveys the records behind a header.
    pub(crate) fn of(reader: impl Read) -> io::Result<Self> {
        let mut survey = Self::default();
        let Self { index, unreadable, records, .. } = &mut survey;
        let scanned = scan(reader, |offset, bytes| {
            *records += 1;
            match Record::decode(bytes) {
                Some(Record::Model(model)) => {
                    index.insert_model(model.fingerprint());
                }
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
        damage.sort_by_key(|part| part.offset);
        damage
    }
}

/// A journal that is only read: its file behind the header, or `None` where nothing has been written to it yet.
pub(crate) fn open_for_reading(path: &Path) -> Result<Option<File>, Error> {
    let file = File::open(path).map_err(|source| Error::io("read", path, source))?;
    Ok(match read_header(&file, path)? {
        Header::Complete => Some(file),
        Header::Unfinished => None,
    })
}

/// Judges the header of a file.
pub(crate) fn read_header(file: &File, path: &Path) -> Result<Header, Error> {
    header::check(&first_bytes(file, path)?, path)
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
    Survey::of(records(file, path)?).map_err(|source| Error::io("read", path, source))
}

/// The records of an open file.
pub(crate) fn records<'a>(mut file: &'a File, path: &Path) -> Result<&'a File, Error> {
    let start = SeekFrom::Start(header::SIZE as u64);
    file.seek(start).map_err(|source| Error::io("read", path, source))?;
    Ok(file)
}

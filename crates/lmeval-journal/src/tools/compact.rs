//! Rewrites a journal without obsolete records.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::error::{Error, ErrorKind};
use crate::header::{self, Header};
use crate::journal::{resolve, sync_folder};
use crate::lock::{Lock, beside};
use crate::record::Record;
use crate::scan::scan;
use crate::survey::{read_header, records, survey};

/// The counts of a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Answered requests; all of them stay.
    pub answers: usize,
    /// Requests that failed and were never answered; all of them stay.
    pub failures: usize,
    /// Removed records: superseded answers, and failures that were answered later.
    pub dropped: usize,
    /// Removed damaged regions.
    pub damaged: usize,
    /// The file size before, in bytes.
    pub bytes_before: u64,
    /// The file size after, in bytes.
    pub bytes_after: u64,
}

/// Rewrites a journal without superseded answers, failures that were answered later, and damaged regions.
///
/// The new file replaces the old one atomically once it is on disk; on any failure before that, the old one stays.
pub fn compact(path: &Path) -> Result<Compacted, Error> {
    if let Err(source) = fs_err::metadata(path) {
        return Err(Error::io("read", path, source));
    }
    let path = &resolve(path)?;
    let lock = Lock::acquire(path)?;
    let file = File::open(path).map_err(|source| Error::io("read", path, source))?;
    if read_header(&file, path)? == Header::Unfinished {
        return Ok(Compacted::default());
    }
    let new_path = beside(path, ".compact");
    let result = write_new(&file, path, &new_path).and_then(|compacted| {
        fs_err::rename(&new_path, path).map_err(|source| Error::io("replace", path, source))?;
        Ok(compacted)
    });
    if result.is_err() {
        // The incomplete new file does no harm but takes space.
        let _ = fs_err::remove_file(&new_path);
    }
    sync_folder(path);
    drop(lock);
    result
}

fn write_new(file: &File, path: &Path, new_path: &Path) -> Result<Compacted, Error> {
    let survey = survey(file, path)?;
    let (answers, failures) = survey.index.counts();
    let cannot_write = |source| Error::from(ErrorKind::Write { path: new_path.to_owned(), source });
    let new_file = File::create(new_path).map_err(cannot_write)?;
    let mut output = BufWriter::with_capacity(1 << 20, new_file);
    let mut written: io::Result<()> = output.write_all(&header::encode());
    let mut bytes_after = header::SIZE as u64;
    let mut kept = 0;
    let scanned = scan(records(file, path)?, |offset, bytes| {
        let is_kept = match Record::decode(bytes) {
            Some(Record::Model(model)) => survey.index.is_last_of_model(&model, offset),
            Some(Record::Entry(entry)) => survey.index.is_live(&entry.key, offset),
            Some(Record::Data(data)) => survey.index.is_last_of_data(&data.subject, offset),
            None => false,
        };
        if is_kept && written.is_ok() {
            written = output.write_all(bytes);
            bytes_after += bytes.len() as u64;
            kept += 1;
        }
    });
    let scanned = scanned.map_err(|source| Error::io("read", path, source))?;
    let new_file = written
        .and_then(|()| output.into_inner().map_err(io::IntoInnerError::into_error))
        .map_err(cannot_write)?;
    let permissions = file.metadata().map(|metadata| metadata.permissions());
    let permitted = permissions.and_then(|permissions| new_file.set_permissions(permissions));
    permitted.and_then(|()| new_file.sync_all()).map_err(cannot_write)?;
    Ok(Compacted {
        answers,
        failures,
        dropped: survey.records - survey.unreadable.len() - kept,
        damaged: survey.damage().len() + usize::from(scanned.tail > 0),
        bytes_before: scanned.end + scanned.tail,
        bytes_after,
    })
}

//! Checks every record of a journal.

use std::fmt;
use std::path::Path;

use crate::error::Error;
use crate::survey::{open_for_reading, survey};

/// A defect of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// A damaged region that is followed by valid records.
    Damaged {
        /// Its first byte in the file.
        offset: u64,
        /// Its length in bytes.
        bytes: u64,
    },
    /// An incomplete record at the end: being written now, or left by a killed process.
    Unfinished {
        /// Its first byte in the file.
        offset: u64,
        /// Its length in bytes.
        bytes: u64,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged { offset, bytes } => write!(f, "{bytes} damaged bytes at offset {offset}"),
            Self::Unfinished { offset, bytes } => {
                write!(f, "An incomplete record of {bytes} bytes at the end, from offset {offset}")
            }
        }
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Records with a valid checksum.
    pub records: usize,
    /// The number of answered requests.
    pub answers: usize,
    /// The number of requests that failed and were never answered.
    pub failures: usize,
    /// The file size in bytes.
    pub bytes: u64,
    /// The defects, in file order.
    pub problems: Vec<Problem>,
}

impl Verification {
    /// Whether there are no defects.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Checks every record of a journal. Reads only and takes no lock, so it is safe during a run.
pub fn verify(path: &Path) -> Result<Verification, Error> {
    let Some(file) = open_for_reading(path)? else { return Ok(Verification::default()) };
    let survey = survey(&file, path)?;
    let (answers, failures) = survey.index.counts();
    let damaged = survey.damage().into_iter();
    let mut problems: Vec<Problem> =
        damaged.map(|part| Problem::Damaged { offset: part.offset, bytes: part.bytes }).collect();
    let (offset, bytes) = (survey.scanned.end, survey.scanned.tail);
    if bytes > 0 {
        problems.push(Problem::Unfinished { offset, bytes });
    }
    Ok(Verification { records: survey.records, answers, failures, bytes: offset + bytes, problems })
}

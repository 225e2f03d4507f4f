//! Checks every record of a journal.

use std::fmt;
use std::path::Path;

use crate::error::Error;
use crate::survey::{open_for_reading, survey};

/// What is wrong with a part of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// A damaged part with sound records behind it.
    Damaged {
        /// Where it begins.
        offset: u64,
        /// How long it is.
        bytes: u64,
    },
    /// An unfinished record at the end: being written now, or left by a process that was killed.
    Unfinished {
        /// Where it begins.
        offset: u64,
        /// How long it is.
        bytes: u64,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged { offset, bytes } => write!(f, "{bytes} damaged bytes at offset {offset}"),
            Self::Unfinished { offset, bytes } => {
                write!(f, "An unfinished record of {bytes} bytes at the end, from offset {offset}")
            }
        }
    }
}

/// What a check of a journal found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Records whose checksum is right.
    pub records: usize,
    /// Requests with an answer.
    pub answers: usize,
    /// Requests that failed and were not answered later.
    pub failures: usize,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// What is wrong, in the order of the file.
    pub problems: Vec<Problem>,
}

impl Verification {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Checks every record of a journal. Nothing is changed, and no lock is taken: a run may go on meanwhile.
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

//! Reading answers of a journal without opening it for writing.

use std::fs::File;
use std::path::{Path, PathBuf};

use lmeval_core::{Answer, RequestType};

use crate::error::Error;
use crate::index::{Index, RecordLocation};
use crate::key::Key;
use crate::medium::{Medium, read_up_to};
use crate::record::{self, Record, State, StoredModel};
use crate::survey::{open_for_reading, survey};

/// A journal opened for reading only. Takes no lock and changes nothing, so it is safe during a run; answers written later
/// are not seen.
#[derive(Debug)]
pub struct SavedAnswers {
    path: PathBuf,
    /// `None` if nothing has been written to the journal yet.
    file: Option<File>,
    index: Index,
}

impl SavedAnswers {
    /// Opens a journal. Damaged records are skipped, as [`Journal::open`](crate::Journal::open) does.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = open_for_reading(path)?;
        let index = match &file {
            Some(file) => survey(file, path)?.index,
            None => Index::default(),
        };
        Ok(Self { path: path.to_owned(), file, index })
    }

    /// All models, most recently used last, with their numbers of answered requests.
    pub fn models(&self) -> Vec<(StoredModel, usize)> {
        let models = self.index.models();
        models.map(|model| (model.clone(), self.index.answers_of(model.fingerprint()))).collect()
    }

    /// Reads the answer to a request of the given type.
    pub fn get(&self, key: &Key, kind: RequestType) -> Result<Option<Answer>, Error> {
        let location = self.index.get(key).filter(RecordLocation::is_answered);
        let (Some(file), Some(location)) = (&self.file, location) else { return Ok(None) };
        match read_answer(file, &self.path, key, location, kind)? {
            Located::Answer(answer) => Ok(Some(*answer)),
            Located::Nothing | Located::Damaged => Ok(None),
        }
    }
}

/// The record at a location.
pub(crate) enum Located {
    Answer(Box<Answer>),
    /// A failure, or an answer of another type.
    Nothing,
    /// The record was damaged after the journal was opened.
    Damaged,
}

/// Reads the answer at a location, or the beginning of one.
pub(crate) fn read_answer(
    medium: &dyn Medium,
    path: &Path,
    key: &Key,
    location: RecordLocation,
    kind: RequestType,
) -> Result<Located, Error> {
    if location.state == State::Failed {
        return Ok(Located::Nothing);
    }
    let mut bytes = vec![0; location.size as usize];
    let read = read_up_to(medium, &mut bytes, location.offset);
    let read = read.map_err(|source| Error::io("read", path, source))?;
    if read == bytes.len()
        && record::is_sound(&bytes)
        && let Some(Record::Entry(entry)) = Record::decode(&bytes)
        && entry.key == *key
    {
        return Ok(entry
            .into_answer(kind)
            .map_or(Located::Nothing, |answer| Located::Answer(Box::new(answer))));
    }
    Ok(Located::Damaged)
}

//! Combines several journals.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use lmeval_core::Response;
use rustc_hash::FxHashMap;

use crate::error::{Error, ErrorKind};
use crate::header;
use crate::index::RecordLocation;
use crate::journal::{resolve, sync_folder};
use crate::lock::{Lock, beside};
use crate::medium::read_up_to;
use crate::record::{Outcome, Record, State, StoredEntry};
use crate::scan::{Damage, scan};
use crate::survey::{Survey, open_for_reading, records, survey};

/// The number of conflicts that are named.
const NAMED_CONFLICTS: usize = 5;

/// The outcome of merging journals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Answered requests of the new journal.
    pub answers: usize,
    /// Requests of the new journal that failed and were never answered.
    pub failures: usize,
    /// Answers that an earlier input has alike.
    pub duplicates: usize,
    /// Answers that differ from that of an earlier input to the same request. They were left out.
    pub conflicts: usize,
    /// The first conflicts.
    pub first_conflicts: Vec<Conflict>,
    /// The damaged regions of each input, an incomplete record at its end included. They were left out.
    pub damage: Vec<Vec<Damage>>,
    /// The size of the new journal in bytes.
    pub bytes: u64,
}

/// A request with different answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The key of the request.
    pub key: String,
    /// The task and the index of the document, where they are recorded.
    pub document: Option<(String, usize)>,
    /// The index of the input whose answer was taken.
    pub taken: usize,
    /// The index of the input with the other answer.
    pub other: usize,
}

/// An input.
struct Input<'a> {
    path: &'a Path,
    /// `None` if nothing has been written to it yet.
    file: Option<File>,
    survey: Survey,
}

impl Input<'_> {
    /// Calls `visit` with every record in effect: models, and the current record of each key.
    fn visit(&self, mut visit: impl FnMut(RecordLocation, &[u8], Record)) -> Result<(), Error> {
        let Some(file) = &self.file else { return Ok(()) };
        let scanned = scan(records(file, self.path)?, |offset, bytes| {
            let Some(record) = Record::decode(bytes) else { return };
            let (is_current, state) = match &record {
                Record::Model(model) => (self.survey.index.is_last_of_model(model, offset), State::Failed),
                Record::Entry(entry) => (self.survey.index.is_live(&entry.key, offset), entry.state()),
                // The merged answers need not be of the same data.
                Record::Data(_) => (false, State::Failed),
            };
            if is_current {
                visit(RecordLocation { offset, size: bytes.len() as u32, state }, bytes, record);
            }
        });
        scanned.map(drop).map_err(|source| Error::io("read", self.path, source))
    }

    /// The entry at a location.
    fn entry(&self, location: RecordLocation) -> Option<StoredEntry> {
        let mut bytes = vec![0; location.size as usize];
        read_up_to(self.file.as_ref()?, &mut bytes, location.offset).ok()?;
        match Record::decode(&bytes)? {
            Record::Entry(entry) => Some(entry),
            Record::Model(_) | Record::Data(_) => None,
        }
    }
}

/// Writes the answers of several journals to a new one.
///
/// Of several answers to one request, that of the first input is taken; within an input the last one, as in a run. A failure
/// is taken only if no input has an answer. The inputs are only read. The new journal appears when it is complete, and no
/// existing file is replaced.
pub fn merge(inputs: &[PathBuf], output: &Path) -> Result<Merged, Error> {
    let output = &resolve(output)?;
    let lock = Lock::acquire(output)?;
    check_absent(output)?;
    let mut opened = Vec::with_capacity(inputs.len());
    for path in inputs {
        let file = open_for_reading(path)?;
        let survey = file.as_ref().map(|file| survey(file, path)).transpose()?.unwrap_or_default();
        opened.push(Input { path, file, survey });
    }
    let damage = opened.iter().map(|input| damage(&input.survey)).collect();
    let mut merged = Merged { damage, ..Merged::default() };
    let taken = choose(&opened, &mut merged)?;
    let new_path = beside(output, ".merge");
    let written = write(&opened, &taken, &new_path, &mut merged).and_then(|()| {
        check_absent(output)?;
        fs_err::rename(&new_path, output).map_err(|source| Error::io("create", output, source))
    });
    if written.is_err() {
        // The incomplete new file does no harm but takes space.
        let _ = fs_err::remove_file(&new_path);
    }
    sync_folder(output);
    drop(lock);
    written.map(|()| merged)
}

fn check_absent(output: &Path) -> Result<(), Error> {
    if output.exists() {
        let exists = io::Error::new(io::ErrorKind::AlreadyExists, "It exists already");
        return Err(Error::io("create", output, exists));
    }
    Ok(())
}

fn damage(survey: &Survey) -> Vec<Damage> {
    let mut damage = survey.damage();
    let (offset, bytes) = (survey.scanned.end, survey.scanned.tail);
    if bytes > 0 {
        damage.push(Damage { offset, bytes });
    }
    damage
}

/// The input and location of the record of each key.
type Taken = FxHashMap<[u8; 16], (usize, RecordLocation)>;

/// Chooses the record of each key.
fn choose(inputs: &[Input<'_>], merged: &mut Merged) -> Result<Taken, Error> {
    let mut taken = Taken::default();
    for (index, input) in inputs.iter().enumerate() {
        input.visit(|location, _, record| {
            let Record::Entry(entry) = record else { return };
            let known = taken.get(&entry.key.digest).copied();
            let Some((first, known)) =
                known.filter(|(_, known)| known.is_answered() || !location.is_answered())
            else {
                taken.insert(entry.key.digest, (index, location));
                return;
            };
            if !location.is_answered() {
                return;
            }
            if inputs[first].entry(known).is_some_and(|known| is_same(&known.outcome, &entry.outcome)) {
                merged.duplicates += 1;
                return;
            }
            merged.conflicts += 1;
            if merged.first_conflicts.len() < NAMED_CONFLICTS {
                let document = entry.origin.as_ref().map(|origin| (origin.task.to_string(), origin.doc_id));
                let key = entry.key.to_string();
                merged.first_conflicts.push(Conflict { key, document, taken: first, other: index });
            }
        })?;
    }
    Ok(taken)
}

/// Whether two answers are the same, to the last bit. The tokens that they took may differ.
fn is_same(one: &Outcome, other: &Outcome) -> bool {
    let (Outcome::Answered(one), Outcome::Answered(other)) = (one, other) else { return false };
    let is_same = match (&one.response, &other.response) {
        (
            Response::Loglikelihood { logprob, is_greedy },
            Response::Loglikelihood { logprob: other, is_greedy: also },
        ) => logprob.to_bits() == other.to_bits() && is_greedy == also,
        (Response::Rolling { logprob }, Response::Rolling { logprob: other }) => {
            logprob.to_bits() == other.to_bits()
        }
        (one, other) => one == other,
    };
    is_same && one.finish == other.finish
}

fn write(inputs: &[Input<'_>], taken: &Taken, path: &Path, merged: &mut Merged) -> Result<(), Error> {
    let cannot_write = |source| Error::from(ErrorKind::Write { path: path.to_owned(), source });
    let file = File::create(path).map_err(cannot_write)?;
    let mut output = BufWriter::with_capacity(1 << 20, file);
    let mut written: io::Result<()> = output.write_all(&header::encode());
    merged.bytes = header::SIZE as u64;
    let mut put = |bytes: &[u8]| {
        if written.is_ok() {
            written = output.write_all(bytes);
            merged.bytes += bytes.len() as u64;
        }
    };
    // The models of the first input come last: they count as those used most recently.
    for input in inputs.iter().rev() {
        input.visit(|_, bytes, record| {
            if let Record::Model(_) = record {
                put(bytes);
            }
        })?;
    }
    for (index, input) in inputs.iter().enumerate() {
        input.visit(|location, bytes, record| {
            if let Record::Entry(entry) = record
                && taken.get(&entry.key.digest) == Some(&(index, location))
            {
                put(bytes);
            }
        })?;
    }
    let count = |state| taken.values().filter(|(_, location)| location.state == state).count();
    (merged.answers, merged.failures) = (count(State::Answered), count(State::Failed));
    let file = written
        .and_then(|()| output.into_inner().map_err(io::IntoInnerError::into_error))
        .map_err(cannot_write)?;
    file.sync_all().map_err(cannot_write)
}

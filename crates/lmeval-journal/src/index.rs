//! The in-memory index from keys to records.

use rustc_hash::FxHashMap;

use crate::key::{Fingerprint, Key};
use crate::record::{State, StoredData, StoredModel};

/// The location of a record in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordLocation {
    pub(crate) offset: u64,
    /// The size of the record, head included.
    pub(crate) size: u32,
    pub(crate) state: State,
}

impl RecordLocation {
    pub(crate) fn is_answered(&self) -> bool {
        self.state == State::Answered
    }
}

/// The current record of every key, and all registered models.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    records: FxHashMap<[u8; 16], RecordLocation>,
    /// The models and the offsets of their last records, most recently used last.
    models: Vec<(StoredModel, u64)>,
    /// The number of answered keys per model.
    answers: FxHashMap<Fingerprint, usize>,
    /// The last digest of each subject, and the offset of its record.
    data: FxHashMap<String, (String, u64)>,
}

impl Index {
    /// The current record of a key.
    pub(crate) fn get(&self, key: &Key) -> Option<RecordLocation> {
        self.records.get(&key.digest).copied()
    }

    /// Adds a later record. It replaces the current one unless that is an answer and it is not.
    pub(crate) fn insert(&mut self, key: &Key, location: RecordLocation) {
        let was_answered = self.get(key).is_some_and(|known| known.is_answered());
        if location.is_answered() || !was_answered {
            self.records.insert(key.digest, location);
        }
        if location.is_answered() && !was_answered {
            *self.answers.entry(key.model).or_default() += 1;
        }
    }

    /// Removes a record that can no longer be read.
    pub(crate) fn remove(&mut self, key: &Key, location: RecordLocation) {
        if self.get(key) == Some(location) {
            self.records.remove(&key.digest);
            if location.is_answered()
                && let Some(count) = self.answers.get_mut(&key.model)
            {
                *count = count.saturating_sub(1);
            }
        }
    }

    /// Registers a model whose record starts at `offset`, as the most recently used one.
    pub(crate) fn insert_model(&mut self, model: StoredModel, offset: u64) {
        self.models.retain(|(known, _)| *known != model);
        self.models.push((model, offset));
    }

    /// Adds the digest of data whose record starts at `offset`.
    pub(crate) fn insert_data(&mut self, StoredData { subject, digest }: StoredData, offset: u64) {
        self.data.insert(subject, (digest, offset));
    }

    /// The last digest of a subject.
    pub(crate) fn digest_of(&self, subject: &str) -> Option<&str> {
        self.data.get(subject).map(|(digest, _)| digest.as_str())
    }

    /// Whether the record at `offset` is the last one of its subject.
    pub(crate) fn is_last_of_data(&self, subject: &str, offset: u64) -> bool {
        self.data.get(subject).is_some_and(|(_, known)| *known == offset)
    }

    /// The most recently used model.
    pub(crate) fn last_model(&self) -> Option<&StoredModel> {
        self.models.last().map(|(model, _)| model)
    }

    /// All models, most recently used last.
    pub(crate) fn models(&self) -> impl DoubleEndedIterator<Item = &StoredModel> {
        self.models.iter().map(|(model, _)| model)
    }

    /// Whether the record at `offset` is the last one of its model.
    pub(crate) fn is_last_of_model(&self, model: &StoredModel, offset: u64) -> bool {
        self.models.iter().any(|(known, known_offset)| known == model && *known_offset == offset)
    }

    /// The number of answered keys of a model.
    pub(crate) fn answers_of(&self, model: Fingerprint) -> usize {
        self.answers.get(&model).copied().unwrap_or_default()
    }

    /// The numbers of answered keys and of keys with failures only.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let count = |state| self.records.values().filter(|location| location.state == state).count();
        (count(State::Answered), count(State::Failed))
    }

    /// Whether the record at `offset` is the current one of its key.
    pub(crate) fn is_live(&self, key: &Key, offset: u64) -> bool {
        self.get(key).is_some_and(|location| location.offset == offset)
    }
}

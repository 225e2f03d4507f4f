//! Where the record of every key is.

use lmeval_core::ModelIdentity;
use rustc_hash::FxHashMap;

use crate::key::{Fingerprint, Key};
use crate::record::StoredModel;

/// The place of a record in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) offset: u64,
    /// The size of the whole record.
    pub(crate) size: u32,
    pub(crate) is_answered: bool,
}

/// The record that counts for every key, and the models there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    slots: FxHashMap<[u8; 16], Slot>,
    /// The models with the places of their last records, the one that was used last at the end.
    models: Vec<(StoredModel, u64)>,
    /// How many keys of each model have an answer.
    answers: FxHashMap<Fingerprint, usize>,
}

impl Index {
    /// The record that counts for a key.
    pub(crate) fn get(&self, key: &Key) -> Option<Slot> {
        self.slots.get(&key.digest).copied()
    }

    /// Takes note of a later record: it counts, unless it is a failure and there is an answer.
    pub(crate) fn insert(&mut self, key: &Key, slot: Slot) {
        let was_answered = self.get(key).is_some_and(|known| known.is_answered);
        if slot.is_answered || !was_answered {
            self.slots.insert(key.digest, slot);
        }
        if slot.is_answered && !was_answered {
            *self.answers.entry(key.model).or_default() += 1;
        }
    }

    /// Forgets a record that cannot be read any more.
    pub(crate) fn remove(&mut self, key: &Key, slot: Slot) {
        if self.get(key) == Some(slot) {
            self.slots.remove(&key.digest);
            if slot.is_answered
                && let Some(count) = self.answers.get_mut(&key.model)
            {
                *count = count.saturating_sub(1);
            }
        }
    }

    /// Takes note of a model whose record begins at an offset: it is the one that was used last.
    pub(crate) fn insert_model(&mut self, model: StoredModel, offset: u64) {
        self.models.retain(|(known, _)| *known != model);
        self.models.push((model, offset));
    }

    /// The model that was used last.
    pub(crate) fn last_model(&self) -> Option<&StoredModel> {
        self.models.last().map(|(model, _)| model)
    }

    /// The model that was used last among those that differ from an identity at most by having a fact more.
    pub(crate) fn last_model_with(&self, identity: &ModelIdentity, fact: &str) -> Option<&StoredModel> {
        self.models.iter().rev().map(|(model, _)| model).find(|model| model.is_but_for(identity, fact))
    }

    /// Whether the record at a place is the last one of its model.
    pub(crate) fn is_last_of_model(&self, model: &StoredModel, offset: u64) -> bool {
        self.models.iter().any(|(known, place)| known == model && *place == offset)
    }

    /// How many keys of a model have an answer.
    pub(crate) fn answers_of(&self, model: Fingerprint) -> usize {
        self.answers.get(&model).copied().unwrap_or_default()
    }

    /// How many keys have an answer, and how many only failures.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let answers = self.slots.values().filter(|slot| slot.is_answered).count();
        (answers, self.slots.len() - answers)
    }

    /// Whether the record at a place is the one that counts for a key.
    pub(crate) fn is_live(&self, key: &Key, offset: u64) -> bool {
        self.get(key).is_some_and(|slot| slot.offset == offset)
    }
}

//! Where the record of every key is.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::key::{Fingerprint, Key};

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
    models: FxHashSet<Fingerprint>,
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

    /// Takes note of a model, and says whether it is a new one.
    pub(crate) fn insert_model(&mut self, model: Fingerprint) -> bool {
        self.models.insert(model)
    }

    pub(crate) fn has_model(&self, model: Fingerprint) -> bool {
        self.models.contains(&model)
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

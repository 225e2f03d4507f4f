//! Digests of the requests of tasks.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use lmeval_core::{Dialect, Instance};
use lmeval_pycompat::{Value, repr};
use lmeval_tasks::prompt::DocumentRequests;
use sha2::{Digest as _, Sha256};

/// The requests of tasks, by their keys: the sum of the hashes of documents, so that their order does not matter.
#[derive(Debug)]
pub struct RequestDigests {
    dialect: Dialect,
    tasks: Mutex<BTreeMap<String, (u128, usize)>>,
}

impl RequestDigests {
    /// Without requests. The arguments of requests are those of a dialect.
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, tasks: Mutex::default() }
    }

    /// Adds the requests of a document.
    pub fn add(&self, document: &DocumentRequests) {
        let Some(first) = document.instances.first() else { return };
        let mut hasher = Sha256::new();
        hasher.update((document.doc_id.0 as u64).to_le_bytes());
        for instance in &document.instances {
            self.hash(&mut hasher, instance);
        }
        let digest = hasher.finalize();
        let number = u128::from_le_bytes(std::array::from_fn(|index| digest[index]));
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        match tasks.get_mut(&*first.task_name) {
            Some((sum, count)) => (*sum, *count) = (sum.wrapping_add(number), *count + 1),
            None => drop(tasks.insert(first.task_name.to_string(), (number, 1))),
        }
    }

    fn hash(&self, hasher: &mut Sha256, instance: &Instance) {
        hasher.update(instance.request_type.name());
        hasher.update((instance.repeats as u64).to_le_bytes());
        for value in instance.args(&self.dialect) {
            let text;
            let bytes = match &value {
                Value::Str(string) => string.as_bytes(),
                other => {
                    text = repr::repr(other);
                    text.as_bytes()
                }
            };
            hasher.update((bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        }
    }

    /// Forgets everything, for a run that starts over.
    pub fn clear(&self) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The digest and the number of documents of a task.
    pub fn of(&self, task: &str) -> (String, usize) {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let (sum, count) = tasks.get(task).copied().unwrap_or_default();
        (format!("{sum:032x}"), count)
    }
}

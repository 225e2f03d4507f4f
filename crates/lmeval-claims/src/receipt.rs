//! Receipts: whether two runs are the same run, and whether a run is still what it was.
//!
//! A receipt has digests of the inputs of a run, of its answers and of its scores. Neither the order of documents nor how they were
//! batched, interrupted or distributed matters. It detects changes; it is no signature, because whoever changes a file can compute it again.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use lmeval_pycompat::{Dict, Value, repr};
use lmeval_scoring::results::value_checksum;
use lmeval_scoring::scorers::AnsweredDocument;
use sha2::{Digest as _, Sha256};

use crate::lock::Lock;

/// The key of the receipt in a results file.
pub const RECEIPT: &str = "receipt";
/// The sections of a results file that are scores.
pub const SCORES: [&str; 2] = ["results", "groups"];
/// Settings that decide how answers are computed, and not which.
const OF_COMPUTATION: [&str; 2] = ["batch_size", "device"];

/// The digests of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// The digest of the model, the prompts, the data and the settings.
    pub inputs: String,
    /// The digest of the answers of each task.
    pub answers: BTreeMap<String, String>,
    /// The digest of the scores.
    pub scores: String,
}

impl Receipt {
    /// The number of the receipt: runs with the same number are the same run.
    pub fn number(&self) -> String {
        let mut hasher = Sha256::new();
        let answers = self.answers.iter().flat_map(|(task, digest)| [task, digest]);
        for text in [&self.inputs, &self.scores].into_iter().chain(answers) {
            hasher.update((text.len() as u64).to_le_bytes());
            hasher.update(text);
        }
        format!("{:032x}", number(&hasher.finalize()))
    }

    /// The receipt as a results file has it.
    pub fn to_value(&self) -> Value {
        let answers = self.answers.iter().map(|(task, digest)| (task.as_str(), Value::str(digest.as_str())));
        Value::dict([
            ("number", Value::from(self.number())),
            ("inputs", Value::str(self.inputs.as_str())),
            ("answers", Value::dict(answers)),
            ("scores", Value::str(self.scores.as_str())),
        ])
    }

    /// Reads the receipt of a results file, with the number that it states; `None` if it is malformed.
    pub fn from_value(value: &Value) -> Option<(Self, String)> {
        let fields = value.as_dict()?;
        let text = |name: &str| fields.get_str(name)?.as_str().map(str::to_owned);
        let answers = fields.get_str("answers")?.as_dict()?.iter();
        let answers = answers.map(|(task, digest)| Some((repr::str(task), digest.as_str()?.to_owned())));
        let receipt = Self {
            inputs: text("inputs")?,
            answers: answers.collect::<Option<_>>()?,
            scores: text("scores")?,
        };
        Some((receipt, text("number")?))
    }
}

/// The digest of the inputs of a run, by its lock: without the name of the model, the versions of programs, and how answers were computed.
pub fn inputs(lock: &Lock) -> String {
    let strings = |map: &BTreeMap<String, String>, left_out: &[&str]| {
        let kept = map.iter().filter(|(name, _)| !left_out.contains(&name.as_str()));
        Value::dict(kept.map(|(name, value)| (name.as_str(), Value::str(value.as_str()))))
    };
    let tasks = lock.tasks.iter().map(|(name, task)| {
        let parts = [
            ("data", Value::str(task.data.as_str())),
            ("prompts", Value::str(task.prompts.as_str())),
            ("definition", strings(&task.definition, &[])),
            ("documents", Value::Int(task.documents as i64)),
            ("shots", Value::Int(task.shots)),
        ];
        (name.as_str(), Value::dict(parts))
    });
    value_checksum(&Value::dict([
        ("model", strings(&lock.model, &["name"])),
        ("template", strings(&lock.template, &[])),
        ("settings", strings(&lock.settings, &OF_COMPUTATION)),
        ("tasks", Value::dict(tasks)),
    ]))
}

/// The digest of the scores in the content of a results file.
pub fn scores(results: &Dict) -> String {
    let sections = SCORES.into_iter().filter_map(|name| Some((name, results.get_str(name)?.clone())));
    value_checksum(&Value::dict(sections))
}

/// Digests of the answers of tasks: the sum of the hashes of documents, so that their order does not matter.
#[derive(Debug, Default)]
pub struct AnswerDigests {
    tasks: Mutex<BTreeMap<String, OfTask>>,
    /// Whether the digest of each document is kept.
    keeps_documents: bool,
}

#[derive(Debug, Default)]
struct OfTask {
    sum: u128,
    documents: BTreeMap<usize, u128>,
}

impl AnswerDigests {
    /// Digests that also tell which documents differ.
    pub fn of_documents() -> Self {
        Self { keeps_documents: true, ..Self::default() }
    }

    /// Adds answered documents of a task.
    pub fn add(&self, task: &str, documents: &[AnsweredDocument]) {
        let hashes: Vec<(usize, u128)> =
            documents.iter().map(|document| (document.doc_id.0, hash(document))).collect();
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let of_task = tasks.entry(task.to_owned()).or_default();
        for (document, hash) in hashes {
            of_task.sum = of_task.sum.wrapping_add(hash);
            if self.keeps_documents {
                of_task.documents.insert(document, hash);
            }
        }
    }

    /// Forgets everything, for a run that starts over.
    pub fn clear(&self) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The digest of each task.
    pub fn tasks(&self) -> BTreeMap<String, String> {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.iter().map(|(task, of_task)| (task.clone(), format!("{:032x}", of_task.sum))).collect()
    }

    /// The documents of a task whose answers are not those of `other`.
    pub fn differing(&self, other: &Self, task: &str) -> Vec<usize> {
        let documents = |digests: &Self| {
            let tasks = digests.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            tasks.get(task).map(|of_task| of_task.documents.clone()).unwrap_or_default()
        };
        let (own, others) = (documents(self), documents(other));
        let missing = others.keys().filter(|document| !own.contains_key(document));
        let differing = own.iter().filter(|(document, hash)| others.get(document) != Some(hash));
        let mut found: Vec<usize> = differing.map(|(document, _)| document).chain(missing).copied().collect();
        found.sort_unstable();
        found
    }
}

/// The hash of the answers to a document.
fn hash(document: &AnsweredDocument) -> u128 {
    let mut hasher = Sha256::new();
    hasher.update((document.doc_id.0 as u64).to_le_bytes());
    for answered in &document.answers {
        hasher.update((answered.instance.idx as u64).to_le_bytes());
        let answers = Value::list(answered.responses.iter().cloned());
        hasher.update(value_checksum(&answers));
    }
    number(&hasher.finalize())
}

fn number(digest: &[u8]) -> u128 {
    u128::from_be_bytes(std::array::from_fn(|index| digest[index]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt() -> Receipt {
        Receipt {
            inputs: "a".to_owned(),
            answers: [("t".to_owned(), "b".to_owned())].into(),
            scores: "c".to_owned(),
        }
    }

    #[test]
    fn receipts_round_trip_and_every_part_changes_the_number() {
        let own = receipt();
        assert_eq!(Receipt::from_value(&own.to_value()), Some((own.clone(), own.number())));
        let others = [
            Receipt { inputs: "x".to_owned(), ..receipt() },
            Receipt { scores: "x".to_owned(), ..receipt() },
            Receipt { answers: [("u".to_owned(), "b".to_owned())].into(), ..receipt() },
            Receipt { answers: BTreeMap::new(), ..receipt() },
        ];
        for other in others {
            assert_ne!(other.number(), own.number(), "{other:?}");
        }
        assert_eq!(Receipt::from_value(&Value::dict([("inputs", Value::Int(1))])), None);
    }

    #[test]
    fn the_way_of_computing_is_no_input() {
        let lock = |settings: &[(&str, &str)], name: &str| Lock {
            settings: settings
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            model: [("name".to_owned(), name.to_owned()), ("weights".to_owned(), "w".to_owned())].into(),
            ..Lock::default()
        };
        let own = inputs(&lock(&[("batch_size", "1"), ("limit", "5")], "m"));
        assert_eq!(own, inputs(&lock(&[("batch_size", "64"), ("limit", "5")], "/other/m")));
        assert_ne!(own, inputs(&lock(&[("batch_size", "1"), ("limit", "6")], "m")));
    }
}

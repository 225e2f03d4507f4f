//! Locks: what a run was made of, by content.
//!
//! A lock has digests of everything that decides the scores of a run. Two locks tell what differs between two runs, in order of
//! suspicion; a run with a lock refuses to differ from it.

mod diff;
mod requests;

use std::collections::BTreeMap;
use std::path::Path;

use lmeval_core::Diagnostic;
use lmeval_pycompat::{Dict, Value, json, repr};

pub use self::diff::{Difference, Kind, differences};
pub use self::requests::RequestDigests;
use crate::Error;
use crate::document::Document;

/// The version of the form of these files.
const VERSION: i64 = 1;

/// What a run was made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lock {
    /// The settings of the run, as a settings file has them: enough to run it again.
    pub run: Dict,
    /// The settings in effect, by name.
    pub settings: BTreeMap<String, String>,
    /// The model: its name, backend and the facts of its identity.
    pub model: BTreeMap<String, String>,
    /// What makes prompts out of messages: digests of the chat template and the system prompt, special tokens.
    pub template: BTreeMap<String, String>,
    /// Tasks by their keys in results.
    pub tasks: BTreeMap<String, LockedTask>,
    /// Versions of programs.
    pub versions: BTreeMap<String, String>,
}

/// One task of a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockedTask {
    /// The digest of each key of its definition, with the code that it names.
    pub definition: BTreeMap<String, String>,
    /// The digest of its documents and few-shot examples.
    pub data: String,
    /// The digest of its requests.
    pub prompts: String,
    /// The number of documents.
    pub documents: usize,
    /// The number of few-shot examples.
    pub shots: i64,
}

impl Lock {
    /// Reads a lock.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let document = Document::read(path)?;
        let root = document.root();
        if root.value().as_dict().is_none_or(|keys| !keys.contains_str("lock")) {
            return Err(Diagnostic::new(format!("`{}` is not a lock", path.display()))
                .hint("`lm-eval run --output_path DIR` writes one beside the results: `eval_….lock`")
                .into());
        }
        let version = root.need("lock")?;
        if version.count(1)? != VERSION {
            return Err(version.error(format!(
                "This lock has the form {}, and this release reads {VERSION}",
                version.count(1)?
            )));
        }
        let strings = |key: &str| -> Result<BTreeMap<String, String>, Error> {
            root.need(key)?
                .entries()?
                .into_iter()
                .map(|(name, node)| Ok((name, node.text_or_empty()?)))
                .collect()
        };
        let mut tasks = BTreeMap::new();
        for (name, node) in root.need("tasks")?.entries()? {
            let definition = node.need("definition")?.entries()?;
            let definition = definition.into_iter().map(|(key, node)| Ok((key, node.text()?)));
            let task = LockedTask {
                definition: definition.collect::<Result<_, Error>>()?,
                data: node.need("data")?.text()?,
                prompts: node.need("prompts")?.text()?,
                documents: usize::try_from(node.need("documents")?.count(0)?).unwrap_or_default(),
                shots: node.need("shots")?.count(0)?,
            };
            tasks.insert(name, task);
        }
        Ok(Self {
            run: root.need("run")?.value().as_dict().cloned().unwrap_or_default(),
            settings: strings("settings")?,
            model: strings("model")?,
            template: strings("template")?,
            tasks,
            versions: strings("versions")?,
        })
    }

    /// The text of the file.
    pub fn to_json(&self) -> Result<String, Error> {
        let strings = |map: &BTreeMap<String, String>| {
            Value::dict(map.iter().map(|(key, value)| (key.as_str(), Value::str(value.as_str()))))
        };
        let task = |task: &LockedTask| {
            Value::dict([
                ("documents", Value::Int(task.documents as i64)),
                ("shots", Value::Int(task.shots)),
                ("data", Value::str(task.data.as_str())),
                ("prompts", Value::str(task.prompts.as_str())),
                ("definition", strings(&task.definition)),
            ])
        };
        let lock = Value::dict([
            ("lock", Value::Int(VERSION)),
            ("run", Value::from(self.run.clone())),
            ("model", strings(&self.model)),
            ("template", strings(&self.template)),
            ("settings", strings(&self.settings)),
            ("tasks", Value::dict(self.tasks.iter().map(|(name, locked)| (name.as_str(), task(locked))))),
            ("versions", strings(&self.versions)),
        ]);
        let options = json::Options { ensure_ascii: false, indent: Some(2), ..json::Options::default() };
        json::dumps(&lock, &options)
            .map(|text| text + "\n")
            .map_err(|error| Diagnostic::new(format!("Cannot write the lock: {error}")).into())
    }
}

/// A value as a lock has it.
pub fn shown(value: &Value) -> String {
    repr::str(value)
}

//! Data and helpers for tests of prompts.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lmeval_core::{
    ChatError, ChatMessage, ChatTemplate, Context, DocumentError, Documents, MemoryDocuments, MemorySplits,
    Splits,
};
use lmeval_pycompat::{Dict, Value, json, yaml};
use lmeval_tasks::prompt::{PromptError, RequestBuilder, RequestOptions, RequestSources};
use lmeval_tasks::{Overrides, Spec, Task, TaskManager};

/// A path in the folder of recorded runs.
pub(crate) fn golden(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden")).join(path)
}

/// Reads a JSON file.
pub(crate) fn read_json(path: &Path) -> Value {
    json::loads(&fs_err::read_to_string(path).unwrap()).unwrap()
}

/// The splits of a task whose data are JSON Lines files.
#[derive(Debug)]
pub(crate) struct JsonLines {
    folder: PathBuf,
    files: Dict,
}

impl JsonLines {
    /// The data files of a task, relative to a folder.
    pub(crate) fn of(task: &Task, folder: PathBuf) -> Self {
        let kwargs = task.config.loader_kwargs();
        let files = kwargs.get_str("data_files").and_then(Value::as_dict).unwrap().clone();
        Self { folder, files }
    }
}

impl Splits for JsonLines {
    fn split(&self, name: &str) -> Result<Arc<dyn Documents>, DocumentError> {
        let file = self.files.get_str(name).and_then(Value::as_str).ok_or(format!("no split {name}"))?;
        let text = fs_err::read_to_string(self.folder.join(file))?;
        let lines = text.lines().filter(|line| !line.is_empty());
        Ok(Arc::new(MemoryDocuments::new(lines.map(|line| document(json::loads(line).unwrap())).collect())))
    }
}

/// Unwraps a dictionary.
pub(crate) fn document(value: Value) -> Dict {
    let Value::Dict(dict) = value else { panic!("not a document: {value:?}") };
    Dict::clone(&dict)
}

/// The chat template of recorded conversations.
#[derive(Debug)]
pub(crate) struct Tags;

impl ChatTemplate for Tags {
    fn apply(&self, messages: Vec<ChatMessage>, add_generation_prompt: bool) -> Result<Context, ChatError> {
        let mut text = String::new();
        for ChatMessage { role, content } in messages {
            write!(text, "<{role}>{content}</{role}>")?;
        }
        if add_generation_prompt {
            text.push_str("<assistant>");
        }
        Ok(Context::Text(text.into()))
    }
}

/// Loads a task from YAML.
pub(crate) fn task(definition: &str) -> Task {
    let definition = document(yaml::Loader::for_directory("").load(definition).unwrap().value);
    let manager = TaskManager::new(&[]);
    let loaded = manager.load(&[Spec::Inline(definition)], Overrides::default()).unwrap();
    loaded.tasks.into_values().next().unwrap()
}

/// Reads splits from YAML: a mapping of names to lists of documents.
pub(crate) fn splits(text: &str) -> MemorySplits {
    let named = document(yaml::load(text).unwrap().value);
    named.into_entries().fold(MemorySplits::new(), |splits, (name, documents)| {
        let documents = documents.as_list().unwrap().iter().cloned().map(document).collect();
        splits.with(name.as_str().unwrap(), MemoryDocuments::new(documents))
    })
}

/// The arguments of all requests, as JSON.
pub(crate) fn build(
    task: &Task,
    splits: impl Splits + 'static,
    options: &RequestOptions,
) -> Result<Vec<String>, PromptError> {
    let sources = RequestSources::new(Arc::new(splits));
    let built = RequestBuilder::new(task, &sources, options)?.build_all()?;
    let instances = built.into_iter().flat_map(|document| document.instances);
    let one_line = json::Options { ensure_ascii: false, ..json::Options::default() };
    Ok(instances
        .map(|instance| json::dumps(&Value::from(instance.args(&options.dialect)), &one_line).unwrap())
        .collect())
}

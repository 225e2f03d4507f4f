//! The lines of a recording: requests with their answers.

use std::sync::Arc;

use lmeval_core::recorded::{
    RequestContent, recorded_arguments, recorded_repeats, recorded_response, recorded_types,
};
use lmeval_core::{RequestType, Response};
use lmeval_pycompat::{Dict, Value};

/// The task that a request was recorded for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OwnerTask {
    /// The task name, without group and format.
    Named(Arc<str>),
    /// The task's part of a samples file name, without format. `--` is part of the name, or replaces the `::`
    /// after a group.
    OfFile(Arc<str>),
}

impl OwnerTask {
    /// Derives the task from its part of a samples file name; earlier versions did not replace `::`.
    pub(super) fn of_file(name: &str) -> Self {
        let name = in_file_name(name);
        let last = name.rfind("--").unwrap_or(0);
        let end = name[last..].find('@').map_or(name.len(), |index| last + index);
        Self::OfFile(name[..end].into())
    }

    /// Whether it is this task, possibly in a group.
    pub(super) fn may_be(&self, task: &str) -> bool {
        match self {
            Self::Named(name) => **name == *task,
            Self::OfFile(name) => {
                let task = in_file_name(task);
                name.strip_suffix(task.as_str())
                    .is_some_and(|group| group.is_empty() || group.ends_with("--"))
            }
        }
    }

    /// Whether it is this task outside of any group.
    pub(super) fn is(&self, task: &str) -> bool {
        match self {
            Self::Named(name) => **name == *task,
            Self::OfFile(name) => **name == *in_file_name(task),
        }
    }
}

/// The task's part of a samples file name.
fn in_file_name(task: &str) -> String {
    task.replace("::", "--").replace(':', "-").replace(['/', '\\', '\0'], "_")
}

/// The document that a request was recorded for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) task: OwnerTask,
    pub(super) doc_id: usize,
    /// The index among the document's requests.
    pub(super) idx: Option<usize>,
}

/// An answer, with what distinguishes it from other answers to the same prompt.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    /// The document, if known.
    pub(super) owner: Option<Owner>,
    pub(super) kwargs: Option<Arc<Dict>>,
    pub(super) response: Response,
}

/// The requests and answers of a line, or what is wrong with it.
pub(super) type Entries = Result<Vec<(RequestContent, Recorded)>, String>;

/// A task name without group and format.
pub(super) fn bare_task_name(name: &str) -> &str {
    let name = name.rsplit_once("::").map_or(name, |(_, name)| name);
    name.split_once('@').map_or(name, |(name, _)| name)
}

/// Parses a line `{"type", "args", "response"}`, optionally with `task`, `doc_id` and `idx`.
pub(super) fn request_line(line: &Dict) -> Entries {
    let kind = line.get_str("type").ok_or("it has no `type`")?;
    let kind =
        RequestType::ALL.into_iter().find(|known| kind.as_str() == Some(known.name())).ok_or_else(|| {
            format!("its `type` is not one of `{}`", RequestType::ALL.map(RequestType::name).join("`, `"))
        })?;
    let args = line.get_str("args").and_then(Value::as_list).ok_or("it has no list `args`")?;
    let (key, kwargs) = RequestContent::of_arguments(kind, args)?;
    let response = line.get_str("response").ok_or("it has no `response`")?;
    let response = recorded_response(kind, response)?;
    let index =
        |name: &str| line.get_str(name).and_then(Value::as_i64).and_then(|index| usize::try_from(index).ok());
    let task = line.get_str("task").and_then(Value::as_str).map(bare_task_name);
    let owner = task.zip(index("doc_id")).map(|(task, doc_id)| Owner {
        task: OwnerTask::Named(task.into()),
        doc_id,
        idx: index("idx"),
    });
    Ok(vec![(key, Recorded { owner, kwargs, response })])
}

/// Parses a line of a samples file.
pub(super) fn sample_line(line: &Dict, task: Option<&OwnerTask>) -> Entries {
    let requests = recorded_arguments(line.get_str("arguments"))?;
    let answers = line.get_str("resps").and_then(Value::as_list).ok_or("its `resps` are not a list")?;
    if answers.len() != requests.len() {
        return Err(format!("it has {} requests but answers to {}", requests.len(), answers.len()));
    }
    let doc_id = line.get_str("doc_id").and_then(Value::as_i64).and_then(|id| usize::try_from(id).ok());
    let mut entries = Vec::new();
    for (idx, (args, answers)) in requests.iter().zip(answers).enumerate() {
        let owner =
            task.zip(doc_id).map(|(task, doc_id)| Owner { task: task.clone(), doc_id, idx: Some(idx) });
        for &kind in recorded_types(args)? {
            let (key, kwargs) = RequestContent::of_arguments(kind, args)?;
            for answer in recorded_repeats(kind, answers)? {
                let response = recorded_response(kind, answer)?;
                entries
                    .push((key.clone(), Recorded { owner: owner.clone(), kwargs: kwargs.clone(), response }));
            }
        }
    }
    Ok(entries)
}

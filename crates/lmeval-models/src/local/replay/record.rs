//! The lines of a recording: requests with their answers.

use std::sync::Arc;

use lmeval_core::{ChatMessage, Context, RequestType, Response};
use lmeval_pycompat::{Dict, Value, json};

/// Identifies a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) kind: RequestType,
    /// The context: a string, or chat messages as canonical JSON.
    pub(super) context: Arc<str>,
    /// The scored string; empty for generations.
    pub(super) continuation: Arc<str>,
}

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
pub(super) type Entries = Result<Vec<(Key, Recorded)>, String>;

/// A task name without group and format.
pub(super) fn bare_task_name(name: &str) -> &str {
    let name = name.rsplit_once("::").map_or(name, |(_, name)| name);
    name.split_once('@').map_or(name, |(name, _)| name)
}

/// Whether a key's context is a list of chat messages.
pub(super) fn is_chat_context(context: &str) -> bool {
    context.starts_with("[{") && json::loads(context).ok().as_ref().and_then(canonical_messages).is_some()
}

/// Parses a line `{"type", "args", "response"}`, optionally with `task`, `doc_id` and `idx`.
pub(super) fn request_line(line: &Dict) -> Entries {
    let kind = line.get_str("type").ok_or("it has no `type`")?;
    let kind = [RequestType::Loglikelihood, RequestType::LoglikelihoodRolling, RequestType::GenerateUntil]
        .into_iter()
        .find(|known| kind.as_str() == Some(known.name()))
        .ok_or("its `type` is not `loglikelihood`, `loglikelihood_rolling` or `generate_until`")?;
    let args = line.get_str("args").and_then(Value::as_list).ok_or("it has no list `args`")?;
    let (key, kwargs) = arguments(kind, args)?;
    let response = line.get_str("response").ok_or("it has no `response`")?;
    let response = response_of(kind, response).ok_or_else(|| bad_response(kind))?;
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
    let requests = match line.get_str("arguments") {
        Some(Value::Dict(named)) => {
            numbered(named, "gen_args_")?.into_iter().map(request_arguments).collect()
        }
        Some(Value::List(requests)) => requests.iter().map(request_arguments).collect::<Result<Vec<_>, _>>(),
        _ => return Err("its `arguments` are not a mapping".to_owned()),
    }?;
    let answers = line.get_str("resps").and_then(Value::as_list).ok_or("its `resps` are not a list")?;
    if answers.len() != requests.len() {
        return Err(format!("it has {} requests but answers to {}", requests.len(), answers.len()));
    }
    let doc_id = line.get_str("doc_id").and_then(Value::as_i64).and_then(|id| usize::try_from(id).ok());
    let mut entries = Vec::new();
    for (idx, (args, answers)) in requests.iter().zip(answers).enumerate() {
        let owner =
            task.zip(doc_id).map(|(task, doc_id)| Owner { task: task.clone(), doc_id, idx: Some(idx) });
        for &kind in kinds(args)? {
            let (key, kwargs) = arguments(kind, args)?;
            for answer in repeats(kind, answers).ok_or_else(|| bad_response(kind))? {
                let response = response_of(kind, answer).ok_or_else(|| bad_response(kind))?;
                entries
                    .push((key.clone(), Recorded { owner: owner.clone(), kwargs: kwargs.clone(), response }));
            }
        }
    }
    Ok(entries)
}

/// The values of `PREFIX0`, `PREFIX1` and so on.
fn numbered<'dict>(named: &'dict Dict, prefix: &str) -> Result<Vec<&'dict Value>, String> {
    (0..named.len())
        .map(|index| {
            let name = format!("{prefix}{index}");
            named.get_str(&name).ok_or_else(|| format!("its `arguments` have no `{name}`"))
        })
        .collect()
}

fn request_arguments(request: &Value) -> Result<Vec<Value>, String> {
    match request {
        Value::Dict(named) => Ok(numbered(named, "arg_")?.into_iter().cloned().collect()),
        Value::List(args) => Ok(args.as_ref().clone()),
        _ => Err("its `arguments` contain a request that is not a mapping".to_owned()),
    }
}

/// The request types that arguments may belong to, which samples files do not record: after an empty context,
/// a string may be a continuation or a rolling request.
fn kinds(args: &[Value]) -> Result<&'static [RequestType], String> {
    use RequestType::{GenerateUntil, Loglikelihood, LoglikelihoodRolling};
    match args {
        [_, Value::Dict(_), ..] => Ok(&[GenerateUntil]),
        [Value::Str(context), Value::Str(_), ..] if context.is_empty() => {
            Ok(&[Loglikelihood, LoglikelihoodRolling])
        }
        [_, Value::Str(_), ..] => Ok(&[Loglikelihood]),
        [Value::Str(_)] => Ok(&[LoglikelihoodRolling]),
        _ => Err("its `arguments` do not match any request type".to_owned()),
    }
}

/// The answers to one request; a single one may come without a list.
fn repeats(kind: RequestType, answers: &Value) -> Option<&[Value]> {
    let list = answers.as_list()?;
    let is_pair =
        matches!(list, [Value::Str(_), Value::Str(flag)] if matches!(flag.as_ref(), "True" | "False"));
    if is_pair && kind != RequestType::GenerateUntil {
        return Some(std::slice::from_ref(answers));
    }
    Some(list)
}

fn arguments(kind: RequestType, args: &[Value]) -> Result<(Key, Option<Arc<Dict>>), String> {
    let text = |index: usize| match args.get(index) {
        Some(Value::Str(text)) => Ok(Arc::clone(text)),
        _ => Err(format!("argument {index} of its request is not a string")),
    };
    let context = || {
        let context = args.first().and_then(context_of_value);
        context.ok_or_else(|| "the context of its request is neither a string nor chat messages".to_owned())
    };
    match kind {
        RequestType::Loglikelihood => Ok((Key { kind, context: context()?, continuation: text(1)? }, None)),
        RequestType::LoglikelihoodRolling => {
            let continuation = text(usize::from(matches!(args, [_, Value::Str(_), ..])))?;
            Ok((Key { kind, context: "".into(), continuation }, None))
        }
        RequestType::GenerateUntil => {
            let kwargs = match args.get(1) {
                Some(Value::Dict(kwargs)) => Some(Arc::clone(kwargs)),
                _ => None,
            };
            Ok((Key { kind, context: context()?, continuation: "".into() }, kwargs))
        }
    }
}

/// The canonical context of a request.
pub(super) fn context_of_request(context: &Context) -> Arc<str> {
    match context {
        Context::Text(text) | Context::Json(text) => context_of_text(text),
        Context::Messages(messages) => {
            let values = Value::list(messages.iter().map(ChatMessage::to_value));
            canonical_messages(&values).unwrap_or_else(|| "".into())
        }
    }
}

fn context_of_value(context: &Value) -> Option<Arc<str>> {
    match context {
        Value::Str(text) => Some(context_of_text(text)),
        // Reference: chat messages as JSON are logged as a one-element tuple of a string.
        Value::List(items) if matches!(items.as_slice(), [Value::Str(_)]) => context_of_value(&items[0]),
        other => canonical_messages(other),
    }
}

/// A string unchanged, unless it is JSON of chat messages.
fn context_of_text(text: &Arc<str>) -> Arc<str> {
    let is_list = text.starts_with('[') && text.trim_end().ends_with(']');
    let parsed = is_list.then(|| json::loads(text).ok()).flatten();
    parsed.as_ref().and_then(canonical_messages).unwrap_or_else(|| Arc::clone(text))
}

/// Chat messages as canonical JSON: sorted keys, without the `type` of plain messages.
fn canonical_messages(value: &Value) -> Option<Arc<str>> {
    let messages = value.as_list()?.iter().map(|message| {
        let message = message.as_dict().filter(|message| message.contains_str("role"))?;
        let is_plain =
            |(key, value): &(&Value, &Value)| key.as_str() == Some("type") && value.as_str() == Some("text");
        let kept = message.iter().filter(|entry| !is_plain(entry));
        Some(Value::from(kept.map(|(key, value)| (key.clone(), value.clone())).collect::<Dict>()))
    });
    let messages = messages.collect::<Option<Vec<_>>>().filter(|messages| !messages.is_empty())?;
    let options = json::Options { sort_keys: true, ensure_ascii: false, ..json::Options::default() };
    json::dumps(&Value::list(messages), &options).ok().map(Arc::from)
}

/// Converts a recorded value to an answer.
fn response_of(kind: RequestType, value: &Value) -> Option<Response> {
    match kind {
        RequestType::Loglikelihood => match value.as_list()? {
            [logprob, flag] => {
                Some(Response::Loglikelihood { logprob: number(logprob)?, is_greedy: boolean(flag)? })
            }
            _ => None,
        },
        RequestType::LoglikelihoodRolling => {
            let logprob = match value.as_list() {
                Some([logprob] | [logprob, _]) => number(logprob)?,
                Some(_) => return None,
                None => number(value)?,
            };
            Some(Response::Rolling { logprob })
        }
        RequestType::GenerateUntil => match value {
            Value::Str(text) => Some(Response::Text(Arc::clone(text))),
            _ => None,
        },
    }
}

fn bad_response(kind: RequestType) -> String {
    let expected = match kind {
        RequestType::Loglikelihood => "a list of a number and `true` or `false`",
        RequestType::LoglikelihoodRolling => "a number",
        RequestType::GenerateUntil => "a string",
    };
    format!("its answer is not {expected}, as `{kind}` requires")
}

/// A number, or a numeric string, as samples files have it.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Str(text) => text.parse().ok(),
        Value::Bool(_) => None,
        other => other.to_f64(),
    }
}

fn boolean(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::Str(text) if text.as_ref() == "True" => Some(true),
        Value::Str(text) if text.as_ref() == "False" => Some(false),
        _ => None,
    }
}

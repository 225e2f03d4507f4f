//! Requests and answers as samples files and recordings hold them.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Value, json};

use crate::instance::{Arguments, Context, RequestType};
use crate::letters::Letter;
use crate::message::ChatMessage;
use crate::model::{ModelRequest, Response};

/// The content of a request, in a form that is the same for a request and for its record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestContent {
    /// The type of the request.
    pub kind: RequestType,
    /// The context: a string, or chat messages as canonical JSON.
    pub context: Arc<str>,
    /// The scored string, or the labels of options, one per line; empty for generations.
    pub continuation: Arc<str>,
}

impl RequestContent {
    /// The content of a request, and its generation settings.
    pub fn of_request(request: &ModelRequest) -> (Self, Option<&Arc<Dict>>) {
        let kind = request.request_type();
        match &request.arguments {
            Arguments::Loglikelihood { context, continuation } => {
                let continuation = Arc::clone(continuation);
                (Self { kind, context: context_of_request(context), continuation }, None)
            }
            Arguments::Rolling { text } => {
                (Self { kind, context: "".into(), continuation: Arc::clone(text) }, None)
            }
            Arguments::Generate { context, kwargs } => {
                (Self { kind, context: context_of_request(context), continuation: "".into() }, Some(kwargs))
            }
            Arguments::Letters { context, labels } => {
                let continuation = labels_text(labels.iter().map(|label| &**label));
                (Self { kind, context: context_of_request(context), continuation }, None)
            }
        }
    }

    /// The content of recorded arguments, and their generation settings, or what is wrong with them.
    pub fn of_arguments(kind: RequestType, args: &[Value]) -> Result<(Self, Option<Arc<Dict>>), String> {
        let text = |index: usize| match args.get(index) {
            Some(Value::Str(text)) => Ok(Arc::clone(text)),
            _ => Err(format!("argument {index} of its request is not a string")),
        };
        let context = || {
            let context = args.first().and_then(context_of_value);
            context
                .ok_or_else(|| "the context of its request is neither a string nor chat messages".to_owned())
        };
        match kind {
            RequestType::Loglikelihood => {
                Ok((Self { kind, context: context()?, continuation: text(1)? }, None))
            }
            RequestType::LoglikelihoodRolling => {
                let continuation = text(usize::from(matches!(args, [_, Value::Str(_), ..])))?;
                Ok((Self { kind, context: "".into(), continuation }, None))
            }
            RequestType::GenerateUntil => {
                let kwargs = match args.get(1) {
                    Some(Value::Dict(kwargs)) => Some(Arc::clone(kwargs)),
                    _ => None,
                };
                Ok((Self { kind, context: context()?, continuation: "".into() }, kwargs))
            }
            RequestType::ChoiceLetters => {
                let labels = args.get(1).and_then(Value::as_list).unwrap_or_default();
                let labels: Option<Vec<&str>> = labels.iter().map(Value::as_str).collect();
                let labels = labels.filter(|labels| !labels.is_empty());
                let labels = labels.ok_or("argument 1 of its request is not a list of labels")?;
                Ok((Self { kind, context: context()?, continuation: labels_text(labels) }, None))
            }
        }
    }

    /// Whether the context is a list of chat messages.
    pub fn is_chat(&self) -> bool {
        let context = &self.context;
        context.starts_with("[{") && json::loads(context).ok().as_ref().and_then(canonical_messages).is_some()
    }
}

/// The arguments of each request of a document, from the `arguments` of its sample; or what is wrong with them.
pub fn recorded_arguments(arguments: Option<&Value>) -> Result<Vec<Vec<Value>>, String> {
    match arguments {
        Some(Value::Dict(named)) => {
            numbered(named, "gen_args_")?.into_iter().map(request_arguments).collect()
        }
        Some(Value::List(requests)) => requests.iter().map(request_arguments).collect(),
        _ => Err("its `arguments` are not a mapping".to_owned()),
    }
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
pub fn recorded_types(args: &[Value]) -> Result<&'static [RequestType], String> {
    use RequestType::{ChoiceLetters, GenerateUntil, Loglikelihood, LoglikelihoodRolling};
    match args {
        [_, Value::Dict(_), ..] => Ok(&[GenerateUntil]),
        [_, Value::List(_), ..] => Ok(&[ChoiceLetters]),
        [Value::Str(context), Value::Str(_), ..] if context.is_empty() => {
            Ok(&[Loglikelihood, LoglikelihoodRolling])
        }
        [_, Value::Str(_), ..] => Ok(&[Loglikelihood]),
        [Value::Str(_)] => Ok(&[LoglikelihoodRolling]),
        _ => Err("its `arguments` do not match any request type".to_owned()),
    }
}

/// Labels as one string.
fn labels_text<'a>(labels: impl IntoIterator<Item = &'a str>) -> Arc<str> {
    labels.into_iter().collect::<Vec<_>>().join("\n").into()
}

/// The answers to one request; a single one may come without a list.
pub fn recorded_repeats(kind: RequestType, answers: &Value) -> Result<&[Value], String> {
    let Some(list) = answers.as_list() else { return Err(bad_response(kind)) };
    let is_pair =
        matches!(list, [Value::Str(_), Value::Str(flag)] if matches!(flag.as_ref(), "True" | "False"));
    if is_pair && kind != RequestType::GenerateUntil {
        return Ok(std::slice::from_ref(answers));
    }
    Ok(list)
}

/// The canonical context of a request.
fn context_of_request(context: &Context) -> Arc<str> {
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
pub fn recorded_response(kind: RequestType, value: &Value) -> Result<Response, String> {
    response_of(kind, value).ok_or_else(|| bad_response(kind))
}

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
        RequestType::ChoiceLetters => {
            Letter::all_from_value(value).map(|letters| Response::Letters(letters.into()))
        }
    }
}

fn bad_response(kind: RequestType) -> String {
    let expected = match kind {
        RequestType::Loglikelihood => "a list of a number and `true` or `false`",
        RequestType::LoglikelihoodRolling => "a number",
        RequestType::GenerateUntil => "a string",
        RequestType::ChoiceLetters => "a list of the log-probability, bound and greedy flag of each label",
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

//! The protocol between a run and its worker processes: lines of JSON.
//!
//! A worker first gets its model settings and replies `ready` or an error. Then it gets lines with many requests each,
//! and replies with a line per answer and a final `done`.

use std::sync::Arc;

use lmeval_core::{
    Answer, Arguments, Context, Diagnose as _, Dialect, DocId, Finish, ModelError, ModelErrorKind,
    ModelRequest, ModelSettings, Response, Trace, Usage,
};
use lmeval_pycompat::{Dict, Value, json};

use super::work::prompt_of;
use crate::arguments::configuration;

/// The line that cancels running work.
pub(super) const END: &str = r#"{"end": true}"#;

/// A message to a worker.
#[derive(Debug)]
pub(super) enum ToWorker {
    /// The model settings, and the number of workers sharing the device.
    Setup { settings: Box<ModelSettings>, share: usize },
    /// Requests to answer.
    Requests(Vec<ModelRequest>),
    /// Cancel running work: the run is stopping.
    End,
}

/// A message from a worker.
#[derive(Debug)]
pub(super) enum FromWorker {
    /// The model is loaded.
    Ready,
    /// The model cannot be loaded.
    Failed(ModelError),
    /// The answer to a request, and the tokens requested and computed since the last answer.
    Answered { index: usize, answer: Result<Answer, ModelError>, asked: u64, computed: u64 },
    /// All requests of a line are answered.
    Done,
}

/// The protocol version: both sides must be the same build.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Serialises [`ToWorker::Setup`].
pub(super) fn setup_line(settings: &ModelSettings, share: usize) -> Result<String, ModelError> {
    to_json(&Value::dict([
        ("version", Value::str(VERSION)),
        ("share", Value::Int(share as i64)),
        ("args", Value::from(settings.args.clone())),
        ("batch_size", settings.batch_size.clone().unwrap_or_default()),
        ("seed", settings.random_seed.map_or(Value::None, Value::Int)),
        ("dialect", Value::str(settings.dialect.name)),
    ]))
}

/// Serialises [`ToWorker::Requests`] from requests written by [`request_json`].
pub(super) fn requests_line<'a>(requests: impl Iterator<Item = &'a str>) -> String {
    let requests: Vec<&str> = requests.collect();
    format!(r#"{{"requests": [{}]}}"#, requests.join(", "))
}

/// Serialises a request. Requests with a common prefix keep it in serialised form.
pub(super) fn request_json(asked: &ModelRequest) -> Result<String, ModelError> {
    let value = match &asked.arguments {
        Arguments::Loglikelihood { context, continuation } => {
            Value::list([Value::str(prompt_of(context)?), Value::Str(Arc::clone(continuation))])
        }
        Arguments::Rolling { text } => Value::list([Value::Str(Arc::clone(text))]),
        Arguments::Generate { context, kwargs } => Value::list([
            Value::str(prompt_of(context)?),
            Value::Dict(Arc::clone(kwargs)),
            Value::Int(asked.repeat as i64),
        ]),
        Arguments::Letters { .. } => return Err(asked.unsupported()),
    };
    to_json(&value)
}

impl ToWorker {
    /// Parses a line; `None` if it is invalid.
    pub(super) fn from_line(line: &str) -> Option<Self> {
        let value = json::loads(line).ok()?;
        let fields = value.as_dict()?;
        if let Some(requests) = fields.get_str("requests") {
            return Some(Self::Requests(requests.as_list()?.iter().map(to_request).collect::<Option<_>>()?));
        }
        let Some(args) = fields.get_str("args") else {
            return fields.get_str("end").map(|_| Self::End);
        };
        if fields.get_str("version")?.as_str()? != VERSION {
            return None;
        }
        let settings = ModelSettings {
            args: args.as_dict()?.clone(),
            batch_size: fields.get_str("batch_size").cloned(),
            random_seed: fields.get_str("seed").and_then(Value::as_i64),
            dialect: fields.get_str("dialect")?.as_str()?.parse::<Dialect>().ok()?,
            ..ModelSettings::default()
        };
        let share = usize::try_from(fields.get_str("share")?.as_i64()?).ok()?;
        Some(Self::Setup { settings: Box::new(settings), share })
    }
}

impl FromWorker {
    /// Serialises the message without a newline.
    pub(super) fn to_line(&self) -> Result<String, ModelError> {
        let value = match self {
            Self::Ready => Value::dict([("ready", Value::Bool(true))]),
            Self::Failed(error) => Value::dict([("failed", of_error(error))]),
            Self::Answered { index, answer, asked, computed } => {
                let answer = match answer {
                    Ok(answer) => ("answer", of_answer(answer)),
                    Err(error) => ("error", of_error(error)),
                };
                let numbers = [("asked", *asked), ("computed", *computed), ("place", *index as u64)];
                Value::dict(
                    numbers
                        .map(|(name, number)| (name, Value::Int(number as i64)))
                        .into_iter()
                        .chain([answer]),
                )
            }
            Self::Done => Value::dict([("done", Value::Bool(true))]),
        };
        to_json(&value)
    }

    /// Parses a line; `None` if it is invalid.
    pub(super) fn from_line(line: &str) -> Option<Self> {
        let value = json::loads(line).ok()?;
        let fields = value.as_dict()?;
        if let Some(error) = fields.get_str("failed") {
            return Some(Self::Failed(to_error(error)?));
        }
        let Some(index) = fields.get_str("place") else {
            return match fields.get_index(0)?.0.as_str()? {
                "ready" => Some(Self::Ready),
                "done" => Some(Self::Done),
                _ => None,
            };
        };
        let number = |name| u64::try_from(fields.get_str(name)?.as_i64()?).ok();
        let answer = match (fields.get_str("answer"), fields.get_str("error")) {
            (Some(answer), _) => Ok(to_answer(answer)?),
            (None, error) => Err(to_error(error?)?),
        };
        let index = usize::try_from(index.as_i64()?).ok()?;
        Some(Self::Answered { index, answer, asked: number("asked")?, computed: number("computed")? })
    }
}

fn to_json(value: &Value) -> Result<String, ModelError> {
    let options = json::Options { ensure_ascii: false, ..json::Options::default() };
    json::dumps(value, &options)
        .map_err(|error| configuration(format!("Cannot serialise a message to a worker: {error}")))
}

fn to_request(value: &Value) -> Option<ModelRequest> {
    let text = |value: &Value| value.as_str().map(Arc::<str>::from);
    let (arguments, repeat) = match value.as_list()? {
        [whole] => (Arguments::Rolling { text: text(whole)? }, 0),
        [context, continuation] => {
            let context = Context::Text(text(context)?);
            (Arguments::Loglikelihood { context, continuation: text(continuation)? }, 0)
        }
        [context, Value::Dict(kwargs), repeat] => {
            let context = Context::Text(text(context)?);
            let kwargs = Arc::clone(kwargs);
            (Arguments::Generate { context, kwargs }, usize::try_from(repeat.as_i64()?).ok()?)
        }
        _ => return None,
    };
    // Answers do not depend on task names and document ids.
    let task_name = Arc::from("");
    Some(ModelRequest {
        task_name,
        doc_id: DocId(0),
        idx: 0,
        repeat,
        arguments,
        additional_args: None,
        document: None,
        progress: None,
    })
}

fn of_answer(answer: &Answer) -> Value {
    let mut fields = Dict::new();
    match &answer.response {
        Response::Loglikelihood { logprob, is_greedy } => {
            fields.insert("logprob", *logprob);
            fields.insert("is_greedy", *is_greedy);
        }
        Response::Rolling { logprob } => {
            fields.insert("logprob", *logprob);
        }
        Response::Text(text) => {
            fields.insert("text", Value::Str(Arc::clone(text)));
        }
        // The model refuses such requests.
        Response::Letters(_) => {}
    }
    fields.insert("finish", i64::from(answer.finish.code()));
    fields.insert("prompt_tokens", answer.usage.prompt_tokens as i64);
    fields.insert("completion_tokens", answer.usage.completion_tokens as i64);
    if let Some(trace) = &answer.trace {
        fields.insert("trace", trace.to_value());
    }
    Value::from(fields)
}

fn to_answer(value: &Value) -> Option<Answer> {
    let fields = value.as_dict()?;
    let response = match (fields.get_str("text"), fields.get_str("is_greedy")) {
        (Some(text), _) => Response::Text(text.as_str()?.into()),
        (None, greedy) => {
            let logprob = fields.get_str("logprob")?.to_f64()?;
            match greedy {
                Some(greedy) => Response::Loglikelihood { logprob, is_greedy: greedy.as_bool()? },
                None => Response::Rolling { logprob },
            }
        }
    };
    let number = |name| u64::try_from(fields.get_str(name)?.as_i64()?).ok();
    let usage =
        Usage { prompt_tokens: number("prompt_tokens")?, completion_tokens: number("completion_tokens")? };
    let finish = Finish::from_code(u8::try_from(fields.get_str("finish")?.as_i64()?).ok()?)?;
    let trace = fields.get_str("trace").map(|trace| Trace::from_value(trace).map(Arc::new));
    let trace = if let Some(trace) = trace { Some(trace?) } else { None };
    Some(Answer { response, finish, usage, trace })
}

fn of_error(error: &ModelError) -> Value {
    let hints = error.hints().into_iter().map(Value::str);
    Value::dict([
        ("kind", Value::str(error.kind().name())),
        ("message", Value::str(error.to_string())),
        ("hints", Value::list(hints)),
    ])
}

fn to_error(value: &Value) -> Option<ModelError> {
    let fields = value.as_dict()?;
    let kind = ModelErrorKind::from_name(fields.get_str("kind")?.as_str()?)?;
    let error = ModelError::new(kind, fields.get_str("message")?.as_str()?);
    let hints = fields.get_str("hints")?.as_list()?.iter().filter_map(Value::as_str);
    Some(hints.fold(error, ModelError::hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(arguments: Arguments, repeat: usize) -> ModelRequest {
        ModelRequest {
            task_name: "".into(),
            doc_id: DocId(0),
            idx: 0,
            repeat,
            arguments,
            additional_args: None,
            document: None,
            progress: None,
        }
    }

    #[test]
    fn requests_round_trip() {
        let context = Context::from("π\u{2028}\n\"a\"");
        let kwargs = Arc::new(Dict::from_iter([(Value::str("until"), Value::list([Value::str("\n")]))]));
        let requests = vec![
            asked(Arguments::Loglikelihood { context: context.clone(), continuation: " b".into() }, 0),
            asked(Arguments::Rolling { text: "".into() }, 0),
            asked(Arguments::Generate { context, kwargs }, 3),
        ];
        let lines: Vec<String> = requests.iter().map(|asked| request_json(asked).unwrap()).collect();
        let line = requests_line(lines.iter().map(String::as_str));
        assert!(!line.contains('\n'), "{line}");
        let Some(ToWorker::Requests(found)) = ToWorker::from_line(&line) else { panic!("{line}") };
        assert_eq!(found, requests);
    }

    #[test]
    fn refuses_chat_messages() {
        let arguments = Arguments::Generate { context: Context::Json("[]".into()), kwargs: Arc::default() };
        let error = request_json(&asked(arguments, 0)).unwrap_err();
        assert!(error.hints().is_empty() && error.to_string().contains("chat messages"), "{error}");
    }

    #[test]
    fn answers_round_trip() {
        let usage = Usage { prompt_tokens: 3, completion_tokens: 4 };
        let responses = [
            Response::Loglikelihood { logprob: -0.1 - 0.2, is_greedy: true },
            Response::Rolling { logprob: f64::NEG_INFINITY },
            Response::Text("a\nb".into()),
        ];
        for response in responses {
            let trace = Trace { reasoning: "a\n".into(), ..Trace::default() };
            let answer = Answer { response, finish: Finish::CutOff, usage, trace: Some(trace.into()) };
            let sent = FromWorker::Answered { index: 7, answer: Ok(answer.clone()), asked: 2, computed: 1 };
            match FromWorker::from_line(&sent.to_line().unwrap()) {
                Some(FromWorker::Answered { index: 7, answer: Ok(found), asked: 2, computed: 1 }) => {
                    assert_eq!(found, answer);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn errors_keep_their_kind_and_hints() {
        for kind in ModelErrorKind::ALL {
            let sent = FromWorker::Failed(ModelError::new(kind, "No").hint("Try"));
            let Some(FromWorker::Failed(found)) = FromWorker::from_line(&sent.to_line().unwrap()) else {
                panic!("{sent:?}")
            };
            assert_eq!(
                (found.kind(), found.to_string(), found.hints()),
                (kind, "No".into(), vec!["Try".into()])
            );
        }
        for line in ["", "{}", "[1]", "{\"place\": -1}", "{\"other\": 1}"] {
            assert!(FromWorker::from_line(line).is_none() && ToWorker::from_line(line).is_none(), "{line}");
        }
    }
}

//! The messages between a run and a worker: dictionaries in the encoding of [`protocol`](crate::protocol).

use std::sync::Arc;
use std::time::Duration;

use lmeval_core::{
    Answer, Arguments, ChatMessage, Context, Diagnose as _, DocId, Finish, Letter, ModelError,
    ModelErrorKind, ModelFacts, ModelIdentity, ModelRequest, OptionScoring, Response, Trace, Usage,
    letters_value,
};
use lmeval_pycompat::json::Decoder;
use lmeval_pycompat::{Dict, Value};

use crate::protocol;

/// A message to a worker.
#[derive(Debug)]
pub(super) enum ToWorker {
    /// The settings of the model, and how long either side may say nothing.
    Setup { settings: Dict, stall: Duration },
    /// The worker is not used, and should not try again.
    Refused(String),
    /// The worker is used from now on.
    Accepted,
    /// Requests to answer.
    Requests(Vec<ModelRequest>),
    /// Describe the chat template of this name.
    Template { id: i64, name: Option<String> },
    /// Render a conversation.
    Render { id: i64, messages: Vec<ChatMessage>, add_generation_prompt: bool },
    /// A heartbeat of the run.
    Ping,
    /// The run is over.
    End,
}

/// A worker's description of its model.
#[derive(Clone, Debug)]
pub(super) struct Description {
    pub(super) identity: ModelIdentity,
    pub(super) facts: ModelFacts,
    pub(super) option_scoring: OptionScoring,
    pub(super) reasons: bool,
    pub(super) depends_on_document: bool,
    pub(super) is_worth_saving: bool,
    pub(super) takes_media: bool,
}

/// A message from a worker.
#[derive(Debug)]
pub(super) enum FromWorker {
    /// The release of lm-eval, and the name of the worker.
    Hello { version: String, name: String },
    /// The model is loaded.
    Ready(Box<Description>),
    /// The model cannot be loaded.
    Failed(ModelError),
    /// Answers, by the index of their requests.
    Answers(Vec<(usize, Result<Answer, ModelError>)>),
    /// All requests are answered.
    Done,
    /// The source of the chat template, or the rendered conversation.
    Rendered { id: i64, rendered: Result<Value, ModelError> },
    /// The worker is still there.
    Alive,
}

fn encode(value: &Value) -> Result<String, String> {
    let mut text = String::new();
    protocol::encode(&mut text, value).map_err(|error| error.to_string())?;
    Ok(text)
}

fn decode(decoder: &mut Decoder, text: &str) -> Result<Value, String> {
    protocol::decode(decoder, text).map_err(|error| error.to_string())
}

fn tagged(name: &str, value: Value) -> Value {
    Value::dict([(name, value)])
}

/// Serialises a request. The prompt comes first, so that requests with a common prefix keep it in this form.
pub(super) fn request_json(request: &ModelRequest) -> Result<String, String> {
    let (kind, context, argument) = match &request.arguments {
        Arguments::Loglikelihood { context, continuation } => {
            ("l", context.to_exact_value(), Value::Str(Arc::clone(continuation)))
        }
        Arguments::Rolling { text } => ("r", Value::Str(Arc::clone(text)), Value::None),
        Arguments::Generate { context, kwargs } => {
            ("g", context.to_exact_value(), Value::Dict(Arc::clone(kwargs)))
        }
        Arguments::Letters { context, labels } => {
            let labels = labels.iter().map(|label| Value::Str(Arc::clone(label)));
            ("c", context.to_exact_value(), Value::list(labels))
        }
    };
    encode(&Value::list([
        Value::str(kind),
        context,
        argument,
        Value::Str(Arc::clone(&request.task_name)),
        Value::Int(request.doc_id.0 as i64),
        Value::Int(request.idx as i64),
        Value::Int(request.repeat as i64),
        request.additional_args.clone().map_or(Value::None, Value::Dict),
    ]))
}

/// The message for requests that were serialised before.
pub(super) fn requests_message<'a>(requests: impl Iterator<Item = &'a str>) -> String {
    let requests: Vec<&str> = requests.collect();
    format!(r#"{{"requests":[{}]}}"#, requests.join(","))
}

fn to_request(value: &Value) -> Option<ModelRequest> {
    let [kind, context, argument, Value::Str(task_name), doc_id, idx, repeat, additional] =
        value.as_list()?
    else {
        return None;
    };
    let arguments = match (kind.as_str()?, argument) {
        ("l", Value::Str(continuation)) => Arguments::Loglikelihood {
            context: Context::from_exact_value(context)?,
            continuation: Arc::clone(continuation),
        },
        ("g", Value::Dict(kwargs)) => {
            Arguments::Generate { context: Context::from_exact_value(context)?, kwargs: Arc::clone(kwargs) }
        }
        ("c", Value::List(labels)) => {
            let labels: Option<Vec<Arc<str>>> =
                labels.iter().map(|label| label.as_str().map(Arc::from)).collect();
            Arguments::Letters { context: Context::from_exact_value(context)?, labels: labels?.into() }
        }
        ("r", Value::None) => match context {
            Value::Str(text) => Arguments::Rolling { text: Arc::clone(text) },
            _ => return None,
        },
        _ => return None,
    };
    let size = |value: &Value| value.as_i64().and_then(|number| usize::try_from(number).ok());
    Some(ModelRequest {
        task_name: Arc::clone(task_name),
        doc_id: DocId(size(doc_id)?),
        idx: size(idx)?,
        repeat: size(repeat)?,
        arguments,
        additional_args: match additional {
            Value::Dict(media) => Some(Arc::clone(media)),
            _ => None,
        },
        document: None,
        progress: None,
    })
}

impl ToWorker {
    /// Serialises every message but requests.
    pub(super) fn encode(&self) -> Result<String, String> {
        let name = |name: &Option<String>| name.as_deref().map_or(Value::None, Value::str);
        encode(&match self {
            Self::Setup { settings, stall } => {
                let settings = Value::from(settings.clone());
                tagged("setup", Value::list([settings, Value::Float(stall.as_secs_f64())]))
            }
            Self::Refused(reason) => tagged("refused", Value::str(reason.as_str())),
            Self::Accepted => tagged("accepted", Value::Bool(true)),
            Self::Requests(_) => return Err("requests are serialised one by one".to_owned()),
            Self::Template { id, name: template } => {
                tagged("template", Value::list([Value::Int(*id), name(template)]))
            }
            Self::Render { id, messages, add_generation_prompt } => {
                let messages = Value::list(messages.iter().map(ChatMessage::to_value));
                tagged(
                    "render",
                    Value::list([Value::Int(*id), messages, Value::Bool(*add_generation_prompt)]),
                )
            }
            Self::Ping => tagged("ping", Value::Bool(true)),
            Self::End => tagged("end", Value::Bool(true)),
        })
    }

    pub(super) fn decode(decoder: &mut Decoder, text: &str) -> Option<Self> {
        let message = decode(decoder, text).ok()?;
        let (kind, value) = message.as_dict()?.get_index(0)?;
        Some(match kind.as_str()? {
            "setup" => match value.as_list()? {
                [Value::Dict(settings), stall] => {
                    let stall = Duration::try_from_secs_f64(stall.to_f64()?).ok()?;
                    Self::Setup { settings: Dict::clone(settings), stall }
                }
                _ => return None,
            },
            "refused" => Self::Refused(value.as_str()?.to_owned()),
            "accepted" => Self::Accepted,
            "requests" => Self::Requests(value.as_list()?.iter().map(to_request).collect::<Option<_>>()?),
            "template" => match value.as_list()? {
                [Value::Int(id), name] => Self::Template { id: *id, name: name.as_str().map(str::to_owned) },
                _ => return None,
            },
            "render" => match value.as_list()? {
                [Value::Int(id), Value::List(messages), Value::Bool(add_generation_prompt)] => Self::Render {
                    id: *id,
                    messages: messages.iter().map(ChatMessage::from_value).collect::<Option<_>>()?,
                    add_generation_prompt: *add_generation_prompt,
                },
                _ => return None,
            },
            "ping" => Self::Ping,
            "end" => Self::End,
            _ => return None,
        })
    }
}

impl FromWorker {
    pub(super) fn encode(&self) -> Result<String, String> {
        encode(&match self {
            Self::Hello { version, name } => {
                tagged("hello", Value::list([Value::str(version.as_str()), Value::str(name.as_str())]))
            }
            Self::Ready(description) => tagged("ready", of_description(description)),
            Self::Failed(error) => tagged("failed", of_error(error)),
            Self::Answers(answers) => tagged(
                "answers",
                Value::list(answers.iter().map(|(index, answer)| {
                    let answer = match answer {
                        Ok(answer) => of_answer(answer),
                        Err(error) => of_error(error),
                    };
                    Value::list([Value::Int(*index as i64), answer])
                })),
            ),
            Self::Done => tagged("done", Value::Bool(true)),
            Self::Rendered { id, rendered } => {
                let rendered = match rendered {
                    Ok(value) => Value::list([value.clone()]),
                    Err(error) => of_error(error),
                };
                tagged("rendered", Value::list([Value::Int(*id), rendered]))
            }
            Self::Alive => tagged("alive", Value::Bool(true)),
        })
    }

    pub(super) fn decode(decoder: &mut Decoder, text: &str) -> Option<Self> {
        let message = decode(decoder, text).ok()?;
        let (kind, value) = message.as_dict()?.get_index(0)?;
        Some(match kind.as_str()? {
            "hello" => match value.as_list()? {
                [version, name] => {
                    Self::Hello { version: version.as_str()?.to_owned(), name: name.as_str()?.to_owned() }
                }
                _ => return None,
            },
            "ready" => Self::Ready(Box::new(to_description(value)?)),
            "failed" => Self::Failed(to_error(value)?),
            "answers" => {
                let answer = |value: &Value| match value.as_list()? {
                    [index, Value::Dict(error)] => {
                        Some((usize::try_from(index.as_i64()?).ok()?, Err(error_of(error)?)))
                    }
                    [index, answer] => Some((usize::try_from(index.as_i64()?).ok()?, Ok(to_answer(answer)?))),
                    _ => None,
                };
                Self::Answers(value.as_list()?.iter().map(answer).collect::<Option<_>>()?)
            }
            "done" => Self::Done,
            "rendered" => match value.as_list()? {
                [Value::Int(id), Value::Dict(error)] => {
                    Self::Rendered { id: *id, rendered: Err(error_of(error)?) }
                }
                [Value::Int(id), rendered] => {
                    Self::Rendered { id: *id, rendered: Ok(rendered.as_list()?.first()?.clone()) }
                }
                _ => return None,
            },
            "alive" => Self::Alive,
            _ => return None,
        })
    }
}

/// The answer as a list: response, the code of how it ended, tokens used, and what else was generated.
fn of_answer(answer: &Answer) -> Value {
    let response = match &answer.response {
        Response::Loglikelihood { logprob, is_greedy } => {
            Value::list([Value::Float(*logprob), Value::Bool(*is_greedy)])
        }
        Response::Rolling { logprob } => Value::Float(*logprob),
        Response::Text(text) => Value::Str(Arc::clone(text)),
        Response::Letters(letters) => Value::dict([("letters", letters_value(letters))]),
    };
    Value::list([
        response,
        Value::Int(answer.finish.code().into()),
        Value::Int(answer.usage.prompt_tokens as i64),
        Value::Int(answer.usage.completion_tokens as i64),
        answer.trace.as_ref().map_or(Value::None, |trace| trace.to_value()),
    ])
}

fn to_answer(value: &Value) -> Option<Answer> {
    let [response, finish, prompt, completion, trace] = value.as_list()? else { return None };
    let response = match response {
        Value::Str(text) => Response::Text(Arc::clone(text)),
        Value::Dict(named) => Response::Letters(Letter::all_from_value(named.get_str("letters")?)?.into()),
        Value::List(pair) => match pair.as_slice() {
            [logprob, Value::Bool(is_greedy)] => {
                Response::Loglikelihood { logprob: logprob.to_f64()?, is_greedy: *is_greedy }
            }
            _ => return None,
        },
        logprob => Response::Rolling { logprob: logprob.to_f64()? },
    };
    let tokens = |value: &Value| value.as_i64().and_then(|number| u64::try_from(number).ok());
    let usage = Usage { prompt_tokens: tokens(prompt)?, completion_tokens: tokens(completion)? };
    let finish = Finish::from_code(u8::try_from(finish.as_i64()?).ok()?)?;
    let trace = match trace {
        Value::None => None,
        trace => Some(Arc::new(Trace::from_value(trace)?)),
    };
    Some(Answer { response, finish, usage, trace })
}

fn of_error(error: &ModelError) -> Value {
    Value::dict([
        ("kind", Value::str(error.kind().name())),
        ("message", Value::str(error.to_string())),
        ("hints", Value::list(error.hints().into_iter().map(Value::str))),
    ])
}

fn to_error(value: &Value) -> Option<ModelError> {
    error_of(value.as_dict()?)
}

fn error_of(fields: &Dict) -> Option<ModelError> {
    let kind = ModelErrorKind::from_name(fields.get_str("kind")?.as_str()?)?;
    let error = ModelError::new(kind, fields.get_str("message")?.as_str()?);
    let hints = fields.get_str("hints")?.as_list()?.iter().filter_map(Value::as_str);
    Some(hints.fold(error, ModelError::hint))
}

fn of_description(description: &Description) -> Value {
    let Description {
        identity,
        facts,
        option_scoring,
        reasons,
        depends_on_document,
        is_worth_saving,
        takes_media,
    } = description;
    let pairs = identity.facts.iter();
    let pairs = pairs.map(|(name, fact)| Value::list([Value::str(*name), Value::str(fact.as_str())]));
    Value::dict([
        ("backend", Value::str(identity.backend.as_str())),
        ("identity", Value::list(pairs)),
        ("config", Value::from(facts.config.clone())),
        ("tokenizer", Value::from(facts.tokenizer.clone())),
        ("batch_sizes", Value::list(facts.batch_sizes.iter().copied().map(Value::Int))),
        ("device", facts.device.as_deref().map_or(Value::None, Value::str)),
        ("option_scoring", Value::str(option_scoring.name())),
        ("reasons", Value::Bool(*reasons)),
        ("depends_on_document", Value::Bool(*depends_on_document)),
        ("is_worth_saving", Value::Bool(*is_worth_saving)),
        ("takes_media", Value::Bool(*takes_media)),
    ])
}

fn to_description(value: &Value) -> Option<Description> {
    let fields = value.as_dict()?;
    let fact = |pair: &Value| match pair.as_list()? {
        // Names of facts are static everywhere else; a worker has a dozen of them.
        [Value::Str(name), Value::Str(fact)] => Some((&*String::leak(name.to_string()), fact.to_string())),
        _ => None,
    };
    let dict = |name: &str| Some(fields.get_str(name)?.as_dict()?.clone());
    Some(Description {
        identity: ModelIdentity {
            backend: fields.get_str("backend")?.as_str()?.to_owned(),
            facts: fields.get_str("identity")?.as_list()?.iter().map(fact).collect::<Option<_>>()?,
        },
        facts: ModelFacts {
            config: dict("config")?,
            tokenizer: dict("tokenizer")?,
            batch_sizes: fields
                .get_str("batch_sizes")?
                .as_list()?
                .iter()
                .map(Value::as_i64)
                .collect::<Option<_>>()?,
            device: fields.get_str("device")?.as_str().map(str::to_owned),
        },
        option_scoring: OptionScoring::from_name(fields.get_str("option_scoring")?.as_str()?)?,
        reasons: fields.get_str("reasons")?.as_bool()?,
        depends_on_document: fields.get_str("depends_on_document")?.as_bool()?,
        is_worth_saving: fields.get_str("is_worth_saving")?.as_bool()?,
        takes_media: fields.get_str("takes_media").and_then(Value::as_bool).unwrap_or(false),
    })
}

#[cfg(test)]
mod tests {
    use lmeval_core::Role;

    use super::*;

    fn request(arguments: Arguments) -> ModelRequest {
        let (task_name, doc_id) = ("t".into(), DocId(3));
        ModelRequest {
            task_name,
            doc_id,
            idx: 1,
            repeat: 2,
            arguments,
            additional_args: None,
            document: None,
            progress: None,
        }
    }

    #[test]
    fn requests_round_trip() {
        let chat = Context::Messages([ChatMessage::new(Role::User, "π\n")].into());
        let requests = vec![
            request(Arguments::Loglikelihood { context: "a".into(), continuation: " b".into() }),
            request(Arguments::Rolling { text: "".into() }),
            request(Arguments::Generate { context: chat, kwargs: Arc::default() }),
            request(Arguments::Generate { context: Context::Json("[]".into()), kwargs: Arc::default() }),
        ];
        let lines: Vec<String> = requests.iter().map(|request| request_json(request).unwrap()).collect();
        let text = requests_message(lines.iter().map(String::as_str));
        match ToWorker::decode(&mut Decoder::new(), &text) {
            Some(ToWorker::Requests(found)) => assert_eq!(found, requests),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn messages_round_trip() {
        let usage = Usage { prompt_tokens: 3, completion_tokens: 4 };
        let answers = [
            Response::Loglikelihood { logprob: -0.1 - 0.2, is_greedy: true },
            Response::Rolling { logprob: f64::NEG_INFINITY },
            Response::Text("a\nb".into()),
        ]
        .map(|response| {
            let trace = Trace { reasoning: "hm".into(), ..Trace::default() };
            Ok(Answer { response, finish: Finish::Refused, usage, trace: Some(trace.into()) })
        });
        let mut answers: Vec<(usize, Result<Answer, ModelError>)> = answers.into_iter().enumerate().collect();
        answers.push((7, Err(ModelError::new(ModelErrorKind::Request, "No").hint("Try"))));
        let identity = ModelIdentity { backend: "hf".to_owned(), facts: vec![("weights", "w".to_owned())] };
        let facts =
            ModelFacts { batch_sizes: vec![4], device: Some("cpu".to_owned()), ..ModelFacts::default() };
        let description = Description {
            identity,
            facts,
            option_scoring: OptionScoring::Letters,
            reasons: true,
            depends_on_document: true,
            is_worth_saving: true,
            takes_media: true,
        };
        let error = || ModelError::new(ModelErrorKind::Capability, "No");
        let sent = [
            FromWorker::Hello { version: "1".to_owned(), name: "node".to_owned() },
            FromWorker::Ready(Box::new(description)),
            FromWorker::Failed(error()),
            FromWorker::Answers(answers),
            FromWorker::Rendered { id: 3, rendered: Ok(Value::str("x")) },
            FromWorker::Rendered { id: 3, rendered: Err(error()) },
            FromWorker::Done,
            FromWorker::Alive,
        ];
        for message in sent {
            let text = message.encode().unwrap();
            let found = FromWorker::decode(&mut Decoder::new(), &text).unwrap();
            assert_eq!(format!("{found:?}"), format!("{message:?}"));
        }
        let messages = vec![ChatMessage::new(Role::System, "s")];
        let sent = [
            ToWorker::Setup { settings: Dict::new(), stall: Duration::from_millis(1500) },
            ToWorker::Refused("no".to_owned()),
            ToWorker::Accepted,
            ToWorker::Template { id: 1, name: None },
            ToWorker::Render { id: 2, messages, add_generation_prompt: true },
            ToWorker::Ping,
            ToWorker::End,
        ];
        for message in sent {
            let found = ToWorker::decode(&mut Decoder::new(), &message.encode().unwrap()).unwrap();
            assert_eq!(format!("{found:?}"), format!("{message:?}"));
        }
    }

    #[test]
    fn damaged_messages_are_not_read() {
        for text in
            ["", "{}", "[]", "{\"answers\":[[0]]}", "{\"ready\":{}}", "{\"requests\":[[1]]}", "{\"x\":1}"]
        {
            assert!(ToWorker::decode(&mut Decoder::new(), text).is_none(), "{text}");
            assert!(FromWorker::decode(&mut Decoder::new(), text).is_none(), "{text}");
        }
    }
}

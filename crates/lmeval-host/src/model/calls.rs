//! Encoding of requests to a model and of its answers.

use std::sync::Arc;

use lmeval_core::{Answer, Arguments, Context, ModelRequest, RequestType, Response};
use lmeval_pycompat::{Dict, Value};

use crate::protocol::{self, ProtocolError};
use crate::services::{Served, encoded};

/// The approximate maximum size of a call in bytes.
const MAX_CALL_BYTES: usize = 64 << 20;

/// Requests of one type that are sent together, by their indices in the batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) kind: RequestType,
    pub(crate) indices: Vec<usize>,
}

/// Splits a batch into calls: one per request type in order of first appearance, more if they are large.
pub(crate) fn calls(requests: &[ModelRequest]) -> Vec<Call> {
    let mut calls: Vec<(Call, usize)> = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        let (kind, size) = (request.request_type(), text_size(request));
        let open = calls.iter_mut().rev().find(|(call, _)| call.kind == kind);
        match open {
            Some((call, text)) if *text + size <= MAX_CALL_BYTES => {
                call.indices.push(index);
                *text += size;
            }
            _ => calls.push((Call { kind, indices: vec![index] }, size)),
        }
    }
    calls.into_iter().map(|(call, _)| call).collect()
}

fn text_size(request: &ModelRequest) -> usize {
    let of_context = |context: &Context| match context {
        Context::Text(text) | Context::Json(text) => text.len(),
        Context::Messages(messages) => messages.iter().map(|message| message.content.len()).sum(),
    };
    match &request.arguments {
        Arguments::Loglikelihood { context, continuation } => of_context(context) + continuation.len(),
        Arguments::Rolling { text } => text.len(),
        Arguments::Generate { context, .. } | Arguments::Letters { context, .. } => of_context(context),
    }
}

/// Encodes a call.
pub(crate) fn encode_call(
    handle: i64,
    call: &Call,
    requests: &[ModelRequest],
    rolling_context: bool,
) -> Result<String, ProtocolError> {
    let mut text = format!(
        "{{\"op\":\"model_answer\",\"handle\":{handle},\"method\":\"{}\",\"requests\":[",
        call.kind.name()
    );
    for (number, index) in call.indices.iter().enumerate() {
        if number > 0 {
            text.push(',');
        }
        let request = &requests[*index];
        let parts = [
            arguments(request, rolling_context),
            Value::Str(Arc::clone(&request.task_name)),
            Value::Int(request.doc_id.0 as i64),
            Value::Int(request.idx as i64),
        ];
        protocol::encode(&mut text, &Value::list(parts))?;
    }
    text.push_str("]}");
    Ok(text)
}

/// Serves a request of a model in a call: the document of one of the call's requests.
pub(crate) fn document(question: &Dict, call: &Call, requests: &[ModelRequest]) -> Served {
    let number =
        question.get_str("number").and_then(Value::as_i64).and_then(|number| usize::try_from(number).ok());
    let index = number.and_then(|number| call.indices.get(number));
    let is_document = question.get_str("kind").and_then(Value::as_str) == Some("document");
    let (Some(index), true) = (index, is_document) else {
        return Err("a model can only ask for the documents of its requests".to_owned());
    };
    let document = requests[*index].document.clone().unwrap_or_default();
    encoded(|text| protocol::encode(text, &Value::Dict(document)))
}

fn arguments(request: &ModelRequest, rolling_context: bool) -> Value {
    let mut arguments = match &request.arguments {
        Arguments::Loglikelihood { context, continuation } => {
            vec![prompt(context), Value::Str(Arc::clone(continuation))]
        }
        Arguments::Rolling { text } if rolling_context => {
            vec![Value::str(""), Value::Str(Arc::clone(text))]
        }
        Arguments::Rolling { text } => vec![Value::Str(Arc::clone(text))],
        Arguments::Generate { context, kwargs } => vec![prompt(context), Value::Dict(Arc::clone(kwargs))],
        // The engine sends these only to servers.
        Arguments::Letters { context, .. } => vec![prompt(context)],
    };
    arguments.extend(request.additional_args.clone().map(Value::Dict));
    Value::from(arguments)
}

fn prompt(context: &Context) -> Value {
    match context {
        Context::Json(text) => Value::tuple([Value::Str(Arc::clone(text))]),
        other => other.to_value(),
    }
}

/// A message of a model during a call.
#[derive(Debug, PartialEq)]
pub(crate) enum ModelMessage {
    /// An answer to the request with this index.
    Answer(usize, Answer),
    /// An unusable answer.
    Bad(usize, String),
    /// The call is complete.
    Done,
}

/// Decodes a message of a model; `None` if it is malformed.
pub(crate) fn decode(kind: RequestType, value: &Value) -> Option<ModelMessage> {
    if value.is_none() {
        return Some(ModelMessage::Done);
    }
    let (number, answer) = value.as_list()?.split_first()?;
    let number = usize::try_from(number.as_i64()?).ok()?;
    let response = match (kind, answer) {
        (_, [Value::None, message]) => return Some(ModelMessage::Bad(number, message.as_str()?.to_owned())),
        (RequestType::Loglikelihood, [logprob, Value::Bool(is_greedy)]) => {
            Response::Loglikelihood { logprob: logprob.to_f64()?, is_greedy: *is_greedy }
        }
        (RequestType::LoglikelihoodRolling, [logprob, ..]) => {
            Response::Rolling { logprob: logprob.to_f64()? }
        }
        (RequestType::GenerateUntil, [Value::Str(text)]) => Response::Text(Arc::clone(text)),
        _ => return None,
    };
    Some(ModelMessage::Answer(number, response.into()))
}

#[cfg(test)]
mod tests {
    use lmeval_core::DocId;

    use super::*;

    fn request(doc_id: usize, arguments: Arguments) -> ModelRequest {
        ModelRequest {
            task_name: "t".into(),
            doc_id: DocId(doc_id),
            idx: 0,
            repeat: 0,
            arguments,
            additional_args: None,
            document: None,
            progress: None,
        }
    }

    fn pair(text: &str) -> Arguments {
        Arguments::Loglikelihood { context: text.into(), continuation: "x".into() }
    }

    #[test]
    fn splits_batch_by_request_type() {
        let rolling = || Arguments::Rolling { text: "r".into() };
        let requests = [pair("a"), rolling(), pair("b"), rolling()].map(|arguments| request(0, arguments));
        let calls = calls(&requests);
        assert_eq!(calls.len(), 2);
        assert_eq!(calls[0], Call { kind: RequestType::Loglikelihood, indices: vec![0, 2] });
        assert_eq!(calls[1], Call { kind: RequestType::LoglikelihoodRolling, indices: vec![1, 3] });
    }

    #[test]
    fn splits_large_calls() {
        let text = "x".repeat(MAX_CALL_BYTES / 3);
        let requests: Vec<_> = (0..7).map(|number| request(number, pair(&text))).collect();
        let calls = calls(&requests);
        let indices: Vec<usize> = calls.iter().flat_map(|call| call.indices.clone()).collect();
        assert_eq!(indices, (0..7).collect::<Vec<_>>());
        assert_eq!(calls.iter().map(|call| call.indices.len()).collect::<Vec<_>>(), [2, 2, 2, 1]);
    }

    #[test]
    fn rolling_requests_match_the_package() {
        let requests = [request(3, Arguments::Rolling { text: "r".into() })];
        let call = Call { kind: RequestType::LoglikelihoodRolling, indices: vec![0] };
        let with = encode_call(0, &call, &requests, true).unwrap();
        assert!(with.contains(r#"[[["","r"],"t",3,0]]"#), "{with}");
        let without = encode_call(0, &call, &requests, false).unwrap();
        assert!(without.contains(r#"[[["r"],"t",3,0]]"#), "{without}");
    }

    #[test]
    fn decodes_answers() {
        let decoded = |kind, value: Value| decode(kind, &value);
        let list = |parts: &[Value]| Value::list(parts.iter().cloned());
        let answer = Response::Loglikelihood { logprob: -1.0, is_greedy: true };
        let answered = list(&[Value::Int(2), Value::Float(-1.0), Value::Bool(true)]);
        assert_eq!(
            decoded(RequestType::Loglikelihood, answered.clone()),
            Some(ModelMessage::Answer(2, answer.into()))
        );
        assert_eq!(decoded(RequestType::GenerateUntil, answered), None);
        let bad = list(&[Value::Int(0), Value::None, Value::str("no")]);
        assert_eq!(decoded(RequestType::GenerateUntil, bad), Some(ModelMessage::Bad(0, "no".to_owned())));
        assert_eq!(decoded(RequestType::GenerateUntil, Value::None), Some(ModelMessage::Done));
        assert_eq!(decoded(RequestType::GenerateUntil, Value::Int(1)), None);
    }
}

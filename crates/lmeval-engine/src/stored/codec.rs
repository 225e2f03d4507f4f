//! An answered document as one line of JSON.
//!
//! A line is a list: the id, the document, the options, one list per request, and the judgements if there are any. A context that equals that of the request
//! before it, as with several options after one prompt, is written as `true`.

use std::sync::Arc;

use lmeval_core::secrets;
use lmeval_core::{Arguments, Context, DocId, Finish, Instance, InstanceMetadata, RequestType};
use lmeval_host::{decode_value, encode_value};
use lmeval_pycompat::json::Decoder;
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::judge::Judgement;
use lmeval_scoring::scorers::{AnsweredDocument, AnsweredInstance};

/// Appends a document to `out`, without a line break. Secrets are masked, as in samples files.
pub fn encode_answered(out: &mut String, document: &AnsweredDocument) -> Result<(), String> {
    let mut before = None;
    let answers = document.answers.iter().map(|answer| {
        let value = answer_value(answer, before);
        before = answer.instance.arguments.context();
        value
    });
    let answers = Value::list(answers.collect::<Vec<_>>());
    let choices = document.choices.as_ref().map_or(Value::None, |choices| Value::List(Arc::clone(choices)));
    let id = Value::Int(document.doc_id.0 as i64);
    let mut line = vec![id, Value::Dict(Arc::clone(&document.document)), choices, answers];
    if !document.judgements.is_empty() {
        line.push(Value::list(document.judgements.iter().map(Judgement::to_exact_value)));
    }
    let line = Value::list(line);
    encode_value(out, &secrets::mask_strings(line, secrets::mask_data))
}

fn answer_value(answer: &AnsweredInstance, before: Option<&Context>) -> Value {
    let instance = &answer.instance;
    let own = instance.arguments.context();
    let context = match own {
        Some(_) if own == before => Value::Bool(true),
        Some(context) => context.to_exact_value(),
        None => Value::None,
    };
    let argument = match &instance.arguments {
        Arguments::Loglikelihood { continuation, .. } => Value::Str(Arc::clone(continuation)),
        Arguments::Rolling { text } => Value::Str(Arc::clone(text)),
        Arguments::Generate { kwargs, .. } => Value::Dict(Arc::clone(kwargs)),
        Arguments::Letters { labels, .. } => {
            Value::list(labels.iter().map(|label| Value::Str(Arc::clone(label))))
        }
    };
    let dict = |dict: &Option<Arc<Dict>>| dict.clone().map_or(Value::None, Value::Dict);
    Value::list([
        Value::str(instance.request_type.name()),
        Value::Str(Arc::clone(&instance.task_name)),
        Value::Int(instance.idx as i64),
        Value::Int(instance.repeats as i64),
        context,
        argument,
        instance.target.clone(),
        instance.gold.clone(),
        Value::Bool(instance.metadata.unconditional),
        dict(&instance.metadata.metric_kwargs),
        dict(&instance.additional_args),
        Value::list(answer.responses.iter().cloned()),
        Value::list(answer.finishes().iter().map(|finish| Value::Int(finish.code().into()))),
        Value::list(answer.reasoning().iter().map(|text| text.clone().map_or(Value::None, Value::Str))),
    ])
}

/// Reads a line of [`encode_answered`]. The message of an error says what is wrong with it.
pub fn decode_answered(decoder: &mut Decoder, line: &str) -> Result<AnsweredDocument, String> {
    let line = decode_value(decoder, line)?;
    read_document(&line).ok_or_else(|| "not an answered document".to_owned())
}

fn read_document(line: &Value) -> Option<AnsweredDocument> {
    let (line, judgements) = match line.as_list()? {
        [line @ .., Value::List(judgements)] if line.len() == 4 => {
            (line, judgements.iter().map(Judgement::from_exact_value).collect::<Option<Vec<_>>>()?)
        }
        line => (line, Vec::new()),
    };
    let [id, Value::Dict(document), choices, Value::List(given)] = line else { return None };
    let doc_id = DocId(size(id)?);
    let choices = match choices {
        Value::None => None,
        Value::List(choices) => Some(Arc::clone(choices)),
        _ => return None,
    };
    let mut answers: Vec<AnsweredInstance> = Vec::with_capacity(given.len());
    for given in given.iter() {
        let before = answers.last().and_then(|answer| answer.instance.arguments.context());
        let answer = read_answer(doc_id, given, before)?;
        answers.push(answer);
    }
    // Scoring relies on it.
    (!answers.is_empty()).then(|| AnsweredDocument {
        doc_id,
        document: Arc::clone(document),
        choices,
        answers,
        judgements,
    })
}

fn read_answer(doc_id: DocId, given: &Value, before: Option<&Context>) -> Option<AnsweredInstance> {
    let [
        kind,
        Value::Str(task_name),
        idx,
        repeats,
        context,
        argument,
        target,
        gold,
        Value::Bool(unconditional),
        metric_kwargs,
        additional_args,
        Value::List(responses),
        Value::List(finishes),
        Value::List(reasoning),
    ] = given.as_list()?
    else {
        return None;
    };
    let context = || match context {
        Value::Bool(true) => before.cloned(),
        context => Context::from_exact_value(context),
    };
    let (request_type, arguments) = match (kind.as_str()?, argument) {
        ("loglikelihood", Value::Str(continuation)) => (
            RequestType::Loglikelihood,
            Arguments::Loglikelihood { context: context()?, continuation: Arc::clone(continuation) },
        ),
        ("loglikelihood_rolling", Value::Str(text)) => {
            (RequestType::LoglikelihoodRolling, Arguments::Rolling { text: Arc::clone(text) })
        }
        ("generate_until", Value::Dict(kwargs)) => (
            RequestType::GenerateUntil,
            Arguments::Generate { context: context()?, kwargs: Arc::clone(kwargs) },
        ),
        ("choice_letters", Value::List(labels)) => {
            let labels: Option<Vec<Arc<str>>> =
                labels.iter().map(|label| label.as_str().map(Arc::from)).collect();
            (RequestType::ChoiceLetters, Arguments::Letters { context: context()?, labels: labels?.into() })
        }
        _ => return None,
    };
    let finishes: Option<Vec<Finish>> =
        finishes.iter().map(|code| Finish::from_code(u8::try_from(code.as_i64()?).ok()?)).collect();
    let answer = AnsweredInstance::new(
        Instance {
            request_type,
            task_name: Arc::clone(task_name),
            doc_id,
            idx: size(idx)?,
            repeats: size(repeats)?,
            arguments,
            target: target.clone(),
            gold: gold.clone(),
            metadata: InstanceMetadata {
                unconditional: *unconditional,
                metric_kwargs: optional_dict(metric_kwargs),
            },
            additional_args: optional_dict(additional_args),
        },
        responses.as_ref().clone(),
    );
    Some(answer.finished(finishes?).reasoned(reasoning.iter().map(|text| text.as_str().map(Arc::from))))
}

fn size(value: &Value) -> Option<usize> {
    value.as_i64().and_then(|number| usize::try_from(number).ok())
}

/// A dictionary, or nothing.
fn optional_dict(value: &Value) -> Option<Arc<Dict>> {
    match value {
        Value::Dict(dict) => Some(Arc::clone(dict)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use lmeval_core::{ChatMessage, Role};
    use lmeval_scoring::scorers::loglikelihood_response;

    use super::*;

    fn instance(request_type: RequestType, arguments: Arguments) -> Instance {
        Instance {
            request_type,
            task_name: "t".into(),
            doc_id: DocId(7),
            idx: 0,
            repeats: 2,
            arguments,
            target: Value::tuple([Value::Int(1), Value::Float(0.1 + 0.2)]),
            gold: Value::None,
            metadata: InstanceMetadata { unconditional: true, metric_kwargs: Some(Arc::default()) },
            additional_args: Some(Arc::new(
                [(Value::str("visual"), Value::list([Value::Bytes(vec![0, 255].into())]))]
                    .into_iter()
                    .collect(),
            )),
        }
    }

    fn document() -> AnsweredDocument {
        let chat = Context::Messages([ChatMessage::new(Role::User, "a\nb\u{2028}é")].into());
        let scored = |context: &Context| Arguments::Loglikelihood {
            context: context.clone(),
            continuation: " x".into(),
        };
        let answers = [
            (RequestType::Loglikelihood, scored(&chat), loglikelihood_response(f64::NEG_INFINITY, true)),
            (RequestType::Loglikelihood, scored(&chat), loglikelihood_response(-0.0, false)),
            (
                RequestType::Loglikelihood,
                scored(&Context::Json("[]".into())),
                loglikelihood_response(1e-320, true),
            ),
            (
                RequestType::LoglikelihoodRolling,
                Arguments::Rolling { text: "".into() },
                loglikelihood_response(-1.5, false),
            ),
            (
                RequestType::GenerateUntil,
                Arguments::Generate { context: "Q".into(), kwargs: Arc::default() },
                Value::str("\u{1}\r\n\"\\"),
            ),
        ];
        AnsweredDocument {
            doc_id: DocId(7),
            document: Arc::new([(Value::Int(3), Value::dict([("$", Value::Int(1))]))].into_iter().collect()),
            choices: Some(Arc::new(vec![Value::str("x"), Value::Int(2)])),
            answers: answers
                .into_iter()
                .map(|(kind, arguments, response)| {
                    AnsweredInstance::new(instance(kind, arguments), vec![response.clone(), response])
                        .finished([Finish::Complete, Finish::CutOff])
                        .reasoned([None, Some("hm\n".into())])
                })
                .collect(),
            judgements: Vec::new(),
        }
    }

    fn judgement(swapped: Option<bool>) -> Judgement {
        Judgement {
            pipeline: "none".into(),
            role: "grader".into(),
            prediction: 1,
            sample: 2,
            swapped,
            system: Some("s".into()),
            prompt: "p\n".into(),
            answer: swapped.map(|_| "GRADE: C".into()),
            verdict: swapped.map(|_| "C".to_owned()),
            value: swapped.map(|_| 0.1 + 0.2),
            reason: None,
            attempts: 3,
            lengths: swapped.map(|_| (4, 5)),
        }
    }

    #[test]
    fn documents_round_trip() {
        let judged =
            AnsweredDocument { judgements: vec![judgement(None), judgement(Some(true))], ..document() };
        let mut line = String::new();
        encode_answered(&mut line, &judged).unwrap();
        let read = decode_answered(&mut Decoder::new(), &line).unwrap();
        assert_eq!(format!("{read:?}"), format!("{judged:?}"));
        let document = document();
        let mut line = String::new();
        encode_answered(&mut line, &document).unwrap();
        assert!(!line.contains('\n'), "{line}");
        let read = decode_answered(&mut Decoder::new(), &line).unwrap();
        assert_eq!(format!("{read:?}"), format!("{document:?}"));
    }

    #[test]
    fn damaged_lines_are_errors() {
        let mut line = String::new();
        encode_answered(&mut line, &document()).unwrap();
        lmeval_testkit::mutate(&[line.as_bytes()], 1200, |bytes| {
            if let Ok(line) = str::from_utf8(bytes) {
                let _ = decode_answered(&mut Decoder::new(), line);
            }
        });
        assert!(decode_answered(&mut Decoder::new(), "[1, {}, null, []]").is_err());
    }
}

//! Serves a built-in model to a Python program: created once, then answers call after call.
//!
//! Each turn returns the result of the previous one and waits for the next; the session ends with the caller.

use std::sync::Arc;
use std::thread;

use anyhow::{Context as _, Result, anyhow, bail};
use lmeval_core::{
    Answer, Arguments, ChatMessage, Context, DocId, Model, ModelError, ModelErrorKind, ModelRequest,
};
use lmeval_pycompat::{Dict, Value};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use super::{Request, failure};
use crate::printer::Printer;
use crate::run::model;
use crate::settings::RunSettings;

/// Serves the model of the settings until the caller ends the session.
pub(super) fn serve(request: &Request, printer: &Printer) -> Result<Value> {
    let settings = RunSettings::from_python(&request.dict("settings"))?;
    if settings.output.quiet {
        printer.notes().be_quiet();
    }
    let made = model::built_in(&settings, &printer.notes())?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let runtime = Builder::new_multi_thread().worker_threads(cores.max(2)).enable_all().build()?;
    let mut result = Ok(Value::None);
    loop {
        let reply = match &result {
            Ok(value) => Value::dict([("done", value.clone())]),
            Err(error) => Value::dict([("failure", failure::described(error))]),
        };
        let wanted = request.caller.turn(&reply)?;
        let Some(wanted) = wanted.as_dict() else { return Ok(Value::None) };
        result = turn(&runtime, &made, wanted);
    }
}

/// Handles one turn.
fn turn(runtime: &Runtime, model: &Arc<dyn Model>, wanted: &Dict) -> Result<Value> {
    let part = |name: &str| wanted.get_str(name).cloned().unwrap_or_default();
    match part("want").as_str() {
        Some("answers") => {
            let requests = part("requests");
            let requests =
                requests.as_list().unwrap_or_default().iter().map(read).collect::<Result<Vec<_>>>()?;
            if let Some(first) = requests.first() {
                model.supports(first.request_type())?;
            }
            let answers = runtime.block_on(answers(model, requests))?;
            Ok(Value::list(answers.into_iter().map(|answer| answer.response.to_value())))
        }
        Some("start") => {
            runtime.block_on(model.first_contact())?;
            Ok(Value::None)
        }
        Some("template") => {
            let template = model.chat_template(part("name").as_str())?;
            Ok(template.source.map_or(Value::None, Value::from))
        }
        Some("prompt") => {
            let messages = part("messages");
            let messages = messages.as_list().unwrap_or_default().iter().map(|message| {
                ChatMessage::from_value(message)
                    .context("A message needs a `role` (system, user, assistant) and string content")
            });
            let messages = messages.collect::<Result<Vec<_>>>()?;
            let template = model.chat_template(None)?.template;
            let made = template.apply(messages, part("add_generation_prompt").is_truthy());
            Ok(match made.map_err(|error| anyhow!("{error}"))? {
                Context::Text(text) => Value::Str(text),
                Context::Json(text) => Value::tuple([Value::Str(text)]),
                Context::Messages(messages) => Value::list(messages.iter().map(ChatMessage::to_value)),
            })
        }
        Some("facts") => {
            let facts = model.facts();
            Ok(Value::dict([
                ("config", Value::from(facts.config)),
                ("tokenizer", Value::from(facts.tokenizer)),
            ]))
        }
        _ => bail!("Unknown operation on a model"),
    }
}

/// Reads a request: its arguments as Python has them, and its document.
fn read(sent: &Value) -> Result<ModelRequest> {
    let wrong = || anyhow!("Malformed request");
    let [kind, arguments, task_name, doc_id, idx] = sent.as_list().unwrap_or_default() else {
        return Err(wrong());
    };
    let text = |value: &Value| match value {
        Value::Str(text) => Ok(Arc::clone(text)),
        other => Err(anyhow!("A request has a value of type `{}` instead of a string", other.type_name())),
    };
    let arguments = match (kind.as_str().ok_or_else(wrong)?, arguments.as_list().unwrap_or_default()) {
        ("loglikelihood", [before, continuation]) => {
            Arguments::Loglikelihood { context: context(before)?, continuation: text(continuation)? }
        }
        ("loglikelihood_rolling", [.., last]) => Arguments::Rolling { text: text(last)? },
        ("generate_until", [before, Value::Dict(kwargs)]) => {
            Arguments::Generate { context: context(before)?, kwargs: Arc::clone(kwargs) }
        }
        (kind, _) => bail!("Invalid arguments for a `{kind}` request"),
    };
    let number = |value: &Value| usize::try_from(value.as_i64().unwrap_or_default()).unwrap_or_default();
    Ok(ModelRequest {
        task_name: task_name.as_str().unwrap_or_default().into(),
        doc_id: DocId(number(doc_id)),
        idx: number(idx),
        repeat: 0,
        arguments,
        additional_args: None,
        document: None,
        progress: None,
    })
}

/// Reads a context: a string, chat messages as a JSON string in a tuple, or a list of messages.
fn context(value: &Value) -> Result<Context> {
    match value {
        Value::Str(text) => Ok(Context::Text(Arc::clone(text))),
        Value::Tuple(parts) => match parts.as_slice() {
            [Value::Str(text)] => Ok(Context::Json(Arc::clone(text))),
            _ => bail!("A context must be a string or a list of messages"),
        },
        Value::List(messages) => {
            let read = messages.iter().map(ChatMessage::from_value).collect::<Option<Vec<_>>>();
            Ok(Context::Messages(read.context("A message lacks a known role or string content")?.into()))
        }
        _ => bail!("A context must be a string or a list of messages"),
    }
}

/// The answers to all requests in order, or the first error, which drops requests in flight.
async fn answers(model: &Arc<dyn Model>, requests: Vec<ModelRequest>) -> Result<Vec<Answer>, ModelError> {
    let traits = model.traits();
    let mut answers: Vec<Option<Answer>> = vec![None; requests.len()];
    let mut batches = batches(requests, traits.batch_size.max(1), traits.batch_bytes).into_iter();
    let mut running = JoinSet::new();
    loop {
        while running.len() < traits.in_flight.max(1) {
            let Some((first, batch)) = batches.next() else { break };
            let model = Arc::clone(model);
            running.spawn(async move { (first, model.answer(batch).await) });
        }
        let Some(ended) = running.join_next().await else { break };
        let (first, given) = ended.map_err(|error| {
            ModelError::new(ModelErrorKind::Answer, format!("The model ended unexpectedly: {error}"))
        })?;
        for (index, answer) in given.into_iter().enumerate() {
            answers[first + index] = Some(answer?);
        }
    }
    let missing = || ModelError::new(ModelErrorKind::Answer, "The model did not answer a request");
    answers.into_iter().map(|answer| answer.ok_or_else(missing)).collect()
}

/// Splits requests into batches, each with the index of its first request.
fn batches(requests: Vec<ModelRequest>, size: usize, bytes: usize) -> Vec<(usize, Vec<ModelRequest>)> {
    let mut batches: Vec<(usize, Vec<ModelRequest>)> = Vec::new();
    let mut filled = 0;
    for (index, request) in requests.into_iter().enumerate() {
        let length = request.size();
        match batches.last_mut() {
            Some((_, batch)) if batch.len() < size && filled + length <= bytes => {
                filled += length;
                batch.push(request);
            }
            _ => {
                filled = length;
                batches.push((index, vec![request]));
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> ModelRequest {
        let sent = [Value::str("loglikelihood_rolling"), Value::list([Value::str(text)])];
        read(&Value::list(sent.into_iter().chain([Value::str("t"), Value::Int(3), Value::None]))).unwrap()
    }

    #[test]
    fn limits_batches_by_count_and_bytes() {
        let requests = || ["a", "bb", "cccc", "d"].map(request).to_vec();
        let sizes = |batches: Vec<(usize, Vec<ModelRequest>)>| -> Vec<(usize, usize)> {
            batches.into_iter().map(|(first, batch)| (first, batch.len())).collect()
        };
        assert_eq!(sizes(batches(requests(), 3, usize::MAX)), [(0, 3), (3, 1)]);
        assert_eq!(sizes(batches(requests(), 9, 3)), [(0, 2), (2, 1), (3, 1)]);
        assert!(batches(Vec::new(), 9, 9).is_empty());
    }

    #[test]
    fn malformed_requests_are_errors() {
        assert_eq!((request("x").doc_id, request("x").idx), (DocId(3), 0));
        let bad = [Value::str("generate_until"), Value::list([Value::Int(1), Value::Dict(Arc::default())])];
        let bad = Value::list(bad.into_iter().chain([Value::str("t"), Value::None, Value::None]));
        assert_eq!(read(&bad).unwrap_err().to_string(), "A context must be a string or a list of messages");
    }
}

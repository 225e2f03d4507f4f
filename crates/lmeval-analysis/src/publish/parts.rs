//! Documents of samples files, as formats with documents need them.

use lmeval_pycompat::{Value, json};

use super::record::text;
use crate::Error;
use crate::samples::{Sample, parts};

/// One scored document.
pub(super) struct Document {
    /// Its identifier in the data.
    pub id: String,
    /// The prompt of the first request, or its messages.
    pub prompt: Value,
    /// The options of a multiple-choice question.
    pub options: Vec<String>,
    /// The right answers.
    pub targets: Vec<String>,
    /// What the model returned; of log-likelihoods one line per continuation.
    pub answers: Vec<String>,
    /// What the filter made of a generated answer.
    pub filtered: Option<String>,
    /// The reasoning before the answers.
    pub reasoning: Vec<String>,
}

impl Document {
    /// Reads the parts of a sample.
    pub(super) fn new(sample: &Sample<'_>) -> Result<Self, Error> {
        let given = |name: &str| Ok::<_, Error>(sample.value(name)?.unwrap_or_default());
        let continuations: Vec<String> =
            sample.continuations()?.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let is_generated = continuations.is_empty();
        let responses = given("resps")?;
        let answers = match &responses {
            _ if is_generated => leaves(&responses),
            Value::List(items) => items
                .iter()
                .zip(&continuations)
                .map(|(item, option)| format!("{}: {option}", text(&log_likelihood(item))))
                .collect(),
            _ => Vec::new(),
        };
        let targets = match given("target")? {
            Value::List(several) => {
                several.iter().map(|target| target_text(target, &continuations)).collect()
            }
            single => vec![target_text(&single, &continuations)],
        };
        let options = if continuations.len() > 1 { continuations } else { Vec::new() };
        let filtered = parts::unwrapped(given("filtered_resps")?);
        Ok(Self {
            id: sample.fields().raw("doc_id").unwrap_or_default().to_owned(),
            prompt: messages(sample.prompt()?),
            options,
            targets,
            answers,
            filtered: is_generated.then(|| text(&filtered)),
            reasoning: leaves(&given("reasoning")?),
        })
    }

    /// The prompt as one text.
    pub(super) fn prompt_text(&self) -> String {
        text(&self.prompt)
    }
}

/// The continuation that a target names by its index, or the target.
fn target_text(target: &Value, options: &[String]) -> String {
    parts::target_option(target, options.len()).map_or_else(|| text(target), |index| options[index].clone())
}

/// Messages that a chat model got as the text of a list.
fn messages(prompt: Value) -> Value {
    let parsed =
        prompt.as_str().filter(|text| text.starts_with("[{")).and_then(|text| json::loads(text).ok());
    let is_message = |item: &Value| {
        item.as_dict().is_some_and(|item| item.contains_str("role") && item.contains_str("content"))
    };
    parsed.filter(|list| list.as_list().is_some_and(|list| list.iter().all(is_message))).unwrap_or(prompt)
}

/// The log-likelihood in the answer to a request.
fn log_likelihood(answer: &Value) -> Value {
    match answer {
        Value::List(items) => items.first().map(log_likelihood).unwrap_or_default(),
        other => other.clone(),
    }
}

/// The texts in nested lists.
fn leaves(value: &Value) -> Vec<String> {
    match value {
        Value::List(items) => items.iter().flat_map(leaves).collect(),
        Value::None => Vec::new(),
        other => vec![text(other)],
    }
}

//! One sample and its fields.

use std::borrow::Cow;

use lmeval_core::Diagnostic;
use lmeval_pycompat::{Dict, Value, json};

use super::outcome::{Outcome, OutcomeRule};
use super::parts;
use crate::Error;
use crate::read::{Fields, NOT_SCORES, SamplesFile};

/// Fields that expressions can use besides those of the file. A field of the file with such a name wins.
pub const DERIVED: [&str; 6] = ["task", "prompt", "answer", "continuations", "outcome", "scores"];

/// One scored document. Fields are decoded when they are asked for.
#[derive(Debug)]
pub struct Sample<'a> {
    file: &'a SamplesFile,
    rule: &'a OutcomeRule,
    offset: u64,
    text: &'a str,
    fields: Fields<'a>,
}

impl<'a> Sample<'a> {
    pub(super) fn new(
        file: &'a SamplesFile,
        rule: &'a OutcomeRule,
        offset: u64,
        text: &'a str,
        fields: Fields<'a>,
    ) -> Self {
        Self { file, rule, offset, text, fields }
    }

    /// The task that the document belongs to.
    pub fn task(&self) -> &'a str {
        &self.file.task
    }

    /// Where its line starts in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The line as the file has it: one JSON object.
    pub fn json(&self) -> &'a str {
        self.text
    }

    /// The fields of the file as raw JSON.
    pub fn fields(&self) -> &Fields<'a> {
        &self.fields
    }

    /// `doc_id`, if it is an integer.
    pub fn doc_id(&self) -> Option<i64> {
        self.fields.raw("doc_id")?.parse().ok()
    }

    /// The filter pipeline; `none` in files of old releases, which do not name it.
    pub fn filter(&self) -> Cow<'a, str> {
        self.fields.text("filter").unwrap_or(Cow::Borrowed("none"))
    }

    /// Whether the document was answered right.
    pub fn outcome(&self) -> Outcome {
        self.rule.outcome(&self.fields)
    }

    /// The metric that decides [`Sample::outcome`], and its value.
    pub fn deciding_score(&self) -> Option<(String, f64)> {
        self.rule.score(&self.fields)
    }

    /// The metrics of the document with their values, in the order of the file.
    pub fn scores(&self) -> Result<Vec<(String, Value)>, Error> {
        let mut scores = Vec::new();
        for name in metric_names(&self.fields) {
            let value = self.decoded(&name)?.unwrap_or_default();
            scores.push((name, value));
        }
        Ok(scores)
    }

    /// Every name that an expression can use for this sample.
    pub fn names(&self) -> Vec<&str> {
        let own = self.fields.iter().map(|(name, _)| name);
        let derived = DERIVED.into_iter().filter(|name| self.fields.raw(name).is_none());
        own.chain(derived).collect()
    }

    /// A field of the file, or a derived one; `None` if the sample does not have it.
    pub fn value(&self, name: &str) -> Result<Option<Value>, Error> {
        if let Some(value) = self.decoded(name)? {
            return Ok(Some(value));
        }
        Ok(match name {
            "task" => Some(Value::str(self.task())),
            "outcome" => Some(Value::str(self.outcome().name())),
            "prompt" => Some(self.prompt()?),
            "answer" => Some(self.answer()?),
            "continuations" => Some(Value::list(self.continuations()?)),
            "scores" => {
                let scores = self.scores()?.into_iter();
                Some(Value::from(scores.map(|(name, value)| (Value::from(name), value)).collect::<Dict>()))
            }
            _ => None,
        })
    }

    /// The prompt of the first request: a string, or messages; `None` if there is none.
    pub fn prompt(&self) -> Result<Value, Error> {
        Ok(parts::prompt(&self.decoded("arguments")?.unwrap_or_default()))
    }

    /// The continuations whose log-likelihoods were requested, such as the options of a multiple-choice question.
    pub fn continuations(&self) -> Result<Vec<Value>, Error> {
        Ok(parts::continuations(&self.decoded("arguments")?.unwrap_or_default()))
    }

    /// The answer of the model: `resps` without lists that have a single item.
    pub fn answer(&self) -> Result<Value, Error> {
        Ok(parts::unwrapped(self.decoded("resps")?.unwrap_or_default()))
    }

    /// A field of the file.
    fn decoded(&self, name: &str) -> Result<Option<Value>, Error> {
        let Some(raw) = self.fields.raw(name) else { return Ok(None) };
        json::loads(raw).map(Some).map_err(|error| {
            Diagnostic::new(format!(
                "`{name}` of document {} in `{}` is not JSON",
                self.fields.raw("doc_id").unwrap_or("?"),
                self.file.path.display()
            ))
            .caused_by(error)
            .into()
        })
    }
}

/// The metrics of a sample, in order. Files of old releases do not list them: everything else is a metric there.
pub fn metric_names(fields: &Fields<'_>) -> Vec<String> {
    match fields.value("metrics") {
        Some(Value::List(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => {
            let names = fields.iter().map(|(name, _)| name);
            names.filter(|name| !NOT_SCORES.contains(name)).map(str::to_owned).collect()
        }
    }
}

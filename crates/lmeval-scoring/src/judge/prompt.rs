//! Renders the prompts of judges.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Value, repr};
use lmeval_template::Template;

use super::call::JudgeCall;
use super::extract::Extract;
use super::marker::{MARKER, marker};
use super::neutral::neutralise;
use super::scale::{Against, Scale};
use super::spec::JudgeSpec;
use crate::scorers::{ScoreError, ScoringInput};
use lmeval_core::DocId;
use lmeval_core::Role;
use lmeval_core::{Arguments, Context};

impl JudgeSpec {
    /// The calls for one document. None if it has nothing to be compared with.
    pub(super) fn calls(
        self: &Arc<Self>,
        input: &ScoringInput<'_>,
        baseline: Option<&str>,
    ) -> Result<Vec<JudgeCall>, ScoreError> {
        let document = input.doc_id();
        let predictions: Vec<String> = input.predictions()?.iter().map(as_text).collect();
        let other = match &self.scale {
            Scale::Pairwise { against: Against::Baseline, .. } => match baseline {
                Some(baseline) => Some(baseline.to_owned()),
                None => return Ok(Vec::new()),
            },
            Scale::Pairwise { against: Against::Column(column), .. } => {
                let Some(value) = input.document.document.get_str(column) else {
                    let message = format!("the document has no column `{column}` to compare answers with");
                    return Err(ScoreError::User { scorer: "judge".to_owned(), document, message });
                };
                Some(as_text(value))
            }
            _ => None,
        };
        let mut common = self.common(input, &predictions)?;
        let marker = self.has_marker.then(|| marker(input, &predictions, other.as_deref())).transpose()?;
        let marker: Option<Arc<str>> = marker.map(Arc::from);
        if let Some(marker) = &marker {
            common.insert(MARKER, Value::Str(Arc::clone(marker)));
        }
        let mut calls = Vec::new();
        for (index, prediction) in predictions.iter().enumerate() {
            let orders: &[bool] = if self.swap { &[false, true] } else { &[false] };
            for swapped in orders {
                let rendered = self.render(document, &common, prediction, other.as_deref(), *swapped)?;
                let lengths = other.as_ref().map(|other| (prediction.chars().count(), other.chars().count()));
                for role in &self.roles {
                    for sample in 0..self.samples {
                        calls.push(JudgeCall {
                            spec: Arc::clone(self),
                            pipeline: input.pipeline.into(),
                            role: Arc::clone(role),
                            prediction: index,
                            sample,
                            swapped: *swapped,
                            system: rendered.0.clone(),
                            prompt: Arc::clone(&rendered.1),
                            marker: marker.clone(),
                            lengths,
                        });
                    }
                }
            }
        }
        Ok(calls)
    }

    /// The variables that all prompts of a document share.
    fn common(&self, input: &ScoringInput<'_>, predictions: &[String]) -> Result<Dict, ScoreError> {
        let first = input.first()?;
        let asked =
            if self.needs_input { Value::from(request_text(&first.instance.arguments)) } else { Value::None };
        let mut variables = Dict::new();
        variables.insert("doc", Value::Dict(Arc::clone(&input.document.document)));
        variables.insert("target", first.instance.target.clone());
        variables.insert("input", asked.clone());
        let mut texts = Vec::new();
        for (name, template) in &self.texts {
            texts.push((*name, Value::from(render(template, &variables, input.doc_id(), name)?)));
        }
        variables.insert("question", asked);
        variables.insert("reference", first.instance.target.clone());
        for (name, text) in texts {
            variables.insert(name, text);
        }
        let shown = predictions.iter().map(|answer| Value::from(self.shown(answer)));
        variables.insert("predictions", Value::list(shown));
        match &self.scale {
            Scale::Range(low, high) => {
                variables.insert("lowest", plain(*low));
                variables.insert("highest", plain(*high));
            }
            Scale::Verdicts(verdicts) => {
                variables.insert(
                    "labels",
                    Value::list(verdicts.iter().map(|(label, _)| Value::str(label.as_str()))),
                );
            }
            Scale::Pairwise { labels, .. } => {
                let labels = [&labels.first, &labels.second, &labels.tie];
                variables.insert("labels", Value::list(labels.map(|label| Value::str(label.as_str()))));
            }
        }
        Ok(variables)
    }

    fn render(
        &self,
        document: DocId,
        common: &Dict,
        prediction: &str,
        other: Option<&str>,
        swapped: bool,
    ) -> Result<(Option<Arc<str>>, Arc<str>), ScoreError> {
        let mut variables = common.clone();
        let shown = Value::from(self.shown(prediction));
        if let Some(other) = other {
            let pair = [shown.clone(), Value::from(self.shown(other))];
            let [own, other] = pair;
            let (first, second) = if swapped { (other, own) } else { (own, other) };
            variables.insert("first", first);
            variables.insert("second", second);
        }
        variables.insert("prediction", shown);
        let system = self.system.as_ref().map(|system| render(system, &variables, document, "system"));
        let prompt = render(&self.prompt, &variables, document, "prompt")?;
        Ok((system.transpose()?.map(Arc::from), prompt.into()))
    }

    /// A judged string as the judge sees it.
    fn shown(&self, answer: &str) -> String {
        // Without the marker, nothing in an answer can pass for a verdict.
        let is_marked = self.has_marker && matches!(self.extract, Extract::Line(_));
        neutralise(answer, &self.marks, Some(&self.extract).filter(|_| !is_marked))
    }
}

fn render(template: &Template, variables: &Dict, document: DocId, key: &str) -> Result<String, ScoreError> {
    template.render(variables).map_err(|error| ScoreError::User {
        scorer: "judge".to_owned(),
        document,
        message: format!("the template of `{key}` cannot be rendered: {}", error.message()),
    })
}

fn as_text(value: &Value) -> String {
    match value {
        Value::Str(text) => text.to_string(),
        Value::None => String::new(),
        other => repr::str(other),
    }
}

/// A number without `.0`.
fn plain(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 1e15 {
        Value::Int(number as i64)
    } else {
        Value::Float(number)
    }
}

/// The request of the evaluated model: its prompt, or the last message of the user.
fn request_text(arguments: &Arguments) -> String {
    match arguments {
        Arguments::Generate { context, .. }
        | Arguments::Loglikelihood { context, .. }
        | Arguments::Letters { context, .. } => match context {
            Context::Text(text) | Context::Json(text) => text.to_string(),
            Context::Messages(messages) => {
                let asked = messages.iter().rev().find(|message| message.role == Role::User);
                asked.map(|message| message.content.to_string()).unwrap_or_default()
            }
        },
        Arguments::Rolling { text } => text.to_string(),
    }
}

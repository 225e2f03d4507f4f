//! What a scorer gets to see of a document.

use std::borrow::Cow;
use std::sync::Arc;

use lmeval_pycompat::{Dict, Value, repr};

use super::answered::{AnsweredDocument, AnsweredInstance};
use super::error::ScoreError;
use super::metric::BoundMetrics;
use crate::OutputType;
use crate::dialect::Dialect;
use crate::document::DocId;

/// One document with what a pipeline's filters made of its answers.
#[derive(Clone, Copy, Debug)]
pub struct ScoringInput<'a> {
    /// The document and its answers as the model gave them.
    pub document: &'a AnsweredDocument,
    /// For each request of the document what the filters made of its answers.
    pub filtered: &'a [Vec<Value>],
    /// The metrics of the pipeline.
    pub metrics: &'a BoundMetrics<'a>,
    /// What the task asks of a model.
    pub output_type: OutputType,
    /// The rules of the run.
    pub dialect: &'a Dialect,
}

impl<'a> ScoringInput<'a> {
    /// The number of the document.
    pub fn doc_id(&self) -> DocId {
        self.document.doc_id
    }

    /// The first request with its answers.
    pub fn first(&self) -> Result<&'a AnsweredInstance, ScoreError> {
        self.document.answers.first().ok_or(ScoreError::NoAnswer { document: self.doc_id() })
    }

    /// What the answers are compared with.
    pub fn reference(&self) -> Result<&'a Value, ScoreError> {
        Ok(&self.first()?.instance.gold)
    }

    /// What the filters made of the answers to the first request, which are all answers of a generation task.
    pub fn predictions(&self) -> Result<&'a [Value], ScoreError> {
        let first = self.filtered.first().ok_or(ScoreError::NoAnswer { document: self.doc_id() })?;
        Ok(first)
    }

    /// Keyword arguments of the first request for metrics.
    pub fn metric_kwargs(&self) -> Option<&'a Arc<Dict>> {
        self.document.answers.first()?.instance.metadata.metric_kwargs.as_ref()
    }
}

/// What a generated answer is compared with: numbers and the like by their text, as answers are text.
pub(super) fn as_text(reference: &Value) -> Cow<'_, Value> {
    match reference {
        Value::Str(_) | Value::List(_) | Value::Tuple(_) | Value::Set(_) | Value::Dict(_) => {
            Cow::Borrowed(reference)
        }
        other => Cow::Owned(Value::from(repr::str(other))),
    }
}

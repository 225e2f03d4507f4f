//! The view of a document that scorers get.

use std::borrow::Cow;
use std::sync::Arc;

use lmeval_pycompat::{Dict, Value, repr};

use super::answered::{AnsweredDocument, AnsweredInstance};
use super::bound_metrics::BoundMetrics;
use super::error::ScoreError;
use crate::judge::Judges;
use lmeval_core::Dialect;
use lmeval_core::DocId;
use lmeval_core::OutputType;

/// One document with its filtered answers.
#[derive(Clone, Copy, Debug)]
pub struct ScoringInput<'a> {
    /// The document and its unfiltered answers.
    pub document: &'a AnsweredDocument,
    /// The filtered answers, one list per request.
    pub filtered: &'a [Vec<Value>],
    /// The metrics of the pipeline.
    pub metrics: &'a BoundMetrics<'a>,
    /// The output type of the task.
    pub output_type: OutputType,
    /// The rules of the run.
    pub dialect: &'a Dialect,
    /// The name of the pipeline.
    pub pipeline: &'a str,
    /// The judges of the run, for scorers that ask them.
    pub judges: &'a dyn Judges,
}

impl<'a> ScoringInput<'a> {
    /// The index of the document in its split.
    pub fn doc_id(&self) -> DocId {
        self.document.doc_id
    }

    /// The first request with its answers.
    pub fn first(&self) -> Result<&'a AnsweredInstance, ScoreError> {
        self.document.answers.first().ok_or(ScoreError::NoAnswer { document: self.doc_id() })
    }

    /// The target that answers are compared with.
    pub fn reference(&self) -> Result<&'a Value, ScoreError> {
        Ok(&self.first()?.instance.gold)
    }

    /// The filtered answers to the first request; a generation task has only one.
    pub fn predictions(&self) -> Result<&'a [Value], ScoreError> {
        let first = self.filtered.first().ok_or(ScoreError::NoAnswer { document: self.doc_id() })?;
        Ok(first)
    }

    /// Keyword arguments for metrics from the first request.
    pub fn metric_kwargs(&self) -> Option<&'a Arc<Dict>> {
        self.document.answers.first()?.instance.metadata.metric_kwargs.as_ref()
    }
}

/// The reference of a generated answer: numbers and other values are converted to strings, since answers are strings.
pub(super) fn as_text(reference: &Value) -> Cow<'_, Value> {
    match reference {
        Value::Str(_) | Value::List(_) | Value::Tuple(_) | Value::Set(_) | Value::Dict(_) => {
            Cow::Borrowed(reference)
        }
        other => Cow::Owned(Value::from(repr::str(other))),
    }
}

//! Finds targets that scoring will refuse, before the model has answered.

use std::sync::Arc;

use lmeval_core::{Diagnostic, DocId};
use lmeval_metrics::{AnyAggregation, MetricError};
use lmeval_pycompat::Value;
use lmeval_scoring::scorers::TaskScorer;
use lmeval_tasks::prompt::DocumentRequests;

use crate::error::EngineError;

/// The targets of a task whose metrics compare complete corpora, such as BLEU: all documents need as many references.
pub(crate) struct Targets {
    task: String,
    metrics: Vec<(Arc<str>, Arc<dyn AnyAggregation>)>,
    /// The first document with its targets.
    first: Option<(DocId, Value)>,
}

impl Targets {
    pub(crate) fn new(task: &str, scorer: &TaskScorer) -> Self {
        Self { task: task.to_owned(), metrics: scorer.corpus_aggregations(), first: None }
    }

    /// Checks the targets of the next document.
    pub(crate) fn check(&mut self, requests: &DocumentRequests) -> Result<(), EngineError> {
        let Some(gold) = requests.instances.first().map(|instance| &instance.gold) else { return Ok(()) };
        if self.metrics.is_empty() {
            return Ok(());
        }
        let Some((first, targets)) = &self.first else {
            self.first = Some((requests.doc_id, gold.clone()));
            return Ok(());
        };
        let (Some(one), Some(other)) = (count(targets), count(gold)) else { return Ok(()) };
        if one == other {
            return Ok(());
        }
        // The metric would refuse all documents in the end for the same reason.
        let pairs = [targets, gold].map(|targets| Value::tuple([targets.clone(), Value::str("x")]));
        let refuses = |(_, used): &&(Arc<str>, Arc<dyn AnyAggregation>)| {
            matches!(used.aggregate(&pairs), Err(MetricError::ReferenceCounts { .. }))
        };
        let Some((metric, _)) = self.metrics.iter().find(refuses) else { return Ok(()) };
        let message = format!(
            "Document {} of `{}` has {other} targets, and document {first} has {one}: `{metric}` needs as many for each",
            requests.doc_id, self.task
        );
        Err(Diagnostic::new(message)
            .hint("Repeat targets where there are fewer, use one target, or remove the metric")
            .into())
    }
}

fn count(targets: &Value) -> Option<usize> {
    targets.as_list().map(<[Value]>::len)
}

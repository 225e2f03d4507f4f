//! Why answers cannot be scored.

use lmeval_metrics::MetricError;
use lmeval_pycompat::json::EncodeError;

use crate::OutputType;
use crate::diagnostic::Diagnose;
use crate::document::DocId;
use crate::filters::EnsembleError;
use crate::groups::GroupError;
use crate::host::HostError;
use crate::registry::{AlreadyRegistered, UnknownName};

/// Why a scorer cannot be built, or answers cannot be scored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScoreError {
    /// A scorer, aggregation or reduction that nobody knows.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// A name that stands for something else already.
    #[error(transparent)]
    AlreadyRegistered(#[from] AlreadyRegistered),
    /// A scorer that takes no such argument.
    #[error("The scorer `{scorer}` takes no argument `{argument}`")]
    ScorerArgument {
        /// The scorer.
        scorer: String,
        /// The argument.
        argument: String,
    },
    /// A scorer of Python code whose own filters or metrics are not written as such.
    #[error("The scorer `{scorer}` has filters or metrics that cannot be used: {message}")]
    ScorerDefaults {
        /// The scorer.
        scorer: String,
        /// What is wrong.
        message: String,
    },
    /// A metric that is made for other tasks.
    #[error("The metric `{metric}` is for {}, but the task's output type is {output_type}", made_for.join(" and "))]
    OutputType {
        /// The metric.
        metric: String,
        /// The output types it is made for.
        made_for: Vec<String>,
        /// The output type of the task.
        output_type: OutputType,
    },
    /// A name that would spoil the keys of results.
    #[error("`{metric}` cannot be the name of a metric: it is empty or has a comma")]
    MetricName {
        /// The name.
        metric: String,
    },
    /// A metric's options are wrong.
    #[error("The metric `{metric}` cannot be used as it is configured")]
    Options {
        /// The metric.
        metric: String,
        /// What is wrong.
        #[source]
        source: MetricError,
    },
    /// A filter failed.
    #[error(transparent)]
    Filter(#[from] EnsembleError),
    /// A metric failed on a document.
    #[error("The metric `{metric}` failed on document {document}")]
    Metric {
        /// The metric.
        metric: String,
        /// The document.
        document: DocId,
        /// What went wrong.
        #[source]
        source: MetricError,
    },
    /// A metric is only a name for values that the task delivers, and the task delivers none.
    #[error(
        "The metric `{metric}` is not known, and the task has no `process_results` that gives its values"
    )]
    NoFunction {
        /// The metric.
        metric: String,
    },
    /// A function of the task failed on a document.
    #[error("Scoring document {document} failed")]
    HostOnDocument {
        /// The document.
        document: DocId,
        /// What went wrong.
        #[source]
        source: HostError,
    },
    /// A function of the task failed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// `process_results` gave values for the first document and none for a later one.
    #[error("`process_results` gave values for the first document but none for document {document}")]
    NoValues {
        /// The document.
        document: DocId,
    },
    /// `process_results` used something else than text as the name of a metric.
    #[error("`process_results` gave document {document} a metric whose name is no text but {type_name}")]
    KeyType {
        /// The document.
        document: DocId,
        /// The type of the key.
        type_name: &'static str,
    },
    /// Several values of a metric for which no reduction is configured.
    #[error(
        "Document {document} has {count} values of `{metric}`, and `metric_list` names no reduction for them"
    )]
    NoReduction {
        /// The metric.
        metric: String,
        /// The document.
        document: DocId,
        /// How many values there are.
        count: usize,
    },
    /// A reduction failed on a document.
    #[error("The values of `{metric}` for the repeats of document {document} cannot be reduced")]
    Reduction {
        /// The metric.
        metric: String,
        /// The document.
        document: DocId,
        /// What went wrong.
        #[source]
        source: MetricError,
    },
    /// An aggregation or standard error failed.
    #[error("The values of `{key}` cannot be aggregated")]
    Aggregation {
        /// The key in results.
        key: String,
        /// What went wrong.
        #[source]
        source: MetricError,
    },
    /// A value that the aggregation of its metric cannot work on.
    #[error("The aggregation `{aggregation}` of `{metric}` cannot take the value of document {document}")]
    AggregationValue {
        /// The metric.
        metric: String,
        /// The aggregation.
        aggregation: String,
        /// The first document with such a value.
        document: DocId,
        /// What is wrong with the value.
        #[source]
        source: MetricError,
    },
    /// An aggregation that is a function of the task failed.
    #[error("The aggregation `{aggregation}` of `{metric}` failed")]
    HostAggregation {
        /// The metric.
        metric: String,
        /// The aggregation.
        aggregation: String,
        /// What went wrong.
        #[source]
        source: HostError,
    },
    /// A document has no answers.
    #[error("Document {document} has no answer to score")]
    NoAnswer {
        /// The document.
        document: DocId,
    },
    /// An answer is not a log-likelihood.
    #[error("An answer to document {document} is no pair of log-likelihood and greedy flag but {type_name}")]
    NotALikelihood {
        /// The document.
        document: DocId,
        /// Its type.
        type_name: &'static str,
    },
    /// A scorer gave a wrong number of documents.
    #[error("The scorer `{scorer}` gave {found} scored documents, not {expected}")]
    DocumentCount {
        /// The scorer.
        scorer: String,
        /// How many documents there are.
        expected: usize,
        /// How many it gave.
        found: usize,
    },
    /// A scorer gave a score under something else than the key of a result.
    #[error("The scorer `{scorer}` gave a score under {key}, which is no text of the form `metric,pipeline`")]
    ResultKey {
        /// The scorer.
        scorer: String,
        /// What stands in the place of the key.
        key: String,
    },
    /// A document cannot be logged.
    #[error("A document cannot be logged")]
    Log(#[from] EncodeError),
    /// A group has no score.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// Something that a scorer of the user says.
    #[error("The scorer `{scorer}` failed on document {document}: {message}")]
    User {
        /// The scorer.
        scorer: String,
        /// The document.
        document: DocId,
        /// What went wrong.
        message: String,
    },
}

impl Diagnose for ScoreError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Unknown(UnknownName { nearest, .. }) => {
                nearest.iter().map(|name| format!("Did you mean `{name}`?")).collect()
            }
            Self::ScorerArgument { .. } => {
                vec!["Give filters their arguments under `filter_list`".to_owned()]
            }
            Self::NoReduction { metric, .. } => {
                vec![format!("Name it: `metric_list: [{{metric: {metric}, reduction: mean}}]`")]
            }
            Self::AggregationValue { metric, .. } => vec![format!(
                "Give `{metric}` an aggregation that takes such values: `aggregation: !function utils.my_aggregation`"
            )],
            _ => Vec::new(),
        }
    }

    fn traceback(&self) -> Option<&str> {
        match self {
            Self::Host(error) => error.traceback(),
            _ => None,
        }
    }
}

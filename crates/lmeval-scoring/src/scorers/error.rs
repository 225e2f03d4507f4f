//! Errors of building scorers and scoring answers.

use lmeval_metrics::MetricError;
use lmeval_pycompat::json::EncodeError;

use crate::filters::EnsembleError;
use crate::groups::GroupError;
use crate::host::HostError;
use crate::judge::SpecProblem;
use crate::registry::{AlreadyRegistered, UnknownName};
use lmeval_core::Diagnose;
use lmeval_core::DocId;
use lmeval_core::OutputType;

/// The error of a scorer that could not be built, or of answers that could not be scored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScoreError {
    /// An unknown scorer, aggregation or reduction.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// A name that is already registered with a different meaning.
    #[error(transparent)]
    AlreadyRegistered(#[from] AlreadyRegistered),
    /// An argument that the scorer does not accept.
    #[error("The scorer `{scorer}` takes no argument `{argument}`")]
    ScorerArgument {
        /// The name of the scorer.
        scorer: String,
        /// The unexpected argument.
        argument: String,
    },
    /// An option of the scorer that it cannot work with.
    #[error("The scorer `{scorer}`: {problem}")]
    ScorerSetting {
        /// The name of the scorer.
        scorer: String,
        /// The problem, with the path of the option.
        problem: Box<SpecProblem>,
    },
    /// The default filters or metrics of a Python scorer are malformed.
    #[error("The scorer `{scorer}` has invalid default filters or metrics: {message}")]
    ScorerDefaults {
        /// The name of the scorer.
        scorer: String,
        /// A description of the problem.
        message: String,
    },
    /// A reduction of more repeats than there are.
    #[error("The reduction `{reduction}` needs {wanted} answers to each document, and there {}", are(*repeats))]
    TooFewRepeats {
        /// The reduction.
        reduction: String,
        /// The number of answers that it needs.
        wanted: usize,
        /// The number of answers to each document.
        repeats: usize,
    },
    /// A metric that does not support the task's output type.
    #[error("The metric `{metric}` is for {}, but the task's output type is {output_type}", made_for.join(" and "))]
    OutputType {
        /// The name of the metric.
        metric: String,
        /// The output types it supports.
        made_for: Vec<String>,
        /// The output type of the task.
        output_type: OutputType,
    },
    /// A metric name that cannot be part of a result key.
    #[error("`{metric}` is not a valid metric name: it is empty or contains a comma")]
    MetricName {
        /// The rejected name.
        metric: String,
    },
    /// Invalid options of a metric.
    #[error("The metric `{metric}` has invalid options")]
    Options {
        /// The name of the metric.
        metric: String,
        /// The error of the metric.
        #[source]
        source: MetricError,
    },
    /// A filter failed.
    #[error(transparent)]
    Filter(#[from] EnsembleError),
    /// A metric failed on a document.
    #[error("The metric `{metric}` failed on document {document}")]
    Metric {
        /// The name of the metric.
        metric: String,
        /// The document it failed on.
        document: DocId,
        /// The error of the metric.
        #[source]
        source: MetricError,
    },
    /// A metric that is not registered, in a task that does not compute it either.
    #[error(
        "The metric `{metric}` is not known, and the task has no `process_results` function that computes it"
    )]
    NoFunction {
        /// The name of the metric.
        metric: String,
    },
    /// A task function failed on a document.
    #[error("Scoring document {document} failed")]
    HostOnDocument {
        /// The document it failed on.
        document: DocId,
        /// The error of the function.
        #[source]
        source: HostError,
    },
    /// A task function failed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// `process_results` returned values for the first document but not for a later one.
    #[error("`process_results` returned values for the first document but none for document {document}")]
    NoValues {
        /// The document without values.
        document: DocId,
    },
    /// `process_results` used a metric name that is not a string.
    #[error(
        "`process_results` returned a metric name of type `{type_name}` for document {document}; names must be strings"
    )]
    KeyType {
        /// The document it was called for.
        document: DocId,
        /// The Python type of the name.
        type_name: &'static str,
    },
    /// An empty list of values for a name that has no metric.
    #[error("Document {document} has an empty list of values for `{metric}`")]
    NoValue {
        /// The name of the metric.
        metric: String,
        /// The document without a value.
        document: DocId,
    },
    /// A reduction failed on a document.
    #[error("The values of `{metric}` for the repeats of document {document} cannot be reduced")]
    Reduction {
        /// The name of the metric.
        metric: String,
        /// The document it failed on.
        document: DocId,
        /// The error of the reduction.
        #[source]
        source: MetricError,
    },
    /// An aggregation or standard error failed.
    #[error("The values of `{key}` cannot be aggregated")]
    Aggregation {
        /// The result key.
        key: String,
        /// The error of the aggregation.
        #[source]
        source: MetricError,
    },
    /// A value that the metric's aggregation does not accept.
    #[error("The aggregation `{aggregation}` of `{metric}` does not accept the value of document {document}")]
    AggregationValue {
        /// The name of the metric.
        metric: String,
        /// The name of the aggregation.
        aggregation: String,
        /// The first document with such a value.
        document: DocId,
        /// Why the aggregation rejects the value.
        #[source]
        source: MetricError,
    },
    /// An aggregation that is a task function failed.
    #[error("The aggregation `{aggregation}` of `{metric}` failed")]
    HostAggregation {
        /// The name of the metric.
        metric: String,
        /// The name of the aggregation.
        aggregation: String,
        /// The error of the function.
        #[source]
        source: Box<HostError>,
    },
    /// A document has no answers.
    #[error("Document {document} has no answer to score")]
    NoAnswer {
        /// The document without answers.
        document: DocId,
    },
    /// An answer is not a log-likelihood.
    #[error(
        "An answer to document {document} is `{type_name}`, not a pair of log-likelihood and greedy flag"
    )]
    NotALikelihood {
        /// The document the answer belongs to.
        document: DocId,
        /// The Python type of the answer.
        type_name: &'static str,
    },
    /// A scorer returned the wrong number of documents.
    #[error("The scorer `{scorer}` returned {found} scored documents instead of {expected}")]
    DocumentCount {
        /// The name of the scorer.
        scorer: String,
        /// The number of documents it was given.
        expected: usize,
        /// The number of documents it returned.
        found: usize,
    },
    /// A scorer returned a score with an invalid result key.
    #[error(
        "The scorer `{scorer}` returned a score with the key {key}; keys must be strings of the form `metric,pipeline`"
    )]
    ResultKey {
        /// The name of the scorer.
        scorer: String,
        /// The `repr` of the key.
        key: String,
    },
    /// A document that cannot be serialised for the log.
    #[error("A document cannot be logged")]
    Log(#[from] EncodeError),
    /// A group score that could not be computed.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The scorer panicked on a document.
    #[error("Scoring document {document} panicked: {message}")]
    Panic {
        /// The document it panicked on.
        document: DocId,
        /// The message of the panic.
        message: String,
    },
    /// An error reported by a custom scorer.
    #[error("The scorer `{scorer}` failed on document {document}: {message}")]
    User {
        /// The name of the scorer.
        scorer: String,
        /// The document it failed on.
        document: DocId,
        /// The message of the scorer.
        message: String,
    },
}

fn are(repeats: usize) -> String {
    if repeats == 1 { "is one".to_owned() } else { format!("are {repeats}") }
}

impl Diagnose for ScoreError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Unknown(UnknownName { nearest, .. }) => {
                nearest.iter().map(|name| format!("Did you mean `{name}`?")).collect()
            }
            Self::ScorerArgument { .. } => {
                vec!["Pass arguments to filters in `filter_list`".to_owned()]
            }
            Self::AggregationValue { metric, .. } => vec![format!(
                "Set an aggregation for `{metric}` that accepts such values: `aggregation: !function utils.my_aggregation`"
            )],
            Self::TooFewRepeats { wanted, .. } => {
                vec![format!("Pass `--repeats {wanted}`, or set `repeats: {wanted}` in the task")]
            }
            Self::ScorerSetting { problem, .. } => problem.hints.clone(),
            Self::Host(error) => error.hints(),
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

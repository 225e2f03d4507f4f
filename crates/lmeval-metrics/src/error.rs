//! Errors of metrics.

use lmeval_pycompat::{Value, re};

/// The error of a value, an aggregate or a standard error that could not be computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MetricError {
    /// The metric does not support this output type.
    #[error("The metric needs {expected}, which this task does not produce")]
    WrongInput {
        /// The input that the metric needs.
        expected: &'static str,
    },
    /// A document without options.
    #[error("There are no options to choose from")]
    NoOptions,
    /// A target index without an option.
    #[error("The target `{index}` is out of range: there are {count} options")]
    IndexOutOfRange {
        /// The target index.
        index: i64,
        /// The number of options.
        count: usize,
    },
    /// A target that is not the index of an option.
    #[error("The target is not the index of an option: `{target}`")]
    NotAnIndex {
        /// The `repr` of the target.
        target: String,
    },
    /// Several targets for a metric that supports only one.
    #[error("The metric needs one target, but the document has {count}")]
    SeveralTargets {
        /// The number of targets.
        count: usize,
    },
    /// Unconditional answers, for mutual information, are missing for some options.
    #[error("{conditional} answers with the context, but {unconditional} without it")]
    UnpairedAnswers {
        /// The number of answers with the context.
        conditional: usize,
        /// The number of answers without it.
        unconditional: usize,
    },
    /// Nothing to aggregate or to reduce.
    #[error("There are no values")]
    NoValues,
    /// More values than can be resampled.
    #[error("There are too many values to resample: {count}")]
    TooManyValues {
        /// The number of values.
        count: usize,
    },
    /// A value of a type that the aggregation or reduction does not support.
    #[error("Expected {expected} per document, found: `{found}`")]
    WrongValue {
        /// The expected type.
        expected: &'static str,
        /// The `repr` of the value.
        found: String,
    },
    /// A result that overflows a float.
    #[error("The result overflows a float: exp({argument})")]
    Overflow {
        /// The exponent that overflows.
        argument: f64,
    },
    /// A zero denominator.
    #[error("Division by zero: {what} is zero")]
    DivisionByZero {
        /// The quantity that is zero.
        what: &'static str,
    },
    /// Binary F1 over more than two labels.
    #[error("The labels are not binary: there are {count} of them; use an average other than `binary`")]
    Multiclass {
        /// The number of distinct labels.
        count: usize,
    },
    /// Binary F1 over two labels, neither of which is 1.
    #[error("The label 1 is not among the two labels: {labels}")]
    NoPositiveLabel {
        /// The two labels.
        labels: String,
    },
    /// An option that the metric does not have.
    #[error("`{metric}` has no option `{option}`")]
    UnknownOption {
        /// The name of the metric.
        metric: &'static str,
        /// The unknown option.
        option: String,
    },
    /// An option of the wrong type.
    #[error("The option `{option}` must be {expected}, not `{found}`")]
    WrongOption {
        /// The name of the option.
        option: &'static str,
        /// The expected type.
        expected: &'static str,
        /// The Python type name of the value.
        found: &'static str,
    },
    /// A pattern that does not compile, or whose search exceeds the step limit.
    #[error(transparent)]
    Pattern(#[from] re::Error),
    /// Lists of different lengths.
    #[error("Cannot compare {predictions} predictions with {references} references")]
    Shapes {
        /// The number of predictions.
        predictions: usize,
        /// The number of references.
        references: usize,
    },
    /// Documents with different numbers of references.
    #[error("Document {document} has {found} references, but the first one has {expected}")]
    ReferenceCounts {
        /// The index of the document.
        document: usize,
        /// The number of references of the document.
        found: usize,
        /// The number of references of the first document.
        expected: usize,
    },
    /// A document without references.
    #[error("Document {document} has no reference")]
    NoReference {
        /// The index of the document.
        document: usize,
    },
    /// A reduction over more repeats than available.
    #[error("Cannot reduce {count} repeats by k = {k}")]
    TooFewRepeats {
        /// The requested number of repeats.
        k: usize,
        /// The available number of repeats.
        count: usize,
    },
}

impl MetricError {
    /// The error of a value of the wrong type.
    pub(crate) fn wrong_value(expected: &'static str, found: &Value) -> Self {
        Self::WrongValue { expected, found: lmeval_pycompat::repr::repr(found) }
    }
}

//! What can go wrong while scoring.

use lmeval_pycompat::{Value, re};

/// Why a value, an aggregate or a standard error could not be computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MetricError {
    /// The metric works on another kind of answer.
    #[error("The metric works on {expected}, which this task does not have")]
    WrongInput {
        /// What it works on.
        expected: &'static str,
    },
    /// There is nothing to choose from.
    #[error("There are no options to choose from")]
    NoOptions,
    /// A target that no option belongs to.
    #[error("The target `{index}` is out of range: there are {count} options")]
    IndexOutOfRange {
        /// The target.
        index: i64,
        /// The number of options.
        count: usize,
    },
    /// A target that is not the index of an option.
    #[error("The target is not the index of an option: `{target}`")]
    NotAnIndex {
        /// The target, as Python writes it.
        target: String,
    },
    /// A list of targets where the metric needs one.
    #[error("The metric needs one target, and the document has {count}")]
    SeveralTargets {
        /// How many there are.
        count: usize,
    },
    /// A mutual-information request for some options only.
    #[error("{conditional} answers with the context, but {unconditional} without it")]
    UnpairedAnswers {
        /// Answers with the context.
        conditional: usize,
        /// Answers without it.
        unconditional: usize,
    },
    /// Nothing to aggregate or to reduce.
    #[error("There are no values")]
    NoValues,
    /// More values than can be resampled.
    #[error("There are too many values to resample: {count}")]
    TooManyValues {
        /// How many there are.
        count: usize,
    },
    /// A value that the aggregation or reduction cannot work on.
    #[error("Expected {expected} per document, found: `{found}`")]
    WrongValue {
        /// What it works on.
        expected: &'static str,
        /// The value, as Python writes it.
        found: String,
    },
    /// A result beyond the largest float.
    #[error("The result is too large for a number: exp({argument})")]
    Overflow {
        /// The exponent.
        argument: f64,
    },
    /// A total of zero in a denominator.
    #[error("Division by zero: {what} is zero")]
    DivisionByZero {
        /// What is zero.
        what: &'static str,
    },
    /// A binary score over more than two labels.
    #[error("The labels are not binary: there are {count} of them; choose another average than `binary`")]
    Multiclass {
        /// The number of distinct labels.
        count: usize,
    },
    /// A binary score over two labels, none of which is 1.
    #[error("The label 1 is not among the two labels: {labels}")]
    NoPositiveLabel {
        /// The labels.
        labels: String,
    },
    /// An option that the metric does not have.
    #[error("`{metric}` has no option `{option}`")]
    UnknownOption {
        /// The metric.
        metric: &'static str,
        /// The option.
        option: String,
    },
    /// An option with a value of a wrong type.
    #[error("The option `{option}` must be {expected}, not `{found}`")]
    WrongOption {
        /// The option.
        option: &'static str,
        /// What it must be.
        expected: &'static str,
        /// Python's name of the type of the value.
        found: &'static str,
    },
    /// A pattern that does not compile, or whose search takes too long.
    #[error(transparent)]
    Pattern(#[from] re::Error),
    /// Lists that cannot be compared element by element.
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
        /// The position of the document.
        document: usize,
        /// Its number of references.
        found: usize,
        /// That of the first document.
        expected: usize,
    },
    /// A document with no reference at all.
    #[error("Document {document} has no reference")]
    NoReference {
        /// The position of the document.
        document: usize,
    },
    /// A reduction over more repeats than there are.
    #[error("Cannot reduce {count} repeats by k = {k}")]
    TooFewRepeats {
        /// The wanted number of repeats.
        k: usize,
        /// The number of repeats there are.
        count: usize,
    },
}

impl MetricError {
    /// A value of an unexpected shape.
    pub(crate) fn wrong_value(expected: &'static str, found: &Value) -> Self {
        Self::WrongValue { expected, found: lmeval_pycompat::repr::repr(found) }
    }
}

//! Errors of group aggregation.

use lmeval_metrics::MetricError;

/// The error of a group score that could not be computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// A task's score is not a number.
    #[error(
        "The group `{group}` cannot average `{key}`: its value in `{task}` is `{type_name}`, not a number"
    )]
    NotANumber {
        /// The name of the group.
        group: String,
        /// The task with the offending value.
        task: String,
        /// The key of the score.
        key: String,
        /// The Python type of the value.
        type_name: &'static str,
    },
    /// The average cannot be computed.
    #[error("The group `{group}` cannot average `{key}`")]
    Average {
        /// The name of the group.
        group: String,
        /// The key of the score.
        key: String,
        /// The error of the aggregation.
        #[source]
        source: MetricError,
    },
}

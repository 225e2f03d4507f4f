//! Why a group has no score.

use lmeval_metrics::MetricError;

/// Why a group has no score.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// A task's score is not a number.
    #[error("The group `{group}` cannot average `{key}`: its value in `{task}` is no number but {type_name}")]
    NotANumber {
        /// The group.
        group: String,
        /// The task.
        task: String,
        /// The key of the score.
        key: String,
        /// The type of the value.
        type_name: &'static str,
    },
    /// The average cannot be computed.
    #[error("The group `{group}` cannot average `{key}`")]
    Average {
        /// The group.
        group: String,
        /// The key of the score.
        key: String,
        /// What went wrong.
        #[source]
        source: MetricError,
    },
}

//! The output type of a task.

use std::fmt;
use std::str::FromStr;

/// The kind of requests that a task sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OutputType {
    /// Generation until a stop string.
    #[default]
    GenerateUntil,
    /// The log-likelihood of one continuation.
    Loglikelihood,
    /// The log-likelihood of a complete string, in windows.
    LoglikelihoodRolling,
    /// The log-likelihoods of several options.
    MultipleChoice,
}

impl OutputType {
    /// All output types, in the order used by messages.
    pub const ALL: [Self; 4] =
        [Self::GenerateUntil, Self::Loglikelihood, Self::LoglikelihoodRolling, Self::MultipleChoice];

    /// The name used in YAML and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::GenerateUntil => "generate_until",
            Self::Loglikelihood => "loglikelihood",
            Self::LoglikelihoodRolling => "loglikelihood_rolling",
            Self::MultipleChoice => "multiple_choice",
        }
    }
}

impl fmt::Display for OutputType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for OutputType {
    type Err = UnknownOutputType;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownOutputType(name.to_owned()))
    }
}

/// The error of an unknown output type.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not an output type")]
pub struct UnknownOutputType(pub String);

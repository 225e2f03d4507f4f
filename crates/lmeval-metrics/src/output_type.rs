//! What a task asks of a model.

use std::fmt;
use std::str::FromStr;

/// The kind of request that a task's documents become.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OutputType {
    /// Free text until a stop string.
    #[default]
    GenerateUntil,
    /// The log-likelihood of one continuation.
    Loglikelihood,
    /// The log-likelihood of a whole text, in windows.
    LoglikelihoodRolling,
    /// The log-likelihoods of several options.
    MultipleChoice,
}

impl OutputType {
    /// All output types, in the order in which messages list them.
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

/// A name that is no output type.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not an output type")]
pub struct UnknownOutputType(pub String);

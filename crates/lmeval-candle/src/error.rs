//! What can be wrong with a model's files or its computation.

use std::path::PathBuf;

use lmeval_core::{ModelError, ModelErrorKind};

/// Results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a model cannot be loaded, or fails while it computes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A field of `config.json` is missing.
    #[error("The model's configuration has no field `{0}`")]
    MissingField(String),
    /// A field of `config.json` has a value that cannot be used.
    #[error("The field `{field}` of the model's configuration must be {expected}, not `{found}`")]
    WrongField {
        /// The name of the field.
        field: String,
        /// What it must be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// Something that a model asks for is not known here.
    #[error("{message}")]
    Unsupported {
        /// What is not known.
        message: String,
        /// What to try.
        hint: Option<String>,
    },
    /// A weight is missing.
    #[error("The weights have no tensor `{0}`")]
    MissingWeight(String),
    /// A weight does not fit to the configuration.
    #[error("The weight `{name}` has the shape {found:?} where the configuration asks for {expected:?}")]
    WrongShape {
        /// The name of the weight.
        name: String,
        /// The shape that it has.
        found: Vec<usize>,
        /// The shape that it should have.
        expected: Vec<usize>,
    },
    /// A file cannot be used.
    #[error("The file `{path}` cannot be used: {problem}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A text is too large for the memory of the device, also alone.
    #[error("There is too little memory for this text: {0}")]
    TooLarge(String),
    /// What the model computes is no number, or has no limits.
    #[error("The model computes logits that are not finite")]
    NotFinite,
    /// The run ends before the computation does.
    #[error("The run was ended")]
    Ended,
    /// The computation failed.
    #[error("The computation failed: {0}")]
    Compute(#[from] candle_core::Error),
}

impl Error {
    /// The error of a file.
    #[expect(clippy::needless_pass_by_value, reason = "errors are handed over where they come up")]
    pub fn file(path: impl Into<PathBuf>, problem: impl ToString) -> Self {
        Self::File { path: path.into(), problem: problem.to_string() }
    }

    /// The error of something that is not known here.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::Unsupported { message: message.into(), hint: None }
    }

    /// The error of a text that there was too little memory for.
    pub(crate) fn too_large(&self) -> Self {
        Self::TooLarge(self.to_string())
    }

    /// Whether the device had too little memory.
    pub fn is_out_of_memory(&self) -> bool {
        let Self::Compute(error) = self else { return false };
        let text = error.to_string().to_lowercase();
        text.contains("out of memory") || text.contains("out_of_memory") || text.contains("alloc_failed")
    }
}

impl From<Error> for ModelError {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Ended => ModelErrorKind::Unreachable,
            Error::TooLarge(_) => ModelErrorKind::Request,
            // A device that failed once is not asked again and again.
            Error::Compute(_) | Error::NotFinite => ModelErrorKind::Capability,
            _ => ModelErrorKind::Configuration,
        };
        // Behind the message stands a backtrace of a library, which explains nothing to users.
        let text = error.to_string();
        let made = Self::new(kind, text.split("\n   0: ").next().unwrap_or(&text).trim_end());
        match error {
            Error::Unsupported { hint: Some(hint), .. } => made.hint(hint),
            Error::MissingWeight(_) | Error::WrongShape { .. } => {
                made.hint("The weights belong to another configuration, or a file of the model is missing")
            }
            Error::TooLarge(_) => made.hint(
                "A smaller `max_length`, numbers of 16 bits (`dtype`) or a larger device leave more room",
            ),
            Error::NotFinite => made
                .hint("Numbers that grow too large for 16 bits fit into `dtype=bfloat16` or `dtype=float32`")
                .hint("Where that does not help, weights of the model are damaged"),
            Error::File { .. } => made.hint("Download the file again if it is damaged"),
            _ => made,
        }
    }
}

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
        Self::File { path: path.into(), problem: without_backtrace(&problem.to_string()).to_owned() }
    }

    /// The error of something that is not known here.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::Unsupported { message: message.into(), hint: None }
    }

    /// The error of a text that there was too little memory for.
    pub(crate) fn too_large(&self) -> Self {
        Self::TooLarge(without_backtrace(&self.to_string()).to_owned())
    }

    /// Whether the device had too little memory.
    pub fn is_out_of_memory(&self) -> bool {
        let Self::Compute(error) = self else { return false };
        let text = error.to_string().to_lowercase();
        text.contains("out of memory") || text.contains("out_of_memory") || text.contains("alloc_failed")
    }
}

/// The message without the backtrace that the library adds to it where `RUST_BACKTRACE` is set: it explains nothing to
/// users.
fn without_backtrace(text: &str) -> &str {
    let is_frame = |line: &str| {
        let digits = line.trim_start().split(':').next().unwrap_or_default();
        line.starts_with(' ') && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        if is_frame(line) {
            return text[..end].trim_end();
        }
        end += line.len();
    }
    text.trim_end()
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
        let made = Self::new(kind, without_backtrace(&error.to_string()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backtraces_are_left_out() {
        let text = "CUDA_ERROR_ILLEGAL_ADDRESS\n   0: <unknown>\n   1: <unknown>\n  12: <unknown>\n";
        assert_eq!(without_backtrace(text), "CUDA_ERROR_ILLEGAL_ADDRESS");
        assert_eq!(without_backtrace("  3: <unknown>\n"), "");
        assert_eq!(without_backtrace("shape mismatch\nin 3: x"), "shape mismatch\nin 3: x");
    }
}

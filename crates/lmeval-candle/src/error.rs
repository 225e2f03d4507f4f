//! Errors of loading and running a model.

use std::path::PathBuf;

use lmeval_core::{ModelError, ModelErrorKind};

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a model failed to load or to compute.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A field of `config.json` is missing.
    #[error("The model's configuration has no field `{0}`")]
    MissingField(String),
    /// A field of `config.json` has an unsupported value.
    #[error("The field `{field}` of the model's configuration must be {expected}, not `{found}`")]
    WrongField {
        /// The path of the field.
        field: String,
        /// A description of supported values.
        expected: String,
        /// The value found.
        found: String,
    },
    /// The model needs something that is not supported.
    #[error("{message}")]
    Unsupported {
        /// The unsupported feature.
        message: String,
        /// A suggestion for the user.
        hint: Option<String>,
    },
    /// A weight is missing from the checkpoint.
    #[error("The weights have no tensor `{0}`")]
    MissingWeight(String),
    /// A weight does not match the configuration.
    #[error("The weight `{name}` has shape {found:?}, but the configuration requires {expected:?}")]
    WrongShape {
        /// The full name of the weight.
        name: String,
        /// The stored shape.
        found: Vec<usize>,
        /// The shape from the configuration.
        expected: Vec<usize>,
    },
    /// A file is malformed or cannot be read.
    #[error("Cannot load `{path}`: {problem}")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The problem with the file.
        problem: String,
    },
    /// A single request does not fit into the device's memory.
    #[error("Not enough memory for this request: {0}")]
    TooLarge(String),
    /// The model produced NaN or infinity.
    #[error("The model produced logits that are NaN or infinite")]
    NotFinite,
    /// The run was stopped during the computation.
    #[error("The run was stopped")]
    Cancelled,
    /// The computation failed.
    #[error("The computation failed: {0}")]
    Compute(#[from] candle_core::Error),
}

/// What to do about a model that only torch can run.
pub(crate) const TORCH: &str = "Without `engine=native`, `--model hf` runs it with torch, if installed";

impl Error {
    /// An error of a file.
    #[expect(clippy::needless_pass_by_value, reason = "callers pass errors by value in `map_err`")]
    pub fn file(path: impl Into<PathBuf>, problem: impl ToString) -> Self {
        Self::File { path: path.into(), problem: without_backtrace(&problem.to_string()).to_owned() }
    }

    /// An error that something is not supported.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::Unsupported { message: message.into(), hint: None }
    }

    /// Converts an out-of-memory error to one of a single request.
    pub(crate) fn too_large(&self) -> Self {
        Self::TooLarge(without_backtrace(&self.to_string()).to_owned())
    }

    /// Whether the device ran out of memory.
    pub fn is_out_of_memory(&self) -> bool {
        let Self::Compute(error) = self else { return false };
        let message = error.to_string().to_lowercase();
        ["out of memory", "out_of_memory", "alloc_failed"].iter().any(|known| message.contains(known))
    }
}

/// Removes the backtrace that candle adds to messages if `RUST_BACKTRACE` is set.
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
            Error::Cancelled => ModelErrorKind::Unreachable,
            // Torch may support the value.
            Error::Unsupported { .. } | Error::WrongField { .. } => ModelErrorKind::Unsupported,
            Error::TooLarge(_) => ModelErrorKind::Request,
            // Do not retry on a device that failed.
            Error::Compute(_) | Error::NotFinite => ModelErrorKind::Capability,
            _ => ModelErrorKind::Configuration,
        };
        let converted = Self::new(kind, without_backtrace(&error.to_string()));
        match error {
            Error::Unsupported { hint: Some(hint), .. } => converted.hint(hint),
            Error::WrongField { .. } => converted.hint(TORCH),
            Error::MissingWeight(_) | Error::WrongShape { .. } => converted
                .hint("The weights do not belong to this configuration, or a file of the model is missing"),
            Error::TooLarge(_) => {
                converted.hint("Use a smaller `max_length`, a 16-bit `dtype`, or a device with more memory")
            }
            Error::NotFinite => converted
                .hint("If float16 overflows, use `dtype=bfloat16` or `dtype=float32`")
                .hint("If that does not help, the weights are damaged"),
            Error::File { .. } => converted.hint("Download the file again if it is damaged"),
            _ => converted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_backtraces() {
        let text = "CUDA_ERROR_ILLEGAL_ADDRESS\n   0: <unknown>\n   1: <unknown>\n  12: <unknown>\n";
        assert_eq!(without_backtrace(text), "CUDA_ERROR_ILLEGAL_ADDRESS");
        assert_eq!(without_backtrace("  3: <unknown>\n"), "");
        assert_eq!(without_backtrace("shape mismatch\nin 3: x"), "shape mismatch\nin 3: x");
    }
}

//! The formats in which a folder may have its tokenizer.

use std::path::Path;

use lmeval_core::{ModelError, ModelErrorKind};
use tokenizers::Tokenizer;

use crate::class::names_byte_level;
use crate::special::SpecialTokens;
use crate::{parts, sentencepiece, tekken, whole};

/// The hint for models without a tokenizer.
pub(crate) const OTHER_TOKENIZER: &str =
    "Set the model's tokenizer with `tokenizer=<name on the hub or folder>`";

/// A format of tokenizers.
#[derive(Debug)]
pub(crate) struct Format {
    /// The files that a folder needs.
    pub(crate) files: &'static [&'static str],
    /// Builds a tokenizer from the content of the first file.
    build: fn(&Path, &[u8], &mut SpecialTokens) -> Result<Tokenizer, Problem>,
}

/// All formats. The first one that a folder has is read.
pub(crate) const FORMATS: [Format; 5] = [
    Format { files: &[whole::FILE], build: |_, file, _| whole::build(file) },
    Format { files: &parts::FILES, build: parts::build },
    Format { files: &["tekken.json"], build: |_, file, special| tekken::build(file, special) },
    Format { files: &["tokenizer.model"], build: |_, file, special| sentencepiece::build(file, special) },
    Format { files: &["spiece.model"], build: |_, file, special| sentencepiece::build(file, special) },
];

impl Format {
    /// The first format whose files exist.
    pub(crate) fn find(exists: impl Fn(&str) -> bool) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.files.iter().all(|file| exists(file)))
    }

    /// Whether the file has not only the vocabulary, but everything.
    pub(crate) fn is_complete(&self) -> bool {
        self.files == [whole::FILE]
    }

    /// Reads a folder's tokenizer and special tokens.
    pub(crate) fn read(&self, folder: &Path) -> Result<(Tokenizer, SpecialTokens), ModelError> {
        let path = folder.join(self.files[0]);
        let failed = |problem: Problem| problem.at(&path);
        let file = fs_err::read(&path).map_err(|error| failed(error.to_string().into()))?;
        let is_byte_level = self.is_complete() && names_byte_level(&file);
        let mut special = SpecialTokens::read(folder, is_byte_level)?;
        let tokenizer = (self.build)(folder, &file, &mut special).map_err(failed)?;
        Ok((tokenizer, special))
    }

    /// The end of messages about folders without a tokenizer, after "has".
    pub(crate) fn lacking() -> String {
        let files = FORMATS.iter().map(|format| format!("`{}`", format.files.join("` with `")));
        format!("none of the tokenizer files {}", files.collect::<Vec<_>>().join(", "))
    }
}

/// Why a tokenizer cannot be built.
#[derive(Debug)]
pub(crate) enum Problem {
    /// The file is malformed.
    Broken(String),
    /// The file is fine, but nothing here reads it.
    Unsupported(String),
    /// Another file is malformed.
    Other(ModelError),
}

impl Problem {
    /// The error for a file with this problem.
    pub(crate) fn at(self, path: &Path) -> ModelError {
        let error = |kind, problem| {
            ModelError::new(kind, format!("Cannot load the tokenizer `{}`: {problem}", path.display()))
        };
        match self {
            Self::Broken(problem) => error(ModelErrorKind::Configuration, problem)
                .hint("Save the tokenizer again, or download the file again if it is damaged"),
            Self::Other(error) => error,
            Self::Unsupported(problem) => error(ModelErrorKind::Unsupported, problem).hint(OTHER_TOKENIZER),
        }
    }
}

impl From<ModelError> for Problem {
    fn from(error: ModelError) -> Self {
        Self::Other(error)
    }
}

impl From<String> for Problem {
    fn from(problem: String) -> Self {
        Self::Broken(problem)
    }
}

impl From<&str> for Problem {
    fn from(problem: &str) -> Self {
        Self::Broken(problem.to_owned())
    }
}

impl From<tokenizers::Error> for Problem {
    fn from(error: tokenizers::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

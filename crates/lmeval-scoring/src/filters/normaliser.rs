//! Normalisation of strings before options are searched for.

use std::borrow::Cow;

use lmeval_pycompat::re::{Error, Regex};
use lmeval_pycompat::strings::{is_punctuation, lower};

use super::{Arguments, FilterError};

/// Removes the ignored parts of strings: matches of patterns, then case, then punctuation.
#[derive(Clone, Debug)]
pub(super) struct Normaliser {
    ignored: Vec<Regex>,
    case: bool,
    punctuation: bool,
}

impl Normaliser {
    /// Creates the normaliser from a step's arguments.
    pub(super) fn from_arguments(arguments: &Arguments<'_>) -> Result<Self, FilterError> {
        Ok(Self {
            ignored: arguments.patterns("regexes_to_ignore")?,
            case: arguments.truth("ignore_case"),
            punctuation: arguments.truth("ignore_punctuation"),
        })
    }

    /// Whether strings remain unchanged.
    pub(super) fn is_idle(&self) -> bool {
        self.ignored.is_empty() && !self.case && !self.punctuation
    }

    /// The normalised string.
    pub(super) fn apply<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, Error> {
        let mut text = Cow::Borrowed(text);
        for regex in &self.ignored {
            text = regex.remove_all(text)?;
        }
        if self.case {
            text = Cow::Owned(lower(&text));
        }
        if self.punctuation && text.contains(is_punctuation) {
            text = Cow::Owned(text.replace(is_punctuation, ""));
        }
        Ok(text)
    }
}

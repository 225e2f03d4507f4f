//! Errors of filters.

use lmeval_pycompat::re;

use crate::host::HostError;
use crate::registry::UnknownName;
use lmeval_core::Diagnose;
use lmeval_core::{DocId, DocumentError};

/// The error of a filter that could not be created or applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// An unknown filter name.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// The filter is Python code and no interpreter is available.
    #[error("The filter `{filter}` needs Python")]
    NeedsPython {
        /// The name of the filter.
        filter: String,
    },
    /// A malformed step.
    #[error("A filter step must be {expected}, not `{found}`")]
    Step {
        /// The expected shape.
        expected: &'static str,
        /// The Python type name, or the part it lacks.
        found: String,
    },
    /// An argument that the filter does not have.
    #[error("The filter `{filter}` has no argument `{argument}`")]
    UnknownArgument {
        /// The name of the filter.
        filter: String,
        /// The unknown argument.
        argument: String,
        /// Similar arguments.
        nearest: Vec<String>,
    },
    /// A missing argument.
    #[error("The filter `{filter}` needs the argument `{argument}`, {expected}")]
    MissingArgument {
        /// The name of the filter.
        filter: String,
        /// The missing argument.
        argument: String,
        /// The expected value.
        expected: &'static str,
    },
    /// An argument of the wrong type.
    #[error("The argument `{argument}` of the filter `{filter}` must be {expected}, not `{found}`")]
    WrongArgument {
        /// The name of the filter.
        filter: String,
        /// The name of the argument.
        argument: String,
        /// The expected value.
        expected: &'static str,
        /// The Python type name of the value.
        found: &'static str,
    },
    /// An argument that is not a valid regular expression.
    #[error("The argument `{argument}` of the filter `{filter}` must be a regular expression")]
    Pattern {
        /// The name of the filter.
        filter: String,
        /// The name of the argument.
        argument: String,
        /// The error of the regular expression.
        #[source]
        source: re::Error,
    },
    /// A pattern built from a document is not a valid regular expression.
    #[error("The filter `{filter}` cannot search for the options of document {document}")]
    DocumentPattern {
        /// The name of the filter.
        filter: String,
        /// The document with the options.
        document: DocId,
        /// The error of the regular expression.
        #[source]
        source: re::Error,
    },
    /// A search exceeded the step limit.
    #[error(
        "The filter `{filter}` gave up on an answer to document {document}: the pattern `{pattern}` takes too many steps"
    )]
    Runaway {
        /// The name of the filter.
        filter: String,
        /// The document of the answer.
        document: DocId,
        /// The regular expression.
        pattern: String,
    },
    /// Fewer matches than `group_select` requires.
    #[error(
        "The filter `{filter}` selects match {wanted} of `{pattern}` (`group_select`), but an answer to document \
         {document} has {found}"
    )]
    NoSuchMatch {
        /// The name of the filter.
        filter: String,
        /// The document of the answer.
        document: DocId,
        /// The regular expression.
        pattern: String,
        /// The value of `group_select`.
        wanted: i64,
        /// The number of matches.
        found: usize,
    },
    /// A request without answers.
    #[error("The filter `{filter}` needs an answer, but document {document} has none")]
    NoResponse {
        /// The name of the filter.
        filter: String,
        /// The document of the request.
        document: DocId,
    },
    /// A request with too few answers.
    #[error(
        "The filter `{filter}` needs {wanted} answers for each document, but document {document} has {found}"
    )]
    TooFewResponses {
        /// The name of the filter.
        filter: String,
        /// The document of the request.
        document: DocId,
        /// The number of answers needed.
        wanted: i64,
        /// The number of answers available.
        found: usize,
    },
    /// An answer of a type that the filter does not support.
    #[error("The filter `{filter}` expects {expected}, but an answer to document {document} is `{found}`")]
    WrongResponse {
        /// The name of the filter.
        filter: String,
        /// The document of the answer.
        document: DocId,
        /// The expected type.
        expected: &'static str,
        /// The Python type name of the answer.
        found: &'static str,
    },
    /// A document whose field is missing or of the wrong type.
    #[error(
        "The filter `{filter}` needs `{field}` of document {document} to be {expected}, not {}",
        found.map_or_else(|| "absent".to_owned(), |found| format!("`{found}`"))
    )]
    DocumentField {
        /// The name of the filter.
        filter: String,
        /// The index of the document.
        document: DocId,
        /// The name of the field.
        field: &'static str,
        /// The expected type.
        expected: &'static str,
        /// The Python type name of the field, if present.
        found: Option<&'static str>,
    },
    /// A document that could not be read.
    #[error("Cannot read document {document}")]
    Document {
        /// The index of the document.
        document: DocId,
        /// The error of the dataset.
        #[source]
        source: DocumentError,
    },
    /// A filter returned the wrong number of results.
    #[error("The filter returned results for {returned} requests instead of {given}")]
    Length {
        /// The number of requests.
        given: usize,
        /// The number of results.
        returned: usize,
    },
    /// A task function failed.
    #[error("The filter `{filter}` failed")]
    Host {
        /// The name of the filter.
        filter: String,
        /// The error of the host.
        #[source]
        source: HostError,
    },
    /// A filter that is only a name in the reference harness.
    #[error("The filter `{filter}` is not implemented in any version of the harness")]
    NotImplemented {
        /// The name of the filter.
        filter: String,
    },
    /// An error reported by a custom filter.
    #[error("The filter `{filter}` failed: {message}")]
    Other {
        /// The name of the filter.
        filter: String,
        /// The message of the filter.
        message: String,
    },
}

impl Diagnose for FilterError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Unknown(UnknownName { nearest, .. }) | Self::UnknownArgument { nearest, .. } => {
                nearest.iter().map(|name| format!("Did you mean `{name}`?")).collect()
            }
            Self::Runaway { .. } => {
                let advice = "Nested repeats such as `(a+)+` make a pattern try every way to split a string; write `a+`";
                vec![advice.to_owned()]
            }
            Self::NoSuchMatch { .. } => {
                vec![
                    "`group_select` is the index of a match, not of a group: 0 is the first and -1 the last"
                        .to_owned(),
                ]
            }
            Self::TooFewResponses { wanted, .. } => vec![format!("Set `repeats: {wanted}` in the task")],
            _ => Vec::new(),
        }
    }
}

impl FilterError {
    /// The error of a failed search: over the step limit, or an invalid pattern.
    pub(super) fn search(filter: &str, document: DocId, source: re::Error) -> Self {
        let filter = filter.to_owned();
        if source.kind() == re::ErrorKind::Limit {
            let pattern = source.source_text().to_owned();
            Self::Runaway { filter, document, pattern }
        } else {
            Self::DocumentPattern { filter, document, source }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_names_filter_field_and_document() {
        let error = FilterError::DocumentField {
            filter: "multi_choice_regex".into(),
            document: DocId(3),
            field: "choices",
            expected: "a list of strings",
            found: None,
        };
        assert_eq!(
            error.to_string(),
            "The filter `multi_choice_regex` needs `choices` of document 3 to be a list of strings, not absent"
        );
        assert!(error.hints().is_empty());
    }
}

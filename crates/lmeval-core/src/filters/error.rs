//! What can go wrong with a filter.

use lmeval_pycompat::re;

use crate::diagnostic::Diagnose;
use crate::document::{DocId, DocumentError};
use crate::host::HostError;
use crate::registry::UnknownName;

/// Why a filter cannot be made or applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// There is no filter of this name.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// The filter is Python code, and there is nothing that runs it.
    #[error("The filter `{filter}` needs Python")]
    NeedsPython {
        /// The filter.
        filter: String,
    },
    /// A step is not written as one.
    #[error("A filter step must be {expected}, not `{found}`")]
    Step {
        /// What it must be.
        expected: &'static str,
        /// Python's name of the type that it has, or the part that it lacks.
        found: String,
    },
    /// The filter has no such argument.
    #[error("The filter `{filter}` has no argument `{argument}`")]
    UnknownArgument {
        /// The filter.
        filter: String,
        /// The argument.
        argument: String,
        /// Arguments that look like it.
        nearest: Vec<String>,
    },
    /// An argument must be given.
    #[error("The filter `{filter}` needs the argument `{argument}`, {expected}")]
    MissingArgument {
        /// The filter.
        filter: String,
        /// The argument.
        argument: String,
        /// What its value must be.
        expected: &'static str,
    },
    /// An argument has a value of another type.
    #[error("The argument `{argument}` of the filter `{filter}` must be {expected}, not `{found}`")]
    WrongArgument {
        /// The filter.
        filter: String,
        /// The argument.
        argument: String,
        /// What its value must be.
        expected: &'static str,
        /// Python's name of the type that it has.
        found: &'static str,
    },
    /// An argument is not a regular expression.
    #[error("The argument `{argument}` of the filter `{filter}` must be a regular expression")]
    Pattern {
        /// The filter.
        filter: String,
        /// The argument.
        argument: String,
        /// What is wrong with it.
        #[source]
        source: re::Error,
    },
    /// A pattern that was made from a document is not a regular expression.
    #[error("The filter `{filter}` cannot search for the options of document {document}")]
    DocumentPattern {
        /// The filter.
        filter: String,
        /// The document.
        document: DocId,
        /// What is wrong with it.
        #[source]
        source: re::Error,
    },
    /// A pattern takes too long.
    #[error(
        "The filter `{filter}` gave up on an answer to document {document}: the pattern `{pattern}` takes too many steps"
    )]
    Runaway {
        /// The filter.
        filter: String,
        /// The document.
        document: DocId,
        /// The pattern.
        pattern: String,
    },
    /// A pattern was found less often than needed.
    #[error(
        "The filter `{filter}` is asked for match {wanted} of `{pattern}` (`group_select`), and an answer to document \
         {document} has {found}"
    )]
    NoSuchMatch {
        /// The filter.
        filter: String,
        /// The document.
        document: DocId,
        /// The pattern.
        pattern: String,
        /// The value of `group_select`.
        wanted: i64,
        /// How many matches there are.
        found: usize,
    },
    /// There are no answers to choose from.
    #[error("The filter `{filter}` needs an answer, and document {document} has none")]
    NoResponse {
        /// The filter.
        filter: String,
        /// The document.
        document: DocId,
    },
    /// There are too few answers.
    #[error(
        "The filter `{filter}` needs {wanted} answers for each document, and document {document} has {found}"
    )]
    TooFewResponses {
        /// The filter.
        filter: String,
        /// The document.
        document: DocId,
        /// How many are needed.
        wanted: i64,
        /// How many there are.
        found: usize,
    },
    /// An answer, or what stands for it, has a type that the filter cannot use.
    #[error("The filter `{filter}` needs {expected}, and an answer to document {document} is `{found}`")]
    WrongResponse {
        /// The filter.
        filter: String,
        /// The document.
        document: DocId,
        /// What is needed.
        expected: &'static str,
        /// Python's name of the type that it has.
        found: &'static str,
    },
    /// A document lacks something, or has it in another type.
    #[error(
        "The filter `{filter}` needs `{field}` of document {document} to be {expected}, not {}",
        found.map_or_else(|| "absent".to_owned(), |found| format!("`{found}`"))
    )]
    DocumentField {
        /// The filter.
        filter: String,
        /// The document.
        document: DocId,
        /// The field.
        field: &'static str,
        /// What it must be.
        expected: &'static str,
        /// Python's name of the type that it has, where it is there.
        found: Option<&'static str>,
    },
    /// A document cannot be read.
    #[error("Cannot read document {document}")]
    Document {
        /// The document.
        document: DocId,
        /// The cause.
        #[source]
        source: DocumentError,
    },
    /// A filter gave a wrong number of results.
    #[error("The filter gave results for {returned} requests, and there are {given}")]
    Length {
        /// How many requests there are.
        given: usize,
        /// How many it returned.
        returned: usize,
    },
    /// A function of the task failed.
    #[error("The filter `{filter}` failed")]
    Host {
        /// The filter.
        filter: String,
        /// The cause.
        #[source]
        source: HostError,
    },
    /// The filter has a name and nothing else.
    #[error("The filter `{filter}` does nothing in any version of the harness, so it cannot be applied")]
    NotImplemented {
        /// The filter.
        filter: String,
    },
    /// A filter of a program failed in a way of its own.
    #[error("The filter `{filter}` failed: {message}")]
    Other {
        /// The filter.
        filter: String,
        /// What went wrong.
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
                let advice =
                    "Nested repeats such as `(a+)+` make a pattern try every way to split a text; write `a+`";
                vec![advice.to_owned()]
            }
            Self::NoSuchMatch { .. } => {
                vec!["`group_select` counts matches, not groups; 0 is the first and -1 the last".to_owned()]
            }
            Self::TooFewResponses { wanted, .. } => vec![format!("Set `repeats: {wanted}` in the task")],
            _ => Vec::new(),
        }
    }
}

impl FilterError {
    /// The error of a search that did not end, or whose pattern is wrong.
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
    fn messages_name_everything() {
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

//! Filters that change each string independently.

use lmeval_pycompat::Value;

use super::parallel::change_each;
use super::{Filter, FilterDocs, FilterError, Filtered, Responses};

/// Applies a function to every answer; an answer that is not a string is an error.
#[derive(Clone, Copy, Debug)]
pub struct StringFilter {
    /// The name in errors.
    pub name: &'static str,
    /// Returns the new string, or `None` if it is unchanged.
    pub change: fn(&str) -> Option<String>,
}

impl Filter for StringFilter {
    fn apply(&self, mut responses: Responses, docs: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
        change_each(&mut responses, |request, answer| {
            let text = string(self.name, answer, docs, request)?;
            if let Some(changed) = (self.change)(text) {
                *answer = Value::from(changed);
            }
            Ok(())
        })?;
        Ok(responses.into())
    }

    fn needs_documents(&self) -> bool {
        false
    }

    fn is_per_request(&self) -> bool {
        true
    }
}

/// The string of an answer, or the error of a filter that accepts only strings.
pub(super) fn string<'a>(
    filter: &str,
    answer: &'a Value,
    docs: &FilterDocs<'_>,
    request: usize,
) -> Result<&'a str, FilterError> {
    answer.as_str().ok_or_else(|| FilterError::WrongResponse {
        filter: filter.to_owned(),
        document: docs.id(request),
        expected: "strings",
        found: answer.type_name(),
    })
}

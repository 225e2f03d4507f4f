//! The filter `uppercase`.

use lmeval_pycompat::Value;
use lmeval_pycompat::strings::upper;

use super::parallel::change_each;
use super::{Filter, FilterDocs, FilterError, Filtered, Responses};
use crate::registry::{FilterEntry, OptionTable};

/// The entry in the registry.
pub(super) fn entry() -> FilterEntry {
    FilterEntry::new("uppercase", |_, _| Ok(Box::new(Uppercase)))
        .options(OptionTable::NONE)
        .summary("Upper-cases every answer")
        .strict_in_v04()
}

/// Upper-cases every answer by the rules of Unicode.
///
/// It has no arguments. An answer that is not a string is an error.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uppercase;

impl Filter for Uppercase {
    fn apply(&self, mut responses: Responses, docs: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
        change_each(&mut responses, |request, answer| {
            let Value::Str(text) = &*answer else {
                return Err(FilterError::WrongResponse {
                    filter: "uppercase".to_owned(),
                    document: docs.id(request),
                    expected: "strings",
                    found: answer.type_name(),
                });
            };
            if !text.is_ascii() || text.bytes().any(|byte| byte.is_ascii_lowercase()) {
                *answer = Value::str(upper(text));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::FilterSpec;
    use crate::filters::testing::filter_one;

    #[test]
    fn applies_special_casing() {
        let step = FilterSpec::named("uppercase");
        for (answer, filtered) in [("ŉ straße", "ʼN STRASSE"), ("", ""), ("12 .", "12 .")] {
            assert_eq!(filter_one(&step, answer).unwrap(), Value::str(filtered));
        }
    }

    #[test]
    fn rejects_other_types() {
        assert_eq!(
            filter_one(&FilterSpec::named("uppercase"), 1_i64).unwrap_err().to_string(),
            "The filter `uppercase` expects strings, but an answer to document 0 is `int`"
        );
    }
}

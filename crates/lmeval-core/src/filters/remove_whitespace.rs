//! The filter `remove_whitespace`.

use lmeval_pycompat::Value;
use lmeval_pycompat::strings::strip;

use super::parallel::change_each;
use super::{Filter, FilterDocs, FilterError, Filtered, Responses};
use crate::registry::{FilterEntry, OptionTable};

/// The entry in the registry.
pub(super) fn entry() -> FilterEntry {
    FilterEntry::new("remove_whitespace", |_, _| Ok(Box::new(RemoveWhitespace)))
        .options(OptionTable::NONE)
        .summary("Strips whitespace at both ends")
}

/// Strips whitespace, as defined by Python's `str.strip`, at both ends of every answer.
///
/// It has no arguments. An answer that is not a string is an error.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemoveWhitespace;

impl Filter for RemoveWhitespace {
    fn apply(&self, mut responses: Responses, docs: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
        change_each(&mut responses, |request, answer| {
            let Value::Str(text) = &*answer else {
                return Err(FilterError::WrongResponse {
                    filter: "remove_whitespace".to_owned(),
                    document: docs.id(request),
                    expected: "strings",
                    found: answer.type_name(),
                });
            };
            let stripped = strip(text);
            if stripped.len() < text.len() {
                *answer = Value::str(stripped);
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
    fn strips_python_whitespace() {
        let step = FilterSpec::named("remove_whitespace");
        for (answer, filtered) in [
            ("  a b\n\t", "a b"),
            ("\u{a0}x\u{3000}\u{200b}", "x\u{3000}\u{200b}"),
            ("\u{1c}\u{1d}x\u{1f}\u{85}", "x"),
            (" \n", ""),
        ] {
            assert_eq!(filter_one(&step, answer).unwrap(), Value::str(filtered));
        }
        assert!(filter_one(&step, Value::None).is_err());
    }
}

//! The filter `take_first`.

use super::parallel::try_each;
use super::{Filter, FilterDocs, FilterError, Filtered, Responses};
use crate::registry::{FilterEntry, OptionTable};
use lmeval_core::Dialect;

/// The entry in the registry.
pub(super) fn entry() -> FilterEntry {
    FilterEntry::new("take_first", |_, context| Ok(Box::new(TakeFirst::new(&context.dialect))))
        .options(OptionTable::NONE)
        .summary("Keeps the first answer")
        .strict_in_v04()
}

/// Keeps the first answer of each request.
///
/// It has no arguments. A request without answers is an error. The result is a one-element list, or in dialect 0.4
/// the bare answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct TakeFirst {
    unwraps: bool,
}

impl TakeFirst {
    /// Creates the filter for a dialect.
    pub fn new(dialect: &Dialect) -> Self {
        Self { unwraps: dialect.filters.take_first_unwraps }
    }
}

impl Filter for TakeFirst {
    fn apply(&self, mut responses: Responses, docs: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
        try_each(&mut responses, |request, answers| {
            answers.truncate(1);
            if answers.is_empty() {
                let (filter, document) = ("take_first".to_owned(), docs.id(request));
                return Err(FilterError::NoResponse { filter, document });
            }
            Ok(())
        })?;
        Ok(Filtered { responses, bare: self.unwraps, fallbacks: Vec::new() })
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
    use crate::filters::testing::{apply, texts};

    #[test]
    fn keeps_first_answer_in_a_list() {
        let filtered = apply(&TakeFirst::default(), texts(&[&["a", "b"], &["c"]])).unwrap();
        assert_eq!(filtered, texts(&[&["a"], &["c"]]).into());
    }

    #[test]
    fn dialect_0_4_unwraps() {
        assert!(apply(&TakeFirst::new(&Dialect::V04), texts(&[&["a"]])).unwrap().bare);
    }

    #[test]
    fn rejects_a_request_without_answers() {
        let error = apply(&TakeFirst::default(), texts(&[&["a"], &[]])).unwrap_err();
        assert_eq!(error.to_string(), "The filter `take_first` needs an answer, but document 1 has none");
    }
}

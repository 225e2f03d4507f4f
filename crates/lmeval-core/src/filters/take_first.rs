//! `take_first`.

use super::parallel::try_each;
use super::{Filter, FilterDocs, FilterError, Filtered, Responses};
use crate::dialect::Dialect;
use crate::registry::{FilterEntry, OptionTable};

/// The entry of the registry.
pub(super) fn entry() -> FilterEntry {
    FilterEntry::new("take_first", |_, context| Ok(Box::new(TakeFirst::new(&context.dialect))))
        .options(OptionTable::NONE)
        .summary("Keeps the first answer")
        .strict_before()
}

/// Keeps the first answer of each request.
///
/// It has no arguments. A request without answers is an error. The answer stays in a list of one; in dialect 0.4 it
/// leaves the list.
#[derive(Clone, Copy, Debug, Default)]
pub struct TakeFirst {
    unwraps: bool,
}

impl TakeFirst {
    /// The filter by the rules of a dialect.
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

    fn works_apart(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::{apply, texts};

    #[test]
    fn the_first_stays_in_a_list() {
        let filtered = apply(&TakeFirst::default(), texts(&[&["a", "b"], &["c"]])).unwrap();
        assert_eq!(filtered, texts(&[&["a"], &["c"]]).into());
    }

    #[test]
    fn the_older_line_unwraps() {
        assert!(apply(&TakeFirst::new(&Dialect::V04), texts(&[&["a"]])).unwrap().bare);
    }

    #[test]
    fn no_answer_is_an_error() {
        let error = apply(&TakeFirst::default(), texts(&[&["a"], &[]])).unwrap_err();
        assert_eq!(error.to_string(), "The filter `take_first` needs an answer, and document 1 has none");
    }
}

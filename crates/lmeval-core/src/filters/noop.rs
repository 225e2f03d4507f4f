//! `noop`.

use lmeval_pycompat::Value;

use super::{Filter, FilterDocs, FilterError, Filtered, Responses};
use crate::registry::{FilterEntry, OptionTable};

/// The entry of the registry.
pub(super) fn entry() -> FilterEntry {
    FilterEntry::new("noop", |_, _| Ok(Box::new(Noop)))
        .options(OptionTable::NONE)
        .summary("Keeps every answer as it is")
}

/// Keeps every answer as it is.
///
/// It has no arguments. It is what runs when a pipeline and its scorer name no filter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Noop;

impl Filter for Noop {
    fn apply(&self, responses: Responses, _: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
        Ok(responses.into())
    }

    fn apply_bare(&self, values: Vec<Value>, _: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
        Ok(Filtered::from_bare(values))
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
    use crate::filters::testing::apply;

    #[test]
    fn nothing_changes() {
        let pair = Value::tuple([Value::Float(-1.5), Value::Bool(true)]);
        let answers = vec![vec![pair, Value::str(" a ")], Vec::new()];
        assert_eq!(apply(&Noop, answers.clone()).unwrap(), answers.into());
    }
}

//! The filter `noop`.

use lmeval_pycompat::Value;

use super::{Filter, FilterDocs, FilterError, Filtered, Responses};
use crate::registry::{FilterEntry, OptionTable};

/// The entry in the registry.
pub(super) fn entry() -> FilterEntry {
    FilterEntry::new("noop", |_, _| Ok(Box::new(Noop)))
        .options(OptionTable::NONE)
        .summary("Keeps every answer unchanged")
}

/// Keeps every answer unchanged.
///
/// It has no arguments. It is used if neither the pipeline nor its scorer names a filter.
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

    fn is_per_request(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::apply;

    #[test]
    fn keeps_answers() {
        let pair = Value::tuple([Value::Float(-1.5), Value::Bool(true)]);
        let answers = vec![vec![pair, Value::str(" a ")], Vec::new()];
        assert_eq!(apply(&Noop, answers.clone()).unwrap(), answers.into());
    }
}

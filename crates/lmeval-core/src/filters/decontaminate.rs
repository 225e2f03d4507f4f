//! `decontaminate`.

use super::{Arguments, Filter, FilterDocs, FilterError, Filtered, Responses};
use crate::registry::OptionKind;

/// A filter that has a name and an argument, and does nothing: applying it is an error.
///
/// | argument | default | |
/// |---|---|---|
/// | `path` | required | a text |
///
/// It is not among the filters that tasks can name unless a program registers it. What tasks say about
/// decontamination has no effect on scores.
#[derive(Clone, Copy, Debug)]
pub struct Decontaminate;

impl Decontaminate {
    /// The filter with the arguments of a step.
    pub fn from_arguments(arguments: &Arguments<'_>) -> Result<Self, FilterError> {
        arguments.required("path", OptionKind::Any)?;
        Ok(Self)
    }
}

impl Filter for Decontaminate {
    fn apply(&self, _: Responses, _: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
        Err(FilterError::NotImplemented { filter: "decontaminate".to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::{apply, texts};
    use crate::filters::{FilterContext, FilterSpec, Filters};
    use std::sync::Arc;

    #[test]
    fn a_program_can_register_it_but_not_apply_it() {
        let mut filters = Filters::default();
        let constructor = |arguments: &Arguments<'_>, _: &FilterContext| -> Result<Box<dyn Filter>, _> {
            Ok(Box::new(Decontaminate::from_arguments(arguments)?))
        };
        filters.register("decontaminate", Arc::new(constructor)).unwrap();
        let context = FilterContext::default();
        let step = FilterSpec::named("decontaminate");
        assert!(matches!(filters.make(&step, &context), Err(FilterError::MissingArgument { .. })));
        let filter = filters.make(&step.with("path", "p").with("extra", 1_i64), &context).unwrap();
        assert!(matches!(apply(&*filter, texts(&[&["a"]])), Err(FilterError::NotImplemented { .. })));
    }
}

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
    use crate::filters::{FilterContext, FilterSpec};
    use crate::registry::{FilterEntry, Registry};

    #[test]
    fn a_program_can_register_it_but_not_apply_it() {
        let mut registry = Registry::default();
        let entry = FilterEntry::new("decontaminate", |arguments, _| {
            Ok(Box::new(Decontaminate::from_arguments(arguments)?))
        });
        registry.register(entry).unwrap();
        let context = FilterContext::default();
        let step = FilterSpec::named("decontaminate");
        assert!(matches!(registry.filter(&step, &context), Err(FilterError::MissingArgument { .. })));
        let filter = registry.filter(&step.with("path", "p").with("extra", 1_i64), &context).unwrap();
        assert!(matches!(apply(&*filter, texts(&[&["a"]])), Err(FilterError::NotImplemented { .. })));
    }
}

//! Lookup of filters by name.

use std::sync::Arc;

use lmeval_pycompat::Dict;

use super::arguments::Arguments;
use super::ensemble::{EnsembleError, FilterEnsemble};
use super::error::FilterError;
use super::spec::{FilterFunction, FilterSpec};
use super::{
    Filter, choice_letter, custom, format_span, lowercase, majority_vote, map, multi_choice_regex, noop,
    regex, regex_pos, remove_whitespace, take_first, take_first_k, uppercase,
};
use crate::host::{Host, NoHost, display_reference};
use crate::registry::{
    Code, FilterEntry, OptionEntry, OptionKind, OptionProblem, OptionTable, Registry, UnknownOptions,
};
use lmeval_core::Dialect;

/// The environment in which filters are created.
#[derive(Clone, Debug)]
pub struct FilterContext {
    /// The rules of the run.
    pub dialect: Dialect,
    /// Runs filters that are Python code.
    pub host: Arc<dyn Host>,
}

impl Default for FilterContext {
    fn default() -> Self {
        Self { dialect: Dialect::default(), host: Arc::new(NoHost) }
    }
}

/// The built-in filters, one line each.
pub(crate) fn built_in() -> Vec<FilterEntry> {
    let entries = [
        noop::entry(),
        take_first::entry(),
        take_first_k::entry(),
        majority_vote::entry(),
        lowercase::entry(),
        uppercase::entry(),
        remove_whitespace::entry(),
        map::entry(),
        custom::entry(),
        regex::entry(),
        regex_pos::entry(),
        multi_choice_regex::entry(),
        choice_letter::entry(),
        format_span::entry(),
        planning_grammar(),
    ];
    entries.into_iter().map(FilterEntry::built_in).collect()
}

/// A Python filter of the task library.
fn planning_grammar() -> FilterEntry {
    const OPTIONS: &[OptionEntry] = &[
        OptionEntry::required("grammar_task", OptionKind::Text),
        OptionEntry::optional("clean", OptionKind::Any, "None"),
    ];
    FilterEntry::with_code("ACP_grammar_filter", Code::TaskCode)
        .options(OptionTable { known: OPTIONS.into(), unknown: UnknownOptions::PassedOn })
        .summary("Parses a planning answer with the grammar of its task")
}

impl Registry {
    /// Creates the filter of a step; checks its arguments.
    ///
    /// ```
    /// use lmeval_scoring::filters::{Filter, FilterContext, FilterDocs, FilterError, FilterSpec, Filtered, Responses};
    /// use lmeval_scoring::registry::{FilterEntry, Registry};
    ///
    /// #[derive(Debug)]
    /// struct TakeLast;
    ///
    /// impl Filter for TakeLast {
    ///     fn apply(&self, responses: Responses, _: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
    ///         let last = responses.into_iter().map(|mut answers| answers.pop().into_iter().collect());
    ///         Ok(Filtered::from(last.collect::<Responses>()))
    ///     }
    /// }
    ///
    /// let mut registry = Registry::default();
    /// registry.register(FilterEntry::new("take_last", |_, _| Ok(Box::new(TakeLast)))).unwrap();
    /// assert!(registry.filter(&FilterSpec::named("take_last"), &FilterContext::default()).is_ok());
    /// ```
    pub fn filter(&self, step: &FilterSpec, context: &FilterContext) -> Result<Box<dyn Filter>, FilterError> {
        let name = match &step.function {
            FilterFunction::Name(name) => name,
            FilterFunction::Class(class) => {
                return context.host.filter_of_class(class, &step.kwargs).map_err(|source| {
                    FilterError::Host { filter: display_reference(&class.reference), source }
                });
            }
        };
        let entry = self.filters.find(name)?;
        let arguments = Arguments::new(name, &step.kwargs);
        match &entry.code {
            Code::BuiltIn(make) | Code::Program(make) => {
                check(entry, &step.kwargs, &context.dialect)?;
                make(&arguments, context)
            }
            Code::Python(registered) => {
                let made = context.host.filter_of_class(&registered.function, arguments.kwargs());
                made.map_err(|source| FilterError::Host { filter: arguments.filter().to_owned(), source })
            }
            Code::TaskCode => Err(FilterError::NeedsPython { filter: name.clone() }),
        }
    }

    /// Creates the filter chain of a pipeline; checks the arguments of all steps.
    pub fn filter_ensemble(
        &self,
        name: impl Into<String>,
        steps: &[FilterSpec],
        context: &FilterContext,
    ) -> Result<FilterEnsemble, EnsembleError> {
        let mut ensemble = FilterEnsemble::new(name);
        for step in steps {
            match self.filter(step, context) {
                Ok(filter) => ensemble.push(step.function.name(), filter),
                Err(source) => return Err(ensemble.failure(ensemble.len(), step.function.name(), source)),
            }
        }
        Ok(ensemble)
    }
}

/// Checks arguments against the filter's option table.
fn check(entry: &FilterEntry, kwargs: &Dict, dialect: &Dialect) -> Result<(), FilterError> {
    let filter = entry.name.clone().into_owned();
    let strict = dialect.filters.refuse_unknown_arguments && entry.facts.strict_in_v04;
    let problem =
        entry.options.check(kwargs).into_iter().find(|problem| {
            problem.is_fatal() || (strict && matches!(problem, OptionProblem::Unknown { .. }))
        });
    match problem {
        None => Ok(()),
        Some(OptionProblem::Unknown { name, nearest, .. }) => {
            Err(FilterError::UnknownArgument { filter, argument: name, nearest })
        }
        Some(OptionProblem::Missing { name }) => {
            let expected = entry.options.get(&name).map_or("a value", |option| option.kind.expected());
            Err(FilterError::MissingArgument { filter, argument: name, expected })
        }
        Some(OptionProblem::WrongType { name, expected, found, .. }) => {
            Err(FilterError::WrongArgument { filter, argument: name, expected, found })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Noop;
    use super::*;
    use lmeval_core::Diagnose;
    use lmeval_pycompat::Value;

    fn error(step: &FilterSpec) -> String {
        Registry::default().filter(step, &FilterContext::default()).unwrap_err().to_string()
    }

    #[test]
    fn unknown_names_list_similar_ones() {
        assert_eq!(error(&FilterSpec::named("take_frist")), "`take_frist` is not a known filter");
        let error =
            Registry::default().filter(&FilterSpec::named("regexx"), &FilterContext::default()).unwrap_err();
        assert_eq!(error.hints(), ["Did you mean `regex`?"]);
    }

    #[test]
    fn checks_arguments_on_creation() {
        let cases = [
            (
                FilterSpec::named("regex").with("regex_patern", "a"),
                "The filter `regex` has no argument `regex_patern`",
            ),
            (
                FilterSpec::named("regex").with("group_select", "1"),
                "The argument `group_select` of the filter `regex` must be an int, not `str`",
            ),
            (
                FilterSpec::named("regex").with("regex_pattern", 5_i64),
                "The argument `regex_pattern` of the filter `regex` must be a str with a regular expression, not `int`",
            ),
            (
                FilterSpec::named("regex_pos").with("regex_pattern", "("),
                "The argument `regex_pattern` of the filter `regex_pos` must be a regular expression",
            ),
            (FilterSpec::named("take_first_k"), "The filter `take_first_k` needs the argument `k`, an int"),
            (FilterSpec::named("custom"), "The filter `custom` needs the argument `filter_fn`, a function"),
            (
                FilterSpec::named("map").with("mapping_dict", Value::list([])),
                "The argument `mapping_dict` of the filter `map` must be a dict, not `list`",
            ),
            (FilterSpec::named("ACP_grammar_filter"), "The filter `ACP_grammar_filter` needs Python"),
            (FilterSpec::named("decontaminate"), "`decontaminate` is not a known filter"),
        ];
        for (step, message) in cases {
            assert_eq!(error(&step), message);
        }
    }

    #[test]
    fn ignores_or_rejects_unknown_arguments() {
        let older = FilterContext { dialect: Dialect::V04, ..FilterContext::default() };
        for name in ["format_span", "lowercase", "majority_vote", "map", "take_first", "uppercase"] {
            let step = FilterSpec::named(name).with("foo", 1_i64);
            assert!(Registry::default().filter(&step, &FilterContext::default()).is_ok());
            assert!(Registry::default().filter(&step, &older).is_err());
        }
        for name in ["noop", "remove_whitespace"] {
            assert!(Registry::default().filter(&FilterSpec::named(name).with("foo", 1_i64), &older).is_ok());
        }
    }

    #[test]
    fn rejects_duplicate_names() {
        let mut registry = Registry::default();
        let entry = |name| FilterEntry::new(name, |_, _| Ok(Box::new(Noop)));
        assert!(registry.register(entry("noop")).is_err());
        registry.register(entry("mine")).unwrap();
        assert!(registry.register(entry("mine")).is_err());
        assert!(registry.filters.names().contains(&"mine"));
    }
}

//! Filters by name.

use std::fmt;
use std::sync::Arc;

use lmeval_pycompat::{Dict, Function};

use super::arguments::Arguments;
use super::ensemble::{EnsembleError, FilterEnsemble};
use super::error::FilterError;
use super::host::FilterHost;
use super::spec::{FilterFunction, FilterSpec};
use super::{
    Custom, Filter, FormatSpan, Lowercase, MajorityVote, MapFilter, MultiChoiceRegex, Noop, RegexFilter,
    RegexPos, RemoveWhitespace, TakeFirst, TakeFirstK, Uppercase,
};
use crate::dialect::Dialect;
use crate::host::{NoHost, shown_reference};
use crate::near::nearest;
use crate::registry::{AlreadyRegistered, Entry, FILTERS, FilterEntry, OptionProblem, Provider, UnknownName};

/// What filters are made with, beside their arguments.
#[derive(Clone, Debug)]
pub struct FilterContext {
    /// The rules of the run.
    pub dialect: Dialect,
    /// What runs filters that are Python code.
    pub host: Arc<dyn FilterHost>,
}

impl Default for FilterContext {
    fn default() -> Self {
        Self { dialect: Dialect::default(), host: Arc::new(NoHost) }
    }
}

/// Makes a filter, or says what is wrong with its arguments.
pub type FilterConstructor =
    Arc<dyn Fn(&Arguments<'_>, &FilterContext) -> Result<Box<dyn Filter>, FilterError> + Send + Sync>;

/// A built-in filter: its name and how it is made.
type BuiltIn = (&'static str, fn(&Arguments<'_>, &FilterContext) -> Result<Box<dyn Filter>, FilterError>);

/// The built-in filters.
const BUILT_IN: [BuiltIn; 13] = [
    ("custom", |arguments, context| Ok(Box::new(Custom::from_arguments(arguments, context)?))),
    ("format_span", |_, context| Ok(Box::new(FormatSpan::new(&context.dialect)))),
    ("lowercase", |_, _| Ok(Box::new(Lowercase))),
    ("majority_vote", |_, _| Ok(Box::new(MajorityVote))),
    ("map", |arguments, _| Ok(Box::new(MapFilter::from_arguments(arguments)?))),
    ("multi_choice_regex", |arguments, context| {
        Ok(Box::new(MultiChoiceRegex::from_arguments(arguments, &context.dialect)?))
    }),
    ("noop", |_, _| Ok(Box::new(Noop))),
    ("regex", |arguments, _| Ok(Box::new(RegexFilter::from_arguments(arguments)?))),
    ("regex_pos", |arguments, _| Ok(Box::new(RegexPos::from_arguments(arguments)?))),
    ("remove_whitespace", |_, _| Ok(Box::new(RemoveWhitespace))),
    ("take_first", |_, context| Ok(Box::new(TakeFirst::new(&context.dialect)))),
    ("take_first_k", |arguments, _| Ok(Box::new(TakeFirstK::from_arguments(arguments)?))),
    ("uppercase", |_, _| Ok(Box::new(Uppercase))),
];

/// The filters that ignore unknown arguments in one dialect and refuse them in the other.
const SOMETIMES_STRICT: [&str; 6] =
    ["format_span", "lowercase", "majority_vote", "map", "take_first", "uppercase"];

/// The filters that tasks can name: the built-in ones and those of the program.
///
/// ```
/// use std::sync::Arc;
/// use lmeval_core::filters::{Filter, FilterContext, FilterDocs, FilterError, FilterSpec, Filtered, Filters, Responses};
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
/// let mut filters = Filters::default();
/// filters.register("take_last", Arc::new(|_, _| Ok(Box::new(TakeLast)))).unwrap();
/// assert!(filters.make(&FilterSpec::named("take_last"), &FilterContext::default()).is_ok());
/// ```
#[derive(Clone, Default)]
pub struct Filters {
    added: Vec<(String, FilterConstructor)>,
    /// The classes of those that Python code registered.
    classes: Vec<(String, Arc<Function>)>,
}

impl Filters {
    /// Adds a filter; a name never changes its meaning.
    pub fn register(
        &mut self,
        name: impl Into<String>,
        constructor: FilterConstructor,
    ) -> Result<(), AlreadyRegistered> {
        let name = name.into();
        if self.names().contains(&name.as_str()) {
            return Err(AlreadyRegistered { kind: FilterEntry::KIND, name });
        }
        self.added.push((name, constructor));
        Ok(())
    }

    /// Adds a filter that Python code registered. It comes before what is built in.
    pub fn add_registered(&mut self, name: impl Into<String>, class: Arc<Function>) {
        let name = name.into();
        self.added.retain(|(known, _)| *known != name);
        self.classes.retain(|(known, _)| *known != name);
        self.classes.push((name.clone(), Arc::clone(&class)));
        let constructor: FilterConstructor = Arc::new(move |arguments, context| {
            let made = context.host.filter_of_class(&class, arguments.kwargs());
            made.map_err(|source| FilterError::Host { filter: arguments.filter().to_owned(), source })
        });
        self.added.push((name, constructor));
    }

    /// The class that Python code registered under a name.
    pub(crate) fn class_of(&self, name: &str) -> Option<&Arc<Function>> {
        self.classes.iter().find(|(known, _)| known == name).map(|(_, class)| class)
    }

    /// Makes the filter of a step; its arguments are checked here.
    pub fn make(&self, step: &FilterSpec, context: &FilterContext) -> Result<Box<dyn Filter>, FilterError> {
        let name = match &step.function {
            FilterFunction::Name(name) => name,
            FilterFunction::Class(class) => {
                return context.host.filter_of_class(class, &step.kwargs).map_err(|source| {
                    FilterError::Host { filter: shown_reference(&class.reference), source }
                });
            }
        };
        let arguments = Arguments::new(name, &step.kwargs);
        if let Some((_, constructor)) = self.added.iter().find(|(known, _)| known == name) {
            return constructor(&arguments, context);
        }
        let entry = FILTERS.iter().find(|entry| entry.name == name.as_str());
        if let Some((_, constructor)) = BUILT_IN.iter().find(|(known, _)| known == name) {
            if let Some(entry) = entry {
                check(entry, &step.kwargs, &context.dialect)?;
            }
            return constructor(&arguments, context);
        }
        if entry.is_some_and(|entry| entry.provider == Provider::TaskCode) {
            return Err(FilterError::NeedsPython { filter: name.clone() });
        }
        Err(self.unknown(name).into())
    }

    /// Makes the chain of a pipeline; the arguments of all steps are checked here.
    pub fn ensemble(
        &self,
        name: impl Into<String>,
        steps: &[FilterSpec],
        context: &FilterContext,
    ) -> Result<FilterEnsemble, EnsembleError> {
        let mut ensemble = FilterEnsemble::new(name);
        for step in steps {
            match self.make(step, context) {
                Ok(filter) => ensemble.push(step.function.name(), filter),
                Err(source) => return Err(ensemble.failure(ensemble.len(), step.function.name(), source)),
            }
        }
        Ok(ensemble)
    }

    /// All names, sorted.
    pub fn names(&self) -> Vec<&str> {
        let built_in = BUILT_IN.iter().map(|(name, _)| *name);
        let mut names: Vec<&str> = built_in.chain(self.added.iter().map(|(name, _)| name.as_str())).collect();
        names.sort_unstable();
        names
    }

    fn unknown(&self, name: &str) -> UnknownName {
        let known = self.names();
        UnknownName {
            kind: FilterEntry::KIND,
            name: name.to_owned(),
            nearest: nearest(name, known.iter().copied()).into_iter().map(str::to_owned).collect(),
            known: known.into_iter().map(str::to_owned).collect(),
        }
    }
}

impl fmt::Debug for Filters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Filters").field(&self.names()).finish()
    }
}

/// Compares arguments with the table of a filter.
fn check(entry: &FilterEntry, kwargs: &Dict, dialect: &Dialect) -> Result<(), FilterError> {
    let filter = entry.name.clone().into_owned();
    let strict = dialect.filters.refuse_unknown_arguments && SOMETIMES_STRICT.contains(&&*entry.name);
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
    use super::*;
    use crate::diagnostic::Diagnose;
    use lmeval_pycompat::Value;

    fn error(step: &FilterSpec) -> String {
        Filters::default().make(step, &FilterContext::default()).unwrap_err().to_string()
    }

    #[test]
    fn every_listed_filter_is_there() {
        let mut listed: Vec<&str> =
            FILTERS.iter().filter(|entry| entry.provider == Provider::BuiltIn).map(Entry::name).collect();
        listed.sort_unstable();
        assert_eq!(Filters::default().names(), listed);
    }

    #[test]
    fn unknown_names_have_neighbours() {
        assert_eq!(error(&FilterSpec::named("take_frist")), "`take_frist` is not a known filter");
        let error =
            Filters::default().make(&FilterSpec::named("regexx"), &FilterContext::default()).unwrap_err();
        assert_eq!(error.hints(), ["Did you mean `regex`?"]);
    }

    #[test]
    fn arguments_are_checked_when_a_filter_is_made() {
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
    fn unknown_arguments_are_ignored_or_refused() {
        let older = FilterContext { dialect: Dialect::V04, ..FilterContext::default() };
        for name in SOMETIMES_STRICT {
            let step = FilterSpec::named(name).with("foo", 1_i64);
            assert!(Filters::default().make(&step, &FilterContext::default()).is_ok());
            assert!(Filters::default().make(&step, &older).is_err());
        }
        for name in ["noop", "remove_whitespace"] {
            assert!(Filters::default().make(&FilterSpec::named(name).with("foo", 1_i64), &older).is_ok());
        }
    }

    #[test]
    fn a_name_is_registered_once() {
        let mut filters = Filters::default();
        let taken = filters.register("noop", Arc::new(|_, _| Ok(Box::new(Noop))));
        assert!(taken.is_err());
        filters.register("mine", Arc::new(|_, _| Ok(Box::new(Noop)))).unwrap();
        assert!(filters.register("mine", Arc::new(|_, _| Ok(Box::new(Lowercase)))).is_err());
        assert!(filters.names().contains(&"mine"));
    }
}

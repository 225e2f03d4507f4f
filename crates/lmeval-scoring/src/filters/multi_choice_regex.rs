//! The filter `multi_choice_regex`.

use std::sync::OnceLock;

use lmeval_pycompat::Value;
use lmeval_pycompat::re::{Flags, Regex};
use lmeval_pycompat::strings::strip;

use super::found::{FoundItem, find};
use super::literals::Literals;
use super::normaliser::Normaliser;
use super::parallel::try_each;
use super::regex::{DEFAULT_FALLBACK, DEFAULT_PATTERN};
use super::sequence::items;
use super::{Arguments, Filter, FilterDocs, FilterError, Filtered, Responses};
use crate::registry::{FilterEntry, OptionEntry, OptionKind, OptionTable};
use lmeval_core::Dialect;
use lmeval_core::DocId;

/// The name used in errors.
const NAME: &str = "multi_choice_regex";

const OPTIONS: &[OptionEntry] = &[
    OptionEntry::optional("regex_pattern", OptionKind::Pattern, r"'#### (\\-?[0-9\\.\\,]+)'"),
    OptionEntry::optional("group_select", OptionKind::Integer, "0"),
    OptionEntry::optional("fallback", OptionKind::Any, "'[invalid]'"),
    OptionEntry::optional("ignore_case", OptionKind::Truth, "False"),
    OptionEntry::optional("ignore_punctuation", OptionKind::Truth, "False"),
    OptionEntry::optional("regexes_to_ignore", OptionKind::Patterns, "None"),
];

/// The entry in the registry.
pub(super) fn entry() -> FilterEntry {
    FilterEntry::new("multi_choice_regex", |arguments, context| {
        Ok(Box::new(MultiChoiceRegex::from_arguments(arguments, &context.dialect)?))
    })
    .options(OptionTable::strict(OPTIONS))
    .summary("Extracts the letter of the option that the answer names")
}

/// Extracts the letter of the option that each answer names.
///
/// | argument | default | |
/// |---|---|---|
/// | `regex_pattern` | `#### (\-?[0-9\.\,]+)` | the first pattern to search for, see `regex` |
/// | `group_select` | `0` | the index of the match to use, in every search |
/// | `fallback` | `"[invalid]"` | the replacement of answers without a match |
/// | `ignore_case` | `false` | ignore case when searching for the text of an option |
/// | `ignore_punctuation` | `false` | ignore punctuation when searching for the text of an option |
/// | `regexes_to_ignore` | `null` | patterns whose matches are ignored when searching for the text of an option |
///
/// Other arguments are errors. Every document needs `choices`, a list of strings; the first one is called `(A)`. An
/// answer is searched for the pattern, then for the text of an option, then for a colon and a letter. The first
/// search with a non-empty match decides: the result is the match of the pattern, or the letter in parentheses.
#[derive(Debug)]
pub(crate) struct MultiChoiceRegex {
    regex: Regex,
    group_select: i64,
    fallback: Value,
    normaliser: Normaliser,
    longest_first: bool,
    letters: [OnceLock<Regex>; CACHED],
}

/// The largest number of options for which the letter pattern is cached.
const CACHED: usize = 27;

impl MultiChoiceRegex {
    /// Creates the filter from a step's arguments.
    pub(crate) fn from_arguments(arguments: &Arguments<'_>, dialect: &Dialect) -> Result<Self, FilterError> {
        Ok(Self {
            regex: arguments.pattern("regex_pattern", DEFAULT_PATTERN)?,
            group_select: arguments.integer("group_select", 0)?,
            fallback: arguments.value_or("fallback", DEFAULT_FALLBACK),
            normaliser: Normaliser::from_arguments(arguments)?,
            longest_first: dialect.filters.longest_choice_first,
            letters: [const { OnceLock::new() }; CACHED],
        })
    }

    /// Replaces the answers to one request; returns the indices of fallbacks.
    fn extract(
        &self,
        request: usize,
        answers: &mut [Value],
        docs: &FilterDocs<'_>,
    ) -> Result<Vec<u32>, FilterError> {
        let document = docs.id(request);
        let choices = choices(request, docs)?;
        let mut options = None;
        let mut fallbacks = Vec::new();
        for (index, answer) in (0..).zip(answers) {
            let text = answer.as_str().unwrap_or_default();
            let found = match self.search(&self.regex, text, document)? {
                Some(found) => Some(Value::str(found)),
                None => {
                    let options = match &mut options {
                        Some(options) => options,
                        unset => unset.insert(self.options(&choices, document)?),
                    };
                    match self.find_option(options, answer, document)? {
                        Some(found) => Some(found),
                        None => self.find_letter(choices.len(), text, document)?,
                    }
                }
            };
            if found.is_none() {
                fallbacks.push(index);
            }
            *answer = found.unwrap_or_else(|| self.fallback.clone());
        }
        Ok(fallbacks)
    }

    /// The match selected by `group_select`, stripped, unless it is empty.
    fn search<'t>(
        &self,
        regex: &Regex,
        text: &'t str,
        document: DocId,
    ) -> Result<Option<&'t str>, FilterError> {
        let found = find(regex, text, self.group_select)
            .map_err(|source| FilterError::search(NAME, document, source))?;
        self.text_of(found, document, || regex.pattern().to_owned())
    }

    /// The selected match, stripped, unless it is empty.
    fn text_of<'t>(
        &self,
        found: FoundItem<'t>,
        document: DocId,
        pattern: impl FnOnce() -> String,
    ) -> Result<Option<&'t str>, FilterError> {
        match found {
            FoundItem::Nothing | FoundItem::NoText => Ok(None),
            FoundItem::Text(found) => Ok(Some(strip(found)).filter(|text| !text.is_empty())),
            FoundItem::OutOfRange { matches } => Err(FilterError::NoSuchMatch {
                filter: NAME.to_owned(),
                document,
                pattern: pattern(),
                wanted: self.group_select,
                found: matches,
            }),
        }
    }

    /// The letter of the option whose text is found.
    fn find_option(
        &self,
        options: &Literals,
        answer: &Value,
        document: DocId,
    ) -> Result<Option<Value>, FilterError> {
        if answer.as_str().is_none() && !self.normaliser.is_idle() {
            return Err(FilterError::WrongResponse {
                filter: NAME.to_owned(),
                document,
                expected: "strings",
                found: answer.type_name(),
            });
        }
        let text = self
            .normaliser
            .apply(answer.as_str().unwrap_or_default())
            .map_err(|source| FilterError::search(NAME, document, source))?;
        let found = options.find(&text, self.group_select);
        let found = self.text_of(found, document, || options.pattern())?;
        // The last of equal options provides the letter; a match that stripping changed equals none of them.
        Ok(found.map(|found| {
            let option = options.last_index(found);
            option.map_or_else(|| Value::str(found), |option| Value::str(format!("({})", letter(option))))
        }))
    }

    /// The letter after a colon.
    fn find_letter(&self, count: usize, text: &str, document: DocId) -> Result<Option<Value>, FilterError> {
        let compile = || {
            let letters: Vec<String> = (0..count).map(|option| letter(option).to_string()).collect();
            Regex::new(&format!(r":[\s]*({})", letters.join("|")), Flags::NONE)
                .map_err(|source| FilterError::search(NAME, document, source))
        };
        let compiled;
        let regex = match self.letters.get(count) {
            None => {
                compiled = compile()?;
                &compiled
            }
            Some(kept) => match kept.get() {
                Some(regex) => regex,
                None => {
                    let regex = compile()?;
                    kept.get_or_init(|| regex)
                }
            },
        };
        let found = self.search(regex, text, document)?;
        Ok(found.map(|found| Value::str(format!("({found})"))))
    }

    fn options(&self, choices: &[Value], document: DocId) -> Result<Literals, FilterError> {
        let mut texts = Vec::with_capacity(choices.len());
        for choice in choices {
            let text = choice.as_str().ok_or_else(|| wrong_choices(document, Some(choice.type_name())))?;
            let text = self.normaliser.apply(strip(text));
            let text = text.map_err(|source| FilterError::search(NAME, document, source))?;
            texts.push(text.into_owned());
        }
        Ok(Literals::new(texts, self.longest_first))
    }
}

/// The letter of an option: `A` and the code points that follow it.
fn letter(option: usize) -> char {
    let code = u32::try_from(option).ok().and_then(|option| option.checked_add(u32::from('A')));
    code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The options of a request's document.
fn choices(request: usize, docs: &FilterDocs<'_>) -> Result<Vec<Value>, FilterError> {
    let document = docs.get(request)?;
    let Some(choices) = document.get_str("choices") else {
        return Err(wrong_choices(docs.id(request), None));
    };
    let wrong = |value: &Value| wrong_choices(docs.id(request), Some(value.type_name()));
    let texts = items(choices).ok_or_else(|| wrong(choices))?;
    match texts.iter().find(|text| text.as_str().is_none()) {
        Some(other) => Err(wrong(other)),
        None => Ok(texts),
    }
}

fn wrong_choices(document: DocId, found: Option<&'static str>) -> FilterError {
    let (filter, expected) = (NAME.to_owned(), "a list of strings");
    FilterError::DocumentField { filter, document, field: "choices", expected, found }
}

impl Filter for MultiChoiceRegex {
    fn apply(&self, mut responses: Responses, docs: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
        let fallbacks = try_each(&mut responses, |request, answers| self.extract(request, answers, docs))?;
        Ok(Filtered { responses, bare: false, fallbacks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::with_documents;
    use crate::filters::{FilterContext, FilterSpec};
    use crate::registry::Registry;
    use lmeval_pycompat::Dict;

    const LETTERS: &str = r"(\([A-Z]\))";

    fn step() -> FilterSpec {
        FilterSpec::named("multi_choice_regex").with("regex_pattern", LETTERS)
    }

    fn run(
        step: &FilterSpec,
        dialect: Dialect,
        choices: impl Into<Value>,
        answer: impl Into<Value>,
    ) -> Result<Value, FilterError> {
        let context = FilterContext { dialect, ..FilterContext::default() };
        let filter = Registry::default().filter(step, &context)?;
        let document: Dict = [(Value::str("choices"), choices.into())].into_iter().collect();
        let answers = vec![vec![answer.into()]];
        let filtered = with_documents(vec![document], |docs| filter.apply(answers, docs))?;
        Ok(filtered.responses[0][0].clone())
    }

    fn list(choices: &[&str]) -> Value {
        Value::list(choices.iter().map(|choice| Value::str(*choice)))
    }

    fn cities(step: &FilterSpec, answer: &str) -> Result<Value, FilterError> {
        run(step, Dialect::V05, list(&["Paris", "New York", "Rome"]), answer)
    }

    #[test]
    fn tries_three_searches_in_order() {
        let relaxed = step().with("ignore_case", true).with("ignore_punctuation", true);
        let last = step().with("group_select", -1_i64);
        let plain = FilterSpec::named("multi_choice_regex");
        for (step, answer, expected) in [
            (&step(), "The answer is (B).", "(B)"),
            (&step(), "it is New York!", "(B)"),
            (&step(), "new york", "[invalid]"),
            (&relaxed, "it is New York!", "(B)"),
            (&relaxed, "new york", "(B)"),
            (&relaxed, "NEW-YORK", "[invalid]"),
            (&step(), "Answer: C", "(C)"),
            (&step(), "Answer: D", "[invalid]"),
            (&last, "Rome then Paris", "(A)"),
            (&plain, "Rome and Paris", "(C)"),
        ] {
            assert_eq!(cities(step, answer).unwrap(), Value::str(expected), "{answer}");
        }
        assert!(matches!(
            cities(&step().with("group_select", 1_i64), "Rome"),
            Err(FilterError::NoSuchMatch { .. })
        ));
    }

    #[test]
    fn option_that_is_a_prefix_of_another() {
        let choices = list(&["Guilty", "Guilty of Romance"]);
        for (dialect, expected) in [(Dialect::V05, "(A)"), (Dialect::V04, "(B)")] {
            let found = run(&step(), dialect, choices.clone(), "Guilty of Romance").unwrap();
            assert_eq!(found, Value::str(expected));
        }
    }

    #[test]
    fn equal_empty_and_absent_options() {
        let run = |choices: &[&str], answer: &str| run(&step(), Dialect::V05, list(choices), answer);
        assert_eq!(run(&["x", "x "], "x").unwrap(), Value::str("(B)"));
        assert_eq!(run(&["", "x"], "x, that is: B").unwrap(), Value::str("(B)"));
        assert_eq!(run(&[], "a: b").unwrap(), Value::str("[invalid]"));
    }

    #[test]
    fn stripped_match_is_not_an_option() {
        let step = step().with("regexes_to_ignore", Value::list([Value::str("!")]));
        let found = run(&step, Dialect::V05, list(&["! x"]), "so x").unwrap();
        assert_eq!(found, Value::str("x"));
    }

    #[test]
    fn rejects_more_options_than_letters() {
        let many: Vec<String> = (0..27).map(|number| format!("option {number}.")).collect();
        let many = Value::list(many.into_iter().map(Value::from));
        let error = run(&step(), Dialect::V05, many.clone(), "none of them").unwrap_err();
        assert_eq!(
            error.to_string(),
            "The filter `multi_choice_regex` cannot search for the options of document 0"
        );
        assert_eq!(run(&step(), Dialect::V05, many, "option 26.").unwrap(), Value::str("([)"));
    }

    #[test]
    fn rejects_documents_without_options() {
        let absent = with_documents(vec![Dict::new()], |docs| {
            let filter = Registry::default().filter(&step(), &FilterContext::default())?;
            filter.apply(vec![vec![Value::str("(A)")]], docs)
        });
        assert_eq!(
            absent.unwrap_err().to_string(),
            "The filter `multi_choice_regex` needs `choices` of document 0 to be a list of strings, not absent"
        );
        assert!(run(&step(), Dialect::V05, 1_i64, "(A)").is_err());
        assert!(run(&step(), Dialect::V05, Value::list([Value::Int(1)]), "(A)").is_err());
    }

    #[test]
    fn other_types_are_empty_unless_normalised() {
        let choices = list(&["a"]);
        assert_eq!(
            run(&step(), Dialect::V05, choices.clone(), Value::None).unwrap(),
            Value::str("[invalid]")
        );
        let relaxed = step().with("ignore_case", true);
        assert!(run(&relaxed, Dialect::V05, choices, Value::None).is_err());
    }
}

//! Filters: from a model's answer to what is scored.

use std::borrow::Cow;

use super::Provider;
use super::options::{OptionEntry, OptionKind, OptionTable, UnknownOptions};
use super::table::Entry;

/// Knowledge about one filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterEntry {
    /// The name used in `function:`.
    pub name: Cow<'static, str>,
    /// Keyword arguments.
    pub options: OptionTable,
    /// Who computes it.
    pub provider: Provider,
    /// One line for listings.
    pub summary: Cow<'static, str>,
}

impl FilterEntry {
    const fn built_in(name: &'static str, options: OptionTable, summary: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            options,
            provider: Provider::BuiltIn,
            summary: Cow::Borrowed(summary),
        }
    }
}

impl Entry for FilterEntry {
    const KIND: &'static str = "filter";

    fn name(&self) -> &str {
        &self.name
    }
}

const REGEX: &[OptionEntry] = &[
    OptionEntry::optional("regex_pattern", OptionKind::Pattern, r"'#### (\\-?[0-9\\.\\,]+)'"),
    OptionEntry::optional("group_select", OptionKind::Integer, "0"),
    OptionEntry::optional("fallback", OptionKind::Any, "'[invalid]'"),
];

const REGEX_POS: &[OptionEntry] = &[
    OptionEntry::optional("regex_pattern", OptionKind::Pattern, r#""\\['(.*?)'\\]""#),
    OptionEntry::optional("group_select", OptionKind::Any, "0"),
    OptionEntry::optional("fallback", OptionKind::Any, "['invalid']"),
];

const MULTI_CHOICE_REGEX: &[OptionEntry] = &[
    OptionEntry::optional("regex_pattern", OptionKind::Pattern, r"'#### (\\-?[0-9\\.\\,]+)'"),
    OptionEntry::optional("group_select", OptionKind::Integer, "0"),
    OptionEntry::optional("fallback", OptionKind::Any, "'[invalid]'"),
    OptionEntry::optional("ignore_case", OptionKind::Truth, "False"),
    OptionEntry::optional("ignore_punctuation", OptionKind::Truth, "False"),
    OptionEntry::optional("regexes_to_ignore", OptionKind::Patterns, "None"),
];

const TAKE_FIRST_K: &[OptionEntry] = &[OptionEntry::required("k", OptionKind::Integer)];

const CUSTOM: &[OptionEntry] = &[OptionEntry::required("filter_fn", OptionKind::Function)];

const MAP: &[OptionEntry] = &[
    OptionEntry::optional("mapping_dict", OptionKind::Mapping, "{}"),
    OptionEntry::optional("default_value", OptionKind::Any, "None"),
];

const GRAMMAR: &[OptionEntry] = &[
    OptionEntry::required("grammar_task", OptionKind::Text),
    OptionEntry::optional("clean", OptionKind::Any, "None"),
];

/// The known filters.
pub static FILTERS: &[FilterEntry] = &[
    FilterEntry::built_in("noop", OptionTable::NONE, "Keeps every answer as it is"),
    FilterEntry::built_in("take_first", OptionTable::NONE, "Keeps the first answer"),
    FilterEntry::built_in("take_first_k", OptionTable::lenient(TAKE_FIRST_K), "Keeps the first k answers"),
    FilterEntry::built_in("majority_vote", OptionTable::NONE, "Keeps the most frequent answer"),
    FilterEntry::built_in("lowercase", OptionTable::NONE, "Lower-cases every answer"),
    FilterEntry::built_in("uppercase", OptionTable::NONE, "Upper-cases every answer"),
    FilterEntry::built_in("remove_whitespace", OptionTable::NONE, "Strips white space at both ends"),
    FilterEntry::built_in("map", OptionTable::lenient(MAP), "Looks every answer up in a dictionary"),
    FilterEntry::built_in(
        "custom",
        OptionTable::lenient(CUSTOM),
        "Calls a function with all answers and documents",
    ),
    FilterEntry::built_in("regex", OptionTable::strict(REGEX), "Takes what a pattern finds"),
    FilterEntry::built_in("regex_pos", OptionTable::strict(REGEX_POS), "Takes the part-of-speech tags"),
    FilterEntry::built_in(
        "multi_choice_regex",
        OptionTable::strict(MULTI_CHOICE_REGEX),
        "Takes the letter of the option that the answer names",
    ),
    FilterEntry::built_in("format_span", OptionTable::NONE, "Normalises labelled spans of named entities"),
    FilterEntry {
        name: Cow::Borrowed("ACP_grammar_filter"),
        options: OptionTable { known: Cow::Borrowed(GRAMMAR), unknown: UnknownOptions::PassedOn },
        provider: Provider::TaskCode,
        summary: Cow::Borrowed("Parses a planning answer with the grammar of its task"),
    },
];

//! The filter `regex`.

use std::sync::Arc;

use lmeval_pycompat::Value;
use lmeval_pycompat::re::Regex;
use lmeval_pycompat::strings::strip;

use super::extract::Extract;
use super::found::{FoundItem, find};
use super::{Arguments, FilterError};
use crate::registry::{FilterEntry, OptionEntry, OptionKind, OptionTable};
use lmeval_core::DocId;

/// The default pattern: the number after `####`.
pub(super) const DEFAULT_PATTERN: &str = r"#### (\-?[0-9\.\,]+)";
/// The default replacement of an answer without a match.
pub(super) const DEFAULT_FALLBACK: &str = "[invalid]";

const OPTIONS: &[OptionEntry] = &[
    OptionEntry::optional("regex_pattern", OptionKind::Pattern, r"'#### (\\-?[0-9\\.\\,]+)'"),
    OptionEntry::optional("group_select", OptionKind::Integer, "0"),
    OptionEntry::optional("fallback", OptionKind::Any, "'[invalid]'"),
];

/// The entry in the registry.
pub(super) fn entry() -> FilterEntry {
    FilterEntry::new("regex", |arguments, _| Ok(Box::new(RegexFilter::from_arguments(arguments)?)))
        .options(OptionTable::strict(OPTIONS))
        .summary("Extracts the match of a pattern")
}

/// Extracts the match of a pattern from each answer.
///
/// | argument | default | |
/// |---|---|---|
/// | `regex_pattern` | `#### (\-?[0-9\.\,]+)` | a pattern in Python's syntax; flags only inline, as in `(?i)` |
/// | `group_select` | `0` | the index of the match (not of the group) to use; negative indices count from the end |
/// | `fallback` | `"[invalid]"` | the replacement of answers without a match; any type |
///
/// Other arguments are errors. The result is the match's only group, or its first non-empty group, or the complete
/// match if there are no groups, with surrounding whitespace stripped. An empty match is a valid result, but several
/// groups that are all empty are not a match. Fewer matches than `group_select` requires are an error. An answer that
/// is not a string is treated as empty.
#[derive(Clone, Debug)]
pub(crate) struct RegexFilter {
    regex: Regex,
    group_select: i64,
    fallback: Value,
}

impl RegexFilter {
    /// Creates the filter from a step's arguments.
    pub(crate) fn from_arguments(arguments: &Arguments<'_>) -> Result<Self, FilterError> {
        Ok(Self {
            regex: arguments.pattern("regex_pattern", DEFAULT_PATTERN)?,
            group_select: arguments.integer("group_select", 0)?,
            fallback: arguments.value_or("fallback", DEFAULT_FALLBACK),
        })
    }
}

impl Extract for RegexFilter {
    fn extract(&self, document: DocId, answer: &mut Value) -> Result<bool, FilterError> {
        let text = match &*answer {
            Value::Str(text) => Arc::clone(text),
            _ => Arc::default(),
        };
        let found = find(&self.regex, &text, self.group_select)
            .map_err(|source| FilterError::search("regex", document, source))?;
        match found {
            FoundItem::Text(found) => {
                let stripped = strip(found);
                if stripped.len() < text.len() || answer.as_str().is_none() {
                    *answer = Value::str(stripped);
                }
                Ok(false)
            }
            FoundItem::Nothing => {
                *answer = self.fallback.clone();
                Ok(true)
            }
            FoundItem::NoText => {
                // Reference: the fallback is treated like a match here, and stripped.
                let fallback = self.fallback.as_str().ok_or_else(|| FilterError::WrongResponse {
                    filter: "regex".to_owned(),
                    document,
                    expected: "a string as `fallback` if all groups are empty",
                    found: self.fallback.type_name(),
                })?;
                *answer = Value::str(strip(fallback));
                Ok(true)
            }
            FoundItem::OutOfRange { matches } => Err(FilterError::NoSuchMatch {
                filter: "regex".to_owned(),
                document,
                pattern: self.regex.pattern().to_owned(),
                wanted: self.group_select,
                found: matches,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::FilterSpec;
    use crate::filters::testing::{apply, filter_one, texts};

    fn step(pattern: &str, group_select: i64) -> FilterSpec {
        FilterSpec::named("regex").with("regex_pattern", pattern).with("group_select", group_select)
    }

    #[test]
    fn selects_and_strips_matches() {
        let several = r"(-?[$0-9.,]{2,})|(-?[0-9]+)";
        let looking = "(?=(female|woman|man|male))";
        for (pattern, group_select, answer, expected) in [
            (DEFAULT_PATTERN, 0, "foo #### 1,234.", "1,234."),
            (DEFAULT_PATTERN, 0, "#### -5 #### 7", "-5"),
            (DEFAULT_PATTERN, -1, "#### -5 #### 7", "7"),
            (DEFAULT_PATTERN, 1, "nothing", "[invalid]"),
            (several, -1, "total is $1,200.50 or 7", "7"),
            ("(a?)(b?)x", 0, "xx", "[invalid]"),
            ("(a?)x", 0, "xx", ""),
            ("(a)?x", 0, "xx", ""),
            (r" \d+ ", 0, "  the 42 cats ", "42"),
            ("b*", -1, "ab", ""),
            ("b*", 1, "ab", "b"),
            (looking, 0, "a woman and a man", "woman"),
            (looking, -1, "a woman and a man", "man"),
            ("( )(b)", 0, " b", ""),
            (".*", 0, "whole", "whole"),
            (r"\.$", 0, "end.\n", "."),
        ] {
            let filtered = filter_one(&step(pattern, group_select), answer).unwrap();
            assert_eq!(filtered, Value::str(expected), "{pattern} {group_select} {answer}");
        }
    }

    #[test]
    fn other_types_are_empty() {
        for answer in [Value::None, Value::Int(42), Value::list([Value::str("#### 1")])] {
            assert_eq!(filter_one(&FilterSpec::named("regex"), answer).unwrap(), Value::str("[invalid]"));
        }
        assert_eq!(filter_one(&step("x?", 0), Value::None).unwrap(), Value::str(""));
    }

    #[test]
    fn strips_fallback_only_for_empty_groups() {
        let plain = step("(y)", 0).with("fallback", " no ");
        assert_eq!(filter_one(&plain, "x").unwrap(), Value::str(" no "));
        let groups = step("(a?)(b?)x", 0).with("fallback", " no ");
        assert_eq!(filter_one(&groups, "x").unwrap(), Value::str("no"));
        let number = step("(a?)(b?)x", 0).with("fallback", 7_i64);
        assert_eq!(filter_one(&number, "y").unwrap(), Value::Int(7));
        assert!(matches!(filter_one(&number, "x"), Err(FilterError::WrongResponse { .. })));
    }

    #[test]
    fn rejects_too_few_matches() {
        let error = filter_one(&step(DEFAULT_PATTERN, 1), "#### -5").unwrap_err();
        assert_eq!(
            error.to_string(),
            r"The filter `regex` selects match 1 of `#### (\-?[0-9\.\,]+)` (`group_select`), but an answer to document 0 has 1"
        );
        assert!(filter_one(&step("a", -3), "aa").is_err());
        assert!(filter_one(&step("a", i64::MIN), "aa").is_err());
        assert_eq!(filter_one(&step("a", -2), "aa").unwrap(), Value::str("a"));
    }

    #[test]
    fn notes_fallbacks() {
        let kwargs = step("(a?)(b?)x", 0).kwargs;
        let filter = RegexFilter::from_arguments(&Arguments::new("regex", &kwargs)).unwrap();
        let filtered = apply(&filter, texts(&[&["ax", "x", "y"], &["bx"]])).unwrap();
        assert_eq!(filtered.fallbacks, [vec![1, 2], vec![]]);
    }
}

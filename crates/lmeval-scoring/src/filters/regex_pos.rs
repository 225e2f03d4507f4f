//! The filter `regex_pos`.

use lmeval_pycompat::Value;
use lmeval_pycompat::re::Regex;

use super::extract::Extract;
use super::found::own_pattern;
use super::sequence::items;
use super::{Arguments, FilterError};
use crate::registry::{FilterEntry, OptionEntry, OptionKind, OptionTable};
use lmeval_core::DocId;

const OPTIONS: &[OptionEntry] = &[
    OptionEntry::optional("regex_pattern", OptionKind::Pattern, r#""\\['(.*?)'\\]""#),
    OptionEntry::optional("group_select", OptionKind::Any, "0"),
    OptionEntry::optional("fallback", OptionKind::Any, "['invalid']"),
];

/// The entry in the registry.
pub(super) fn entry() -> FilterEntry {
    FilterEntry::new("regex_pos", |arguments, _| Ok(Box::new(RegexPos::from_arguments(arguments)?)))
        .options(OptionTable::strict(OPTIONS))
        .summary("Extracts part-of-speech tags")
}

/// Extracts part-of-speech tags from each answer.
///
/// | argument | default | |
/// |---|---|---|
/// | `regex_pattern` | `\['(.*?)'\]` | must be a valid pattern, but is not used |
/// | `group_select` | `0` | not used |
/// | `fallback` | `["invalid"]` | the replacement of answers without tags |
///
/// Other arguments are errors. A string is searched for pairs as Python prints them, `('cat', 'NOUN')`; a sequence of
/// pairs is used directly. The result is the list of the second items.
#[derive(Clone, Debug)]
pub(crate) struct RegexPos {
    pairs: Regex,
    fallback: Value,
}

impl RegexPos {
    /// Creates the filter from a step's arguments.
    pub(crate) fn from_arguments(arguments: &Arguments<'_>) -> Result<Self, FilterError> {
        // Reference: the pattern is compiled, but another one is used.
        arguments.pattern("regex_pattern", r"\['(.*?)'\]")?;
        let pairs = own_pattern(r"\('([^']*)', '([^']*)'\)");
        let fallback = match arguments.value_or("fallback", Value::None) {
            Value::None => Value::list([Value::str("invalid")]),
            given => given,
        };
        Ok(Self { pairs, fallback })
    }

    fn tags(&self, document: DocId, answer: &Value) -> Result<Vec<Value>, FilterError> {
        if let Value::Str(text) = answer {
            let found = self
                .pairs
                .find_iter(text)
                .map_err(|source| FilterError::search("regex_pos", document, source))?;
            return Ok(found.iter().map(|pair| Value::str(pair.group(2).unwrap_or_default())).collect());
        }
        let wrong = |found: &Value| FilterError::WrongResponse {
            filter: "regex_pos".to_owned(),
            document,
            expected: "strings or lists of pairs",
            found: found.type_name(),
        };
        let pairs = items(answer).ok_or_else(|| wrong(answer))?;
        let tags = pairs.iter().map(|pair| match items(pair).as_deref() {
            Some([_, tag]) => Ok(tag.clone()),
            _ => Err(wrong(pair)),
        });
        tags.collect()
    }
}

impl Extract for RegexPos {
    fn extract(&self, document: DocId, answer: &mut Value) -> Result<bool, FilterError> {
        let tags = self.tags(document, answer)?;
        let fell_back = tags.is_empty();
        *answer = if fell_back { self.fallback.clone() } else { Value::from(tags) };
        Ok(fell_back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::FilterSpec;
    use crate::filters::testing::filter_one;

    fn tags(names: &[&str]) -> Value {
        Value::list(names.iter().map(|name| Value::str(*name)))
    }

    #[test]
    fn extracts_tags_from_strings_and_pairs() {
        let step = FilterSpec::named("regex_pos");
        let text = "[('The', 'DET'), ('cat', 'NOUN')]";
        assert_eq!(filter_one(&step, text).unwrap(), tags(&["DET", "NOUN"]));
        assert_eq!(filter_one(&step, "nothing").unwrap(), tags(&["invalid"]));
        let pair = Value::tuple([Value::str("a"), Value::str("X")]);
        assert_eq!(filter_one(&step, Value::list([pair])).unwrap(), tags(&["X"]));
        assert_eq!(filter_one(&step, Value::list([])).unwrap(), tags(&["invalid"]));
        assert!(filter_one(&step, 1_i64).is_err());
        assert!(filter_one(&step, Value::list([Value::str("abc")])).is_err());
    }

    #[test]
    fn other_arguments_have_no_effect() {
        let step = FilterSpec::named("regex_pos").with("regex_pattern", "x").with("group_select", "any");
        assert_eq!(filter_one(&step, "('a', 'B')").unwrap(), tags(&["B"]));
        let step = FilterSpec::named("regex_pos").with("fallback", Value::None);
        assert_eq!(filter_one(&step, "").unwrap(), tags(&["invalid"]));
    }
}

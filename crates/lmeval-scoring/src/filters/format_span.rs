//! The filter `format_span`.

use lmeval_pycompat::Value;
use lmeval_pycompat::re::{Error, Regex};
use lmeval_pycompat::strings::{lower, strip};

use super::found::own_pattern;
use super::parallel::change_each;
use super::strings::string;
use super::{Filter, FilterDocs, FilterError, Filtered, Responses};
use crate::registry::{FilterEntry, OptionTable};
use lmeval_core::Dialect;

/// Words for labels, in replacement order.
const LABELS: [(&str, &str); 15] = [
    ("person", "PER"),
    ("location", "LOC"),
    ("organization", "ORG"),
    ("counties", "LOC"),
    ("places", "LOC"),
    ("people", "PER"),
    ("persons", "PER"),
    ("company", "ORG"),
    ("country", "LOC"),
    ("continent", "LOC"),
    ("time", "DATE"),
    ("date", "DATE"),
    ("per", "PER"),
    ("loc", "LOC"),
    ("org", "ORG"),
];

/// The entry in the registry.
pub(super) fn entry() -> FilterEntry {
    FilterEntry::new("format_span", |_, context| Ok(Box::new(FormatSpan::new(&context.dialect))))
        .options(OptionTable::NONE)
        .summary("Normalises labelled spans of named entities")
        .strict_in_v04()
}

/// Normalises labelled spans of named entities to the form `per: ada $ loc: london`.
///
/// It has no arguments. An answer lists labels with their entities, as in `PERSON: Ada, Alan $$ location: London`;
/// words such as `person` map to `per`, `loc`, `org` and `date`. Spans are separated by `$$`, `$` or a line break,
/// entities by commas; entities named `none` are dropped. An answer that is not a string is an error.
///
/// Label words are replaced everywhere, even inside entities, where they turn upper-case (`upDATE`); dialect 0.4
/// replaces them only before a colon.
#[derive(Clone, Debug)]
pub(crate) struct FormatSpan {
    spans: Regex,
    before_colon: Vec<(Regex, String)>,
}

impl FormatSpan {
    /// Creates the filter for a dialect.
    pub(crate) fn new(dialect: &Dialect) -> Self {
        let before_colon =
            |&(word, label): &(&str, &str)| (own_pattern(&format!(r"\b{word}\s*:")), format!("{label}:"));
        Self {
            spans: own_pattern(r"\b(PER|LOC|ORG|DATE):\s*([^$]+)"),
            before_colon: if dialect.filters.labels_before_colon {
                LABELS.iter().map(before_colon).collect()
            } else {
                Vec::new()
            },
        }
    }

    fn format(&self, text: &str) -> Result<String, Error> {
        let mut text = lower(text);
        if self.before_colon.is_empty() {
            for (word, label) in LABELS {
                if text.contains(word) {
                    text = text.replace(word, label);
                }
            }
        } else {
            for (regex, label) in &self.before_colon {
                text = regex.sub(label, &text, 0)?;
            }
        }
        let text = text.replace("$$", "$");
        // The remaining suffix decides whether a label without entities is found.
        let text = if self.before_colon.is_empty() {
            text.strip_suffix("$$").unwrap_or(&text)
        } else {
            text.trim_end_matches('$')
        };
        let text = text.replace('\n', "$");
        let mut formatted = String::new();
        for span in self.spans.find_iter(strip(&text))? {
            let label = lower(span.group(1).unwrap_or_default());
            for entity in span.group(2).unwrap_or_default().split(',').map(strip) {
                if lower(entity) == "none" {
                    continue;
                }
                if !formatted.is_empty() {
                    formatted.push_str(" $ ");
                }
                formatted.push_str(&label);
                formatted.push_str(": ");
                formatted.push_str(entity);
            }
        }
        Ok(formatted)
    }
}

impl Filter for FormatSpan {
    fn apply(&self, mut responses: Responses, docs: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
        change_each(&mut responses, |request, answer| {
            let text = string("format_span", answer, docs, request)?;
            let formatted = self
                .format(text)
                .map_err(|source| FilterError::search("format_span", docs.id(request), source))?;
            *answer = Value::from(formatted);
            Ok(())
        })?;
        Ok(responses.into())
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
    use crate::filters::FilterSpec;
    use crate::filters::testing::filter_one;

    #[test]
    fn labels_are_replaced_everywhere() {
        let filter = FormatSpan::new(&Dialect::V05);
        for (answer, expected) in [
            (
                "PERSON: John Smith, Mary $$ location: Kenya, none $$ date: none",
                "per: john smith $ per: mary $ loc: kenya",
            ),
            (" organization: UN\nplaces: Nairobi", "org: un $ loc: nairobi"),
            ("location: paris, locarno", "loc: paris $ loc: LOCarno"),
            ("per: george orgland $$ date: update", "per: geORGe ORGland $ date: upDATE"),
            ("persons: x", ""),
            ("counties: a; places: b", "loc: a; LOC: b"),
            ("per: A, , B", "per: a $ per:  $ per: b"),
            ("continent : africa", ""),
            ("nothing", ""),
            ("per: a$$", "per: a"),
            ("per: a$$$$loc: b $$$", "per: a $ loc: b"),
            ("loc: $", "loc: "),
            ("loc: $$", "loc: "),
            ("loc: $$$$", ""),
        ] {
            assert_eq!(filter.format(answer).unwrap(), expected, "{answer}");
        }
    }

    #[test]
    fn dialect_0_4_replaces_labels_only_before_colons() {
        let filter = FormatSpan::new(&Dialect::V04);
        for (answer, expected) in [
            ("persons: x", "per: x"),
            ("continent : africa", "loc: africa"),
            ("location: paris, locarno", "loc: paris $ loc: locarno"),
            ("date: update: x", "date: update: x"),
            ("loc: $$$", ""),
        ] {
            assert_eq!(filter.format(answer).unwrap(), expected, "{answer}");
        }
    }

    #[test]
    fn rejects_other_types() {
        assert!(filter_one(&FilterSpec::named("format_span"), Value::None).is_err());
    }
}

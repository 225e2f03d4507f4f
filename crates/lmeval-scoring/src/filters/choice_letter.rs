//! The filter `choice_letter`.

use lmeval_pycompat::Value;
use lmeval_pycompat::re::{Flags, Regex};

use super::extract::Extract;
use super::found::{FoundItem, find};
use super::{Arguments, FilterError};
use crate::registry::{FilterEntry, OptionEntry, OptionKind, OptionTable};
use lmeval_core::DocId;

/// The name used in errors.
const NAME: &str = "choice_letter";

/// The labels by default.
const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// How models mark the start and the end of their reasoning.
const REASONING: [(&str, &str); 4] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
];

const OPTIONS: &[OptionEntry] = &[
    OptionEntry::optional("labels", OptionKind::Any, "None"),
    OptionEntry::optional("fallback", OptionKind::Any, "'[invalid]'"),
];

/// The entry in the registry.
pub(super) fn entry() -> FilterEntry {
    FilterEntry::new(NAME, |arguments, _| Ok(Box::new(ChoiceLetter::from_arguments(arguments)?)))
        .options(OptionTable::strict(OPTIONS))
        .summary("Extracts the label of the option that a written answer ends with")
}

/// Extracts the label of the option that each answer decides on.
///
/// | argument | default | |
/// |---|---|---|
/// | `labels` | the letters A to Z | the labels of the options |
/// | `fallback` | `"[invalid]"` | the replacement of answers without a label; any type |
///
/// Reasoning is removed first: everything up to the last `</think>` (or `</thinking>`, `</reasoning>`, `[/THINK]`). Reasoning
/// that does not end leaves no answer. Then the first of these searches that finds a label decides:
///
/// 1. the last label after "answer is", "answer:" or "answer", with "option" or brackets between them
/// 2. the last `\boxed{…}`
/// 3. a label at the start of the answer, followed by punctuation or the end of its line
/// 4. the last line that consists of a label
#[derive(Debug)]
pub(crate) struct ChoiceLetter {
    searches: Vec<(Regex, i64)>,
    fallback: Value,
}

impl ChoiceLetter {
    /// Creates the filter from a step's arguments.
    pub(crate) fn from_arguments(arguments: &Arguments<'_>) -> Result<Self, FilterError> {
        let labels = match arguments.value_or("labels", "") {
            Value::List(labels) if !labels.is_empty() => {
                labels.iter().map(|label| label.as_str().map(|label| label.trim().to_owned())).collect()
            }
            Value::None => Some(Vec::new()),
            Value::Str(text) if text.is_empty() => Some(Vec::new()),
            _ => None,
        };
        let wrong = || FilterError::WrongArgument {
            filter: NAME.to_owned(),
            argument: "labels".to_owned(),
            expected: "a list of strings",
            found: arguments.value_or("labels", "").type_name(),
        };
        let labels = labels.ok_or_else(wrong)?;
        let mut labels: Vec<String> =
            if labels.is_empty() { LETTERS.chars().map(String::from).collect() } else { labels };
        // A label that is the start of another one must not hide it.
        labels.sort_by_key(|label| std::cmp::Reverse(label.len()));
        let any: Vec<String> = labels.iter().map(|label| escaped(label)).collect();
        let label = format!("({})(?![A-Za-z0-9'’])", any.join("|"));
        let searches = [
            (
                format!(
                    r#"(?i:\banswer(?:\s+(?:is|was|should\s+be|would\s+be|must\s+be))?)\s*[:=]?\s*(?:(?i:option|choice|letter)\s+)?[\s*_"'`(\[{{$\\]*(?:boxed\{{|text\{{)*\(?{label}"#
                ),
                -1,
            ),
            (format!(r"\\boxed\{{\s*(?:\\text\{{)?\(?{label}"), -1),
            (format!(r#"^[\s*_"'`(\[]*{label}(?=[.):\],*_"'`]|[ \t]*(?:\n|$))"#), 0),
            (format!(r#"(?m)^[ \t*_"'`(\[]*{label}[ \t.)\]*_"'`]*$"#), -1),
        ];
        let searches = searches.into_iter().map(|(pattern, index)| {
            let regex = Regex::new(&pattern, Flags::NONE).map_err(|_| wrong())?;
            Ok((regex, index))
        });
        Ok(Self {
            searches: searches.collect::<Result<_, FilterError>>()?,
            fallback: arguments.value_or("fallback", super::regex::DEFAULT_FALLBACK),
        })
    }
}

impl Extract for ChoiceLetter {
    fn extract(&self, document: DocId, answer: &mut Value) -> Result<bool, FilterError> {
        let text = answer.as_str().and_then(without_reasoning).unwrap_or_default();
        let mut found = None;
        for (regex, index) in &self.searches {
            let search =
                find(regex, text, *index).map_err(|source| FilterError::search(NAME, document, source))?;
            if let FoundItem::Text(label) = search {
                found = Some(Value::str(label));
                break;
            }
        }
        let is_missing = found.is_none();
        *answer = found.unwrap_or_else(|| self.fallback.clone());
        Ok(is_missing)
    }
}

/// The answer after its reasoning; `None` if the reasoning does not end.
fn without_reasoning(text: &str) -> Option<&str> {
    let ends = REASONING.iter().filter_map(|(_, end)| text.rfind(end).map(|at| at + end.len()));
    let rest = &text[ends.max().unwrap_or(0)..];
    let is_open = REASONING.iter().any(|(start, _)| rest.contains(start));
    (!is_open).then_some(rest)
}

/// The label as a pattern.
fn escaped(label: &str) -> String {
    label
        .chars()
        .flat_map(|character| {
            let is_plain = character.is_alphanumeric();
            (!is_plain).then_some('\\').into_iter().chain([character])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::FilterSpec;
    use crate::filters::testing::filter_one;

    fn extracted(answer: &str) -> String {
        filter_one(&FilterSpec::named(NAME), answer).unwrap().as_str().unwrap().to_owned()
    }

    #[test]
    fn finds_the_letter_that_an_answer_decides_on() {
        for (answer, expected) in [
            ("The best answer is B.", "B"),
            ("The best answer is (C)", "C"),
            ("**The best answer is: [D]**", "D"),
            ("Answer: **A**", "A"),
            ("the ANSWER IS option C because", "C"),
            ("I first thought the answer is A, but the best answer is D", "D"),
            ("So the final answer is $\\boxed{B}$.", "B"),
            ("Thus \\boxed{\\text{C}}", "C"),
            ("B", "B"),
            (" b", "[invalid]"),
            ("B. Paris", "B"),
            ("(A) Rome", "A"),
            ("**C**\n\nBecause…", "C"),
            ("Paris is the capital.\n\nB\n", "B"),
            ("A dog has four legs, so it is an animal", "[invalid]"),
            ("I'm not sure", "[invalid]"),
            ("The best answer is Apple", "[invalid]"),
            ("", "[invalid]"),
        ] {
            assert_eq!(extracted(answer), expected, "{answer}");
        }
    }

    #[test]
    fn reasoning_is_not_an_answer() {
        for (answer, expected) in [
            ("<think>The answer is A</think>The best answer is B", "B"),
            ("The answer is A, or not</think>\n\nC", "C"),
            ("<think>The answer is A. Or B? The answer is", "[invalid]"),
            ("<think>x</think><think>The answer is A", "[invalid]"),
            ("[THINK]The answer is D[/THINK]A", "A"),
        ] {
            assert_eq!(extracted(answer), expected, "{answer}");
        }
    }

    #[test]
    fn other_labels_and_fallbacks() {
        let numbers = FilterSpec::named(NAME)
            .with("labels", Value::list(["1", "10", "2"].map(Value::str)))
            .with("fallback", 7_i64);
        assert_eq!(filter_one(&numbers, "The answer is 10.").unwrap(), Value::str("10"));
        assert_eq!(filter_one(&numbers, "The answer is B.").unwrap(), Value::Int(7));
        assert_eq!(filter_one(&numbers, Value::None).unwrap(), Value::Int(7));
        let wrong = FilterSpec::named(NAME).with("labels", 5_i64);
        assert!(matches!(filter_one(&wrong, "A"), Err(FilterError::WrongArgument { .. })));
    }
}

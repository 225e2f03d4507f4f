//! The metric `ter`.

use std::collections::HashMap;

use rayon::prelude::*;

use super::ter_edits::edits;
use super::text_corpus::{references, text_corpus};
use crate::aggregation::{Aggregation, Resample, Totals};
use crate::error::MetricError;
use crate::item::TextPair;
use crate::metric::Metric;
use lmeval_pycompat::strings::{lower, rstrip, split_whitespace};

/// Translation edit rate with sacrebleu's defaults: case-insensitive, including punctuation.
///
/// `100 · Σedits / Σlength`: the minimum number of edits (insertions, deletions, substitutions and shifts of words)
/// over the references of each document, divided by their mean length. Lower is better.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ter;

/// The metric `ter`.
pub fn ter() -> Metric<TextPair> {
    text_corpus("ter", Ter).lower_is_better()
}

impl Aggregation<TextPair> for Ter {
    fn name(&self) -> Option<&'static str> {
        Some("ter")
    }

    fn prepare(&self, values: &[TextPair]) -> Result<Box<dyn Resample>, MetricError> {
        let documents = values
            .par_iter()
            .enumerate()
            .map(|(document, pair)| Ok(statistics(&pair.prediction, &references(document, pair)?)))
            .collect::<Result<Vec<_>, MetricError>>()?;
        Totals::prepare(documents, |totals, _| Ok(rate(totals)))
    }
}

fn rate([edits, length]: [f64; 2]) -> f64 {
    let rate = if length > 0.0 {
        edits / length
    } else if edits > 0.0 {
        1.0
    } else {
        0.0
    };
    100.0 * rate
}

/// The number of edits and the length of a document.
fn statistics(prediction: &str, references: &[&str]) -> [f64; 2] {
    let mut numbers = HashMap::new();
    let prediction = words(prediction, &mut numbers);
    let mut fewest = usize::MAX;
    let mut length = 0;
    for reference in references {
        let reference = words(reference, &mut numbers);
        length += reference.len();
        fewest = fewest.min(edits(&prediction, &reference));
    }
    [fewest as f64, length as f64 / references.len() as f64]
}

/// The words of a string as ids, equal for equal words.
fn words(text: &str, numbers: &mut HashMap<String, u32>) -> Vec<u32> {
    let text = lower(rstrip(text));
    split_whitespace(&text, None)
        .into_iter()
        .map(|word| {
            let next = numbers.len() as u32;
            *numbers.entry(word.to_owned()).or_insert(next)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::text_corpus::tests::corpus;
    use super::*;

    #[test]
    fn matches_documented_values() {
        let ter = |documents: &[(&[&str], &str)]| corpus(&Ter, documents);
        assert_eq!(
            ter(&[
                (
                    &["The quick brown fox jumps over the lazy dog."],
                    "The fast brown fox jumped over the lazy dog."
                ),
                (&["It costs $1,234.50, isn't it?"], "It costs $1234.50 , isn't it ?"),
            ]),
            42.857142857142854
        );
        assert_eq!(ter(&[(&["a b c d e f"], "d e f a b c")]), 16.666666666666664);
        assert_eq!(ter(&[(&["a b c d", "a b"], "a b c")]), 33.33333333333333);
        assert_eq!(ter(&[(&["a"], "")]), 100.0);
        assert_eq!(ter(&[(&[""], "a")]), 100.0);
        assert_eq!(ter(&[(&[""], "")]), 0.0);
    }
}

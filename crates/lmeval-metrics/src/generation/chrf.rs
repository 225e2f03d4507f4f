//! The metrics `chrf` and `chrf++`.

use rayon::prelude::*;

use super::ngrams::{Counts, count_ngrams, shared, total_ngrams};
use super::text_corpus::{Statistics, references, text_corpus};
use crate::aggregation::{Aggregation, Resample};
use crate::error::MetricError;
use crate::item::TextPair;
use crate::metric::Metric;
use lmeval_pycompat::strings::split_whitespace;

/// Corpus chrF with sacrebleu's defaults: character n-grams up to 6 without whitespace, case-sensitive, β = 2.
///
/// With P and R the mean precision and recall over the orders that occur: `100 · 5PR / (4P + R)`. With several
/// references, the one with the best score of the segment is used. chrF++ adds word n-grams up to 2.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChrF {
    words: bool,
}

impl ChrF {
    /// chrF++: adds word n-grams up to 2.
    pub(crate) fn plus_plus() -> Self {
        Self { words: true }
    }
}

/// The metric `chrf`.
pub fn chrf() -> Metric<TextPair> {
    text_corpus("chrf", ChrF::default())
}

/// The metric `chrf++`.
pub(crate) fn chrf_plus_plus() -> Metric<TextPair> {
    text_corpus("chrf++", ChrF::plus_plus())
}

const CHARACTERS: usize = 6;
const WORDS: usize = 2;
const ORDERS: usize = CHARACTERS + WORDS;
/// For each order: the n-grams of the prediction, of the reference, and the shared ones.
const SIZE: usize = 3 * ORDERS;

impl Aggregation<TextPair> for ChrF {
    fn name(&self) -> Option<&'static str> {
        Some(if self.words { "chrf++" } else { "chrf" })
    }

    fn prepare(&self, values: &[TextPair]) -> Result<Box<dyn Resample>, MetricError> {
        if values.is_empty() {
            return Err(MetricError::NoValues);
        }
        let documents = values
            .par_iter()
            .enumerate()
            .map(|(document, pair)| {
                let references = references(document, pair)?;
                Ok(best_statistics(&pair.prediction, &references, self.words))
            })
            .collect::<Result<_, MetricError>>()?;
        // Without words their counts are all zero, and orders without n-grams are ignored.
        Ok(Box::new(Statistics::new(documents, score)))
    }
}

/// A segment as characters without whitespace and, for chrF++, words.
struct Segment<'a> {
    characters: Vec<char>,
    words: Vec<&'a str>,
}

impl<'a> Segment<'a> {
    fn new(text: &'a str, words: bool) -> Self {
        let pieces = split_whitespace(text, None);
        Self {
            characters: pieces.iter().flat_map(|piece| piece.chars()).collect(),
            words: if words { pieces.into_iter().flat_map(split_punctuation).collect() } else { Vec::new() },
        }
    }

    fn counts(&self) -> SegmentCounts<'_, 'a> {
        SegmentCounts {
            characters: std::array::from_fn(|order| count_ngrams(&self.characters, order + 1)),
            words: std::array::from_fn(|order| count_ngrams(&self.words, order + 1)),
        }
    }

    fn total(&self, order: usize) -> u32 {
        if order < CHARACTERS {
            total_ngrams(self.characters.len(), order + 1)
        } else {
            total_ngrams(self.words.len(), order - CHARACTERS + 1)
        }
    }
}

struct SegmentCounts<'s, 'a> {
    characters: [Counts<'s, char>; CHARACTERS],
    words: [Counts<'s, &'a str>; WORDS],
}

impl SegmentCounts<'_, '_> {
    fn shared(&self, other: &SegmentCounts<'_, '_>, order: usize) -> u32 {
        if order < CHARACTERS {
            shared(&self.characters[order], &other.characters[order])
        } else {
            let order = order - CHARACTERS;
            shared(&self.words[order], &other.words[order])
        }
    }
}

/// Splits a punctuation mark off the end of a word or, failing that, off its start.
fn split_punctuation(word: &str) -> Vec<&str> {
    let mut characters = word.chars();
    let (first, last) = (characters.next(), characters.next_back());
    let is_mark =
        |character: Option<char>| character.is_some_and(|character| character.is_ascii_punctuation());
    // Both marks are one byte long; a word of one character has no separate last one.
    if is_mark(last) {
        let (word, mark) = word.split_at(word.len() - 1);
        vec![word, mark]
    } else if last.is_some() && is_mark(first) {
        let (mark, word) = word.split_at(1);
        vec![mark, word]
    } else {
        vec![word]
    }
}

fn best_statistics(prediction: &str, references: &[&str], words: bool) -> [u32; SIZE] {
    let prediction = Segment::new(prediction, words);
    let counts = prediction.counts();
    let mut best = ([0; SIZE], -1.0);
    for reference in references {
        let reference = Segment::new(reference, words);
        let reference_counts = reference.counts();
        let mut numbers = [0; SIZE];
        for order in 0..ORDERS {
            let total = reference.total(order);
            numbers[3 * order] = if total == 0 { 0 } else { prediction.total(order) };
            numbers[3 * order + 1] = total;
            numbers[3 * order + 2] = counts.shared(&reference_counts, order);
        }
        let score = score(&numbers.map(u64::from));
        if score > best.1 {
            best = (numbers, score);
        }
    }
    best.0
}

fn score(totals: &[u64; SIZE]) -> f64 {
    let (mut precision, mut recall, mut orders) = (0.0, 0.0, 0.0);
    for counts in totals.chunks_exact(3) {
        let (predicted, reference, shared) = (counts[0] as f64, counts[1] as f64, counts[2] as f64);
        if predicted > 0.0 && reference > 0.0 {
            precision += shared / predicted;
            recall += shared / reference;
            orders += 1.0;
        }
    }
    if orders == 0.0 {
        return 0.0;
    }
    precision /= orders;
    recall /= orders;
    if precision + recall == 0.0 {
        return 0.0;
    }
    100.0 * (5.0 * precision * recall / (4.0 * precision + recall))
}

#[cfg(test)]
mod tests {
    use super::super::text_corpus::tests::corpus;
    use super::*;

    #[test]
    fn matches_documented_values() {
        let chrf = |documents: &[(&[&str], &str)]| corpus(&ChrF::default(), documents);
        assert_eq!(
            chrf(&[
                (
                    &["The quick brown fox jumps over the lazy dog."],
                    "The fast brown fox jumped over the lazy dog."
                ),
                (&["It costs $1,234.50, isn't it?"], "It costs $1234.50 , isn't it ?"),
            ]),
            74.95635322366655
        );
        assert_eq!(chrf(&[(&["ab cd"], "abcd")]), 100.0);
        for (reference, prediction) in [("a", ""), ("", "a"), ("", "")] {
            assert_eq!(chrf(&[(&[reference], prediction)]), 0.0);
        }
    }

    #[test]
    fn splits_punctuation_off_words() {
        for (word, expected) in [
            ("(hi)", &["(hi", ")"][..]),
            ("(hi", &["(", "hi"]),
            ("hi", &["hi"]),
            ("!", &["!"]),
            ("!!", &["!", "!"]),
            ("é,", &["é", ","]),
        ] {
            assert_eq!(split_punctuation(word), expected);
        }
        assert!(corpus(&ChrF::plus_plus(), &[(&["ab cd"], "abcd")]) < 100.0);
    }
}

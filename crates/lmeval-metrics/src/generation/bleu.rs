//! The metric `bleu`.

use rayon::prelude::*;

use super::ngrams::{count_ngrams, total_ngrams};
use super::text_corpus::{Statistics, references, text_corpus};
use super::tokenizer_13a::tokenize_13a;
use crate::aggregation::{Aggregation, Resample};
use crate::error::MetricError;
use crate::item::TextPair;
use crate::metric::Metric;
use lmeval_pycompat::strings::rstrip;

/// Corpus BLEU with sacrebleu's defaults: tokenizer 13a, case-sensitive, n-grams up to 4, exponential smoothing.
///
/// `BP · exp(¼ Σ ln p_n)` with `p_n` the fraction of n-grams found in a reference, and `BP = exp(1 − r/h)` if the
/// predictions (length `h`) are shorter than the references (`r`). On a scale from 0 to 100.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bleu;

/// The metric `bleu`.
pub fn bleu() -> Metric<TextPair> {
    text_corpus("bleu", Bleu)
}

const ORDER: usize = 4;
/// Length of prediction and reference, then the shared n-grams, then all n-grams of each order.
const SIZE: usize = 2 + 2 * ORDER;

impl Aggregation<TextPair> for Bleu {
    fn name(&self) -> Option<&'static str> {
        Some("bleu")
    }

    fn prepare(&self, values: &[TextPair]) -> Result<Box<dyn Resample>, MetricError> {
        if values.is_empty() {
            return Err(MetricError::NoValues);
        }
        let documents = values
            .par_iter()
            .enumerate()
            .map(|(document, pair)| Ok(statistics(&pair.prediction, &references(document, pair)?)))
            .collect::<Result<_, MetricError>>()?;
        Ok(Box::new(Statistics::new(documents, score)))
    }
}

fn statistics(prediction: &str, references: &[&str]) -> [u32; SIZE] {
    let tokens = |text: &str| tokenize_13a(rstrip(text));
    let prediction = tokens(prediction);
    let references: Vec<Vec<String>> = references.iter().map(|text| tokens(text)).collect();
    let mut numbers = [0; SIZE];
    numbers[0] = prediction.len() as u32;
    // The closest length; ties go to the shorter one.
    let closest =
        references.iter().map(Vec::len).min_by_key(|length| (length.abs_diff(prediction.len()), *length));
    numbers[1] = closest.unwrap_or_default() as u32;
    for order in 1..=ORDER {
        let counts: Vec<_> = references.iter().map(|tokens| count_ngrams(tokens, order)).collect();
        numbers[1 + order] = count_ngrams(&prediction, order)
            .iter()
            .map(|(ngram, count)| {
                let most = counts.iter().filter_map(|counts| counts.get(ngram)).max();
                most.map_or(0, |most| *count.min(most))
            })
            .sum();
        numbers[1 + ORDER + order] = total_ngrams(prediction.len(), order);
    }
    numbers
}

fn score(totals: &[u64; SIZE]) -> f64 {
    let (predicted, reference) = (totals[0], totals[1]);
    let (shared, all) = totals[2..].split_at(ORDER);
    if shared.iter().all(|count| *count == 0) {
        return 0.0;
    }
    let penalty = if predicted >= reference {
        1.0
    } else if predicted == 0 {
        0.0
    } else {
        (1.0 - reference as f64 / predicted as f64).exp()
    };
    let mut precisions = [0.0; ORDER];
    let mut smoothing = 1.0;
    for ((precision, shared), all) in precisions.iter_mut().zip(shared).zip(all) {
        if *all == 0 {
            break;
        }
        *precision = if *shared == 0 {
            smoothing *= 2.0;
            100.0 / (smoothing * *all as f64)
        } else {
            100.0 * *shared as f64 / *all as f64
        };
    }
    // Reference: the logarithm of zero is a large negative number.
    let logarithm = |precision: &f64| if *precision == 0.0 { -9_999_999_999.0 } else { precision.ln() };
    let total = precisions.iter().fold(0.0, |total, precision| total + logarithm(precision));
    penalty * (total / ORDER as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::super::text_corpus::tests::corpus;
    use super::*;

    #[test]
    fn matches_documented_values() {
        let bleu = |documents: &[(&[&str], &str)]| corpus(&Bleu, documents);
        assert_eq!(
            bleu(&[
                (
                    &["The quick brown fox jumps over the lazy dog."],
                    "The fast brown fox jumped over the lazy dog."
                ),
                (&["It costs $1,234.50, isn't it?"], "It costs $1234.50 , isn't it ?"),
            ]),
            48.60327104534912
        );
        assert_eq!(
            bleu(&[
                (&["the cat sat on the mat", "a cat sat on the mat"], "a cat is on the mat"),
                (&["hello there my friend", "hi there my friend"], "hi there my friend"),
            ]),
            53.89561679446264
        );
        assert_eq!(bleu(&[(&["a b c d e"], "a b c x e")]), 42.72870063962342);
        for (reference, prediction) in [("hi", "hi"), ("a", ""), ("", "a"), ("", "")] {
            assert_eq!(bleu(&[(&[reference], prediction)]), 0.0);
        }
    }
}

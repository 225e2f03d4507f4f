//! Exact match and F1 of extracted answers, as defined by the SQuAD dataset.

use std::collections::HashMap;
use std::sync::LazyLock;

use lmeval_pycompat::re::{Flags, Regex};
use lmeval_pycompat::strings::{lower, split_whitespace};

use super::GENERATION;
use super::rouge::texts;
use crate::aggregation::Mean;
use crate::error::MetricError;
use crate::item::items;
use crate::metric::Metric;
use crate::number::Number;

static ARTICLES: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b(a|an|the)\b", Flags::default()).expect("the pattern is valid"));

/// An answer in lower case, without ASCII punctuation, articles and extra whitespace.
pub(crate) fn squad_normalize(answer: &str) -> Result<String, MetricError> {
    let answer: String =
        lower(answer).chars().filter(|character| !character.is_ascii_punctuation()).collect();
    let answer = ARTICLES.sub(" ", &answer, 0)?;
    Ok(split_whitespace(&answer, None).join(" "))
}

/// 1 if the normalised answer equals a normalised target, else 0; 0 without targets.
pub fn squad_exact_match(targets: &[&str], prediction: &str) -> Result<f64, MetricError> {
    best(targets, prediction, |target, prediction| f64::from(u8::from(target == prediction)))
}

/// The best F1 over the targets of the words of the normalised answer: `2PR / (P + R)`; 0 without targets.
pub fn squad_f1(targets: &[&str], prediction: &str) -> Result<f64, MetricError> {
    best(targets, prediction, |target, prediction| {
        let (target, prediction) = (split_whitespace(target, None), split_whitespace(prediction, None));
        let mut left: HashMap<&str, usize> = HashMap::new();
        for word in &target {
            *left.entry(word).or_default() += 1;
        }
        let mut common = 0;
        for word in &prediction {
            if let Some(count @ 1..) = left.get_mut(word) {
                *count -= 1;
                common += 1;
            }
        }
        if common == 0 {
            return 0.0;
        }
        let precision = f64::from(common) / prediction.len() as f64;
        let recall = f64::from(common) / target.len() as f64;
        (2.0 * precision * recall) / (precision + recall)
    })
}

fn best(targets: &[&str], prediction: &str, score: impl Fn(&str, &str) -> f64) -> Result<f64, MetricError> {
    let prediction = squad_normalize(prediction)?;
    let mut best = 0.0_f64;
    for target in targets {
        best = best.max(score(&squad_normalize(target)?, &prediction));
    }
    Ok(best)
}

/// [`squad_exact_match`] of each answer as a metric.
pub(crate) fn squad_exact_match_metric() -> Metric<Number> {
    metric("squad_exact_match", squad_exact_match)
}

/// [`squad_f1`] of each answer as a metric.
pub(crate) fn squad_f1_metric() -> Metric<Number> {
    metric("squad_f1", squad_f1)
}

fn metric(name: &'static str, score: fn(&[&str], &str) -> Result<f64, MetricError>) -> Metric<Number> {
    Metric::new(name, GENERATION, Mean, move |_| {
        Ok(Box::new(move |input| {
            let (references, predictions) = input.generation()?;
            let targets = texts(references.first().and_then(items).unwrap_or(references))?;
            let score = |prediction| score(&targets, prediction).map(Number::Float);
            texts(predictions)?.into_iter().map(score).collect()
        }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::MetricInput;
    use lmeval_pycompat::{Dict, Value};

    #[test]
    fn ignores_articles_and_punctuation() {
        assert_eq!(squad_normalize("The  Cat, a theatre!").unwrap(), "cat theatre");
        assert_eq!(squad_exact_match(&["the cat"], "A cat."), Ok(1.0));
        assert_eq!(squad_exact_match(&[], ""), Ok(0.0));
        assert_eq!(squad_f1(&["big red cat", "dog"], "the red cat"), Ok(0.8));
        assert_eq!(squad_f1(&["the"], ""), Ok(0.0));
        let input = MetricInput::Generation {
            references: &[Value::list(["cat".into()])],
            predictions: &["the cat".into(), "dog".into()],
        };
        let values = squad_exact_match_metric().compute(input, &Dict::new()).unwrap();
        assert_eq!(values, [Number::Float(1.0), Number::Float(0.0)]);
    }
}

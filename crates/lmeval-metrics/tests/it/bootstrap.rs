//! Bootstrap standard errors compared with their plain definition, digit for digit.

use std::hint::black_box;

use lmeval_metrics::{aggregation, bootstrap_stderr};
use lmeval_pycompat::Value;
use lmeval_pycompat::float::sum;
use lmeval_pycompat::random::Random;

use crate::number;

/// A straightforward implementation: one resample after another, each scored from its values.
fn plain(values: &[Value], iterations: usize, score: impl Fn(&[Value]) -> f64) -> f64 {
    let chunk = iterations.min(1000);
    let mut scores = Vec::new();
    for seed in 0..iterations / chunk {
        let mut random = Random::from_seed(seed as i64);
        for _ in 0..chunk {
            let positions = random.choices_indices(values.len(), values.len()).unwrap();
            let resample: Vec<Value> =
                positions.into_iter().map(|position| values[position].clone()).collect();
            scores.push(score(&resample));
        }
    }
    let mean = sum(scores.iter().copied()) / scores.len() as f64;
    let squares = sum(scores.iter().map(|score| (score - mean).powf(black_box(2.0))));
    (squares / (scores.len() as f64 - 1.0)).sqrt()
}

fn assert_plain(name: &str, values: &[Value], iterations: usize, score: impl Fn(&[Value]) -> f64) {
    let used = aggregation(name).unwrap();
    let found = bootstrap_stderr(&*used.prepare(values).unwrap(), values.len(), iterations).unwrap();
    let expected = plain(values, iterations, score);
    let what = format!("{name} of {} values, {iterations} draws", values.len());
    assert_eq!(found.to_bits(), expected.to_bits(), "{what}: {found} instead of {expected}");
}

fn parts(value: &Value) -> (&Value, &Value) {
    match value {
        Value::Tuple(parts) => (&parts[0], &parts[1]),
        _ => panic!("not a pair: {value:?}"),
    }
}

/// How often a label is gold, predicted, and both.
fn label_counts(pairs: &[Value], label: i64) -> (f64, f64, f64) {
    let count = |test: &dyn Fn(&Value, &Value) -> bool| {
        pairs.iter().map(parts).filter(|(gold, predicted)| test(gold, predicted)).count() as f64
    };
    let label = Value::Int(label);
    (
        count(&|gold, _| *gold == label),
        count(&|_, predicted| *predicted == label),
        count(&|gold, predicted| *gold == label && *predicted == label),
    )
}

fn f1(pairs: &[Value]) -> f64 {
    let (gold, predicted, both) = label_counts(pairs, 1);
    if gold + predicted == 0.0 { 0.0 } else { 2.0 * both / (gold + predicted) }
}

fn matthews(pairs: &[Value], labels: i64) -> f64 {
    let all = pairs.len() as f64;
    let (mut right, mut products, mut golds, mut predictions) = (0.0, 0.0, 0.0, 0.0);
    for label in 0..labels {
        let (gold, predicted, both) = label_counts(pairs, label);
        right += both;
        products += gold * predicted;
        golds += gold * gold;
        predictions += predicted * predicted;
    }
    let spread = (all * all - predictions) * (all * all - golds);
    if spread == 0.0 { 0.0 } else { (right * all - products) / spread.sqrt() }
}

/// Sizes around the batch limits, with a number of resamples each.
const SIZES: [(usize, usize); 7] =
    [(2, 1003), (3, 2500), (5, 7), (8, 999), (311, 100), (313, 60), (1319, 43)];

#[test]
fn adds_sums_in_order() {
    for (count, iterations) in SIZES {
        let mut random = Random::from_seed(count as i64);
        let numbers: Vec<Value> = (0..count).map(|_| Value::Float(random.uniform(-9.0, 2.0))).collect();
        let mean = |values: &[Value]| sum(values.iter().map(number)) / values.len() as f64;
        assert_plain("mean", &numbers, iterations, mean);
        assert_plain("perplexity", &numbers, iterations, |values| (-mean(values)).exp());
        let pairs: Vec<Value> = numbers
            .iter()
            .map(|total| Value::tuple([total.clone(), Value::Float(random.uniform(0.1, 70.0))]))
            .collect();
        let weighted = |values: &[Value]| {
            let totals = sum(values.iter().map(|value| number(parts(value).0)));
            totals / sum(values.iter().map(|value| number(parts(value).1)))
        };
        assert_plain("weighted_mean", &pairs, iterations, weighted);
        assert_plain("weighted_perplexity", &pairs, iterations, |values| (-weighted(values)).exp());
        assert_plain("bits_per_byte", &pairs, iterations, |values| {
            -weighted(values) / std::f64::consts::LN_2
        });
    }
}

fn label_pairs(count: usize, labels: i64) -> Vec<Value> {
    let mut random = Random::from_seed(labels);
    let mut label = || Value::Int(random.randrange(0, labels, 1).unwrap());
    (0..count).map(|_| Value::tuple([label(), label()])).collect()
}

#[test]
fn counts_labels() {
    for (count, iterations) in SIZES {
        assert_plain("f1", &label_pairs(count, 2), iterations, f1);
        for labels in [1, 2, 3, 7] {
            let pairs = label_pairs(count, labels);
            assert_plain("matthews_corrcoef", &pairs, iterations, |values| matthews(values, labels));
        }
    }
    // More documents than 16 bits can count.
    let pairs = [Value::tuple([Value::Int(1), Value::Int(1)]), Value::tuple([Value::Int(1), Value::Int(0)])];
    let pairs: Vec<Value> = pairs.iter().cycle().take(140_001).cloned().collect();
    assert_plain("f1", &pairs, 3, f1);
    assert_plain("matthews_corrcoef", &pairs, 3, |values| matthews(values, 2));
}

#[test]
fn adds_string_statistics() {
    let words = ["the", "cat", "sat", "on", "a", "mat", "today", "1,000", "isn't"];
    let mut random = Random::from_seed(0);
    let mut text = || {
        let length = random.randbelow(12) as usize;
        let words = (0..length).filter_map(|_| random.choice(&words).copied());
        Value::str(words.collect::<Vec<_>>().join(" "))
    };
    for (count, iterations) in [(2, 40), (9, 203), (60, 5)] {
        let pairs: Vec<Value> = (0..count).map(|_| Value::tuple([text(), text()])).collect();
        for name in ["bleu", "chrf", "chrf++", "ter"] {
            let used = aggregation(name).unwrap();
            assert_plain(name, &pairs, iterations, |values| used.aggregate(values).unwrap().to_f64());
        }
    }
}

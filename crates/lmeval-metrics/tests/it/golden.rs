//! All recorded cases.

use fs_err as fs;
use lmeval_metrics::{
    LLResults, MetricError, MetricInput, Number, Reduced, StandardError, aggregation,
    generation::tokenize_13a, metric, pooled_stderr, reduction, stderr_for_metric,
};
use lmeval_pycompat::{Dict, Value, repr};

use crate::{close, field, load, number, numbers, same};

fn cases(name: &str) -> Vec<Value> {
    let path = format!("{}/../../tests/golden/units/{name}.json", env!("CARGO_MANIFEST_DIR"));
    load(&fs::read_to_string(path).unwrap()).as_list().unwrap().to_vec()
}

fn texts(value: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    value.as_list().unwrap().iter().map(text).collect()
}

fn results(case: &Value) -> LLResults {
    LLResults {
        lls: numbers(field(case, "lls")),
        is_greedy: field(case, "is_greedy").as_list().unwrap().iter().map(Value::is_truthy).collect(),
        choices: texts(field(case, "choices")),
        lls_mutual_info: numbers(field(case, "lls_mutual_info")),
        ..LLResults::default()
    }
}

fn check_outcome(found: &Result<Value, MetricError>, expected: &Value, exact: bool, what: &str) {
    match (found, field(expected, "out")) {
        (Err(_), Value::None) => assert!(!field(expected, "error").is_none(), "{what}"),
        (Ok(Value::Tuple(found)), Value::List(expected)) => {
            assert_eq!(found.len(), expected.len(), "{what}");
            for (found, expected) in found.iter().zip(expected.iter()) {
                assert_eq!(found.type_name(), expected.type_name(), "{what}");
                assert_eq!(found, expected, "{what}");
            }
        }
        (Ok(found), expected) if !expected.is_none() => {
            let (left, right) = (found.to_f64().unwrap(), number(expected));
            let equal = if exact { same(left, right) } else { close(left, right) };
            assert!(equal, "{what}: {left} instead of {right}");
            let integer = |value: &Value| value.as_i64().is_some();
            assert_eq!(integer(found), integer(expected), "{what}");
        }
        _ => panic!("{what}: {found:?} instead of {}", repr::repr(expected)),
    }
}

#[test]
fn log_likelihoods() {
    const TRANSCENDENTAL: &[&str] =
        &["choice_logprob", "choice_prob_norm", "choice_logprob_norm", "brier_score"];
    let mut checked = 0;
    for (position, case) in cases("metrics_loglikelihood").iter().enumerate() {
        let results = results(case);
        for (values, target) in [("values", "target"), ("values_multiple_targets", "targets")] {
            for (name, expected) in field(case, values).as_dict().unwrap().iter() {
                let name = name.as_str().unwrap();
                let function = metric(name).unwrap().bind(&Dict::new()).unwrap();
                let input = MetricInput::Likelihood { reference: field(case, target), results: &results };
                let found = function(input).map(|values| values[0].clone());
                let exact = !TRANSCENDENTAL.contains(&name);
                check_outcome(&found, expected, exact, &format!("case {position}, {target}, {name}"));
                checked += 1;
            }
        }
    }
    assert_eq!(checked, 40 * 21);
}

#[test]
fn exact_match() {
    for (position, case) in cases("metrics_exact_match").iter().enumerate() {
        let kwargs = field(case, "kwargs").as_dict().unwrap();
        let function = metric("exact_match").unwrap().bind(kwargs).unwrap();
        let input = MetricInput::Generation {
            references: field(case, "references").as_list().unwrap(),
            predictions: field(case, "predictions").as_list().unwrap(),
        };
        let found = Value::list(function(input).unwrap());
        assert_eq!(&found, field(field(case, "out"), "exact_match"), "case {position}");
    }
}

/// The items that a recorded aggregation works on.
fn items(case: &Value, name: &str) -> Vec<Value> {
    let pairs = matches!(name, "weighted_perplexity" | "bits_per_byte" | "weighted_mean");
    field(case, if pairs { "pairs" } else { "values" }).as_list().unwrap().to_vec()
}

#[test]
fn aggregations_and_standard_errors() {
    let mut checked = 0;
    for (position, case) in cases("aggregations").iter().enumerate() {
        for (name, expected) in field(case, "aggregations").as_dict().unwrap().iter() {
            let name = name.as_str().unwrap();
            let found = aggregation(name).unwrap().aggregate(&items(case, name)).map(Value::from);
            let exact = !name.contains("perplexity");
            check_outcome(&found, expected, exact, &format!("case {position}, {name}"));
            checked += 1;
        }
        for (name, expected) in field(case, "stderr").as_dict().unwrap().iter() {
            let name = name.as_str().unwrap();
            let (name, iterations) = name.split_once('@').unwrap_or((name, "100000"));
            let values = items(case, name);
            let aggregation = aggregation(name).unwrap();
            let found = stderr_for_metric(&*aggregation, &values, iterations.parse().unwrap());
            let what = format!("case {position}, {name}@{iterations}");
            let exact = !name.contains("perplexity");
            match found {
                Ok(StandardError::NotAvailable) => {
                    assert_eq!(field(expected, "out").as_str(), Some("N/A"), "{what}");
                }
                Ok(StandardError::Known(error)) => {
                    check_outcome(&Ok(Value::Float(error)), expected, exact, &what);
                }
                Err(error) => check_outcome(&Err(error), expected, exact, &what),
            }
            checked += 1;
        }
    }
    assert!(checked >= 14 * 10, "{checked}");
}

#[test]
fn pooled_errors() {
    for case in cases("pooled_stderr") {
        let sizes: Vec<u64> = numbers(field(&case, "sizes")).iter().map(|size| *size as u64).collect();
        let found = pooled_stderr(&numbers(field(&case, "stderrs")), &sizes);
        check_outcome(&found.map(Value::Float), field(&case, "pooled"), true, "pooled");
    }
}

#[test]
fn pass_at_k() {
    for case in cases("pass_at_k") {
        let reduction = match field(&case, "k") {
            Value::None => vec![reduction("pass@k").unwrap()],
            Value::List(all) => {
                all.iter().map(|k| reduction(&format!("pass@{}", number(k))).unwrap()).collect()
            }
            one => vec![reduction(&format!("pass_at_{}", number(one))).unwrap()],
        };
        let predictions = field(&case, "predictions").as_list().unwrap();
        let mut found = Vec::new();
        for reduction in reduction {
            match reduction.reduce(&Value::None, predictions).unwrap() {
                Reduced::Named(named) => found.extend(named),
                Reduced::One(_) => panic!("one value"),
            }
        }
        assert_eq!(
            &Value::dict(found.iter().map(|(name, value)| (name.as_str(), value.clone()))),
            field(&case, "out")
        );
    }
}

#[test]
fn corpus_metrics() {
    for (position, case) in cases("corpus_text").iter().enumerate() {
        let predictions = field(case, "predictions").as_list().unwrap();
        let references = field(case, "references").as_list().unwrap();
        let pairs: Vec<Value> = references
            .iter()
            .zip(predictions)
            .map(|(references, prediction)| Value::tuple([references.clone(), prediction.clone()]))
            .collect();
        for name in ["bleu", "chrf", "ter"] {
            let found = aggregation(name).unwrap().aggregate(&pairs).unwrap().to_f64();
            let expected = number(field(case, name));
            let equal = if name == "bleu" { close(found, expected) } else { same(found, expected) };
            assert!(equal, "case {position}, {name}: {found} instead of {expected}");
        }
        let tokens = field(case, "bleu_tokens_13a").as_list().unwrap();
        for (prediction, expected) in predictions.iter().zip(tokens) {
            assert_eq!(tokenize_13a(prediction.as_str().unwrap()).join(" "), expected.as_str().unwrap());
        }
    }
}

#[test]
fn labels() {
    for (position, case) in cases("f1_mcc").iter().enumerate() {
        let golds = field(case, "golds").as_list().unwrap();
        let predictions = field(case, "preds").as_list().unwrap();
        let pairs: Vec<Value> = golds
            .iter()
            .zip(predictions)
            .map(|(gold, prediction)| Value::list([gold.clone(), prediction.clone()]))
            .collect();
        for (name, expected) in [("f1", "f1"), ("matthews_corrcoef", "mcc")] {
            let found = aggregation(name).unwrap().aggregate(&pairs).map(Value::from);
            check_outcome(&found, field(case, expected), true, &format!("case {position}, {name}"));
        }
    }
}

#[test]
fn resamples_match_the_slow_path() {
    let pairs = |name: &str| -> Vec<Value> {
        (0..23_i64)
            .map(|i| {
                let text =
                    |n: i64| Value::from(["the cat sat", "on a mat .", "x y z w v", ""][(n % 4) as usize]);
                match name {
                    "f1" | "matthews_corrcoef" => {
                        Value::tuple([Value::Int(i % 2), Value::Int(i * i % 3 % 2)])
                    }
                    "bleu" | "chrf" | "chrf++" | "ter" => Value::tuple([text(i), text(i * i + i / 3)]),
                    "weighted_mean" | "weighted_perplexity" | "bits_per_byte" => {
                        Value::tuple([Value::Float(-0.37 * i as f64), Value::Int(1 + i % 5)])
                    }
                    _ => Value::Float(0.1 * (i * i % 7) as f64 - 0.3),
                }
            })
            .collect()
    };
    for lmeval_metrics::BuiltInAggregation { name, aggregation, .. } in lmeval_metrics::AGGREGATIONS.iter() {
        let values = pairs(name);
        let prepared = aggregation.prepare(&values).unwrap();
        let mut random = lmeval_pycompat::random::Random::from_seed(7);
        let draws: Vec<u32> = (0..values.len() * 203).map(|_| random.randbelow(23) as u32).collect();
        let mut scores = Vec::new();
        prepared.score_all(&draws, values.len(), &mut scores).unwrap();
        assert_eq!(scores.len(), 203);
        for (draws, score) in draws.chunks(values.len()).zip(scores) {
            let resample: Vec<Value> = draws.iter().map(|draw| values[*draw as usize].clone()).collect();
            let slow = aggregation.aggregate(&resample).map(Number::to_f64);
            assert_eq!(prepared.score(draws), slow, "{name}");
            assert_eq!(Ok(score), slow, "{name}");
        }
    }
}

//! Random cases compared with sacrebleu, scikit-learn, rouge-score, numpy and the reference harness.

use std::process::Command;

use lmeval_metrics::generation::{ExactMatch, RougeKind, rouge_multi, squad_exact_match, squad_f1, stem};
use lmeval_metrics::{
    Aggregation, Item, LLResults, LabelPair, MetricError, MetricInput, Number, aggregation, aggregation::F1,
    aggregation::F1Average, bootstrap_stderr, mean_stderr, metric, vector,
};
use lmeval_pycompat::{Dict, Value};
use lmeval_testkit::test_environment;

use crate::{close, field, load, number, numbers, same};

/// The default seed; environment variables override it and the number of cases.
const SEED: u64 = 20;
const CASES: u64 = 60;

#[test]
fn random_cases_match_python() {
    compare_with_python(&[], CASES);
}

/// Three thousand pairs of word lists, fifty in each case.
#[test]
fn random_moves_match_sacrebleu() {
    compare_with_python(&["--kinds", "moves"], CASES);
}

fn compare_with_python(kinds: &[&str], cases: u64) {
    let Some(python) = test_environment() else { return };
    let setting = |name: &str, default: u64| match std::env::var(name) {
        Ok(text) => text.parse().unwrap(),
        Err(_) => default,
    };
    let seed = setting("LM_EVAL_TEST_SEED", SEED);
    let cases = setting("LM_EVAL_TEST_CASES", cases);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/record/metric_values.py");
    let output = Command::new(python)
        .arg(script)
        .args(["--seed", &seed.to_string(), "--cases", &cases.to_string()])
        .args(kinds)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let mut failures = Vec::new();
    for (position, line) in lines.lines().enumerate() {
        let case = load(line);
        if let Err(failure) = check(&case) {
            failures.push(format!("case {position}: {failure}\n{line}"));
        }
    }
    assert_eq!(lines.lines().count() as u64, cases);
    let shown = failures.iter().take(3).map(String::as_str).collect::<Vec<_>>().join("\n\n");
    assert!(failures.is_empty(), "seed {seed}: {} of {cases} cases differ\n{shown}", failures.len());
}

fn check(case: &Value) -> Result<(), String> {
    match field(case, "kind").as_str().unwrap() {
        "texts" => check_texts(case, &["bleu", "chrf", "chrf++", "ter"]),
        "edits" => check_texts(case, &["ter"]),
        "moves" => check_moves(case),
        "rouge" => check_rouge(case),
        "stems" => check_stems(case),
        "labels" => check_labels(case),
        "numbers" => check_numbers(case),
        "resamples" => check_resamples(case),
        "exact" => check_exact(case),
        "squad" => check_squad(case),
        other => Err(format!("unknown kind {other}")),
    }
}

fn compare(what: &str, found: Result<f64, MetricError>, expected: &Value, exact: bool) -> Result<(), String> {
    match (found, expected) {
        (Err(_), Value::Dict(_)) => Ok(()),
        (Ok(found), expected) if expected.as_dict().is_none() => {
            let expected = number(expected);
            let equal = if exact { same(found, expected) } else { close(found, expected) };
            if equal { Ok(()) } else { Err(format!("{what}: {found} instead of {expected}")) }
        }
        (found, expected) => Err(format!("{what}: {found:?} instead of {expected:?}")),
    }
}

fn list<'a>(case: &'a Value, name: &str) -> &'a [Value] {
    field(case, name).as_list().unwrap()
}

fn texts<'a>(case: &'a Value, name: &str) -> Vec<&'a str> {
    list(case, name).iter().map(|text| text.as_str().unwrap()).collect()
}

fn check_texts(case: &Value, names: &[&str]) -> Result<(), String> {
    let pairs: Vec<Value> = list(case, "references")
        .iter()
        .zip(list(case, "predictions"))
        .map(|(references, prediction)| Value::tuple([references.clone(), prediction.clone()]))
        .collect();
    for name in names {
        let found = aggregation(name).unwrap().aggregate(&pairs).map(Number::to_f64);
        compare(name, found, field(case, name), *name != "bleu")?;
    }
    Ok(())
}

fn check_moves(case: &Value) -> Result<(), String> {
    for pair in list(case, "pairs") {
        let [words, reference, expected] = pair.as_list().unwrap() else { panic!("not a pair: {pair:?}") };
        let item = Value::tuple([Value::list([reference.clone()]), words.clone()]);
        let found = aggregation("ter").unwrap().aggregate(&[item]).map(Number::to_f64);
        compare(&format!("ter of {words:?} and {reference:?}"), found, expected, true)?;
    }
    Ok(())
}

fn check_rouge(case: &Value) -> Result<(), String> {
    let targets = texts(case, "targets");
    let prediction = field(case, "prediction").as_str().unwrap();
    for (stemmer, key) in [(false, "false"), (true, "true")] {
        for (kind, name) in [
            (RougeKind::Ngrams(1), "rouge1"),
            (RougeKind::Ngrams(2), "rouge2"),
            (RougeKind::Longest, "rougeL"),
            (RougeKind::LongestOfLines, "rougeLsum"),
        ] {
            let score = rouge_multi(kind, &targets, prediction, stemmer).unwrap();
            let expected = field(field(field(case, "scores"), key), name).as_list().unwrap();
            for (found, expected) in [score.precision, score.recall, score.fmeasure].into_iter().zip(expected)
            {
                compare(name, Ok(found), expected, true)?;
            }
        }
    }
    Ok(())
}

fn check_stems(case: &Value) -> Result<(), String> {
    for (word, expected) in texts(case, "words").into_iter().zip(texts(case, "stems")) {
        let found = stem(word);
        if found != expected {
            return Err(format!("{word}: {found} instead of {expected}"));
        }
    }
    Ok(())
}

fn check_labels(case: &Value) -> Result<(), String> {
    let pairs: Vec<LabelPair> = list(case, "golds")
        .iter()
        .zip(list(case, "predictions"))
        .map(|(gold, prediction)| LabelPair { gold: gold.clone(), prediction: prediction.clone() })
        .collect();
    for (average, name) in [
        (F1Average::Binary, "binary"),
        (F1Average::Micro, "micro"),
        (F1Average::Macro, "macro"),
        (F1Average::Weighted, "weighted"),
    ] {
        let found = F1 { average }.aggregate(&pairs).map(Number::to_f64);
        compare(name, found, field(case, name), true)?;
    }
    let values: Vec<Value> = pairs.iter().map(Item::to_value).collect();
    let found = aggregation("mcc").unwrap().aggregate(&values).map(Number::to_f64);
    compare("mcc", found, field(case, "mcc"), true)
}

fn check_numbers(case: &Value) -> Result<(), String> {
    let values = list(case, "values");
    let floats = numbers(field(case, "values"));
    let holes = numbers(field(case, "holes"));
    let hole_values: Vec<Value> = holes.iter().copied().map(Value::Float).collect();
    for (name, items, exact) in [
        ("mean", values, true),
        ("median", values, true),
        ("perplexity", values, false),
        ("nanmean", &hole_values, true),
        ("weighted_perplexity", list(case, "pairs"), false),
        ("bits_per_byte", list(case, "pairs"), true),
    ] {
        let found = aggregation(name).unwrap().aggregate(items).map(Number::to_f64);
        compare(name, found, field(case, name), exact)?;
    }
    compare("stderr", mean_stderr(&floats), field(case, "stderr"), true)?;
    let results = LLResults { lls: floats, ..LLResults::default() };
    for name in ["brier_score", "choice_logprob"] {
        let input = MetricInput::Likelihood { reference: field(case, "target"), results: &results };
        let found = metric(name).unwrap().bind(&Dict::new()).unwrap()(input);
        let found = found.map(|values| values[0].to_f64().unwrap());
        // The difference of nearly equal numbers keeps only their common digits.
        let scale = results.lls.iter().fold(1.0_f64, |scale, ll| scale.max(ll.abs()));
        let expected = number(field(case, name));
        let found = found.unwrap();
        if !close(found, expected) && (found - expected).abs() > 1e-14 * scale {
            return Err(format!("{name}: {found} instead of {expected}"));
        }
    }
    compare("argmax", vector::argmax(&holes).map(|index| index as f64), field(case, "argmax"), true)?;
    let few = &values[..values.len().min(40)];
    for (name, key, exact) in [("median", "median@100", true), ("perplexity", "perplexity@100", false)] {
        compare(key, bootstrap(name, few), field(case, key), exact)?;
    }
    Ok(())
}

fn bootstrap(name: &str, values: &[Value]) -> Result<f64, MetricError> {
    bootstrap_stderr(&*aggregation(name).unwrap().prepare(values)?, values.len(), 100)
}

fn check_resamples(case: &Value) -> Result<(), String> {
    for name in ["bleu", "chrf", "chrf++", "ter"] {
        compare(name, bootstrap(name, list(case, "pairs")), field(case, name), name != "bleu")?;
    }
    for name in ["f1", "matthews_corrcoef"] {
        compare(name, bootstrap(name, list(case, "labels")), field(case, name), true)?;
    }
    Ok(())
}

fn check_exact(case: &Value) -> Result<(), String> {
    let options = ExactMatch::from_kwargs(field(case, "kwargs").as_dict().unwrap()).unwrap();
    let reference = [field(case, "reference").clone()];
    for (prediction, expected) in list(case, "predictions").iter().zip(list(case, "values")) {
        let found = options.score(&reference, std::slice::from_ref(prediction)).unwrap();
        compare("exact match", Ok(found[0].to_f64()), expected, true)?;
    }
    Ok(())
}

fn check_squad(case: &Value) -> Result<(), String> {
    let targets = texts(case, "targets");
    let prediction = field(case, "prediction").as_str().unwrap();
    compare("exact match", squad_exact_match(&targets, prediction), field(case, "exact"), true)?;
    compare("f1", squad_f1(&targets, prediction), field(case, "f1"), true)
}

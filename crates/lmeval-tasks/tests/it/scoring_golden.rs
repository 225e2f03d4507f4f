//! Recorded runs have the recorded results, given the recorded answers.

use lmeval_core::Dialect;
use lmeval_pycompat::{Dict, Value, repr::repr};
use lmeval_scoring::results::RunResults;
use lmeval_scoring::scorers::ScoringSources;
use lmeval_tasks::scoring::{ResultKeys, group_specs, task_result, task_scorer};

use crate::prompt_support::{golden, read_json};
use crate::scoring_support::{Answers, Run};

pub(crate) const PARTS: [&str; 8] =
    ["results", "groups", "group_subtasks", "versions", "n-shot", "higher_is_better", "n-samples", "samples"];

/// The results of a run with recorded answers.
fn evaluate(run: &Run<'_>, requests: &[Value]) -> Result<Dict, String> {
    let dialect = Dialect::V05;
    let loaded = run.load()?;
    let keys = ResultKeys::new(&loaded, &dialect).map_err(|error| error.to_string())?;
    let sources = ScoringSources::new(&dialect);
    let draws = run.get("bootstrap_iters").map_or(100_000, |draws| draws.as_i64().unwrap());
    let mut answers = Answers::new(requests);
    let mut tasks = Vec::new();
    for (name, task) in &loaded.tasks {
        let (documents, original) = run.documents(name, task);
        let documents = answers.answer(documents);
        let mut scorer = task_scorer(&task.config, &sources, run.is_on("predict_only"))
            .map_err(|error| error.to_string())?;
        scorer.score(&documents).map_err(|error| format!("{error}: {error:?}"))?;
        let result = task_result(keys.get(name), task, &scorer, &documents, original, draws, true);
        tasks.push(result.map_err(|error| format!("{error}: {error:?}"))?);
    }
    let groups = group_specs(&loaded, &keys);
    let results = RunResults::collect(tasks, &groups, &dialect).map_err(|error| error.to_string())?;
    Ok(results.to_dict())
}

/// The first difference between two values. Types, key order and digits must match, except for the last digits of
/// floats.
pub(crate) fn difference(path: &str, ours: &Value, theirs: &Value) -> Option<String> {
    let unequal = || Some(format!("{path}: {} instead of {}", repr(ours), repr(theirs)));
    match (ours, theirs) {
        (Value::Dict(ours), Value::Dict(theirs)) => {
            let keys = |dict: &Dict| repr(&Value::list(dict.keys().cloned()));
            if keys(ours) != keys(theirs) {
                return Some(format!("{path}: keys {} instead of {}", keys(ours), keys(theirs)));
            }
            let mut pairs = ours.iter().zip(theirs.values());
            pairs.find_map(|((key, ours), theirs)| difference(&format!("{path}/{}", repr(key)), ours, theirs))
        }
        (Value::List(ours) | Value::Tuple(ours), Value::List(theirs)) => {
            if ours.len() != theirs.len() {
                return Some(format!("{path}: {} items instead of {}", ours.len(), theirs.len()));
            }
            let mut pairs = ours.iter().zip(theirs.iter()).enumerate();
            pairs.find_map(|(index, (ours, theirs))| difference(&format!("{path}/{index}"), ours, theirs))
        }
        (Value::Float(one), Value::Float(other)) => {
            let close = one == other || (one - other).abs() <= 1e-12 * other.abs();
            if close { None } else { unequal() }
        }
        _ if ours.type_name() == theirs.type_name() && ours == theirs => None,
        _ => unequal(),
    }
}

#[test]
fn computes_the_recorded_results() {
    let recorded = read_json(&golden("e2e/recorded.json"));
    let mut equal = Vec::new();
    let mut different = Vec::new();
    for run in recorded.as_list().unwrap() {
        let run = run.as_dict().unwrap();
        let name = run.get_str("name").and_then(Value::as_str).unwrap();
        let settings = Run(run.get_str("run").and_then(Value::as_dict).unwrap());
        let requests = run.get_str("requests").and_then(Value::as_list).unwrap();
        let results = evaluate(&settings, requests);
        if run.get_str("error").is_some_and(|error| !error.is_none()) {
            assert!(results.is_err(), "{name} must fail");
            continue;
        }
        let problem = match &results {
            Err(error) => Some(error.clone()),
            Ok(results) => PARTS.iter().find_map(|part| match (results.get_str(part), run.get_str(part)) {
                (Some(ours), Some(theirs)) => difference(part, ours, theirs),
                (None, None) => None,
                (ours, _) => Some(format!("{part}: we have {}", if ours.is_some() { "one" } else { "none" })),
            }),
        };
        match problem {
            None => equal.push(name),
            Some(problem) => different.push(format!("{name}: {problem}")),
        }
    }
    assert!(different.is_empty(), "{} runs equal, but:\n{}", equal.len(), different.join("\n"));
    assert_eq!(equal.len(), 30);
}

//! Logs of Inspect, as JSON or as archives: one file per task.

use std::path::Path;

use jiff::Timestamp;
use lmeval_pycompat::{Dict, Value, repr};

use super::log::{Log, LogSample, LogScore, LogTask};
use super::{archive, at, dicts_at, number_or_text, read_json, text_at, wrong};
use crate::Error;
use crate::read::has_extension;

/// Metrics that describe the error of another one.
const ERRORS: [&str; 4] = ["stderr", "std", "var", "bootstrap_stderr"];

/// What the logs of one run have in common.
pub(super) fn run_id(path: &Path) -> Result<Option<String>, Error> {
    let log = if has_extension(path, "eval") { archive::header(path)? } else { read_json(path)? };
    Ok(text_at(&log, &["eval", "run_id"]))
}

/// Reads the scores and documents of a log.
pub(super) fn read(path: &Path) -> Result<Log, Error> {
    let whole = if has_extension(path, "eval") { archive::read(path)? } else { read_json(path)? };
    let of = |key: &str| text_at(&whole, &["eval", key]);
    match text_at(&whole, &["status"]).as_deref() {
        Some("success") => {}
        status => {
            let status = status.unwrap_or("unknown");
            let problem = format!("the status of the run is `{status}`, so its scores are of a part");
            return Err(wrong(path, &problem).into());
        }
    }
    let name = of("task").ok_or_else(|| wrong(path, "`eval` has no `task`"))?;
    let scores = scores(path, &whole)?;
    let samples = dicts_at(&whole, &["samples"]).flat_map(|sample| documents(sample, &scores)).collect();
    let version = at(&whole, &["eval", "packages"]).and_then(|packages| {
        let (name, version) = packages.as_dict()?.iter().next()?;
        Some(format!("{} {}", repr::str(name), repr::str(version)))
    });
    let task = LogTask {
        // A task of a package is `package/task`.
        name: of("task_id").filter(|id| id.contains("::")).unwrap_or(name),
        version: at(&whole, &["eval", "task_version"]).map(number_or_text),
        shots: at(&whole, &["eval", "task_args", "num_fewshot"]).cloned(),
        documents: at(&whole, &["results", "completed_samples"]).and_then(Value::to_f64).map(|n| n as i64),
        scores: scores.into_iter().map(|(_, score)| score).collect(),
        samples,
    };
    let created = of("created").and_then(|created| created.parse::<Timestamp>().ok());
    Ok(Log {
        model: of("model").ok_or_else(|| wrong(path, "`eval` has no `model`"))?,
        date: created.map(|created| created.as_microsecond() as f64 / 1e6),
        source: version.unwrap_or_else(|| "Inspect".to_owned()),
        tasks: vec![task],
    })
}

/// The scores, each with the name under which samples have its values.
fn scores(path: &Path, whole: &Dict) -> Result<Vec<(String, LogScore)>, Error> {
    let mut found = Vec::new();
    for (index, score) in dicts_at(whole, &["results", "scores"]).enumerate() {
        let lacks = |key: &str| wrong(path, &format!("`results.scores[{index}]` has no `{key}`"));
        let name = text_at(score, &["name"]).ok_or_else(|| lacks("name"))?;
        let metrics = at(score, &["metrics"]).and_then(Value::as_dict).ok_or_else(|| lacks("metrics"))?;
        let value_of = |metric: &str| at(metrics, &[metric, "value"]).and_then(Value::to_f64);
        for metric in metrics.keys().filter_map(Value::as_str).filter(|metric| !ERRORS.contains(metric)) {
            let Some(value) = value_of(metric) else { continue };
            // `exact_match,strict-match` is a score that this program published.
            let (own, filter) = match name.split_once(',') {
                Some((_, filter)) => (metric.split(',').next().unwrap_or(metric), filter),
                None if name == metric => (metric, "none"),
                None => (metric, name.as_str()),
            };
            found.push((
                name.clone(),
                LogScore {
                    metric: own.to_owned(),
                    filter: filter.to_owned(),
                    value,
                    stderr: ERRORS
                        .iter()
                        .find_map(|error| value_of(error).filter(|_| error.ends_with("stderr"))),
                    higher_is_better: true,
                },
            ));
        }
    }
    if found.is_empty() {
        return Err(wrong(path, "the log has no scores").into());
    }
    Ok(found)
}

/// A document once for each filter. Later epochs of a document are not documents of their own: the scores of the first are taken.
fn documents(sample: &Dict, scores: &[(String, LogScore)]) -> Vec<LogSample> {
    if at(sample, &["epoch"]).and_then(Value::to_f64).is_some_and(|epoch| epoch > 1.0) {
        return Vec::new();
    }
    let mut found: Vec<LogSample> = Vec::new();
    for (name, score) in scores {
        let Some(value) = at(sample, &["scores", name, "value"]).and_then(grade) else { continue };
        let filtered = text_at(sample, &["scores", name, "answer"]);
        let index = found.iter().position(|known| known.filter == score.filter).unwrap_or_else(|| {
            found.push(document(sample, &score.filter, filtered));
            found.len() - 1
        });
        found[index].values.push((score.metric.clone(), value));
    }
    found
}

fn document(sample: &Dict, filter: &str, filtered: Option<String>) -> LogSample {
    let plain = |value: &Value| value.as_str().map_or_else(|| repr::str(value), str::to_owned);
    let prompt = match at(sample, &["input"]) {
        Some(Value::List(messages)) => messages
            .iter()
            .filter_map(|message| at(message.as_dict()?, &["content"]).map(plain))
            .collect::<Vec<_>>()
            .join("\n\n"),
        Some(input) => plain(input),
        None => String::new(),
    };
    let row = at(sample, &["metadata", "doc"]).filter(|row| row.as_dict().is_some()).cloned();
    let target = match at(sample, &["target"]) {
        Some(Value::List(one)) if one.len() == 1 => one[0].clone(),
        target => target.cloned().unwrap_or_default(),
    };
    let answers = dicts_at(sample, &["output", "choices"]);
    LogSample {
        id: at(sample, &["id"]).map(plain).unwrap_or_default(),
        filter: filter.to_owned(),
        document: row.unwrap_or_else(|| Value::dict([("input", Value::str(prompt.as_str()))])),
        prompt,
        target,
        answers: answers.filter_map(|choice| at(choice, &["message", "content"]).map(plain)).collect(),
        filtered,
        values: Vec::new(),
    }
}

/// The number that a value of a score counts as: Inspect grades with letters, too.
fn grade(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(right) => Some(f64::from(u8::from(*right))),
        Value::Str(text) => match text.as_ref() {
            "C" => Some(1.0),
            "P" => Some(0.5),
            "I" | "N" => Some(0.0),
            number => number.parse().ok(),
        },
        number => number.to_f64(),
    }
}

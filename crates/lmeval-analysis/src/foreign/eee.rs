//! Every Eval Ever: a JSON file of scores, and JSON lines with documents beside it, a line per document and score.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use fs_err as fs;
use lmeval_core::Diagnostic;
use lmeval_pycompat::{Dict, Value, json};
use rustc_hash::FxHashMap;

use super::log::{Log, LogSample, LogScore, LogTask};
use super::{at, dicts_at, number_or_text, read_json, text_at, wrong};
use crate::Error;
use crate::read::parent;

/// The file of documents that belongs to a file of scores, if it is there.
pub(super) fn documents(path: &Path) -> Option<PathBuf> {
    let stem = path.file_stem()?.to_string_lossy();
    let beside = path.with_file_name(format!("{stem}_samples.jsonl"));
    if beside.is_file() {
        return Some(beside);
    }
    // The path in the file starts at the root of a data store; the file is usually beside its scores.
    let named = text_at(&read_json(path).ok()?, &["detailed_evaluation_results", "file_path"])?;
    let named = parent(path).join(Path::new(&named).file_name()?);
    named.is_file().then_some(named)
}

/// Reads scores and documents.
pub(super) fn read(path: &Path) -> Result<Log, Error> {
    let whole = read_json(path)?;
    let model = ["id", "name"].iter().find_map(|key| text_at(&whole, &["model_info", key]));
    let seconds = |key: &str| text_at(&whole, &[key])?.parse::<f64>().ok();
    let library = text_at(&whole, &["eval_library", "name"]).unwrap_or_else(|| "Every Eval Ever".to_owned());
    let version = text_at(&whole, &["eval_library", "version"]).unwrap_or_default();
    let mut log = Log {
        model: model.ok_or_else(|| wrong(path, "`model_info` has no `id`"))?,
        date: seconds("evaluation_timestamp").or_else(|| seconds("retrieved_timestamp")),
        source: format!("{library} {version}").trim_end().to_owned(),
        tasks: Vec::new(),
    };
    // Where a score is, by its identifier, and by the name of its task if that has a single one.
    let mut places: FxHashMap<String, (usize, usize)> = FxHashMap::default();
    for (index, result) in dicts_at(&whole, &["evaluation_results"]).enumerate() {
        let lacks = |key: &str| wrong(path, &format!("`evaluation_results[{index}]` has no `{key}`"));
        let name = text_at(result, &["evaluation_name"]).ok_or_else(|| lacks("evaluation_name"))?;
        let value = at(result, &["score_details", "score"]).and_then(Value::to_f64);
        let metric =
            ["metric_id", "metric_name"].iter().find_map(|key| text_at(result, &["metric_config", key]));
        let uncertainty = |keys: &[&str]| {
            let keys: Vec<&str> = ["score_details", "uncertainty"].iter().chain(keys).copied().collect();
            at(result, &keys).and_then(Value::to_f64)
        };
        let task = task_named(&mut log.tasks, &name);
        let entry = &mut log.tasks[task];
        entry.documents = entry.documents.or(uncertainty(&["num_samples"]).map(|count| count as i64));
        let detail =
            |key: &str| at(result, &["generation_config", "additional_details", key]).map(number_or_text);
        entry.shots = entry.shots.take().or_else(|| detail("num_fewshot"));
        entry.version = entry.version.take().or_else(|| detail("task_version"));
        entry.scores.push(LogScore {
            metric: metric.unwrap_or_else(|| "score".to_owned()),
            filter: text_at(result, &["metric_config", "additional_details", "filter"])
                .unwrap_or_else(|| "none".to_owned()),
            value: value.ok_or_else(|| lacks("score_details.score"))?,
            stderr: uncertainty(&["standard_error", "value"]),
            higher_is_better: at(result, &["metric_config", "lower_is_better"]).and_then(Value::as_bool)
                != Some(true),
        });
        let place = (task, entry.scores.len() - 1);
        if let Some(id) = text_at(result, &["evaluation_result_id"]) {
            places.insert(id, place);
        }
        if place.1 == 0 {
            places.insert(name, place)
        } else {
            places.remove(&name)
        };
    }
    if log.tasks.is_empty() {
        return Err(wrong(path, "no `evaluation_results`").into());
    }
    if let Some(documents) = documents(path) {
        read_documents(&documents, &places, &mut log.tasks)?;
    }
    Ok(log)
}

fn task_named(tasks: &mut Vec<LogTask>, name: &str) -> usize {
    tasks.iter().position(|task| task.name == name).unwrap_or_else(|| {
        tasks.push(LogTask { name: name.to_owned(), ..LogTask::default() });
        tasks.len() - 1
    })
}

/// Puts the scores of a document together, of which each has a line.
fn read_documents(
    path: &Path,
    places: &FxHashMap<String, (usize, usize)>,
    tasks: &mut [LogTask],
) -> Result<(), Error> {
    let file = fs::File::open(path).map_err(|error| Diagnostic::cannot_read(path, error))?;
    let mut known: FxHashMap<(usize, String, String), usize> = FxHashMap::default();
    for (index, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|error| Diagnostic::cannot_read(path, error))?;
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |problem: &str| wrong(path, &format!("line {} {problem}", index + 1));
        let Ok(Value::Dict(line)) = json::loads(&line) else {
            return Err(wrong("is not a JSON object").into());
        };
        let keys = ["evaluation_result_id", "evaluation_name"];
        let place = keys.iter().find_map(|key| places.get(&text_at(&line, &[key])?));
        let &(task, score) = place.ok_or_else(|| wrong("belongs to no score of the file of scores"))?;
        let id = at(&line, &["sample_id"]).map(plain).ok_or_else(|| wrong("has no `sample_id`"))?;
        let value = at(&line, &["evaluation", "score"]).and_then(Value::to_f64);
        let task_index = task;
        let task = &mut tasks[task];
        let (metric, filter) = (task.scores[score].metric.clone(), task.scores[score].filter.clone());
        let sample = *known.entry((task_index, filter.clone(), id.clone())).or_insert_with(|| {
            task.samples.push(document(&line, id, filter));
            task.samples.len() - 1
        });
        task.samples[sample].values.extend(value.map(|value| (metric, value)));
    }
    Ok(())
}

fn document(line: &Dict, id: String, filter: String) -> LogSample {
    let strings = |keys: &[&str]| match at(line, keys) {
        Some(Value::List(items)) => items.iter().map(plain).collect(),
        Some(single) => vec![plain(single)],
        None => Vec::new(),
    };
    let mut targets: Vec<Value> = strings(&["input", "reference"]).into_iter().map(Value::str).collect();
    let input = at(line, &["input"]).cloned().unwrap_or_default();
    let extracted = at(line, &["answer_attribution"]).and_then(Value::as_list).and_then(|list| list.last());
    LogSample {
        id,
        filter,
        document: input,
        prompt: at(line, &["input", "raw"]).map(plain).unwrap_or_default(),
        target: if targets.len() == 1 { targets.remove(0) } else { Value::list(targets) },
        answers: strings(&["output", "raw"]),
        filtered: extracted.and_then(|answer| text_at(answer.as_dict()?, &["extracted_value"])),
        values: Vec::new(),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| lmeval_pycompat::repr::str(value), str::to_owned)
}

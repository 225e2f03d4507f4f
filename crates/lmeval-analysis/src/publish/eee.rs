//! Every Eval Ever 0.3: one JSON file of scores and one of JSON lines with documents, in the folders of its data store.

use lmeval_core::Diagnostic;
use lmeval_pycompat::{Dict, Value};

use super::instances;
use super::output::{Output, json_text};
use super::record::{Record, is_hub_name, is_share, own_name, text};
use crate::Error;
use crate::summary::{Score, TaskSummary};

/// The version of the schema.
pub(super) const VERSION: &str = "0.3.0";

/// Writes `data/lm-eval/ORG/NAME/UUID.json` and `UUID_samples.jsonl`.
pub(super) fn write(record: &Record, output: &mut Output) -> Result<(), Error> {
    let model = record.model();
    if !is_hub_name(model) {
        let problem = format!("Every Eval Ever files a run under its model, and `{model}` is not ORG/NAME");
        return Err(Diagnostic::new(problem).hint("`--model-id ORG/NAME` names the model").into());
    }
    let uuid = record.uuid("eee");
    let base = format!("data/lm-eval/{model}/{uuid}");
    let (start, end) = record.times()?;
    let (start, end) = (format!("{start}"), format!("{end}"));
    let id = format!("lm-eval/{model}/{end}");
    let mut whole = Dict::new();
    whole.insert("schema_version", VERSION);
    whole.insert("evaluation_id", id.as_str());
    whole.insert("evaluation_timestamp", start);
    whole.insert("retrieved_timestamp", end);
    whole.insert("source_metadata", source(record));
    let version = record.summary.version.as_deref().unwrap_or("unknown");
    whole.insert(
        "eval_library",
        Value::dict([("name", Value::str("lm_eval")), ("version", Value::str(version))]),
    );
    whole.insert("model_info", model_info(record));
    let mut results = Vec::new();
    for task in &record.summary.tasks {
        for score in &task.scores {
            match score.value.filter(|value| value.is_finite()) {
                Some(value) => results.push(result(record, task, score, value)),
                None => output.notes.push(format!("`{}` of `{}` is not a number", score.metric, task.name)),
            }
        }
    }
    whole.insert("evaluation_results", Value::list(results));
    if let Some(written) = instances::write(record, &id, &format!("{base}_samples.jsonl"), output)? {
        let detailed = Value::dict([
            ("format", Value::str("jsonl")),
            ("file_path", Value::str(format!("{base}_samples.jsonl"))),
            ("hash_algorithm", Value::str("sha256")),
            ("checksum", Value::str(written.checksum)),
            ("total_rows", Value::Int(written.rows)),
        ]);
        whole.insert("detailed_evaluation_results", detailed);
    }
    output.write(&format!("{base}.json"), &(json_text(&Value::from(whole), Some(2))? + "\n"))
}

/// The identifier of a score, with which documents refer to it.
pub(super) fn result_id(task: &str, metric: &str, filter: &str) -> String {
    format!("{task}/{metric},{filter}")
}

fn source(record: &Record) -> Value {
    let organization = record.choice.organization.as_deref().unwrap_or("unknown");
    let relationship = record.choice.relationship.as_deref().unwrap_or("other");
    Value::dict([
        ("source_name", Value::str("lm-eval")),
        ("source_type", Value::str("evaluation_run")),
        ("source_organization_name", Value::str(organization)),
        ("evaluator_relationship", Value::str(relationship)),
    ])
}

fn model_info(record: &Record) -> Value {
    let model = record.model();
    let mut details = Dict::new();
    details.insert("deployment_type", "unknown");
    details.insert("model_availability", "unknown");
    for key in ["model", "model_args"] {
        if let Some(value) = record.setting(key) {
            details.insert(key, text(value));
        }
    }
    Value::dict([
        ("name", Value::str(record.summary.name.as_str())),
        ("id", Value::str(model)),
        ("developer", Value::str(model.split('/').next().unwrap_or_default())),
        ("additional_details", Value::from(details)),
    ])
}

fn result(record: &Record, task: &TaskSummary, score: &Score, value: f64) -> Value {
    let mut metric = Dict::new();
    metric.insert("metric_id", score.metric.as_str());
    metric.insert("metric_name", score.metric.as_str());
    metric.insert("lower_is_better", score.higher_is_better == Some(false));
    if is_share(score) {
        metric.insert("metric_unit", "proportion");
        metric.insert("score_type", "continuous");
        metric.insert("min_score", 0.0);
        metric.insert("max_score", 1.0);
    }
    let filter = Value::dict([("filter", Value::str(score.filter.as_str()))]);
    metric.insert("additional_details", filter);
    Value::dict([
        ("evaluation_result_id", Value::str(result_id(&task.name, &score.metric, &score.filter))),
        ("evaluation_name", Value::str(task.name.as_str())),
        ("source_data", source_data(record, task)),
        ("metric_config", Value::from(metric)),
        ("score_details", score_details(task, score, value)),
        ("generation_config", generation(record, task)),
    ])
}

fn score_details(task: &TaskSummary, score: &Score, value: f64) -> Value {
    let mut uncertainty = Dict::new();
    if let Some(stderr) = score.stderr.filter(|stderr| stderr.is_finite()) {
        uncertainty.insert("standard_error", Value::dict([("value", Value::Float(stderr))]));
    }
    if let Some(interval) = score.interval.filter(|_| is_share(score)) {
        let bounds = [("lower", interval.low), ("upper", interval.high), ("confidence_level", 0.95)];
        uncertainty.insert(
            "confidence_interval",
            Value::dict(bounds.map(|(name, bound)| (name, Value::Float(bound)))),
        );
    }
    if let Some(documents) = task.documents {
        uncertainty.insert("num_samples", documents as i64);
    }
    Value::dict([("score", Value::Float(value)), ("uncertainty", Value::from(uncertainty))])
}

fn source_data(record: &Record, task: &TaskSummary) -> Value {
    let Some(dataset) = record.hub_dataset(&task.name) else {
        return Value::dict([
            ("dataset_name", Value::str(own_name(task))),
            ("source_type", Value::str("other")),
        ]);
    };
    let config = record.config(&task.name);
    let of_config =
        |key: &str| config.and_then(|config| config.get_str(key)).filter(|value| value.is_truthy()).map(text);
    let mut data = Dict::new();
    data.insert("dataset_name", own_name(task));
    data.insert("source_type", "hf_dataset");
    data.insert("hf_repo", dataset);
    if let Some(split) = of_config("test_split").or_else(|| of_config("validation_split")) {
        data.insert("hf_split", split);
    }
    if let Some(documents) = task.documents {
        data.insert("samples_number", documents as i64);
    }
    if let Some(name) = of_config("dataset_name") {
        data.insert("additional_details", Value::dict([("dataset_name", Value::str(name))]));
    }
    Value::from(data)
}

/// How answers were generated, and the settings of the run as strings.
fn generation(record: &Record, task: &TaskSummary) -> Value {
    let (mut arguments, mut details) = (Dict::new(), Dict::new());
    if let Some(options) = record.generation(&task.name) {
        let names = [
            ("temperature", "temperature"),
            ("top_p", "top_p"),
            ("top_k", "top_k"),
            ("max_gen_toks", "max_tokens"),
        ];
        for (own, theirs) in names {
            if let Some(value @ (Value::Int(_) | Value::Float(_))) = options.get_str(own) {
                arguments.insert(theirs, value.clone());
            }
        }
        details.insert("generation_kwargs", text(&Value::from(options.clone())));
    }
    let of_task = [("num_fewshot", task.num_fewshot.as_ref()), ("task_version", task.version.as_ref())];
    for (name, value) in of_task {
        if let Some(value) = value.filter(|value| !value.is_none()) {
            details.insert(name, text(value));
        }
    }
    for key in
        ["limit", "gen_kwargs", "system_instruction", "fewshot_as_multiturn", "chat_template", "compat"]
    {
        if let Some(value) = record.setting(key) {
            details.insert(key, text(value));
        }
    }
    Value::dict([("generation_args", Value::from(arguments)), ("additional_details", Value::from(details))])
}

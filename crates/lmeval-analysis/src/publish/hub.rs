//! Evaluation results of the Hugging Face hub: `.eval_results/*.yaml` in the repository of a model.

use lmeval_core::Diagnostic;
use lmeval_pycompat::{Value, yaml};

use super::output::Output;
use super::record::{Record, is_share, iso, own_name};
use crate::Error;
use crate::summary::{Score, TaskSummary};

/// Writes `.eval_results/lm-eval.yaml`.
pub(super) fn write(record: &Record, output: &mut Output) -> Result<(), Error> {
    if let Some(limit) = record.summary.limit {
        let problem =
            format!("The run has a limit of {limit} documents, and leaderboards show scores of all");
        return Err(Diagnostic::new(problem)
            .hint("Run without `--limit`; `--to card` names the limit")
            .into());
    }
    let (mut entries, mut unknown) = (Vec::new(), Vec::new());
    for task in &record.summary.tasks {
        let Some((dataset, id)) = benchmark(record, task) else {
            unknown.push(task.name.as_str());
            continue;
        };
        let finite = |score: &&Score| score.value.is_some_and(f64::is_finite);
        let Some((score, value)) =
            task.scores.iter().find(finite).and_then(|score| Some((score, score.value?)))
        else {
            continue;
        };
        remark(task, score, output);
        entries.push(entry(record, task, score, value, (&dataset, &id))?);
    }
    if !unknown.is_empty() {
        output.notes.push(format!("Without a dataset of the hub: {}", unknown.join(", ")));
    }
    if entries.is_empty() {
        return Err(Diagnostic::new("No task of the run reads a dataset of the hub")
            .hint("`--benchmark TASK=ORG/DATASET:ID` names the benchmark of a task")
            .into());
    }
    output.write(".eval_results/lm-eval.yaml", &yaml::emit(&Value::list(entries)))
}

/// The dataset of a task and its task there.
fn benchmark(record: &Record, task: &TaskSummary) -> Option<(String, String)> {
    let is_named = |name: &str| name == task.name || name == own_name(task);
    if let Some(named) = record.choice.benchmarks.iter().find(|benchmark| is_named(&benchmark.task)) {
        return Some((named.dataset.clone(), named.id.clone()));
    }
    record.hub_dataset(&task.name).map(|dataset| (dataset.to_owned(), own_name(task).to_owned()))
}

/// An entry has one score: says which, and which are left out.
fn remark(task: &TaskSummary, chosen: &Score, output: &mut Output) {
    let label = |score: &Score| format!("{},{}", score.metric, score.filter);
    let others = task.scores.iter().filter(|score| !std::ptr::eq(*score, chosen));
    let others: Vec<String> = others.map(label).collect();
    if !others.is_empty() {
        output.notes.push(format!(
            "An entry has one score: `{}` of `{}`, without {}. `--metrics` chooses another",
            label(chosen),
            task.name,
            others.join(", ")
        ));
    }
}

fn entry(
    record: &Record,
    task: &TaskSummary,
    score: &Score,
    value: f64,
    (dataset, id): (&str, &str),
) -> Result<Value, Error> {
    // Leaderboards of the hub show percentages. Rounding keeps 0.07 from becoming 7.000000000000001.
    let value = if is_share(score) { (value * 1e8).round() / 1e6 } else { value };
    let mut notes =
        vec![format!("lm-eval {}", record.summary.version.as_deref().unwrap_or("of unknown version"))];
    notes.push(task.name.clone());
    notes.extend(task.version.as_ref().map(|version| format!("version {}", super::record::text(version))));
    notes.extend(task.num_fewshot.as_ref().map(|shots| format!("{}-shot", super::record::text(shots))));
    notes.push(format!("{}, filter {}", score.metric, score.filter));
    if is_share(score) {
        notes.push("in percent".to_owned());
    }
    let dataset = Value::dict([("id", Value::str(dataset)), ("task_id", Value::str(id))]);
    Ok(Value::dict([
        ("dataset", dataset),
        ("value", Value::Float(value)),
        ("date", Value::str(iso(record.times()?.0))),
        ("notes", Value::str(notes.join(", "))),
    ]))
}

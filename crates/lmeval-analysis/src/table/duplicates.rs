//! Several runs of one model.

use std::cmp::Reverse;

use lmeval_core::Diagnostic;
use lmeval_pycompat::{Dict, Value, repr};

use super::Duplicates;
use crate::Error;
use crate::read::Run;

/// The newest run of each task of a model.
pub(super) fn newest_of_each_task(
    runs: &[Run],
    model: &str,
    mut indices: Vec<usize>,
    duplicates: Duplicates,
    notes: &mut Vec<String>,
) -> Result<Vec<(String, usize)>, Error> {
    indices.sort_by_cached_key(|index| Reverse(runs[*index].age_key()));
    let mut chosen: Vec<(String, usize)> = Vec::new();
    let mut replaced: Vec<&str> = Vec::new();
    for &index in &indices {
        let run = &runs[index];
        let tasks = run.section("results").into_iter().flat_map(Dict::keys);
        for task in tasks.filter_map(Value::as_str) {
            let Some((_, newer)) = chosen.iter().find(|(name, _)| name == task) else {
                chosen.push((task.to_owned(), index));
                continue;
            };
            if runs[*newer].path == run.path {
                continue;
            }
            let differences = differences(&runs[*newer], run, task);
            if duplicates == Duplicates::NewestIfSame && !differences.is_empty() {
                return Err(ambiguous(model, task, &runs[*newer], run, &differences).into());
            }
            if !replaced.contains(&task) {
                replaced.push(task);
            }
        }
    }
    if let [first, ..] = replaced.as_slice() {
        let newest = chosen.iter().find(|(name, _)| name == first).map(|(_, index)| &runs[*index]);
        let path = newest.map(|run| run.path.display().to_string()).unwrap_or_default();
        let tasks = match replaced.len() {
            1 => format!("`{first}` is"),
            several => format!("`{first}` and {} more are", several - 1),
        };
        notes.push(format!("`{model}`: {tasks} in several runs; the newest is used: {path}"));
    }
    Ok(chosen)
}

fn ambiguous(model: &str, task: &str, newer: &Run, older: &Run, differences: &[String]) -> Diagnostic {
    Diagnostic::new(format!(
        "`{model}` has runs of `{task}` with different settings ({}):\n  {}\n  {}",
        differences.join("; "),
        newer.path.display(),
        older.path.display()
    ))
    .hint("Name the runs to show, or use --duplicates newest or --duplicates separate")
}

/// The settings of a task in which two runs differ.
fn differences(one: &Run, other: &Run, task: &str) -> Vec<String> {
    let of_task =
        |run: &Run, section: &str| run.section(section).and_then(|part| part.get_str(task)).cloned();
    let of_config =
        |run: &Run, key: &str| run.section("config").and_then(|config| config.get_str(key)).cloned();
    let of_run =
        |run: &Run, key: &str| run.results.as_ref().and_then(|results| results.get_str(key)).cloned();
    let pairs = [
        ("version", of_task(one, "versions"), of_task(other, "versions")),
        ("n-shot", of_task(one, "n-shot"), of_task(other, "n-shot")),
        ("n-samples", of_task(one, "n-samples"), of_task(other, "n-samples")),
        ("limit", of_config(one, "limit"), of_config(other, "limit")),
        ("model_args", of_config(one, "model_args"), of_config(other, "model_args")),
        ("gen_kwargs", of_config(one, "gen_kwargs"), of_config(other, "gen_kwargs")),
        ("chat_template", of_run(one, "chat_template_sha"), of_run(other, "chat_template_sha")),
        (
            "system_instruction",
            of_run(one, "system_instruction_sha"),
            of_run(other, "system_instruction_sha"),
        ),
        ("fewshot_as_multiturn", of_run(one, "fewshot_as_multiturn"), of_run(other, "fewshot_as_multiturn")),
    ];
    let shown = |value: &Option<Value>| value.as_ref().map_or_else(|| "none".to_owned(), repr::repr);
    pairs
        .iter()
        // Files of old releases lack some of these.
        .filter(|(_, one, other)| one.as_ref().zip(other.as_ref()).is_some_and(|(one, other)| one != other))
        .map(|(name, one, other)| match *name {
            "chat_template" | "system_instruction" => format!("{name} differs"),
            name => format!("{name} {} and {}", shown(one), shown(other)),
        })
        .collect()
}

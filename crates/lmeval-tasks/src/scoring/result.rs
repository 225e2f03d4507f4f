//! A task in results.

use lmeval_core::results::{TaskEntry, TaskResult};
use lmeval_core::scorers::{AnsweredDocument, ScoreError, TaskScorer};

use crate::Task;

/// Builds the results of a task whose answers were scored.
///
/// `name` is the key in results, `original` the number of documents in the evaluated split. Per-document records are
/// included if `log_samples` is set.
pub fn task_result(
    name: &str,
    task: &Task,
    scorer: &TaskScorer,
    documents: &[AnsweredDocument],
    original: usize,
    bootstrap_iters: i64,
    log_samples: bool,
) -> Result<TaskResult, ScoreError> {
    let aggregated = scorer.aggregate(bootstrap_iters)?;
    let own_name = name.rsplit_once("::").map_or(name, |(_, own)| own);
    let warnings = aggregated.warnings.iter().map(|warning| format!("Task `{name}`: {warning}")).collect();
    Ok(TaskResult {
        entry: TaskEntry {
            name: name.to_owned(),
            alias: task.config.task_alias.clone().unwrap_or_else(|| own_name.to_owned()),
            sample_len: aggregated.sample_len,
            metrics: aggregated.metrics,
        },
        version: task.config.version(),
        num_fewshot: task.config.num_fewshot.unwrap_or(0),
        higher_is_better: scorer.higher_is_better(),
        original,
        samples: log_samples.then(|| scorer.samples(documents)).transpose()?,
        audit: scorer.audit(documents),
        warnings,
    })
}

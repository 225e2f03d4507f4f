//! A task in results.

use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::results::{TaskEntry, TaskResult};
use lmeval_scoring::scorers::{Aggregated, AnsweredDocument, ScoreError, TaskScorer};

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
    with_scores(name, task, scorer, documents, original, log_samples, aggregated)
}

/// [`task_result`] without scores, for a part of a task whose values cannot be aggregated.
pub fn unscored_result(
    name: &str,
    task: &Task,
    scorer: &TaskScorer,
    documents: &[AnsweredDocument],
    original: usize,
    log_samples: bool,
) -> Result<TaskResult, ScoreError> {
    with_scores(name, task, scorer, documents, original, log_samples, Aggregated::default())
}

fn with_scores(
    name: &str,
    task: &Task,
    scorer: &TaskScorer,
    documents: &[AnsweredDocument],
    original: usize,
    log_samples: bool,
    aggregated: Aggregated,
) -> Result<TaskResult, ScoreError> {
    let own_name = name.rsplit_once("::").map_or(name, |(_, own)| own);
    let judging = scorer.diagnostics(documents);
    let of_judges = judging
        .iter()
        .flat_map(|(_, statistics)| [judge_warning(statistics), schema_warning(statistics)])
        .flatten();
    let warnings = aggregated.warnings.iter().cloned().chain(of_judges);
    let warnings = warnings.map(|warning| format!("Task `{name}`: {warning}")).collect();
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
        bounds: aggregated.bounds,
        judging,
        warnings,
    })
}

/// Says how far judgements without a verdict could have changed the score.
fn judge_warning(statistics: &Dict) -> Option<String> {
    let count = |name: &str| statistics.get_str(name).and_then(Value::as_i64).unwrap_or(0);
    let number = |name: &str| statistics.get_str(name).and_then(Value::to_f64);
    let (all, without) = (count("judgements"), count("unparsed") + count("failed"));
    if all == 0 && count("documents") > 0 {
        return Some("no document was judged".to_owned());
    }
    let (low, high) = (number("score_if_unparsed_worst")?, number("score_if_unparsed_best")?);
    (without > 0).then(|| {
        format!(
            "{without} of {all} judgements have no verdict; if all of them were the worst or the best one, the score \
             would be {low:.4} or {high:.4}"
        )
    })
}

/// Says that a judge's server did not enforce the schema.
fn schema_warning(statistics: &Dict) -> Option<String> {
    let count = |name: &str| statistics.get_str(name).and_then(Value::as_i64).unwrap_or(0);
    let (all, others) = (count("judgements") - count("failed"), count("outside_schema"));
    let field = statistics.get_str("guided")?.as_str()?.to_owned();
    (others > 0).then(|| {
        format!(
            "{others} of {all} judgements do not have the form of the schema, so verdicts were looked for in them; \
             the judge refuses or ignores `{field}`, or stopped at its token limit"
        )
    })
}

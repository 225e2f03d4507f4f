//! `--fail_under`: thresholds on the scores of a run.

use anyhow::{Result, bail};
use lmeval_analysis::threshold::Threshold;
use lmeval_core::{Diagnostic, Dialect, nearest};
use lmeval_pycompat::repr;
use lmeval_scoring::results::{RunResults, Score};
use lmeval_scoring::scorers::parent_metric;
use lmeval_tasks::config::{Given, MetricConfig, Named};
use lmeval_tasks::scoring::ResultKeys;
use lmeval_tasks::{Group, Task, TaskDict};

use crate::printer::Printer;

/// The flag, for messages.
pub(crate) const FAIL_UNDER: &str = "--fail_under";

/// Checks before a run that its scores will include those of the thresholds, as far as the tasks tell.
pub(crate) fn check(
    option: &str,
    thresholds: &[Threshold],
    loaded: &TaskDict,
    dialect: &Dialect,
    predict_only: bool,
) -> Result<()> {
    if thresholds.is_empty() {
        return Ok(());
    }
    if predict_only {
        bail!("`{option}` needs scores, and `--predict_only` computes none");
    }
    let keys = ResultKeys::new(loaded, dialect)?;
    for threshold in thresholds {
        let task = loaded.tasks.iter().find(|(name, _)| keys.get(name) == threshold.task);
        match (task, loaded.groups.get(&threshold.task)) {
            (Some((_, task)), _) => check_task(option, threshold, task)?,
            (None, Some(group)) => check_group(option, threshold, group)?,
            (None, None) => {
                let known: Vec<&str> = loaded
                    .groups
                    .keys()
                    .map(String::as_str)
                    .chain(loaded.tasks.keys().map(|name| keys.get(name)))
                    .collect();
                let near = nearest(&threshold.task, known.iter().copied());
                let names = if near.is_empty() { known } else { near };
                let message = format!(
                    "`{option} {threshold}`: `{}` is not a task or group of this run",
                    threshold.task
                );
                bail!(Diagnostic::new(message).hint(format!("The run has `{}`", names.join("`, `"))));
            }
        }
    }
    Ok(())
}

fn check_task(option: &str, threshold: &Threshold, task: &Task) -> Result<()> {
    let config = &task.config;
    // Python code may return any name.
    let mut is_open = config.scores_itself() || config.scorer.is_some();
    let mut known = Vec::new();
    for pipeline in &config.filter_list {
        is_open |= pipeline.metric_list.is_empty();
        for metric in &pipeline.metric_list {
            let Named::Name(name) = &metric.metric else {
                is_open = true;
                continue;
            };
            is_open |= task.registry().metric(name).is_none();
            known.push(format!("{name},{}", pipeline.name));
            if threshold.is_about(name, &pipeline.name) {
                return Ok(threshold.check_direction(direction(metric, name, task))?);
            }
        }
    }
    // Reductions of repeats add names such as `pass@1(exact_match)`.
    if is_open || parent_metric(&threshold.metric).is_some() {
        return Ok(());
    }
    Err(unknown(option, threshold, &known).into())
}

/// Whether more of a metric is better: as the task says, else as the metric does.
fn direction(metric: &MetricConfig, name: &str, task: &Task) -> Option<bool> {
    match &metric.higher_is_better {
        Given::Value(direction) => Some(*direction),
        Given::Null => Some(true),
        Given::Absent => task.registry().metric(name).map(|metric| metric.higher_is_better()),
    }
}

fn check_group(option: &str, threshold: &Threshold, group: &Group) -> Result<()> {
    let metrics = &group.config.aggregate_metric_list;
    if metrics.is_empty() {
        let message =
            format!("`{option} {threshold}`: the group `{}` has no score of its own", threshold.task);
        bail!(
            Diagnostic::new(message).hint("Name its tasks, or add an `aggregate_metric_list` to the group")
        );
    }
    let is_about = |metric: &str, filters: Option<&Vec<String>>| match filters {
        Some(filters) => filters.iter().any(|filter| threshold.is_about(metric, filter)),
        None => metric == threshold.metric,
    };
    if metrics.iter().any(|metric| is_about(&metric.metric, metric.filter_list.as_ref())) {
        return Ok(());
    }
    let known = metrics.iter().flat_map(|metric| match &metric.filter_list {
        Some(filters) => filters.iter().map(|filter| format!("{},{filter}", metric.metric)).collect(),
        None => vec![metric.metric.clone()],
    });
    Err(unknown(option, threshold, &known.collect::<Vec<_>>()).into())
}

fn unknown(option: &str, threshold: &Threshold, known: &[String]) -> Diagnostic {
    let message = format!("`{option} {threshold}`: `{}` has no such score", threshold.task);
    Diagnostic::new(message).hint(format!("It has `{}`", known.join("`, `")))
}

/// Prints one line per score that a threshold is about; returns whether all passed.
pub(crate) fn report(thresholds: &[Threshold], results: &RunResults, printer: &mut Printer) -> Result<bool> {
    let mut passed = true;
    for threshold in thresholds {
        let (about, others): (Vec<Score<'_>>, Vec<Score<'_>>) = results
            .scores()
            .filter(|score| score.task == threshold.task)
            .partition(|score| threshold.is_about(score.metric, score.filter));
        let key = |score: &Score<'_>| format!("{},{}", score.metric, score.filter);
        if about.is_empty() {
            return Err(unknown(FAIL_UNDER, threshold, &others.iter().map(key).collect::<Vec<_>>()).into());
        }
        for score in about {
            threshold.check_direction(score.higher_is_better)?;
            // All digits: a score that rounds to the threshold can still be below it.
            let line = format!(
                "{} {} is {}, required {}",
                threshold.task,
                key(&score),
                repr::str(score.value),
                threshold.condition()
            );
            if score.value.to_f64().is_some_and(|score| threshold.passes(score)) {
                printer.notes().info(&format!("PASS: {line}"));
            } else {
                printer.error(&format!("FAIL: {line}"));
                passed = false;
            }
        }
    }
    Ok(passed)
}

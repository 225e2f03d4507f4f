//! Group scores.

use std::collections::BTreeSet;

use lmeval_metrics::{MetricError, combined_stderr_unweighted, pooled_stderr, weighted_mean};
use lmeval_pycompat::Value;

use super::error::GroupError;
use super::spec::{GroupMetric, GroupSpec};
use crate::results::TaskEntry;
use crate::scorers::MetricKey;
use lmeval_core::Dialect;

/// The scores of a group.
#[derive(Clone, Debug, Default)]
pub struct GroupScores {
    /// The number of documents of all its tasks.
    pub sample_len: usize,
    /// Scores and standard errors, in output order.
    pub metrics: Vec<(MetricKey, Value)>,
    /// The number of documents behind each score.
    pub sample_counts: Vec<(MetricKey, u64)>,
    /// Warnings about scores that some or all tasks lack.
    pub warnings: Vec<String>,
}

/// The contributions of a group's tasks to one score.
#[derive(Default)]
struct Parts {
    values: Vec<f64>,
    sizes: Vec<u64>,
    /// Set to `None` as soon as one task has no standard error.
    stderrs: Vec<Option<f64>>,
    missing: Vec<String>,
}

/// Aggregates the entries of all tasks of a group; `None` if the group has no metrics.
///
/// `tasks` returns the entry of a task by its key; a key without an entry is treated as lacking every score.
pub(crate) fn aggregate_group<'a>(
    group: &GroupSpec,
    leaf_tasks: &[&str],
    tasks: impl Fn(&str) -> Option<&'a TaskEntry>,
    dialect: &Dialect,
) -> Result<Option<GroupScores>, GroupError> {
    if group.metrics.is_empty() {
        return Ok(None);
    }
    let mut scores = GroupScores {
        sample_len: leaf_tasks.iter().filter_map(|task| tasks(task)).map(|task| task.sample_len).sum(),
        ..GroupScores::default()
    };
    for metric in &group.metrics {
        for filter in filters_of(metric, leaf_tasks, &tasks) {
            let key = MetricKey::new(metric.metric.as_str(), filter);
            let parts = collect(group, &key, leaf_tasks, &tasks)?;
            if let Some(warning) = parts.warning(group, &key, leaf_tasks.len()) {
                scores.warnings.push(warning);
            }
            if parts.values.is_empty() {
                continue;
            }
            let failed = |source: MetricError| GroupError::Average {
                group: group.name.clone(),
                key: key.to_string(),
                source,
            };
            let mean = weighted_mean(&parts.values, &parts.sizes, metric.weight_by_size).map_err(failed)?;
            let stderr = match parts.stderrs.iter().copied().collect::<Option<Vec<f64>>>() {
                None => Value::str("N/A"),
                Some(stderrs) if dialect.scoring.unweighted_group_stderr && !metric.weight_by_size => {
                    Value::Float(combined_stderr_unweighted(&stderrs).map_err(failed)?)
                }
                Some(stderrs) => Value::Float(pooled_stderr(&stderrs, &parts.sizes).map_err(failed)?),
            };
            scores.metrics.push((key.clone(), Value::from(mean)));
            scores.metrics.push((key.stderr(), stderr));
            scores.sample_counts.push((key, parts.sizes.iter().sum()));
        }
    }
    Ok(Some(scores))
}

fn filters_of<'a>(
    metric: &GroupMetric,
    leaf_tasks: &[&str],
    tasks: &impl Fn(&str) -> Option<&'a TaskEntry>,
) -> Vec<String> {
    if let Some(filters) = &metric.filter_list {
        return filters.clone();
    }
    let keys = leaf_tasks.iter().filter_map(|task| tasks(task)).flat_map(|task| &task.metrics);
    let found: BTreeSet<String> = keys
        .filter(|(key, _)| !key.is_stderr && *key.metric == *metric.metric)
        .map(|(key, _)| key.scorer.to_string())
        .collect();
    found.into_iter().collect()
}

fn collect<'a>(
    group: &GroupSpec,
    key: &MetricKey,
    leaf_tasks: &[&str],
    tasks: &impl Fn(&str) -> Option<&'a TaskEntry>,
) -> Result<Parts, GroupError> {
    let mut parts = Parts::default();
    for name in leaf_tasks {
        let Some((task, value)) = tasks(name).and_then(|task| Some((task, task.metric(key)?))) else {
            parts.missing.push((*name).to_owned());
            continue;
        };
        let number = value.to_f64().ok_or_else(|| GroupError::NotANumber {
            group: group.name.clone(),
            task: (*name).to_owned(),
            key: key.to_string(),
            type_name: value.type_name(),
        })?;
        parts.values.push(number);
        parts.sizes.push(task.sample_len as u64);
        parts.stderrs.push(task.metric(&key.stderr()).and_then(Value::to_f64));
    }
    Ok(parts)
}

impl Parts {
    fn warning(&self, group: &GroupSpec, key: &MetricKey, tasks: usize) -> Option<String> {
        if self.values.is_empty() {
            return Some(format!("Group `{}`: no task reports `{key}`", group.name));
        }
        if self.missing.is_empty() {
            return None;
        }
        let shown: Vec<String> = self.missing.iter().take(5).map(|name| format!("`{name}`")).collect();
        let more = match self.missing.len().saturating_sub(5) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "Group `{}`: {} of {tasks} tasks do not report `{key}`: {}{more}",
            group.name,
            self.missing.len(),
            shown.join(", ")
        ))
    }
}

//! Group scores.

use std::collections::BTreeSet;

use lmeval_metrics::{MetricError, combined_stderr_unweighted, pooled_stderr, weighted_mean};
use lmeval_pycompat::{Dict, Value};

use super::error::GroupError;
use super::spec::{GroupMetric, GroupSpec};
use crate::dialect::Dialect;
use crate::results::TaskEntry;
use crate::scorers::MetricKey;

/// The result entry of a group, with warnings.
#[derive(Clone, Debug)]
pub struct GroupEntry {
    /// The entry as shown in results.
    pub entry: Dict,
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

/// Aggregates the entries of all tasks of a group.
///
/// `tasks` returns the entry of a task by its key; a key without an entry is treated as lacking every score.
pub fn aggregate_group<'a>(
    group: &GroupSpec,
    leaf_tasks: &[&str],
    tasks: impl Fn(&str) -> Option<&'a TaskEntry>,
    dialect: &Dialect,
) -> Result<GroupEntry, GroupError> {
    let mut entry = Dict::new();
    let mut warnings = Vec::new();
    entry.insert("alias", group.alias.as_deref().unwrap_or(&group.name));
    entry.insert("name", group.name.as_str());
    if group.metrics.is_empty() {
        return Ok(GroupEntry { entry, warnings });
    }
    let total: usize = leaf_tasks.iter().filter_map(|task| tasks(task)).map(|task| task.sample_len).sum();
    entry.insert("sample_len", total as i64);
    let mut counts = Dict::new();
    for metric in &group.metrics {
        for filter in filters_of(metric, leaf_tasks, &tasks) {
            let key = MetricKey::new(metric.metric.as_str(), filter);
            let parts = collect(group, &key, leaf_tasks, &tasks)?;
            if let Some(warning) = parts.warning(group, &key, leaf_tasks.len()) {
                warnings.push(warning);
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
            entry.insert(key.to_string(), mean);
            entry.insert(key.stderr().to_string(), stderr);
            counts.insert(key.to_string(), parts.sizes.iter().sum::<u64>() as i64);
        }
    }
    if !counts.is_empty() {
        entry.insert("sample_count", counts);
    }
    Ok(GroupEntry { entry, warnings })
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

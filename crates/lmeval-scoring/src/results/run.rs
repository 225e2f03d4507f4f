//! The results of a run.

use std::collections::HashMap;

use lmeval_pycompat::Value;

use super::sample::SampleRecord;
use super::task::{TaskEntry, TaskResult};
use crate::groups::{
    Directions, GroupError, GroupScores, GroupSpec, GroupTree, aggregate_group, inherit_higher_is_better,
    inherit_num_fewshot,
};
use crate::scorers::{Bounds, MetricKey, ScoreBounds};
use lmeval_core::Dialect;

/// The results of tasks and groups. [`sections`](Self::sections) has the form of a results file.
#[derive(Clone, Debug, Default)]
pub struct RunResults {
    /// Tasks in load order, without their records.
    pub tasks: Vec<TaskResult>,
    /// Groups, subgroups first.
    pub groups: Vec<GroupResult>,
    /// The sample records of each task that logs them.
    pub samples: Vec<(String, Vec<SampleRecord>)>,
    /// Warnings about scores.
    pub warnings: Vec<String>,
}

/// All results of one group.
#[derive(Clone, Debug)]
pub struct GroupResult {
    /// The result key.
    pub name: String,
    /// The name shown in tables.
    pub alias: String,
    /// The position among the groups in load order.
    pub index: usize,
    /// The keys of its direct members, tasks and groups.
    pub members: Vec<String>,
    /// The version as a string.
    pub version: String,
    /// The number of few-shot examples, if all members have the same.
    pub num_fewshot: Option<i64>,
    /// Whether higher is better, by metric; empty if no direct member is a task with metrics.
    pub higher_is_better: Directions,
    /// The scores; `None` if the group only lists its members.
    pub scores: Option<GroupScores>,
    /// The bounds of its scores if answers of its tasks are unfinished.
    pub bounds: ScoreBounds,
}

/// One score of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score<'a> {
    /// The task or group.
    pub task: &'a str,
    /// The metric.
    pub metric: &'a str,
    /// The pipeline of filters, `none` if the task has none.
    pub filter: &'a str,
    /// The value: nearly always a number.
    pub value: &'a Value,
    /// The standard error, if there is one.
    pub stderr: Option<f64>,
    /// Whether higher is better, if that is known.
    pub higher_is_better: Option<bool>,
}

impl RunResults {
    /// Combines the results of tasks and groups.
    pub fn collect(
        tasks: Vec<TaskResult>,
        groups: &[GroupSpec],
        dialect: &Dialect,
    ) -> Result<Self, GroupError> {
        let mut warnings: Vec<String> = tasks.iter().flat_map(|task| task.warnings.iter().cloned()).collect();
        let mut num_fewshot: HashMap<String, i64> =
            tasks.iter().map(|task| (task.entry.name.clone(), task.num_fewshot)).collect();
        inherit_num_fewshot(groups, &mut num_fewshot);
        let mut directions: Vec<(String, Directions)> =
            tasks.iter().map(|task| (task.entry.name.clone(), task.higher_is_better.clone())).collect();
        let disagreements = inherit_higher_is_better(groups, &mut directions);
        let tree = GroupTree::new(groups);
        let by_name: HashMap<&str, &TaskEntry> =
            tasks.iter().map(|task| (task.entry.name.as_str(), &task.entry)).collect();
        let mut collected = Vec::new();
        for group in tree.bottom_up() {
            let leaves = tree.leaf_tasks(group);
            let scores = aggregate_group(group, &leaves, |name| by_name.get(name).copied(), dialect)?;
            warnings.extend(scores.iter().flat_map(|scores| scores.warnings.iter().cloned()));
            let of_group = directions.iter().find(|(name, _)| *name == group.name);
            collected.push(GroupResult {
                name: group.name.clone(),
                alias: group.alias.clone().unwrap_or_else(|| group.name.clone()),
                index: groups.iter().position(|other| other.name == group.name).unwrap_or_default(),
                members: group.members.clone(),
                version: group.version.clone(),
                num_fewshot: num_fewshot.get(&group.name).copied(),
                higher_is_better: of_group.map(|(_, directions)| directions.clone()).unwrap_or_default(),
                bounds: group_bounds(group, &leaves, &tasks, scores.as_ref(), dialect)?,
                scores,
            });
        }
        warnings.extend(disagreements);
        let mut run = Self { tasks, groups: collected, samples: Vec::new(), warnings };
        for task in &mut run.tasks {
            if let Some(samples) = task.samples.take() {
                run.samples.push((task.entry.name.clone(), samples));
            }
        }
        Ok(run)
    }

    /// The tasks of a group, or the task itself.
    pub fn leaves<'a>(&'a self, name: &'a str) -> Vec<&'a str> {
        match self.groups.iter().find(|group| group.name == name) {
            // A group does not contain itself.
            Some(group) => {
                let members = group.members.iter().filter(|member| **member != name);
                members.flat_map(|member| self.leaves(member)).collect()
            }
            None => vec![name],
        }
    }

    /// The number of documents with a value of a task or group.
    pub fn documents(&self, name: &str) -> Option<usize> {
        let of_task = |task: &&TaskResult| task.entry.name == name;
        let group = || self.groups.iter().find(|group| group.name == name)?.scores.as_ref();
        let task = self.tasks.iter().find(of_task).map(|task| task.entry.sample_len);
        task.or_else(|| Some(group()?.sample_len))
    }

    /// All scores: those of tasks in load order, then those of groups, subgroups first.
    pub fn scores(&self) -> impl Iterator<Item = Score<'_>> {
        let tasks = self
            .tasks
            .iter()
            .map(|task| (task.entry.name.as_str(), task.entry.metrics.as_slice(), &task.higher_is_better));
        let groups = self.groups.iter().filter_map(|group| {
            Some((group.name.as_str(), group.scores.as_ref()?.metrics.as_slice(), &group.higher_is_better))
        });
        tasks.chain(groups).flat_map(|(task, metrics, directions)| {
            let values = metrics.iter().filter(|(key, _)| !key.is_stderr);
            values.map(move |(key, value)| Score {
                task,
                metric: &key.metric,
                filter: &key.scorer,
                value,
                stderr: find(metrics, &key.stderr()).and_then(Value::to_f64),
                higher_is_better: directions.get(&key.metric).copied().flatten(),
            })
        })
    }
}

/// The bounds of a group's scores: the scores of its tasks at their bounds, combined like the scores themselves.
fn group_bounds(
    group: &GroupSpec,
    leaves: &[&str],
    tasks: &[TaskResult],
    scores: Option<&GroupScores>,
    dialect: &Dialect,
) -> Result<ScoreBounds, GroupError> {
    let own: Vec<&TaskResult> =
        tasks.iter().filter(|task| leaves.contains(&task.entry.name.as_str())).collect();
    let keys = own.iter().flat_map(|task| task.bounds.iter().map(|(key, _)| key));
    let keys: Vec<&MetricKey> = keys.collect();
    if keys.is_empty() {
        return Ok(ScoreBounds::new());
    }
    let at = |bound: fn(&Bounds) -> f64| {
        let entries: Vec<TaskEntry> = own.iter().map(|task| task.at_bound(bound)).collect();
        let entry = |name: &str| entries.iter().find(|entry| entry.name == name);
        let scores = aggregate_group(group, leaves, entry, dialect)?;
        Ok::<_, GroupError>(scores.map(|scores| scores.metrics).unwrap_or_default())
    };
    let (lows, highs) = (at(|bounds| bounds.low)?, at(|bounds| bounds.high)?);
    let with_bounds = scores.iter().flat_map(|scores| &scores.metrics).filter(|(key, _)| keys.contains(&key));
    let bounds = with_bounds.filter_map(|(key, _)| {
        let [low, high] = [&lows, &highs].map(|metrics| find(metrics, key).and_then(Value::to_f64));
        Some((key.clone(), Bounds { low: low?, high: high? }))
    });
    Ok(bounds.collect())
}

/// The value of a key among scores and standard errors.
fn find<'a>(metrics: &'a [(MetricKey, Value)], key: &MetricKey) -> Option<&'a Value> {
    metrics.iter().find(|(known, _)| known == key).map(|(_, value)| value)
}

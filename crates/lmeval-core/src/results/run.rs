//! The results of a run.

use std::collections::HashMap;

use lmeval_pycompat::{Dict, Value};

use super::sample::SampleRecord;
use super::task::{TaskEntry, TaskResult};
use crate::dialect::Dialect;
use crate::groups::{
    Directions, GroupError, GroupSpec, GroupTree, aggregate_group, directions_to_dict,
    inherit_higher_is_better, inherit_num_fewshot,
};

/// The results of tasks and groups, in the structure of a results file.
#[derive(Clone, Debug, Default)]
pub struct RunResults {
    /// Tasks in load order, then groups, subgroups first.
    pub results: Dict,
    /// The groups that have scores; omitted from the output if empty.
    pub groups: Dict,
    /// The direct members of each group.
    pub group_subtasks: Dict,
    /// Versions by name, sorted.
    pub versions: Dict,
    /// Numbers of few-shot examples by name, sorted.
    pub num_fewshot: Dict,
    /// Directions by name, sorted.
    pub higher_is_better: Dict,
    /// The number of documents in the split, the number scored, and the number left out for lack of an answer, by task.
    pub n_samples: Dict,
    /// Counts of suspicious answers, by task and pipeline.
    pub audit: Dict,
    /// Statistics about judgements, by task and pipeline; omitted from the output if empty.
    pub judging: Dict,
    /// The sample records of each task that logs them.
    pub samples: Vec<(String, Vec<SampleRecord>)>,
    /// Warnings about scores.
    pub warnings: Vec<String>,
}

impl RunResults {
    /// Combines the results of tasks and groups.
    pub fn collect(
        tasks: Vec<TaskResult>,
        groups: &[GroupSpec],
        dialect: &Dialect,
    ) -> Result<Self, GroupError> {
        let mut run = Self::default();
        let mut directions: Vec<(String, Directions)> = Vec::new();
        for task in &tasks {
            let name = task.entry.name.as_str();
            run.results.insert(name, task.entry.to_dict());
            run.versions.insert(name, task.version.clone());
            run.num_fewshot.insert(name, task.num_fewshot);
            directions.push((name.to_owned(), task.higher_is_better.clone()));
            // Documents without an answer exist only in some runs, and so does their count.
            let failed = task.audit.iter().map(|(_, audit)| audit.errored).max().unwrap_or(0);
            let counts =
                [("original", task.original), ("effective", task.entry.sample_len), ("failed", failed)];
            let counts = counts.into_iter().filter(|(key, count)| *key != "failed" || *count > 0);
            run.n_samples
                .insert(name, Value::dict(counts.map(|(key, count)| (key, Value::Int(count as i64)))));
            run.warnings.extend(task.warnings.iter().cloned());
            let audits = task.audit.iter();
            run.audit.insert(
                name,
                Value::dict(audits.map(|(pipeline, audit)| (pipeline.clone(), Value::from(audit.to_dict())))),
            );
        }
        run.judging = tasks
            .iter()
            .filter(|task| !task.judging.is_empty())
            .map(|task| {
                let pipelines =
                    task.judging.iter().map(|(name, dict)| (name.clone(), Value::from(dict.clone())));
                (Value::str(task.entry.name.as_str()), Value::dict(pipelines))
            })
            .collect();
        run.add_groups(&tasks, groups, dialect)?;
        inherit_num_fewshot(groups, &mut run.num_fewshot);
        run.warnings.extend(inherit_higher_is_better(groups, &mut directions));
        run.higher_is_better = directions
            .iter()
            .map(|(name, directions)| {
                (Value::str(name.as_str()), Value::from(directions_to_dict(directions)))
            })
            .collect();
        for sorted in [&mut run.versions, &mut run.num_fewshot, &mut run.higher_is_better] {
            sort_by_name(sorted);
        }
        run.samples = tasks.into_iter().filter_map(|task| Some((task.entry.name, task.samples?))).collect();
        Ok(run)
    }

    fn add_groups(
        &mut self,
        tasks: &[TaskResult],
        groups: &[GroupSpec],
        dialect: &Dialect,
    ) -> Result<(), GroupError> {
        let tree = GroupTree::new(groups);
        let by_name: HashMap<&str, &TaskEntry> =
            tasks.iter().map(|task| (task.entry.name.as_str(), &task.entry)).collect();
        let entry_of = |name: &str| by_name.get(name).copied();
        for group in tree.bottom_up() {
            let aggregated = aggregate_group(group, &tree.leaf_tasks(group), entry_of, dialect)?;
            self.warnings.extend(aggregated.warnings);
            if !group.metrics.is_empty() {
                self.groups.insert(group.name.as_str(), aggregated.entry.clone());
            }
            self.results.insert(group.name.as_str(), aggregated.entry);
            self.versions.insert(group.name.as_str(), group.version.as_str());
        }
        for group in groups {
            let members = group.members.iter().map(|member| Value::str(member.as_str()));
            self.group_subtasks.insert(group.name.as_str(), Value::list(members));
        }
        Ok(())
    }

    /// The result object: everything except configurations, in the order of a results file.
    ///
    /// Includes `samples` if a task logs them. `audit`, which the reference harness does not have, comes last.
    pub fn to_dict(&self) -> Dict {
        let mut object = Dict::new();
        object.insert("results", self.results.clone());
        if !self.groups.is_empty() {
            object.insert("groups", self.groups.clone());
        }
        object.insert("group_subtasks", self.group_subtasks.clone());
        object.insert("versions", self.versions.clone());
        object.insert("n-shot", self.num_fewshot.clone());
        object.insert("higher_is_better", self.higher_is_better.clone());
        object.insert("n-samples", self.n_samples.clone());
        if !self.samples.is_empty() {
            object.insert("samples", self.samples_to_dict());
        }
        object.insert("audit", self.audit.clone());
        if !self.judging.is_empty() {
            object.insert("judging", self.judging.clone());
        }
        object
    }

    /// The records of each task, in the form of the result object.
    pub fn samples_to_dict(&self) -> Dict {
        let records = |records: &[SampleRecord]| {
            Value::list(records.iter().map(|record| Value::from(record.to_dict())))
        };
        self.samples.iter().map(|(task, samples)| (Value::str(task.as_str()), records(samples))).collect()
    }
}

fn sort_by_name(dict: &mut Dict) {
    let mut entries: Vec<(Value, Value)> = std::mem::take(dict).into_entries().collect();
    // Reference: names sort by code points, which is the order of their UTF-8 bytes.
    entries.sort_by(|(left, _), (right, _)| left.as_str().cmp(&right.as_str()));
    *dict = entries.into_iter().collect();
}

//! The parts of a results file that scores make up.

use lmeval_pycompat::{Dict, Value};

use super::run::{GroupResult, RunResults};
use super::sample::SampleRecord;
use super::task::TaskResult;
use crate::groups::{Directions, directions_to_dict};
use crate::scorers::{Bounds, ScoreBounds};

/// The results of tasks and groups, by the keys of a results file.
#[derive(Clone, Debug, Default)]
pub struct Sections {
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
    /// The smallest and largest value of scores with unfinished answers, by task or group and score; omitted from the
    /// output if empty.
    pub bounds: Dict,
    /// Statistics about judgements, by task and pipeline; omitted from the output if empty.
    pub judging: Dict,
}

impl RunResults {
    /// The results by the keys of a results file.
    pub fn sections(&self) -> Sections {
        let mut sections = Sections::default();
        for task in &self.tasks {
            sections.add_task(task);
        }
        for group in &self.groups {
            sections.add_group(group);
        }
        let mut in_load_order: Vec<&GroupResult> = self.groups.iter().collect();
        in_load_order.sort_by_key(|group| group.index);
        for group in in_load_order {
            let members = group.members.iter().map(|member| Value::str(member.as_str()));
            sections.group_subtasks.insert(group.name.as_str(), Value::list(members));
        }
        for sorted in [&mut sections.versions, &mut sections.num_fewshot, &mut sections.higher_is_better] {
            sort_by_name(sorted);
        }
        sections
    }

    /// The records of each task, in the form of the result object.
    pub fn samples_to_dict(&self) -> Dict {
        let records = |records: &[SampleRecord]| {
            Value::list(records.iter().map(|record| Value::from(record.to_dict())))
        };
        self.samples.iter().map(|(task, samples)| (Value::str(task.as_str()), records(samples))).collect()
    }

    /// The result object: everything except configurations, in the order of a results file.
    ///
    /// Includes `samples` if a task logs them. `audit`, which the reference harness does not have, comes last.
    pub fn to_dict(&self) -> Dict {
        let sections = self.sections();
        let mut object = Dict::new();
        object.insert("results", sections.results);
        if !sections.groups.is_empty() {
            object.insert("groups", sections.groups);
        }
        object.insert("group_subtasks", sections.group_subtasks);
        object.insert("versions", sections.versions);
        object.insert("n-shot", sections.num_fewshot);
        object.insert("higher_is_better", sections.higher_is_better);
        object.insert("n-samples", sections.n_samples);
        if !self.samples.is_empty() {
            object.insert("samples", self.samples_to_dict());
        }
        object.insert("audit", sections.audit);
        if !sections.bounds.is_empty() {
            object.insert("bounds", sections.bounds);
        }
        if !sections.judging.is_empty() {
            object.insert("judging", sections.judging);
        }
        object
    }
}

impl Sections {
    fn add_task(&mut self, task: &TaskResult) {
        let name = task.entry.name.as_str();
        self.results.insert(name, task.entry.to_dict());
        self.versions.insert(name, task.version.clone());
        self.num_fewshot.insert(name, task.num_fewshot);
        self.add_directions(name, &task.higher_is_better);
        // Documents without an answer exist only in some runs, and so does their count.
        let failed = task.errored();
        let counts = [("original", task.original), ("effective", task.entry.sample_len), ("failed", failed)];
        let counts = counts.into_iter().filter(|(key, count)| *key != "failed" || *count > 0);
        self.n_samples.insert(name, Value::dict(counts.map(|(key, count)| (key, Value::Int(count as i64)))));
        let audits = task.audit.iter();
        let audits = audits.map(|(pipeline, audit)| (pipeline.clone(), Value::from(audit.to_dict())));
        self.audit.insert(name, Value::dict(audits));
        self.add_bounds(name, &task.bounds);
        if !task.judging.is_empty() {
            let pipelines = task.judging.iter();
            let pipelines =
                pipelines.map(|(pipeline, judging)| (pipeline.clone(), Value::from(judging.clone())));
            self.judging.insert(name, Value::dict(pipelines));
        }
    }

    fn add_group(&mut self, group: &GroupResult) {
        let name = group.name.as_str();
        let mut entry = Dict::new();
        entry.insert("alias", group.alias.as_str());
        entry.insert("name", name);
        if let Some(scores) = &group.scores {
            entry.insert("sample_len", scores.sample_len as i64);
            for (key, value) in &scores.metrics {
                entry.insert(key.to_string(), value.clone());
            }
            if !scores.sample_counts.is_empty() {
                let counts = scores.sample_counts.iter();
                let counts = counts.map(|(key, count)| (key.to_string(), Value::Int(*count as i64)));
                entry.insert("sample_count", Value::dict(counts));
            }
            self.groups.insert(name, entry.clone());
        }
        self.results.insert(name, entry);
        self.versions.insert(name, group.version.as_str());
        if let Some(num_fewshot) = group.num_fewshot {
            self.num_fewshot.insert(name, num_fewshot);
        }
        self.add_bounds(name, &group.bounds);
        if !group.higher_is_better.is_empty() {
            self.add_directions(name, &group.higher_is_better);
        }
    }

    fn add_bounds(&mut self, name: &str, bounds: &ScoreBounds) {
        let pairs = bounds.iter().map(|(key, Bounds { low, high })| {
            (key.to_string(), Value::list([Value::Float(*low), Value::Float(*high)]))
        });
        let pairs = Value::dict(pairs);
        if !bounds.is_empty() {
            self.bounds.insert(name, pairs);
        }
    }

    fn add_directions(&mut self, name: &str, directions: &Directions) {
        self.higher_is_better.insert(name, directions_to_dict(directions));
    }
}

fn sort_by_name(dict: &mut Dict) {
    let mut entries: Vec<(Value, Value)> = std::mem::take(dict).into_entries().collect();
    // Reference: names sort by code points, which is the order of their UTF-8 bytes.
    entries.sort_by(|(left, _), (right, _)| left.as_str().cmp(&right.as_str()));
    *dict = entries.into_iter().collect();
}

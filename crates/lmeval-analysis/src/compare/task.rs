//! Comparing the scores of one task.

use std::sync::Arc;

use lmeval_core::Diagnostic;
use lmeval_metrics::aggregation::AnyAggregation;
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::registry::Registry;
use lmeval_scoring::results::hash_text;

use super::align::{Alignment, align};
use super::corpus::aggregates;
use super::difference::{Difference, means};
use super::group::GroupPart;
use super::prompts::check_prompts;
use super::runs::{Compared, Comparison, Flip, Parts, Settings};
use crate::Error;
use crate::read::{Column, DocKey, Pipeline, Run, Values, Wanted};

/// Compares every score of one task, with notes about everything that is left out.
pub(super) fn compare_task(
    base: &Run,
    new: &Run,
    task: &str,
    settings: &Settings,
    registry: &Registry,
    comparison: &mut Comparison,
    parts: &mut Parts,
) -> Result<(), Error> {
    let (Some(base_file), Some(new_file)) = (base.samples_of(task), new.samples_of(task)) else {
        return Ok(());
    };
    let of_metadata = cluster_field(base, task).or_else(|| cluster_field(new, task));
    let cluster = settings.cluster.clone().or(of_metadata);
    let wanted = Wanted { labels: [cluster.as_deref(), settings.by.as_deref()] };
    let (base_read, new_read) =
        rayon::join(|| settings.read(&base_file.path, wanted), || settings.read(&new_file.path, wanted));
    let (base_read, new_read) = (base_read?, new_read?);
    let ((base_pipelines, base_sum), (new_pipelines, new_sum)) = (&*base_read, &*new_read);
    let changes = [base.samples_change(base_file, *base_sum), new.samples_change(new_file, *new_sum)];
    comparison.notes.extend(changes.into_iter().flatten());
    for (file, pipelines) in [(base_file, base_pipelines), (new_file, new_pipelines)] {
        if pipelines.is_empty() {
            return Err(Diagnostic::new(format!("`{}` has no samples", file.path.display()))
                .hint("The run was probably interrupted; use the results of a finished run")
                .into());
        }
    }
    if let (Some(field), None) = (&cluster, &settings.cluster) {
        comparison
            .notes
            .push(format!("Documents of `{task}` are clustered by `{field}`, as its metadata says"));
    }
    for right in new_pipelines {
        if !base_pipelines.iter().any(|left| left.filter == right.filter) {
            comparison
                .notes
                .push(format!("Only `{}` has the filter `{}` of `{task}`", new.name, right.filter));
        }
    }
    for left in base_pipelines {
        let Some(right) = new_pipelines.iter().find(|right| right.filter == left.filter) else {
            comparison
                .notes
                .push(format!("Only `{}` has the filter `{}` of `{task}`", base.name, left.filter));
            continue;
        };
        let alignment = align(left, right);
        if alignment.pairs.is_empty() {
            return Err(Diagnostic::new(format!("The runs have no document of `{task}` in common"))
                .hint("They were scored on different data: compare their datasets, splits and `--limit`")
                .into());
        }
        if !alignment.by_hash {
            comparison.notes.push(format!(
                "Documents of `{task}` are paired by their ids, because one of the runs has no hashes: they are assumed equal"
            ));
        }
        if !settings.allow_different_prompts {
            check_prompts(task, left, right, &alignment, &base_file.path, &new_file.path)?;
        }
        if alignment.only_base + alignment.only_new > 0 {
            comparison.notes.push(format!(
                "{} documents of `{task}` are only in `{}`, {} only in `{}`; the {} that both have are compared",
                alignment.only_base,
                base.name,
                alignment.only_new,
                new.name,
                alignment.pairs.len()
            ));
        }
        for (run, own, others) in [(base, left, right), (new, right, left)] {
            for column in &own.columns {
                if !others.columns.iter().any(|other| other.metric == column.metric) {
                    comparison.notes.push(format!("Only `{}` has `{}` of `{task}`", run.name, column.metric));
                }
            }
        }
        for column in &left.columns {
            let Some(other) = right.columns.iter().find(|other| other.metric == column.metric) else {
                continue;
            };
            let aggregation = aggregation_of(base, task, &column.metric, registry);
            let scored = Scored {
                task,
                left,
                right,
                alignment: &alignment,
                column,
                other,
                settings,
                is_clustered: cluster.is_some(),
            };
            let (outcome, by, flips) = match aggregation.filter(|aggregation| !aggregation.is_mean()) {
                Some(aggregation) => {
                    if cluster.is_some() || settings.by.is_some() {
                        comparison.notes.push(format!(
                            "`{}` of `{task}` is one number for all documents: neither clustered nor broken down",
                            column.metric
                        ));
                    }
                    (scored.corpus(&*aggregation)?, Vec::new(), Vec::new())
                }
                None => match scored.mean(base.section("groups").is_some(), comparison, parts) {
                    Some(outcome) => outcome,
                    None => continue,
                },
            };
            comparison.scores.push(Compared {
                task: task.to_owned(),
                filter: left.filter.clone(),
                metric: column.metric.clone(),
                higher_is_better: base.higher_is_better(task, &column.metric),
                is_group: false,
                outcome,
                benjamini_hochberg: f64::NAN,
                holm: f64::NAN,
                only_base: alignment.only_base,
                only_new: alignment.only_new,
                possible: None,
                by,
                flips,
            });
        }
    }
    Ok(())
}

/// A difference, its breakdown by field, and the changed documents.
type Scores = (Difference, Vec<(String, Difference)>, Vec<Flip>);

/// One metric of one pipeline in both runs.
struct Scored<'a> {
    task: &'a str,
    left: &'a Pipeline,
    right: &'a Pipeline,
    alignment: &'a Alignment,
    column: &'a Column,
    other: &'a Column,
    settings: &'a Settings,
    is_clustered: bool,
}

impl Scored<'_> {
    /// Compares means, also by field, and lists flips; `None` for values that are not numbers.
    fn mean(&self, has_groups: bool, comparison: &mut Comparison, parts: &mut Parts) -> Option<Scores> {
        let (Values::Numbers(base), Values::Numbers(new)) = (&self.column.values, &self.other.values) else {
            comparison.notes.push(format!(
                "`{}` of `{}` has values that are not numbers, and no known aggregation: not compared",
                self.column.metric, self.task
            ));
            return None;
        };
        let pairs = self.alignment.pairs.iter().map(|&(left, right)| (left as usize, right as usize));
        let kept: Vec<(usize, usize)> =
            pairs.filter(|&(left, right)| !base[left].is_nan() && !new[right].is_nan()).collect();
        let dropped = self.alignment.pairs.len() - kept.len();
        if dropped > 0 {
            comparison.notes.push(format!(
                "{dropped} documents of `{}` have NaN as `{}` in one of the runs and are not compared",
                self.task, self.column.metric
            ));
        }
        if kept.is_empty() {
            return None;
        }
        let base: Vec<f64> = kept.iter().map(|&(left, _)| base[left]).collect();
        let new: Vec<f64> = kept.iter().map(|&(_, right)| new[right]).collect();
        let clusters: Option<Vec<u32>> =
            self.is_clustered.then(|| kept.iter().map(|&(left, _)| self.left.rows[left].labels[0]).collect());
        let outcome = means(&base, &new, clusters.as_deref(), &self.settings.precision);
        let by = self.broken_down(&kept, &base, &new, clusters.as_deref());
        let flips = if self.settings.flips { self.flips(&kept, &base, &new) } else { Vec::new() };
        if has_groups {
            let name = (self.task.to_owned(), self.left.filter.clone(), self.column.metric.clone());
            parts.insert(name, GroupPart { keys: self.keys(&kept), base, new });
        }
        Some((outcome, by, flips))
    }

    /// The independent units of a group's tasks: documents, or clusters of them.
    fn keys(&self, kept: &[(usize, usize)]) -> Vec<DocKey> {
        let rows = kept.iter().map(|&(left, _)| &self.left.rows[left]);
        if !self.is_clustered {
            return rows.map(|row| row.key).collect();
        }
        let hashed = self.left.labels[0].iter().map(|label| {
            let hash = hash_text(label);
            DocKey::Hash(u128::from_str_radix(&hash[..32], 16).unwrap_or_default())
        });
        let hashed: Vec<DocKey> = hashed.collect();
        rows.map(|row| hashed[row.labels[0] as usize]).collect()
    }

    fn broken_down(
        &self,
        kept: &[(usize, usize)],
        base: &[f64],
        new: &[f64],
        clusters: Option<&[u32]>,
    ) -> Vec<(String, Difference)> {
        if self.settings.by.is_none() {
            return Vec::new();
        }
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); self.left.labels[1].len()];
        for (index, &(left, _)) in kept.iter().enumerate() {
            members[self.left.rows[left].labels[1] as usize].push(index);
        }
        let mut outcomes: Vec<(String, Difference)> = self.left.labels[1]
            .iter()
            .zip(members)
            .filter(|(_, members)| !members.is_empty())
            .map(|(label, members)| {
                let pick = |values: &[f64]| members.iter().map(|&index| values[index]).collect::<Vec<f64>>();
                let clusters = clusters
                    .map(|clusters| members.iter().map(|&index| clusters[index]).collect::<Vec<u32>>());
                (label.clone(), means(&pick(base), &pick(new), clusters.as_deref(), &self.settings.precision))
            })
            .collect();
        outcomes.sort_by(|(left, _), (right, _)| left.cmp(right));
        outcomes
    }

    fn flips(&self, kept: &[(usize, usize)], base: &[f64], new: &[f64]) -> Vec<Flip> {
        let mut flips: Vec<Flip> = kept
            .iter()
            .zip(base.iter().zip(new))
            .filter(|(_, (base, new))| base != new)
            .map(|(&(left, right), (&base, &new))| {
                let (left, right) = (&self.left.rows[left], &self.right.rows[right]);
                Flip { doc_id: left.doc_id, base, new, base_offset: left.offset, new_offset: right.offset }
            })
            .collect();
        flips.sort_by(|left, right| (right.new - right.base).abs().total_cmp(&(left.new - left.base).abs()));
        flips
    }

    fn corpus(&self, aggregation: &dyn AnyAggregation) -> Result<Difference, Error> {
        let values = |column: &Column, index: u32| match &column.values {
            Values::Numbers(numbers) => Value::Float(numbers[index as usize]),
            Values::Items(items) => items[index as usize].clone(),
        };
        let base: Vec<Value> =
            self.alignment.pairs.iter().map(|&(left, _)| values(self.column, left)).collect();
        let new: Vec<Value> =
            self.alignment.pairs.iter().map(|&(_, right)| values(self.other, right)).collect();
        aggregates(aggregation, &base, &new, &self.settings.precision).map_err(|error| {
            let message = format!("Cannot compare `{}` of `{}`", self.column.metric, self.task);
            Diagnostic::new(message).caused_by(error).into()
        })
    }
}

/// The aggregation of a metric: as the task's configuration in the results says, else as the metric has it.
fn aggregation_of(
    run: &Run,
    task: &str,
    metric: &str,
    registry: &Registry,
) -> Option<Arc<dyn AnyAggregation>> {
    let configured = run.section("configs").and_then(|configs| configs.get_str(task)).and_then(|config| {
        let Value::Dict(config) = config else { return None };
        let Some(Value::List(metrics)) = config.get_str("metric_list") else { return None };
        metrics.iter().find_map(|entry| match entry {
            Value::Dict(entry) if text(entry, "metric") == Some(metric) => {
                text(entry, "aggregation").map(str::to_owned)
            }
            _ => None,
        })
    });
    match configured {
        Some(name) => registry.aggregation(&name).ok().cloned(),
        None => registry.metric(metric).map(|metric| metric.aggregation()),
    }
}

pub(super) fn text<'a>(dict: &'a Dict, key: &str) -> Option<&'a str> {
    match dict.get_str(key)? {
        Value::Str(text) => Some(text),
        _ => None,
    }
}

/// The field that names the clusters of a task, as its metadata in the results says.
fn cluster_field(run: &Run, task: &str) -> Option<String> {
    let Value::Dict(config) = run.section("configs")?.get_str(task)? else { return None };
    let Value::Dict(metadata) = config.get_str("metadata")? else { return None };
    text(metadata, "cluster").map(str::to_owned)
}

//! Comparing all scores of two runs.

use std::io::BufReader;
use std::sync::Arc;

use fs_err as fs;
use lmeval_core::Diagnostic;
use lmeval_core::registry::Registry;
use lmeval_metrics::aggregation::AnyAggregation;
use lmeval_pycompat::{Dict, Value};
use rustc_hash::FxHashMap;

use super::align::{Alignment, align};
use super::corpus::aggregates;
use super::difference::{Difference, Precision, means};
use super::group::{GroupPart, group_difference};
use crate::Error;
use crate::read::{Column, DocKey, Fields, Pipeline, Run, Values, Wanted, read_line, read_samples};
use crate::stats::{benjamini_hochberg, holm};

/// Settings of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Confidence, power, resamples and seeds.
    pub precision: Precision,
    /// A field of documents that names their cluster.
    pub cluster: Option<String>,
    /// A field of documents to break scores down by.
    pub by: Option<String>,
    /// Collect the documents whose value changed.
    pub flips: bool,
    /// Compare documents although their prompts differ.
    pub allow_different_prompts: bool,
}

/// One score of both runs.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The task or group.
    pub task: String,
    /// The filter pipeline.
    pub filter: String,
    /// The metric, as samples and results name it.
    pub metric: String,
    /// Whether more is better, where the results say so.
    pub higher_is_better: Option<bool>,
    /// Whether this is the aggregate of a group.
    pub is_group: bool,
    /// The difference with its interval and test.
    pub outcome: Difference,
    /// The p-value after Benjamini and Hochberg, over all tasks and metrics of the comparison.
    pub benjamini_hochberg: f64,
    /// The p-value after Holm.
    pub holm: f64,
    /// Documents that only the base run has.
    pub only_base: usize,
    /// Documents that only the new run has.
    pub only_new: usize,
    /// The same score for each value of [`Settings::by`], in the order of the values.
    pub by: Vec<(String, Difference)>,
    /// Documents whose value changed, the largest change first.
    pub flips: Vec<Flip>,
}

/// A document whose value changed.
#[derive(Clone, Copy, Debug)]
pub struct Flip {
    /// Its id in the base run.
    pub doc_id: i64,
    /// Its value in the base run.
    pub base: f64,
    /// Its value in the new run.
    pub new: f64,
    /// Where its line starts in the samples file of the base run.
    pub base_offset: u64,
    /// Where its line starts in the samples file of the new run.
    pub new_offset: u64,
}

/// The outcome of [`compare`].
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Scores: tasks in the order of their names, then groups.
    pub scores: Vec<Compared>,
    /// Tasks that only the base run has.
    pub only_base: Vec<String>,
    /// Tasks that only the new run has.
    pub only_new: Vec<String>,
    /// Caveats: subsets, NaN values, documents that only one run has.
    pub notes: Vec<String>,
}

/// Values of one task that groups are computed from, by pipeline and metric.
type Parts = FxHashMap<(String, String, String), GroupPart>;

/// Compares every score that both runs have, on the documents that both have.
///
/// P-values are not adjusted yet: call [`adjust`] with all comparisons that are looked at together.
pub fn compare(base: &Run, new: &Run, settings: &Settings, registry: &Registry) -> Result<Comparison, Error> {
    for run in [base, new] {
        if run.samples.is_empty() {
            return Err(Diagnostic::new(format!("There are no samples beside `{}`", run.path.display()))
                .hint("Documents can be compared only if the run wrote them: `lm-eval run --log_samples`")
                .into());
        }
    }
    let mut comparison = Comparison {
        only_base: tasks_without(base, new),
        only_new: tasks_without(new, base),
        ..Comparison::default()
    };
    let shared: Vec<&str> = base
        .samples
        .iter()
        .map(|file| file.task.as_str())
        .filter(|task| new.samples_of(task).is_some())
        .collect();
    if shared.is_empty() {
        let names = |run: &Run| {
            run.samples.iter().map(|file| format!("`{}`", file.task)).collect::<Vec<_>>().join(", ")
        };
        return Err(Diagnostic::new("The runs have no task in common")
            .hint(format!("`{}` has {}; `{}` has {}", base.name, names(base), new.name, names(new)))
            .into());
    }
    for run in [base, new] {
        if let Some(limit) = run.limit() {
            comparison.notes.push(format!(
                "`{}` ran with --limit {limit}. Scores on a subset are not comparable with full runs.",
                run.name
            ));
        }
    }
    let mut parts = Parts::default();
    for task in shared {
        compare_task(base, new, task, settings, registry, &mut comparison, &mut parts)?;
    }
    compare_groups(base, new, &parts, &settings.precision, &mut comparison);
    Ok(comparison)
}

/// Adjusts the p-values of all scores of all comparisons for how many there are.
pub fn adjust(comparisons: &mut [Comparison]) {
    let scores = || comparisons.iter().flat_map(|comparison| &comparison.scores);
    let p_values: Vec<f64> = scores().map(|score| score.outcome.p_value).collect();
    let adjusted = benjamini_hochberg(&p_values).into_iter().zip(holm(&p_values));
    let scores = comparisons.iter_mut().flat_map(|comparison| &mut comparison.scores);
    for (score, (bh, holm)) in scores.zip(adjusted) {
        score.benjamini_hochberg = bh;
        score.holm = holm;
    }
}

fn tasks_without(run: &Run, other: &Run) -> Vec<String> {
    let tasks = run.samples.iter().map(|file| &file.task);
    tasks.filter(|task| other.samples_of(task).is_none()).cloned().collect()
}

fn compare_task(
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
    let wanted = Wanted { labels: [settings.cluster.as_deref(), settings.by.as_deref()] };
    let (base_read, new_read) =
        rayon::join(|| read_samples(&base_file.path, wanted), || read_samples(&new_file.path, wanted));
    let (base_pipelines, new_pipelines) = (base_read?, new_read?);
    for left in &base_pipelines {
        let Some(right) = new_pipelines.iter().find(|right| right.filter == left.filter) else {
            comparison
                .notes
                .push(format!("Only `{}` has the filter `{}` of `{task}`", base.name, left.filter));
            continue;
        };
        let alignment = align(left, right);
        if alignment.pairs.is_empty() {
            return Err(Diagnostic::new(format!("The runs have no document of `{task}` in common"))
                .hint("They were scored on different data: compare their data sets, splits and `--limit`")
                .into());
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
        for column in &left.columns {
            let Some(other) = right.columns.iter().find(|other| other.metric == column.metric) else {
                continue;
            };
            let aggregation = aggregation_of(base, task, &column.metric, registry);
            let scored = Scored { task, left, right, alignment: &alignment, column, other, settings };
            let (outcome, by, flips) = match aggregation.filter(|aggregation| !aggregation.is_mean()) {
                Some(aggregation) => (scored.corpus(&*aggregation)?, Vec::new(), Vec::new()),
                None => match scored.mean(comparison, parts) {
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
}

impl Scored<'_> {
    /// Compares means, also by field, and lists flips; `None` for values that are not numbers.
    fn mean(&self, comparison: &mut Comparison, parts: &mut Parts) -> Option<Scores> {
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
        let clusters: Option<Vec<u32>> = self
            .settings
            .cluster
            .as_ref()
            .map(|_| kept.iter().map(|&(left, _)| self.left.rows[left].labels[0]).collect());
        let outcome = means(&base, &new, clusters.as_deref(), &self.settings.precision);
        let keys: Vec<DocKey> = kept.iter().map(|&(left, _)| self.left.rows[left].key).collect();
        let name = (self.task.to_owned(), self.left.filter.clone(), self.column.metric.clone());
        let by = self.broken_down(&kept, &base, &new, clusters.as_deref());
        let flips = if self.settings.flips { self.flips(&kept, &base, &new) } else { Vec::new() };
        parts.insert(name, GroupPart { keys, base, new });
        Some((outcome, by, flips))
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

fn text<'a>(dict: &'a Dict, key: &str) -> Option<&'a str> {
    match dict.get_str(key)? {
        Value::Str(text) => Some(text),
        _ => None,
    }
}

/// Refuses to compare documents whose prompts differ, and shows the first such pair.
fn check_prompts(
    task: &str,
    left: &Pipeline,
    right: &Pipeline,
    alignment: &Alignment,
    base_path: &std::path::Path,
    new_path: &std::path::Path,
) -> Result<(), Error> {
    let differs = |&&(a, b): &&(u32, u32)| {
        let (a, b) = (left.rows[a as usize].prompt, right.rows[b as usize].prompt);
        a != 0 && b != 0 && a != b
    };
    let count = alignment.pairs.iter().filter(differs).count();
    let Some(&(a, b)) = alignment.pairs.iter().find(differs) else { return Ok(()) };
    let (a, b) = (&left.rows[a as usize], &right.rows[b as usize]);
    let prompts = first_difference(&prompt(base_path, a.offset), &prompt(new_path, b.offset));
    Err(Diagnostic::new(format!(
        "{count} of {} documents of `{task}` have different prompts, first document {}:\n{prompts}",
        alignment.pairs.len(),
        a.doc_id
    ))
    .hint("Runs with different prompts are different experiments; --allow-different-prompts compares them anyway").into())
}

/// The first prompt of a sample.
fn prompt(path: &std::path::Path, offset: u64) -> String {
    let read = || {
        let mut file = BufReader::new(fs::File::open(path).ok()?);
        let line = read_line(&mut file, offset).ok()?;
        let fields = Fields::parse(line.trim_end()).ok()?;
        let Some(Value::Dict(arguments)) = fields.value("arguments") else { return None };
        let (_, first) = arguments.iter().next()?;
        let Value::Dict(first) = first else { return None };
        text(first, "arg_0").map(str::to_owned)
    };
    read().unwrap_or_default()
}

/// Two strings from a little before the first difference.
fn first_difference(base: &str, new: &str) -> String {
    let same = base.chars().zip(new.chars()).take_while(|(a, b)| a == b).count();
    let excerpt = |prompt: &str| -> String {
        let start = same.saturating_sub(40);
        let shown: String = prompt.chars().skip(start).take(160).collect();
        let before = if start > 0 { "…" } else { "" };
        let after = if prompt.chars().count() > start + 160 { "…" } else { "" };
        format!("{before}{}{after}", shown.escape_debug())
    };
    format!("  base: {}\n  new:  {}", excerpt(base), excerpt(new))
}

/// Compares the groups that both runs have scores for.
fn compare_groups(base: &Run, new: &Run, parts: &Parts, precision: &Precision, comparison: &mut Comparison) {
    let (Some(groups), Some(other)) = (base.section("groups"), new.section("groups")) else { return };
    for (group, scores) in groups.iter() {
        let (Value::Str(group), Value::Dict(scores)) = (group, scores) else { continue };
        if other.get_str(group).is_none() {
            continue;
        }
        let leaves = leaves(base, group);
        for (key, score) in scores.iter() {
            let (Value::Str(key), Some(score)) = (key, score.to_f64()) else { continue };
            let Some((metric, filter)) = key.split_once(',') else { continue };
            if metric.ends_with("_stderr") {
                continue;
            }
            let tasks: Option<Vec<GroupPart>> = leaves
                .iter()
                .map(|task| parts.get(&(task.clone(), filter.to_owned(), metric.to_owned())).cloned())
                .collect();
            let Some(tasks) = tasks.filter(|tasks| !tasks.is_empty()) else { continue };
            // Results do not say how a group weighs its tasks; its own score does.
            let candidates = [true, false].map(|by_size| group_difference(&tasks, by_size, precision));
            let found = candidates
                .into_iter()
                .find(|outcome| (outcome.base - score).abs() <= 1e-9 * score.abs().max(1.0));
            let Some(outcome) = found else {
                comparison.notes.push(format!(
                    "`{metric}` of the group `{group}` is not the mean of its tasks on the shared documents: not compared"
                ));
                continue;
            };
            comparison.scores.push(Compared {
                task: group.to_string(),
                filter: filter.to_owned(),
                metric: metric.to_owned(),
                higher_is_better: base.higher_is_better(group, metric),
                is_group: true,
                outcome,
                benjamini_hochberg: f64::NAN,
                holm: f64::NAN,
                only_base: 0,
                only_new: 0,
                by: Vec::new(),
                flips: Vec::new(),
            });
        }
    }
}

/// The tasks below a group.
fn leaves(run: &Run, group: &str) -> Vec<String> {
    let Some(subtasks) = run.section("group_subtasks") else { return Vec::new() };
    let mut found = Vec::new();
    let mut open = vec![group.to_owned()];
    while let Some(name) = open.pop() {
        match subtasks.get_str(&name) {
            Some(Value::List(members)) if !members.is_empty() && found.len() < 100_000 => {
                open.extend(members.iter().filter_map(|member| {
                    if let Value::Str(member) = member { Some(member.to_string()) } else { None }
                }));
            }
            _ => found.push(name),
        }
    }
    found
}

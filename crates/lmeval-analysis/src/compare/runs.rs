//! Comparing all scores of two runs.

use std::path::Path;
use std::sync::Arc;

use lmeval_core::Diagnostic;
use lmeval_pycompat::Value;
use lmeval_scoring::registry::Registry;
use rustc_hash::FxHashMap;

use super::difference::{Difference, Precision};
use super::group::GroupPart;
use super::groups::{compare_groups, leaves};
use super::task::compare_task;
use crate::Error;
use crate::read::{Run, SampleCache, SampleScores, Wanted, read_samples};
use crate::stats::{Interval, benjamini_hochberg, holm};

/// Settings of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Confidence, power, resamples and seeds.
    pub precision: Precision,
    /// Only these tasks and groups; all of them if empty.
    pub tasks: Vec<String>,
    /// A field of documents that names their cluster; otherwise `metadata: {cluster: FIELD}` of each task.
    pub cluster: Option<String>,
    /// A field of documents to break scores down by.
    pub by: Option<String>,
    /// Collect the documents whose value changed.
    pub flips: bool,
    /// Compare documents although their prompts differ.
    pub allow_different_prompts: bool,
    /// Keeps the scores of samples files, for runs that are compared more than once.
    pub cache: Option<Arc<SampleCache>>,
}

impl Settings {
    /// The scores of a samples file.
    pub(super) fn read(&self, path: &Path, wanted: Wanted<'_>) -> Result<Arc<SampleScores>, Error> {
        match &self.cache {
            Some(cache) => cache.read(path, wanted),
            None => read_samples(path, wanted).map(Arc::new),
        }
    }
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
    /// The differences that are possible if every unfinished answer of either run could be right or wrong; `None` if all
    /// answers of both runs are finished.
    pub possible: Option<Interval>,
    /// The same score for each value of [`Settings::by`], in the order of the values.
    pub by: Vec<(String, Difference)>,
    /// Documents whose value changed, the largest change first.
    pub flips: Vec<Flip>,
}

impl Compared {
    /// Whether unfinished answers alone could explain the difference, so that it is no finding whatever its p-value is.
    pub fn is_within_bounds(&self) -> bool {
        self.possible.is_some_and(|possible| possible.low <= 0.0 && possible.high >= 0.0)
    }
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
pub(super) type Parts = FxHashMap<(String, String, String), GroupPart>;

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
    let mut shared: Vec<&str> = base
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
    select(&mut shared, base, &settings.tasks)?;
    note_versions(base, new, &shared, &mut comparison);
    for run in [base, new] {
        comparison.notes.extend(run.results_change());
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
    compare_groups(base, new, &parts, settings, &mut comparison);
    for score in &mut comparison.scores {
        score.possible = possible(score, base, new);
    }
    if comparison.scores.is_empty() {
        let reasons = std::mem::take(&mut comparison.notes);
        let none = Diagnostic::new("The runs share no score that can be compared");
        return Err(reasons.into_iter().fold(none, Diagnostic::hint).into());
    }
    Ok(comparison)
}

/// The differences that are possible if answers of the runs are unfinished.
fn possible(score: &Compared, base: &Run, new: &Run) -> Option<Interval> {
    let bounds = |run: &Run| run.bounds(&score.task, &score.metric, &score.filter);
    let (before, after) = (bounds(base), bounds(new));
    before.or(after)?;
    let exactly = |value: f64| Interval { low: value, high: value };
    let (before, after) = (
        before.unwrap_or_else(|| exactly(score.outcome.base)),
        after.unwrap_or_else(|| exactly(score.outcome.new)),
    );
    Some(Interval { low: after.low - before.high, high: after.high - before.low })
}

/// Keeps the tasks that are wanted themselves or as members of a wanted group.
fn select(shared: &mut Vec<&str>, base: &Run, wanted: &[String]) -> Result<(), Error> {
    if wanted.is_empty() {
        return Ok(());
    }
    let mut members: Vec<String> = Vec::new();
    for name in wanted {
        let found = leaves(base, name);
        if !found.iter().any(|task| shared.contains(&task.as_str())) {
            return Err(Diagnostic::new(format!("The runs share no samples of `{name}`"))
                .hint(format!("They share `{}`", shared.join("`, `")))
                .into());
        }
        members.extend(found);
    }
    shared.retain(|task| members.iter().any(|member| member == task));
    Ok(())
}

/// Notes tasks whose definition has another version.
fn note_versions(base: &Run, new: &Run, tasks: &[&str], comparison: &mut Comparison) {
    let version = |run: &Run, task: &str| run.section("versions")?.get_str(task).cloned();
    for task in tasks {
        let (Some(left), Some(right)) = (version(base, task), version(new, task)) else { continue };
        if left != right && !left.is_none() && !right.is_none() {
            let [left, right] = [left, right].map(|version| shown(&version));
            comparison.notes.push(format!(
                "`{task}` has version {left} in `{}` and {right} in `{}`: its definition may have changed",
                base.name, new.name
            ));
        }
    }
}

fn shown(value: &Value) -> String {
    lmeval_pycompat::repr::str(value)
}

fn tasks_without(run: &Run, other: &Run) -> Vec<String> {
    let tasks = run.samples.iter().map(|file| &file.task);
    tasks.filter(|task| other.samples_of(task).is_none()).cloned().collect()
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

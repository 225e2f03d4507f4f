//! From runs of checkpoints to a curve.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use lmeval_pycompat::Dict;
use lmeval_scoring::registry::Registry;
use rustc_hash::{FxHashMap, FxHashSet};

use super::runs::StepRun;
use super::{Change, Curve, Point, ScoreCurve, Step, chance};
use crate::Error;
use crate::compare::{Difference, Precision, Settings, compare, leaves};
use crate::read::{Run, SampleCache, TaskNames};
use crate::stats::{
    Interval, Sampled, benjamini_hochberg, detectable_difference, independent_difference, normal_cdf,
};
use crate::summary::Summary;

/// The most notes of comparisons.
const NOTES: usize = 20;

/// The scores that a curve shows.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Names or patterns of tasks and groups; all if empty.
    pub tasks: Vec<String>,
    /// Metrics; all if empty.
    pub metrics: Vec<String>,
    /// Scores of guessing that are given, by `TASK` or `TASK:METRIC`.
    pub chances: Vec<(String, f64)>,
}

/// The scores of one step.
#[derive(Clone, Debug)]
pub struct StepFigures {
    /// Optimizer steps, or what else the names of checkpoints count.
    pub step: u64,
    /// The path of the checkpoint, or another name of it.
    pub checkpoint: String,
    /// The newest results file.
    pub results: Option<PathBuf>,
    /// Requests that failed.
    pub failed_requests: u64,
    /// One entry per task, filter and metric.
    pub figures: Vec<Figures>,
    /// The runs that they are from; none if only the figures are known.
    pub runs: Vec<Arc<Run>>,
}

/// One score of one step.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The task or group.
    pub task: String,
    /// The metric, without its filter.
    pub metric: String,
    /// The pipeline of filters.
    pub filter: String,
    /// The aggregate over the documents.
    pub value: f64,
    /// Its standard error.
    pub stderr: Option<f64>,
    /// Its 95 % interval.
    pub interval: Option<Interval>,
    /// The number of documents.
    pub documents: Option<f64>,
    /// Whether more is better.
    pub higher_is_better: Option<bool>,
    /// Whether it is the aggregate of a group.
    pub is_group: bool,
}

/// Task, filter and metric.
type Key = (String, String, String);

/// The comparisons of two steps: tasks that were compared, and the differences of their scores.
#[derive(Debug, Default)]
struct Pair {
    tried: FxHashSet<String>,
    found: FxHashMap<Key, Difference>,
}

/// Computes curves of a growing number of steps. Files are read and pairs compared once.
#[derive(Default)]
pub struct Curves {
    steps: BTreeMap<u64, StepFigures>,
    known: FxHashSet<PathBuf>,
    cache: Arc<SampleCache>,
    registry: Registry,
    pairs: FxHashMap<(PathBuf, PathBuf), Pair>,
    chances: FxHashMap<String, Option<f64>>,
    notes: BTreeSet<String>,
}

impl std::fmt::Debug for Curves {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Curves").field("steps", &self.steps.keys()).finish_non_exhaustive()
    }
}

impl Curves {
    /// Adds a run. Of several runs of one step, the newest that has a task counts.
    pub fn add(&mut self, found: StepRun) -> Result<(), Error> {
        let StepRun { step, checkpoint, run } = found;
        if !self.known.insert(run.path.clone()) {
            return Ok(());
        }
        let summary = Summary::read(&run.path)?;
        if let Some(changed) = &summary.changed {
            self.notes.insert(changed.clone());
        }
        if let Some(limit) = summary.limit {
            self.notes.insert(format!(
                "Some steps ran with --limit {limit}. Scores on a subset are not comparable with full runs."
            ));
        }
        let run = Arc::new(run);
        let at = self.steps.entry(step).or_insert_with(|| StepFigures {
            step,
            checkpoint: checkpoint.clone(),
            results: None,
            failed_requests: 0,
            figures: Vec::new(),
            runs: Vec::new(),
        });
        at.runs.push(Arc::clone(&run));
        at.runs.sort_by_key(|run| run.age_key());
        let is_newest = at.runs.last().is_some_and(|newest| Arc::ptr_eq(newest, &run));
        for task in &summary.tasks {
            let is_known = at.figures.iter().any(|known| known.task == task.name);
            if is_known && !is_newest {
                continue;
            }
            at.figures.retain(|known| known.task != task.name);
            at.figures.extend(task.scores.iter().filter_map(|score| {
                Some(Figures {
                    task: task.name.clone(),
                    metric: score.metric.clone(),
                    filter: score.filter.clone(),
                    value: score.value.filter(|value| value.is_finite())?,
                    stderr: score.stderr.filter(|stderr| stderr.is_finite()),
                    interval: score.interval,
                    documents: task.documents,
                    higher_is_better: score.higher_is_better,
                    is_group: task.is_group,
                })
            }));
        }
        if is_newest {
            at.checkpoint = checkpoint;
            at.results = Some(run.path.clone());
            at.failed_requests = summary.failed_requests as u64;
        }
        Ok(())
    }

    /// Adds figures without a run, such as published ones.
    pub fn add_figures(&mut self, figures: StepFigures) {
        self.steps.insert(figures.step, figures);
    }

    /// Whether a results file has been added.
    pub fn has(&self, results: &PathBuf) -> bool {
        self.known.contains(results)
    }

    /// Computes the curve of everything that was added.
    pub fn build(&mut self, name: &str, selection: &Selection) -> Result<Curve, Error> {
        let steps: Vec<StepFigures> = self.steps.values().cloned().collect();
        let mut scores = self.scores(&steps, selection)?;
        for which in [Which::Previous, Which::Best] {
            self.compare_all(&steps, &scores, which);
            self.fill(&steps, &mut scores, which);
            adjust(&mut scores, which);
        }
        for score in &mut scores {
            score.detectable = self.detectable(&steps, score);
            score.chance = self.chance(&steps, score, selection)?;
        }
        let mut notes: Vec<String> = self.notes.iter().take(NOTES).cloned().collect();
        let is_unpaired = |point: &Point| {
            [&point.previous, &point.best].into_iter().flatten().any(|change| !change.is_paired)
        };
        if scores.iter().flat_map(|score| score.points.iter().flatten()).any(is_unpaired) {
            notes.push(
                "Some steps have no samples that can be paired: they are compared as independent scores, which detects less. `lm-eval run --log_samples` writes samples"
                    .to_owned(),
            );
        }
        for at in steps.iter().filter(|at| at.failed_requests > 0) {
            let (step, count) = (at.step, at.failed_requests);
            notes.push(format!("Step {step}: {count} requests failed; their documents are not scored"));
        }
        let steps = steps.into_iter().map(|at| Step {
            step: at.step,
            checkpoint: at.checkpoint,
            results: at.results.map(|path| path.display().to_string()),
            failed_requests: at.failed_requests,
        });
        Ok(Curve { name: name.to_owned(), steps: steps.collect(), scores, notes, ..Curve::default() })
    }

    /// The values of all scores, without comparisons.
    fn scores(&self, steps: &[StepFigures], selection: &Selection) -> Result<Vec<ScoreCurve>, Error> {
        let names = TaskNames::new(&selection.tasks);
        let all = || steps.iter().rev().flat_map(|at| &at.figures);
        let known: BTreeSet<&str> = all().map(|figure| figure.task.as_str()).collect();
        names.check(&known.into_iter().collect::<Vec<_>>())?;
        let mut scores: Vec<ScoreCurve> = Vec::new();
        let mut index: FxHashMap<Key, usize> = FxHashMap::default();
        // The last step comes first, so that the order is that of the newest results.
        for (at, step) in steps.iter().enumerate().rev() {
            let wanted = |figure: &&Figures| {
                names.accepts(&figure.task)
                    && (selection.metrics.is_empty() || selection.metrics.contains(&figure.metric))
            };
            for figure in step.figures.iter().filter(wanted) {
                let key = (figure.task.clone(), figure.filter.clone(), figure.metric.clone());
                let position = *index.entry(key).or_insert_with(|| {
                    scores.push(ScoreCurve {
                        task: figure.task.clone(),
                        metric: figure.metric.clone(),
                        filter: figure.filter.clone(),
                        is_group: figure.is_group,
                        is_main: false,
                        higher_is_better: None,
                        documents: figure.documents,
                        chance: None,
                        detectable: None,
                        best: None,
                        points: vec![None; steps.len()],
                    });
                    scores.len() - 1
                });
                let score = &mut scores[position];
                score.higher_is_better = score.higher_is_better.or(figure.higher_is_better);
                score.points[at] = Some(Point {
                    value: figure.value,
                    stderr: figure.stderr,
                    interval: figure.interval.map(|interval| (interval.low, interval.high)),
                    previous: None,
                    best: None,
                });
            }
        }
        let mut seen: FxHashSet<String> = FxHashSet::default();
        for score in &mut scores {
            score.is_main = seen.insert(score.task.clone());
            let of_metric = || self.registry.metric(&score.metric).map(|metric| metric.higher_is_better());
            score.higher_is_better = score.higher_is_better.or_else(of_metric);
            score.best = best(score);
        }
        Ok(scores)
    }

    /// Compares every step with the previous or the best one, as far as samples can be paired.
    fn compare_all(&mut self, steps: &[StepFigures], scores: &[ScoreCurve], which: Which) {
        let mut wanted: BTreeMap<(usize, usize), BTreeSet<String>> = BTreeMap::new();
        for score in scores {
            for (base, new) in score_pairs(score, which) {
                wanted.entry((base, new)).or_default().insert(score.task.clone());
            }
        }
        for ((base, new), tasks) in wanted {
            self.compare_pair(&steps[base], &steps[new], &tasks);
        }
    }

    /// Compares tasks of two steps, unless they are known.
    fn compare_pair(&mut self, base: &StepFigures, new: &StepFigures, tasks: &BTreeSet<String>) {
        for (left, right) in base.runs.iter().flat_map(|left| new.runs.iter().map(move |right| (left, right)))
        {
            let pair = self.pairs.entry((left.path.clone(), right.path.clone())).or_default();
            let has_samples =
                |task: &str| left.samples_of(task).is_some() && right.samples_of(task).is_some();
            let can_pair =
                |task: &&String| leaves(left, task).iter().any(|leaf| has_samples(leaf)) || has_samples(task);
            let open: Vec<String> =
                tasks.iter().filter(can_pair).filter(|task| !pair.tried.contains(*task)).cloned().collect();
            if open.is_empty() {
                continue;
            }
            pair.tried.extend(open.iter().cloned());
            let mut problems = Vec::new();
            let mut of = |tasks: Vec<String>| {
                let settings = Settings {
                    tasks,
                    precision: Precision::default(),
                    cache: Some(Arc::clone(&self.cache)),
                    ..Settings::default()
                };
                match compare(left, right, &settings, &self.registry) {
                    Ok(compared) => {
                        let scores = compared.scores.into_iter();
                        pair.found.extend(
                            scores.map(|score| ((score.task, score.filter, score.metric), score.outcome)),
                        );
                        true
                    }
                    Err(error) => {
                        problems.push((settings.tasks, error));
                        false
                    }
                }
            };
            // One task that cannot be paired must not keep the others from it.
            if !of(open.clone()) && open.len() > 1 {
                for task in open {
                    of(vec![task]);
                }
            }
            for (tasks, error) in problems.into_iter().filter(|(tasks, _)| tasks.len() == 1) {
                self.notes.insert(format!(
                    "Steps {} and {} of `{}` are not paired: {error}",
                    base.step,
                    new.step,
                    tasks.join(", ")
                ));
            }
        }
    }

    /// The difference between two steps of a score: paired if possible, else that of independent scores.
    pub(super) fn change(
        &mut self,
        curve: &Curve,
        score: &ScoreCurve,
        base: usize,
        new: usize,
    ) -> Option<Change> {
        let step = |index: usize| self.steps.get(&curve.steps.get(index)?.step).cloned();
        let (left, right) = (step(base)?, step(new)?);
        self.compare_pair(&left, &right, &BTreeSet::from([score.task.clone()]));
        self.found(&left, &right, score, base, new)
    }

    fn found(
        &self,
        left: &StepFigures,
        right: &StepFigures,
        score: &ScoreCurve,
        base: usize,
        new: usize,
    ) -> Option<Change> {
        if let Some(outcome) = self.paired(left, right, score) {
            return Some(Change {
                difference: outcome.difference,
                interval: Some((outcome.interval.low, outcome.interval.high))
                    .filter(|(low, high)| low.is_finite() && high.is_finite()),
                p_value: Some(outcome.p_value).filter(|p_value| p_value.is_finite()),
                adjusted: None,
                is_paired: true,
            });
        }
        let sampled = |index: usize| {
            let point = score.points.get(index)?.as_ref()?;
            Some(Sampled { value: point.value, stderr: point.stderr, documents: score.documents })
        };
        let (left, right) = (sampled(base)?, sampled(new)?);
        let difference = right.value - left.value;
        let error = left
            .error()
            .zip(right.error())
            .map(|(left, right)| left.hypot(right))
            .filter(|error| *error > 0.0);
        Some(Change {
            difference,
            interval: independent_difference(&left, &right, 0.95)
                .map(|interval| (interval.low, interval.high)),
            p_value: error.map(|error| 2.0 * normal_cdf(-difference.abs() / error)),
            adjusted: None,
            is_paired: false,
        })
    }

    /// The newest paired difference of two steps.
    fn paired(&self, left: &StepFigures, right: &StepFigures, score: &ScoreCurve) -> Option<&Difference> {
        let key = (score.task.clone(), score.filter.clone(), score.metric.clone());
        let runs =
            left.runs.iter().rev().flat_map(|left| right.runs.iter().rev().map(move |right| (left, right)));
        runs.filter_map(|(left, right)| self.pairs.get(&(left.path.clone(), right.path.clone())))
            .find_map(|pair| pair.found.get(&key))
    }

    fn fill(&self, steps: &[StepFigures], scores: &mut [ScoreCurve], which: Which) {
        for score in scores {
            for (base, new) in score_pairs(score, which) {
                let change = self.found(&steps[base], &steps[new], score, base, new);
                if let Some(point) = score.points[new].as_mut() {
                    *which.of(point) = change;
                }
            }
        }
    }

    /// The median over neighbouring steps of the difference that pairing them would probably find, else that of independent scores.
    fn detectable(&self, steps: &[StepFigures], score: &ScoreCurve) -> Option<f64> {
        let pairs = score_pairs(score, Which::Previous);
        let of_pair = |(base, new): &(usize, usize)| {
            self.paired(&steps[*base], &steps[*new], score).map(|found| found.detectable)
        };
        let mut sizes: Vec<f64> =
            pairs.iter().filter_map(of_pair).filter(|size| size.is_finite() && *size > 0.0).collect();
        if sizes.is_empty() {
            let errors: Vec<f64> = score
                .points
                .iter()
                .flatten()
                .filter_map(|point| point.stderr)
                .filter(|error| *error > 0.0)
                .collect();
            let precision = Precision::default();
            let of = |error: &f64| {
                detectable_difference(
                    error * std::f64::consts::SQRT_2,
                    1.0 - precision.confidence,
                    precision.power,
                )
            };
            sizes = errors.iter().map(of).collect();
        }
        sizes.sort_by(f64::total_cmp);
        sizes.get(sizes.len() / 2).copied()
    }

    /// The score of guessing: as given, else from the options of the documents. A group has that of its tasks if they agree.
    fn chance(
        &mut self,
        steps: &[StepFigures],
        score: &ScoreCurve,
        selection: &Selection,
    ) -> Result<Option<f64>, Error> {
        let full = format!("{}:{}", score.task, score.metric);
        let of_name =
            |name: &str| selection.chances.iter().find(|(given, _)| given == name).map(|(_, chance)| *chance);
        if let Some(given) = of_name(&full).or_else(|| of_name(&score.task)) {
            return Ok(Some(given));
        }
        if !chance::is_about(&score.metric) {
            return Ok(None);
        }
        let Some(run) = steps
            .iter()
            .rev()
            .flat_map(|at| at.runs.iter().rev())
            .find(|run| has_task(run, &score.task))
            .cloned()
        else {
            return Ok(None);
        };
        let tasks = if score.is_group { leaves(&run, &score.task) } else { vec![score.task.clone()] };
        let mut found: Vec<f64> = Vec::new();
        for task in tasks {
            let known = match self.chances.get(&task) {
                Some(known) => *known,
                None => {
                    let chance = chance::of_task(&run, &task)?;
                    self.chances.insert(task, chance);
                    chance
                }
            };
            let Some(known) = known else { return Ok(None) };
            found.push(known);
        }
        let first = found.first().copied();
        Ok(first.filter(|first| found.iter().all(|other| (other - first).abs() < 1e-9)))
    }
}

fn has_task(run: &Run, task: &str) -> bool {
    run.section("results").is_some_and(|results: &Dict| results.contains_str(task))
}

/// Which step another one is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Previous,
    Best,
}

impl Which {
    fn of(self, point: &mut Point) -> &mut Option<Change> {
        match self {
            Self::Previous => &mut point.previous,
            Self::Best => &mut point.best,
        }
    }
}

/// The pairs of steps that are compared: the other one, and the step.
fn score_pairs(score: &ScoreCurve, which: Which) -> Vec<(usize, usize)> {
    let known: Vec<usize> = (0..score.points.len()).filter(|index| score.points[*index].is_some()).collect();
    match which {
        Which::Previous => known.windows(2).map(|pair| (pair[0], pair[1])).collect(),
        Which::Best => {
            let pairs = score.best.into_iter().flat_map(|best| known.iter().map(move |index| (best, *index)));
            pairs.filter(|(best, index)| best != index).collect()
        }
    }
}

/// The first step with the best score.
fn best(score: &ScoreCurve) -> Option<usize> {
    let higher = score.higher_is_better?;
    let mut best: Option<(usize, f64)> = None;
    for (index, point) in score.points.iter().enumerate() {
        let Some(point) = point else { continue };
        let is_better = |known: f64| if higher { point.value > known } else { point.value < known };
        if best.is_none_or(|(_, known)| is_better(known)) {
            best = Some((index, point.value));
        }
    }
    best.map(|(index, _)| index)
}

/// Corrects the p-values of all scores and steps together.
///
/// The best step was found by its score, so that a comparison with it is the most extreme of all pairs of steps. Its p-values are
/// corrected for all those pairs: otherwise two of five curves without any change (three tasks, thirty steps) would have such a step.
fn adjust(scores: &mut [ScoreCurve], which: Which) {
    let known = |score: &ScoreCurve| score.points.iter().flatten().count() as f64;
    let chosen = || scores.iter().filter(|score| score.best.is_some()).map(known);
    let pairs: f64 = chosen().map(|count| 0.5 * count * (count - 1.0)).sum();
    let compared: f64 = chosen().map(|count| count - 1.0).sum();
    let selection = if which == Which::Best && compared > 0.0 { (pairs / compared).max(1.0) } else { 1.0 };
    let mut changes: Vec<&mut Change> = scores
        .iter_mut()
        .flat_map(|score| score.points.iter_mut().flatten())
        .filter_map(|point| which.of(point).as_mut())
        .collect();
    let p_values: Vec<f64> = changes.iter().map(|change| change.p_value.unwrap_or(f64::NAN)).collect();
    for (change, adjusted) in changes.iter_mut().zip(benjamini_hochberg(&p_values)) {
        // The other pairs count as equal, with a p-value of 1.
        change.adjusted = Some(adjusted * selection)
            .filter(|adjusted| adjusted.is_finite())
            .map(|adjusted| adjusted.min(1.0));
    }
}

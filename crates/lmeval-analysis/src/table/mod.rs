//! The scores of several runs side by side.

mod duplicates;
mod order;

use std::collections::BTreeSet;

use lmeval_core::{Diagnostic, nearest};
use lmeval_pycompat::{Dict, Value, repr};

use self::duplicates::newest_of_each_task;
use self::order::order;
use crate::Error;
use crate::read::{Run, TaskNames, listed};

/// Keys of an entry of the results that are not metrics.
const NOT_METRICS: [&str; 4] = ["alias", "name", "sample_len", "sample_count"];

/// How to handle several runs of one model that have the same task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duplicates {
    /// The newest, if all have the same settings; otherwise an error that lists them.
    #[default]
    NewestIfSame,
    /// The newest, whatever its settings.
    Newest,
    /// Each run is a model of its own.
    Separate,
}

/// The scores that a table shows.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Names or patterns of tasks and groups; all if empty.
    pub tasks: Vec<String>,
    /// Metrics; all if empty.
    pub metrics: Vec<String>,
    /// The filter pipeline.
    pub filter: Option<String>,
    /// Several runs of one model that have the same task.
    pub duplicates: Duplicates,
}

/// One score of one model.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The score; nearly always a number.
    pub value: Value,
    /// Its standard error, where the run has one.
    pub stderr: Option<f64>,
    /// The number of scored documents.
    pub documents: Option<i64>,
    /// The number of few-shot examples.
    pub shots: Option<Value>,
    /// The version of the task.
    pub version: Option<Value>,
    /// The index of the run that it is from.
    pub run: usize,
}

/// One score of all models.
#[derive(Clone, Debug)]
pub struct Row {
    /// The task or group.
    pub task: String,
    /// How many groups it is in.
    pub depth: usize,
    /// Whether it is the aggregate of a group.
    pub is_group: bool,
    /// The filter pipeline.
    pub filter: String,
    /// The metric, without its filter.
    pub metric: String,
    /// Whether more is better, where the runs say so and agree.
    pub higher_is_better: Option<bool>,
    /// One cell per model; `None` where the model lacks this score.
    pub cells: Vec<Option<Cell>>,
}

/// The scores of several models.
#[derive(Clone, Debug, Default)]
pub struct ScoreTable {
    /// Models, in the order of the runs.
    pub models: Vec<String>,
    /// Scores: members follow their group, the rest is sorted by name.
    pub rows: Vec<Row>,
    /// Caveats: runs that were left out, subsets, different versions.
    pub notes: Vec<String>,
}

/// A model and the run that each of its tasks is taken from.
struct Model {
    name: String,
    /// Tasks and groups with the index of their run.
    tasks: Vec<(String, usize)>,
}

impl Model {
    fn run_of(&self, task: &str) -> Option<usize> {
        self.tasks.iter().find(|(name, _)| name == task).map(|(_, run)| *run)
    }
}

/// Puts the scores of runs side by side.
pub fn score_table(runs: &[Run], selection: &Selection) -> Result<ScoreTable, Error> {
    for run in runs {
        if run.results.is_none() {
            return Err(Diagnostic::new(format!("`{}` has samples, but no scores", run.path.display()))
                .hint("Name the `results_….json` file or the folder of the run")
                .into());
        }
    }
    // Also of runs that are not shown: a wrong date decides which is the newest.
    let mut notes: Vec<String> = runs.iter().filter_map(Run::results_change).collect();
    let models = models(runs, selection.duplicates, &mut notes)?;
    let names = chosen(runs, &models, selection)?;
    let mut rows = Vec::new();
    for (task, depth) in &names {
        rows.extend(rows_of(runs, &models, task, *depth, selection));
    }
    if rows.is_empty() {
        return Err(nothing_left(runs, selection).into());
    }
    notes.extend(caveats(runs, &models, &rows));
    Ok(ScoreTable { models: models.into_iter().map(|model| model.name).collect(), rows, notes })
}

/// The models of the runs, in order.
fn models(runs: &[Run], duplicates: Duplicates, notes: &mut Vec<String>) -> Result<Vec<Model>, Error> {
    let mut grouped: Vec<(String, Vec<usize>)> = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let known = grouped.iter_mut().find(|(name, _)| *name == run.name);
        match known {
            Some((_, indices)) if duplicates != Duplicates::Separate => indices.push(index),
            Some(_) => grouped.push((format!("{} ({})", run.name, run.stamp()), vec![index])),
            None => grouped.push((run.name.clone(), vec![index])),
        }
    }
    grouped
        .into_iter()
        .map(|(name, indices)| {
            let tasks = newest_of_each_task(runs, &name, indices, duplicates, notes)?;
            Ok(Model { name, tasks })
        })
        .collect()
}

/// Tasks and groups to show, in order, with their depths.
fn chosen(runs: &[Run], models: &[Model], selection: &Selection) -> Result<Vec<(String, usize)>, Error> {
    let known: BTreeSet<&str> =
        models.iter().flat_map(|model| model.tasks.iter().map(|(task, _)| task.as_str())).collect();
    let tasks = TaskNames::new(&selection.tasks);
    tasks.check(&known.iter().copied().collect::<Vec<_>>())?;
    let all = order(runs, &known);
    Ok(all.into_iter().filter(|(task, _)| tasks.accepts(task)).collect())
}

fn rows_of(runs: &[Run], models: &[Model], task: &str, depth: usize, selection: &Selection) -> Vec<Row> {
    let mut keys: BTreeSet<(String, String)> = BTreeSet::new();
    for index in models.iter().filter_map(|model| model.run_of(task)) {
        let entry = entry(&runs[index], task);
        keys.extend(entry.into_iter().flat_map(Dict::keys).filter_map(Value::as_str).filter_map(metric_of));
    }
    let is_group =
        models.iter().filter_map(|model| model.run_of(task)).any(|index| is_group(&runs[index], task));
    keys.into_iter()
        .filter(|(metric, filter)| {
            (selection.metrics.is_empty() || selection.metrics.contains(metric))
                && selection.filter.as_ref().is_none_or(|wanted| wanted == filter)
        })
        .map(|(metric, filter)| {
            let cells: Vec<Option<Cell>> =
                models.iter().map(|model| cell(runs, model.run_of(task)?, task, &metric, &filter)).collect();
            let directions: BTreeSet<bool> = cells
                .iter()
                .flatten()
                .filter_map(|cell| runs[cell.run].higher_is_better(task, &metric))
                .collect();
            let higher_is_better = directions.first().copied().filter(|_| directions.len() == 1);
            Row { task: task.to_owned(), depth, is_group, filter, metric, higher_is_better, cells }
        })
        .collect()
}

/// The metric and the filter of a key such as `acc,none`; `None` for standard errors and what is not a metric.
fn metric_of(key: &str) -> Option<(String, String)> {
    let (metric, filter) = key.split_once(',').unwrap_or((key, ""));
    let is_metric =
        !metric.ends_with("_stderr") && !NOT_METRICS.contains(&metric) && !metric.trim().is_empty();
    is_metric.then(|| (metric.to_owned(), filter.to_owned()))
}

fn cell(runs: &[Run], index: usize, task: &str, metric: &str, filter: &str) -> Option<Cell> {
    let run = &runs[index];
    let entry = entry(run, task)?;
    let key = |metric: &str| if filter.is_empty() { metric.to_owned() } else { format!("{metric},{filter}") };
    let of = |section: &str| run.section(section).and_then(|section| section.get_str(task)).cloned();
    Some(Cell {
        value: entry.get_str(&key(metric))?.clone(),
        stderr: entry.get_str(&key(&format!("{metric}_stderr"))).and_then(Value::to_f64),
        documents: of("n-samples").and_then(|counts| counts.as_dict()?.get_str("effective")?.as_i64()),
        shots: of("n-shot"),
        version: of("versions"),
        run: index,
    })
}

fn entry<'a>(run: &'a Run, task: &str) -> Option<&'a Dict> {
    run.section("results")?.get_str(task)?.as_dict()
}

fn is_group(run: &Run, task: &str) -> bool {
    let has_members = |members: &Value| members.as_list().is_some_and(|members| !members.is_empty());
    run.section("groups").is_some_and(|groups| groups.contains_str(task))
        || run.section("group_subtasks").and_then(|groups| groups.get_str(task)).is_some_and(has_members)
}

/// The error for metrics and filters that no run has.
fn nothing_left(runs: &[Run], selection: &Selection) -> Diagnostic {
    let mut known: BTreeSet<(String, String)> = BTreeSet::new();
    for run in runs {
        let entries = run.section("results").into_iter().flat_map(Dict::values).filter_map(Value::as_dict);
        known.extend(entries.flat_map(Dict::keys).filter_map(Value::as_str).filter_map(metric_of));
    }
    let metrics: BTreeSet<&str> = known.iter().map(|(metric, _)| metric.as_str()).collect();
    let filters: BTreeSet<&str> = known.iter().map(|(_, filter)| filter.as_str()).collect();
    let metrics: Vec<&str> = metrics.into_iter().collect();
    let filters: Vec<&str> = filters.into_iter().collect();
    if metrics.is_empty() {
        return Diagnostic::new("The runs have no scores");
    }
    let mut diagnostic = Diagnostic::new("No score of the runs has this task, metric and filter");
    if let [metric] = selection.metrics.as_slice() {
        diagnostic = diagnostic.did_you_mean(&nearest(metric, metrics.iter().copied()));
    }
    diagnostic.hint(format!("Metrics: {}; filters: {}", listed(&metrics), listed(&filters)))
}

/// Differences between runs that make the cells of a row hard to compare.
fn caveats(runs: &[Run], models: &[Model], rows: &[Row]) -> Vec<String> {
    const SHOWN: usize = 5;
    let mut notes = Vec::new();
    let used: BTreeSet<usize> =
        rows.iter().flat_map(|row| row.cells.iter().flatten().map(|cell| cell.run)).collect();
    for run in used.into_iter().map(|index| &runs[index]) {
        if let Some(limit) = run.limit() {
            notes.push(format!(
                "`{}` ran with --limit {limit}. Scores on a subset are not comparable with full runs.",
                run.name
            ));
        }
        let failed = run.results.as_ref().and_then(|results| results.get_str("failed_requests")?.as_i64());
        if let Some(failed) = failed.filter(|failed| *failed > 0) {
            notes.push(format!("`{}`: {failed} requests failed; their documents are not scored", run.name));
        }
    }
    let mut differing: Vec<String> = Vec::new();
    for what in ["version", "n-shot"] {
        let of = |cell: &Cell| if what == "version" { cell.version.clone() } else { cell.shots.clone() };
        let mut last = "";
        for row in rows.iter().filter(|row| !row.is_group) {
            let found = row
                .cells
                .iter()
                .zip(models)
                .filter_map(|(cell, model)| Some((repr::str(&of(cell.as_ref()?)?), model.name.as_str())));
            let found: Vec<(String, &str)> = found.collect();
            if last != row.task && found.iter().any(|(value, _)| *value != found[0].0) {
                let each: Vec<String> =
                    found.iter().map(|(value, model)| format!("{value} for `{model}`")).collect();
                differing.push(format!("The {what} of `{}` differs: {}", row.task, each.join(", ")));
            }
            last = &row.task;
        }
    }
    let more = differing.len().saturating_sub(SHOWN);
    notes.extend(differing.into_iter().take(SHOWN));
    if more > 0 {
        notes.push(format!("{more} more tasks differ in version or n-shot"));
    }
    notes
}

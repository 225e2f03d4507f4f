//! Scores as a function of the number of tokens that an answer may have, and of the number of repeats.
//!
//! `lm-eval budget` writes a [`BudgetCurve`] next to the results of its run, and the viewer draws it.

use std::path::{Path, PathBuf};

use fs_err as fs;
use lmeval_core::{Diagnostic, secrets};
use lmeval_plot::{Axis, Figure, Panel, Point, Scale, Series};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::stats::Interval;

/// How the file names of curves in the folder of a run begin.
const PREFIX: &str = "budget_";
/// How they end, so that nothing takes them for results.
const SUFFIX: &str = ".curve.json";

/// The scores of a run at several budgets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BudgetCurve {
    /// The file name of the run's results, or of its answers.
    pub run: String,
    /// The model of the run.
    pub model: String,
    /// What the budgets depend on, such as estimated numbers of tokens.
    pub notes: Vec<String>,
    /// Tasks and groups in the order of the results.
    pub tasks: Vec<TaskCurve>,
}

/// The scores of one task or group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskCurve {
    /// Its key in the results.
    pub task: String,
    /// The answers to each document; 1 for a group.
    pub repeats: usize,
    /// Ascending budgets; the last one is that of the run.
    pub points: Vec<BudgetPoint>,
}

/// The scores at one budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BudgetPoint {
    /// The most tokens of an answer; `None` for the answers as they are.
    pub budget: Option<u64>,
    /// The share of answers that ended by themselves.
    pub finished: f64,
    /// The mean number of tokens of an answer.
    pub tokens: f64,
    /// The tokens of the longest answer.
    pub longest: u64,
    /// The scores.
    pub scores: Vec<ScoreAt>,
    /// Scores with fewer repeats than there are.
    pub repeats: Vec<RepeatsAt>,
}

/// One score at one budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScoreAt {
    /// The metric.
    pub metric: String,
    /// The pipeline of filters.
    pub filter: String,
    /// The value; `None` if it is not a number.
    pub value: Option<f64>,
    /// Its standard error.
    pub stderr: Option<f64>,
    /// Its 95 % interval.
    pub interval: Option<(f64, f64)>,
}

/// A score of `k` repeats at one budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RepeatsAt {
    /// The metric of single answers.
    pub metric: String,
    /// The pipeline of filters.
    pub filter: String,
    /// How repeats are reduced: `avg`, `pass` or `maj`.
    pub reduction: String,
    /// The number of repeats.
    pub k: usize,
    /// The mean over documents.
    pub value: f64,
    /// Its 95 % interval, over documents and repeats.
    pub interval: Option<(f64, f64)>,
}

/// The interval as a pair.
pub fn pair(interval: Interval) -> (f64, f64) {
    (interval.low, interval.high)
}

impl BudgetPoint {
    /// The same scores at a budget that changes no answer.
    pub fn with_budget(&self, budget: u64) -> Self {
        Self { budget: Some(budget), ..self.clone() }
    }

    /// The budget, or else the tokens of the longest answer.
    pub fn tokens_allowed(&self) -> u64 {
        self.budget.unwrap_or(self.longest)
    }

    fn score(&self, of: &ScoreAt) -> Option<&ScoreAt> {
        self.scores.iter().find(|score| score.metric == of.metric && score.filter == of.filter)
    }
}

impl BudgetCurve {
    /// One panel per task: its scores and the share of finished answers over the budget. Tasks with repeats have a second
    /// panel: their scores over the number of repeats.
    pub fn figure(&self) -> Figure {
        let of_task = |task: &TaskCurve| {
            [Some(by_budget(task)), by_repeats(task)].into_iter().flatten().collect::<Vec<_>>()
        };
        let title = format!("{}: score by token budget", self.model);
        Figure { title, panels: self.tasks.iter().flat_map(of_task).collect() }
    }

    /// Reads the newest curve of a run, which is in the folder of its results; `None` if there is none.
    pub fn newest(results: &Path) -> Result<Option<Self>, Error> {
        let Some(entries) = results.parent().and_then(|folder| fs::read_dir(folder).ok()) else {
            return Ok(None);
        };
        let is_curve = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with(PREFIX) && name.ends_with(SUFFIX)
        };
        let mut curves: Vec<PathBuf> =
            entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_curve).collect();
        curves.sort_unstable();
        for path in curves.iter().rev() {
            let curve = Self::read(path)?;
            if results.file_name().is_some_and(|name| *name == *curve.run) {
                return Ok(Some(curve));
            }
        }
        Ok(None)
    }

    /// Reads a file that `lm-eval budget` has written.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let wrong = |problem: String| {
            let message = format!("`{}` is not a budget curve: {problem}", path.display());
            Box::new(
                Diagnostic::new(message).hint("Write it again with `lm-eval budget RUN --output_path DIR`"),
            )
        };
        let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
    }

    /// The files to write to a folder, with their contents: the drawing, the numbers, and the curve itself, which comes last because
    /// the viewer looks for it. `lines` are comma-separated values.
    pub fn files(&self, stamp: &str, lines: String) -> Result<Vec<(String, Vec<u8>)>, lmeval_plot::TooLarge> {
        let figure = self.figure();
        let name = |suffix: &str| format!("{PREFIX}{stamp}{suffix}");
        Ok(vec![
            (name(".svg"), figure.to_svg().into_bytes()),
            (name(".png"), figure.to_png()?),
            (name(".csv"), lines.into_bytes()),
            (name(SUFFIX), self.to_json().into_bytes()),
        ])
    }

    /// One JSON object per task, without secrets.
    pub fn to_lines(&self) -> String {
        let lines = self.tasks.iter().map(|task| serde_json::to_string(task).unwrap_or_default() + "\n");
        secrets::mask(&lines.collect::<String>()).into_owned()
    }

    /// The curve as JSON, without secrets.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        secrets::mask(&text).into_owned() + "\n"
    }
}

/// The scores of a task and the share of finished answers, over the budget.
fn by_budget(task: &TaskCurve) -> Panel {
    let known = task.points.last().map(|point| point.scores.as_slice()).unwrap_or_default();
    let line = |score: &ScoreAt| {
        let points = task.points.iter().filter_map(|at| {
            let score = at.score(score)?;
            Some(Point { x: at.tokens_allowed() as f64, y: score.value?, band: score.interval, mark: None })
        });
        Series { name: named(&score.metric, &score.filter), points: points.collect(), is_dashed: false }
    };
    let finished = task.points.iter().map(|at| Point {
        x: at.tokens_allowed() as f64,
        y: at.finished,
        band: None,
        mark: None,
    });
    let finished = Series { name: "finished".to_owned(), points: finished.collect(), is_dashed: true };
    Panel {
        title: task.task.clone(),
        x: Axis { label: "tokens per answer".to_owned(), scale: Scale::Log2 },
        y: Axis { label: "score, share of finished answers".to_owned(), scale: Scale::Linear },
        series: known.iter().map(line).chain([finished]).collect(),
        levels: Vec::new(),
    }
}

/// The scores of a task over the number of repeats, with the run's own budget.
fn by_repeats(task: &TaskCurve) -> Option<Panel> {
    let all = &task.points.last()?.repeats;
    let first = all.first()?;
    let own: Vec<&RepeatsAt> =
        all.iter().filter(|at| at.metric == first.metric && at.filter == first.filter).collect();
    let mut series: Vec<Series> = Vec::new();
    for at in own {
        let point = Point { x: at.k as f64, y: at.value, band: at.interval, mark: None };
        match series.iter_mut().find(|series| series.name == at.reduction) {
            Some(series) => series.points.push(point),
            None => series.push(Series { name: at.reduction.clone(), points: vec![point], is_dashed: false }),
        }
    }
    Some(Panel {
        title: format!("{}: repeats", task.task),
        x: Axis { label: "repeats k".to_owned(), scale: Scale::Log2 },
        y: Axis { label: named(&first.metric, &first.filter), scale: Scale::Linear },
        series,
        levels: Vec::new(),
    })
}

fn named(metric: &str, filter: &str) -> String {
    if filter == "none" { metric.to_owned() } else { format!("{metric} ({filter})") }
}

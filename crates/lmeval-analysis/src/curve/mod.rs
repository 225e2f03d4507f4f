//! Scores over the steps of a training run: what changed, what did not, and what these documents cannot tell.
//!
//! [`Curves`] computes a [`Curve`] from the runs of several checkpoints. `lm-eval watch` and `lm-eval curve` write it, and the viewer
//! shows it.

mod build;
mod chance;
mod decide;
mod figure;
mod lines;
mod runs;
mod step;

use std::path::{Path, PathBuf};

use fs_err as fs;
use lmeval_core::{Diagnostic, secrets};
use serde::{Deserialize, Serialize};

use crate::Error;

pub use build::{Curves, Selection};
pub use decide::{Goal, Kept, Reached};
pub use lines::read_lines;
pub use runs::{StepRun, step_of_trainer, steps_of};
pub use step::{StepPattern, step_in};

/// How the names of files with curves end, so that nothing takes them for results.
pub const SUFFIX: &str = ".steps.json";

/// The chance of a mark where nothing differs is bounded by this share.
pub const ALPHA: f64 = 0.05;

/// The scores of all steps of a training run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// The training run, for headings.
    pub name: String,
    /// The steps, ascending.
    pub steps: Vec<Step>,
    /// The scores, in the order of the results: members follow their group.
    pub scores: Vec<ScoreCurve>,
    /// Caveats: subsets, steps that are missing, comparisons that were not possible.
    pub notes: Vec<String>,
    /// Checkpoints that are not evaluated, with the reasons.
    #[serde(default)]
    pub waiting: Vec<Waiting>,
    /// Whether a watcher may still add steps.
    #[serde(default)]
    pub is_live: bool,
}

/// A step whose checkpoint was evaluated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Optimizer steps, or what else the names of checkpoints count.
    pub step: u64,
    /// The path of the checkpoint, or another name of it.
    pub checkpoint: String,
    /// Its newest results file, relative to the file of the curve where possible.
    pub results: Option<String>,
    /// Requests that failed; their documents are not in the scores.
    pub failed_requests: u64,
}

/// A checkpoint without results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The name of the checkpoint, which is not evaluated.
    pub checkpoint: String,
    /// Its step, if it is known.
    pub step: Option<u64>,
    /// Why it is not evaluated.
    pub reason: String,
}

/// One score over all steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScoreCurve {
    /// The task or group.
    pub task: String,
    /// The metric, without its filter.
    pub metric: String,
    /// The pipeline of filters.
    pub filter: String,
    /// Whether it is the aggregate of a group.
    pub is_group: bool,
    /// Whether it is the first score of its task, which stands for the task where there is room for one.
    pub is_main: bool,
    /// Whether more is better, where the results say so.
    pub higher_is_better: Option<bool>,
    /// The documents of the last step.
    pub documents: Option<f64>,
    /// The expected score of guessing, where it is known.
    pub chance: Option<f64>,
    /// The smallest difference between two steps that these documents would probably show.
    pub detectable: Option<f64>,
    /// The index of the best step; `None` where no direction is known.
    pub best: Option<usize>,
    /// One entry per step; `None` where the step lacks the score.
    pub points: Vec<Option<Point>>,
}

/// A score at one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The aggregate over the documents.
    pub value: f64,
    /// Its standard error.
    pub stderr: Option<f64>,
    /// Its 95 % interval.
    pub interval: Option<(f64, f64)>,
    /// The difference from the previous step with this score.
    pub previous: Option<Change>,
    /// The difference from the best step.
    pub best: Option<Change>,
}

/// A difference between two steps: this one minus the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// This step minus the other one.
    pub difference: f64,
    /// Its 95 % interval, not corrected.
    pub interval: Option<(f64, f64)>,
    /// The p-value.
    pub p_value: Option<f64>,
    /// The p-value after Benjamini and Hochberg, over all scores and steps of the curve; against the best step also for the choice of the best.
    pub adjusted: Option<f64>,
    /// Whether documents were paired. Otherwise only the scores are known.
    pub is_paired: bool,
}

impl Change {
    /// Whether the difference is more than chance, after the correction.
    pub fn is_significant(&self) -> bool {
        self.adjusted.is_some_and(|adjusted| adjusted < ALPHA)
    }
}

impl ScoreCurve {
    /// The name in tables and legends: the metric, with its filter if there is one.
    pub fn label(&self) -> String {
        if matches!(self.filter.as_str(), "none" | "") {
            self.metric.clone()
        } else {
            format!("{},{}", self.metric, self.filter)
        }
    }

    /// The last step with this score.
    pub fn last(&self) -> Option<(usize, &Point)> {
        self.points.iter().enumerate().rev().find_map(|(index, point)| Some((index, point.as_ref()?)))
    }

    /// Whether the last score cannot be told from guessing; `None` where chance or its interval is unknown.
    pub fn is_at_chance(&self) -> Option<bool> {
        let (low, _) = self.last()?.1.interval?;
        Some(low <= self.chance?)
    }

    /// Whether a difference is a change for the better; `None` where no direction is known.
    pub fn is_better(&self, change: &Change) -> Option<bool> {
        Some((change.difference > 0.0) == self.higher_is_better?)
    }
}

impl Curve {
    /// Reads a file that `lm-eval watch` or `lm-eval curve` has written.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let wrong = |problem: String| {
            let message = format!("`{}` is not a curve: {problem}", path.display());
            Box::new(
                Diagnostic::new(message).hint("Write it again with `lm-eval curve RUNS --output_path DIR`"),
            )
        };
        let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
    }

    /// The files to write to a folder, with their contents: drawing, numbers, lines per step, and the curve itself, which comes last
    /// because the viewer looks for it. `csv` are comma-separated values. A drawing of very many tasks has no PNG.
    pub fn files(&self, front: &str, csv: String) -> Vec<(String, Vec<u8>)> {
        let figure = self.figure();
        let name = |suffix: &str| format!("{front}{suffix}");
        let png = figure.to_png().ok().map(|png| (name(".png"), png));
        let text = [
            (name(".csv"), csv.into_bytes()),
            (name(".jsonl"), self.to_lines().into_bytes()),
            (name(SUFFIX), self.to_json().into_bytes()),
        ];
        [(name(".svg"), figure.to_svg().into_bytes())].into_iter().chain(png).chain(text).collect()
    }

    /// The curve as JSON, without secrets.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        secrets::mask(&text).into_owned() + "\n"
    }

    /// Scores that stand for their tasks.
    pub fn main(&self) -> impl Iterator<Item = &ScoreCurve> {
        self.scores.iter().filter(|score| score.is_main)
    }

    /// The path of a step's results, given the file of the curve.
    pub fn results_of(&self, step: usize, file: &Path) -> Option<PathBuf> {
        let results = self.steps.get(step)?.results.as_deref()?;
        Some(file.parent().unwrap_or(Path::new("")).join(results))
    }
}

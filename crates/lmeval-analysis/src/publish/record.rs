//! What all formats say about a run.

use std::path::Path;

use jiff::Timestamp;
use lmeval_core::Diagnostic;
use lmeval_pycompat::{Dict, Value, json, repr};

use super::output::Output;
use crate::Error;
use crate::read::{Run, TaskNames};
use crate::summary::{Details, Score, Summary};

/// Metrics whose scores are shares of documents, from 0 to 1.
const SHARES: [&str; 7] =
    ["acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match", "exact_match_mc", "pass"];

/// What to publish of a run, and what its files do not say.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Names or patterns of tasks and groups; all if empty.
    pub tasks: Vec<String>,
    /// Metrics; all if empty.
    pub metrics: Vec<String>,
    /// `ORG/NAME` of the model, if the run names it otherwise.
    pub model: Option<String>,
}

/// A run, and what was chosen of it.
#[derive(Debug)]
pub struct Record {
    /// The files of the run.
    pub run: Run,
    pub(super) summary: Summary,
    pub(super) details: Details,
    pub(super) choice: Choice,
}

impl Record {
    /// Reads a run and keeps what was chosen.
    pub fn open(path: &Path, choice: Choice) -> Result<Self, Error> {
        let run = Run::open(path)?;
        if run.results.is_none() {
            let problem = format!("`{}` has documents and no scores", run.path.display());
            return Err(Diagnostic::new(problem)
                .hint("Name the results file or the folder of the run")
                .into());
        }
        let mut summary = Summary::read(&run.path)?;
        let details = Details::read(&run.path)?;
        let names = TaskNames::new(&choice.tasks);
        names.check(&summary.tasks.iter().map(|task| task.name.as_str()).collect::<Vec<_>>())?;
        summary.tasks.retain(|task| names.accepts(&task.name));
        for task in &mut summary.tasks {
            let is_chosen = |metric: &String| choice.metrics.is_empty() || choice.metrics.contains(metric);
            task.scores.retain(|score| is_chosen(&score.metric));
        }
        if summary.tasks.iter().all(|task| task.scores.is_empty()) {
            let metrics = choice.metrics.join("`, `");
            return Err(Diagnostic::new(format!("The run has no score of `{metrics}`")).into());
        }
        Ok(Self { run, summary, details, choice })
    }

    /// Remarks that concern every format.
    pub fn remark(&self, output: &mut Output) {
        output.notes.extend(self.run.results_change());
        if let Some(limit) = self.summary.limit {
            output.notes.push(format!(
                "The run has `--limit {}`: its scores are of a part of each task",
                repr::repr(&Value::Float(limit)).trim_end_matches(".0")
            ));
        }
        let failed: f64 =
            self.summary.tasks.iter().filter(|task| !task.is_group).map(|task| task.failed).sum();
        if failed > 0.0 {
            output.notes.push(format!("{failed} documents have no answer and are not in the scores"));
        }
    }

    /// The model, as `--model-id` or the run names it.
    pub(super) fn model(&self) -> &str {
        self.choice.model.as_deref().unwrap_or(&self.summary.name)
    }

    /// A setting of the run, unless it is empty.
    pub(super) fn setting(&self, name: &str) -> Option<&Value> {
        let (_, value) = self.details.settings.iter().find(|(key, _)| key == name)?;
        Some(value).filter(|value| value.is_truthy() && value.as_str() != Some("N/A"))
    }

    /// The resolved configuration of a task.
    pub(super) fn config(&self, task: &str) -> Option<&Dict> {
        self.details.configs.get_str(task)?.as_dict()
    }

    /// The options with which a task generates, if it does.
    pub(super) fn generation(&self, task: &str) -> Option<&Dict> {
        let config = self.config(task)?;
        let is_generated = config
            .get_str("output_type")
            .and_then(Value::as_str)
            .is_some_and(|kind| kind == "generate_until");
        config.get_str("generation_kwargs")?.as_dict().filter(|options| is_generated && !options.is_empty())
    }
}

/// Whether a score is a share of documents.
pub(super) fn is_share(score: &Score) -> bool {
    let name = score.metric.split('@').next().unwrap_or_default();
    SHARES.contains(&name) && score.value.is_some_and(|value| (0.0..=1.0).contains(&value))
}

/// A value as text: strings as they are, everything else as JSON.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Str(text) => text.to_string(),
        other => json::dumps(other, &json::Options { ensure_ascii: false, ..json::Options::default() })
            .unwrap_or_else(|_| repr::repr(other)),
    }
}

/// Seconds since the epoch in ISO 8601.
pub(super) fn iso(seconds: f64) -> String {
    Timestamp::from_microsecond((seconds * 1e6) as i64).unwrap_or(Timestamp::UNIX_EPOCH).to_string()
}

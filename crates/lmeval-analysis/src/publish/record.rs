//! What all formats say about a run.

use std::path::Path;

use fs_err as fs;
use jiff::Timestamp;
use lmeval_core::Diagnostic;
use lmeval_pycompat::{Dict, Value, json, repr};
use sha2::{Digest as _, Sha256};

use super::output::{Output, hex};
use crate::Error;
use crate::read::{Run, TaskNames};
use crate::summary::{Details, Score, Summary, TaskSummary};

/// Metrics whose scores are shares of documents, from 0 to 1.
const SHARES: [&str; 7] =
    ["acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match", "exact_match_mc", "pass"];

/// The benchmark of the hub that a task stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Benchmark {
    /// The task, as tables name it.
    pub task: String,
    /// The dataset of the hub.
    pub dataset: String,
    /// The task in `eval.yaml` of the dataset.
    pub id: String,
}

impl Benchmark {
    /// Parses `TASK=ORG/DATASET:ID`.
    ///
    /// ```
    /// use lmeval_analysis::publish::Benchmark;
    ///
    /// let benchmark = Benchmark::parse("gsm8k_cot=openai/gsm8k:gsm8k").unwrap();
    /// assert_eq!((benchmark.dataset.as_str(), benchmark.id.as_str()), ("openai/gsm8k", "gsm8k"));
    /// assert!(Benchmark::parse("gsm8k=openai/gsm8k").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, Error> {
        let parts = text.split_once('=').and_then(|(task, rest)| {
            let (dataset, id) = rest.split_once(':')?;
            (is_hub_name(dataset) && !task.is_empty() && !id.is_empty()).then_some((task, dataset, id))
        });
        let (task, dataset, id) = parts.ok_or_else(|| {
            Diagnostic::new(format!("`{text}` is not a benchmark"))
                .hint("TASK=ORG/DATASET:ID, such as `gsm8k_cot=openai/gsm8k:gsm8k`")
        })?;
        Ok(Self { task: task.to_owned(), dataset: dataset.to_owned(), id: id.to_owned() })
    }
}

/// What to publish of a run, and what its files do not say.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Names or patterns of tasks and groups; all if empty.
    pub tasks: Vec<String>,
    /// Metrics; all if empty.
    pub metrics: Vec<String>,
    /// `ORG/NAME` of the model, if the run names it otherwise.
    pub model: Option<String>,
    /// Who ran the evaluation.
    pub organization: Option<String>,
    /// The relationship of the evaluator to the model.
    pub relationship: Option<String>,
    /// Benchmarks of the hub.
    pub benchmarks: Vec<Benchmark>,
}

/// A run, and what was chosen of it.
#[derive(Debug)]
pub struct Record {
    /// The files of the run.
    pub run: Run,
    pub(super) summary: Summary,
    pub(super) details: Details,
    pub(super) choice: Choice,
    /// The digest of the results file and the model, from which all identifiers follow.
    digest: [u8; 32],
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
        let bytes = fs::read(&run.path).map_err(|error| Diagnostic::cannot_read(&run.path, error))?;
        let mut hash = Sha256::new_with_prefix(bytes);
        hash.update(choice.model.as_deref().unwrap_or_default());
        Ok(Self { run, summary, details, choice, digest: hash.finalize().into() })
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
    pub fn model(&self) -> &str {
        self.choice.model.as_deref().unwrap_or(&self.summary.name)
    }

    /// A version 4 UUID that follows from the results file, the model and `what`.
    pub(super) fn uuid(&self, what: &str) -> String {
        let mut bytes = Sha256::new_with_prefix(self.digest).chain_update(what).finalize();
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let digits = hex(&bytes[..16]);
        [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
    }

    /// When the run began and ended, in seconds since the epoch.
    pub(super) fn times(&self) -> Result<(f64, f64), Error> {
        let start = self.summary.date.ok_or_else(|| {
            Diagnostic::new(format!("`{}` does not say when the run began", self.run.path.display()))
                .hint("Add `date`, in seconds since 1970-01-01T00:00:00Z")
        })?;
        Ok((start, start + self.summary.duration.unwrap_or(0.0).max(0.0)))
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

    /// The dataset of the hub that a task reads; `None` for other data.
    pub(super) fn hub_dataset(&self, task: &str) -> Option<&str> {
        let config = self.config(task)?;
        let has_files = config
            .get_str("dataset_kwargs")
            .and_then(Value::as_dict)
            .is_some_and(|arguments| arguments.contains_str("data_files"));
        config.get_str("dataset_path")?.as_str().filter(|path| !has_files && is_hub_name(path))
    }
}

/// Whether a score is a share of documents.
pub(super) fn is_share(score: &Score) -> bool {
    let name = score.metric.split('@').next().unwrap_or_default();
    SHARES.contains(&name) && score.value.is_some_and(|value| (0.0..=1.0).contains(&value))
}

/// A task without the groups in front of it.
pub(super) fn own_name(task: &TaskSummary) -> &str {
    task.name.rsplit("::").next().unwrap_or(&task.name)
}

/// Whether a name is `ORG/NAME`, in characters that the hub and every file system accept.
pub fn is_hub_name(name: &str) -> bool {
    let is_plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && !part.ends_with('.')
            && part.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
    };
    name.split_once('/').is_some_and(|(owner, name)| is_plain(owner) && is_plain(name))
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

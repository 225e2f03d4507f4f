//! A run in memory, as its files describe it, and the files it is converted to.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use fs_err as fs;
use jiff::Timestamp;
use lmeval_core::Diagnostic;
use lmeval_pycompat::{Dict, Value, json};
use lmeval_scoring::results::task_file_name;
use sha2::{Digest as _, Sha256};

use crate::Error;
use crate::read::{has_extension, split_stamp};

/// Part of the digest, so that a change of the conversion does not find older files.
const VERSION: &str = "1";

/// A run of another program.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// The model.
    pub model: String,
    /// When it began, in seconds since the epoch.
    pub date: Option<f64>,
    /// The program that wrote it, with its version.
    pub source: String,
    /// Its tasks.
    pub tasks: Vec<LogTask>,
}

/// One task of a run.
#[derive(Debug, Default)]
pub(super) struct LogTask {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: Option<Value>,
    /// The number of few-shot examples.
    pub shots: Option<Value>,
    /// Scored documents.
    pub documents: Option<i64>,
    /// Its scores.
    pub scores: Vec<LogScore>,
    /// Its scored documents: one per filter, in order.
    pub samples: Vec<LogSample>,
}

/// One score of a task.
#[derive(Debug)]
pub(super) struct LogScore {
    /// The metric.
    pub metric: String,
    /// What our files call the filter: the scorer, or `none`.
    pub filter: String,
    /// The score.
    pub value: f64,
    /// Its standard error.
    pub stderr: Option<f64>,
    /// Whether more is better.
    pub higher_is_better: bool,
}

/// One document as one filter scored it.
#[derive(Debug)]
pub(super) struct LogSample {
    /// Its identifier in the log.
    pub id: String,
    /// The filter.
    pub filter: String,
    /// The row of the dataset, or what the log has of it.
    pub document: Value,
    /// The prompt, or its messages as text.
    pub prompt: String,
    /// The right answer, or several.
    pub target: Value,
    /// What the model returned, for each repeat.
    pub answers: Vec<String>,
    /// What was scored.
    pub filtered: Option<String>,
    /// The values of the metrics.
    pub values: Vec<(String, f64)>,
}

impl Log {
    /// Adds the tasks of another log of the same run.
    pub(super) fn append(&mut self, other: Self) {
        if self.tasks.is_empty() {
            *self = other;
        } else {
            self.date = self.date.into_iter().chain(other.date).reduce(f64::min);
            self.tasks.extend(other.tasks);
        }
    }

    /// Writes results and samples to a folder that appears complete or not at all; returns the path of the results.
    pub(super) fn write(&self, folder: &Path) -> Result<PathBuf, Error> {
        let cannot = |error| Diagnostic::new(format!("Cannot write `{}`", folder.display())).caused_by(error);
        let parent = folder.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(cannot)?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let part = parent.join(format!(".{name}.{}", std::process::id()));
        fs::create_dir_all(&part).map_err(cannot)?;
        let written = self.write_files(&part);
        // Another process may have converted the same log meanwhile: its files are the same.
        let moved = written.and_then(|()| match fs::rename(&part, folder) {
            Err(_) if results_in(folder).is_some() => Ok(()),
            other => other,
        });
        if moved.is_err() || part.exists() {
            // The error of writing is the one to report.
            let _ = fs::remove_dir_all(&part);
        }
        moved.map_err(cannot)?;
        results_in(folder)
            .ok_or_else(|| Diagnostic::new(format!("The files in `{}` disappeared", folder.display())).into())
    }

    fn write_files(&self, folder: &Path) -> std::io::Result<()> {
        let date = self.date.and_then(|date| Timestamp::from_microsecond((date * 1e6) as i64).ok());
        let stamp = date.unwrap_or(Timestamp::UNIX_EPOCH).strftime("%Y-%m-%dT%H-%M-%S%.6f").to_string();
        for task in self.tasks.iter().filter(|task| !task.samples.is_empty()) {
            let text: String = task.samples().map(|sample| encode(&sample) + "\n").collect();
            fs::write(folder.join(format!("samples_{}_{stamp}.jsonl", task_file_name(&task.name))), text)?;
        }
        fs::write(folder.join(format!("results_{stamp}.json")), encode(&Value::from(self.results())))
    }

    fn results(&self) -> Dict {
        let (mut results, mut configs, mut versions) = (Dict::new(), Dict::new(), Dict::new());
        let (mut shots, mut better, mut counts) = (Dict::new(), Dict::new(), Dict::new());
        for task in &self.tasks {
            let name = task.name.as_str();
            let (mut entry, mut directions) = (Dict::new(), Dict::new());
            entry.insert("alias", name);
            for score in &task.scores {
                let key = |metric: &str| format!("{metric},{}", score.filter);
                entry.insert(key(&score.metric).as_str(), score.value);
                let stderr = score.stderr.map_or_else(|| Value::str("N/A"), Value::Float);
                entry.insert(key(&format!("{}_stderr", score.metric)).as_str(), stderr);
                directions.insert(score.metric.as_str(), score.higher_is_better);
            }
            results.insert(name, entry);
            better.insert(name, directions);
            configs.insert(name, Value::dict([("task", Value::str(name))]));
            if let Some(version) = &task.version {
                versions.insert(name, version.clone());
            }
            if let Some(examples) = &task.shots {
                shots.insert(name, examples.clone());
            }
            if let Some(documents) = task.documents {
                let count = [("original", Value::Int(documents)), ("effective", Value::Int(documents))];
                counts.insert(name, Value::dict(count));
            }
        }
        let mut whole = Dict::new();
        whole.insert("results", results);
        whole.insert("configs", configs);
        whole.insert("versions", versions);
        whole.insert("n-shot", shots);
        whole.insert("higher_is_better", better);
        whole.insert("n-samples", counts);
        whole.insert("config", Value::dict([("model", Value::str(self.model.as_str()))]));
        whole.insert("model_name", self.model.as_str());
        whole.insert("lm_eval_version", self.source.as_str());
        if let Some(date) = self.date {
            whole.insert("date", date);
        }
        whole
    }
}

impl LogTask {
    /// The lines of the samples file.
    fn samples(&self) -> impl Iterator<Item = Value> {
        let is_numbered = self.samples.iter().all(|sample| sample.id.parse::<i64>().is_ok());
        let mut ids: Vec<&str> = Vec::new();
        if !is_numbered {
            let mut seen = rustc_hash::FxHashSet::default();
            ids.extend(self.samples.iter().map(|sample| sample.id.as_str()).filter(|id| seen.insert(*id)));
        }
        let numbers: rustc_hash::FxHashMap<&str, i64> = ids.into_iter().zip(0..).collect();
        self.samples.iter().map(move |sample| {
            let mut line = Dict::new();
            line.insert("doc_id", sample.id.parse().unwrap_or_else(|_| numbers[sample.id.as_str()]));
            line.insert("doc", sample.document.clone());
            line.insert("target", sample.target.clone());
            let request =
                [("arg_0", Value::str(sample.prompt.as_str())), ("arg_1", Value::from(Dict::new()))];
            line.insert("arguments", Value::dict([("gen_args_0", Value::dict(request))]));
            let strings = |items: &[String]| Value::list(items.iter().map(|item| Value::str(item.as_str())));
            line.insert("resps", Value::list([strings(&sample.answers)]));
            let filtered = sample.filtered.clone().or_else(|| sample.answers.first().cloned());
            line.insert("filtered_resps", strings(filtered.as_slice()));
            line.insert("filter", sample.filter.as_str());
            let names = sample.values.iter().map(|(name, _)| Value::str(name.as_str()));
            line.insert("metrics", Value::list(names));
            if !is_numbered {
                // Two logs pair documents with names by this.
                line.insert("doc_hash", hex(&Sha256::digest(&sample.id)));
            }
            for (name, value) in &sample.values {
                line.insert(name.as_str(), *value);
            }
            Value::from(line)
        })
    }
}

/// The results file in a folder of converted files.
pub(super) fn results_in(folder: &Path) -> Option<PathBuf> {
    let mut entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    entries.find(|path| {
        has_extension(path, "json")
            && split_stamp(&path.file_name().unwrap_or_default().to_string_lossy()).is_some()
    })
}

/// The digest of the files that a log consists of.
pub(super) struct Digest(Sha256);

impl Default for Digest {
    fn default() -> Self {
        Self(Sha256::new_with_prefix(VERSION))
    }
}

impl Digest {
    /// Adds the content of a file.
    pub(super) fn add(&mut self, path: &Path) -> Result<(), Error> {
        let unreadable = |error| Diagnostic::cannot_read(path, error);
        let mut file = fs::File::open(path).map_err(unreadable)?;
        let mut block = vec![0; 1 << 20];
        loop {
            match file.read(&mut block).map_err(unreadable)? {
                0 => return Ok(()),
                read => self.0.update(&block[..read]),
            }
        }
    }

    /// Hexadecimal digits.
    pub(super) fn finish(self) -> String {
        hex(&self.0.finalize()[..16])
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn encode(value: &Value) -> String {
    let options = json::Options { ensure_ascii: false, ..json::Options::default() };
    json::dumps(value, &options).expect("values that were read from JSON can be written as JSON")
}

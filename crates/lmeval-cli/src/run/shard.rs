//! The files of a shard: its answered documents, and a manifest that says what it evaluated.

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use fs_err as fs;
use lmeval_core::Diagnostic;
use lmeval_core::secrets::mask_secrets;
use lmeval_engine::{DocumentCounts, Evaluated, encode_answered};
use lmeval_pycompat::{Dict, Value, json};
use lmeval_report::{ReportError, lm_eval_version, task_file_name, to_json, write_atomically};
use lmeval_scoring::results::value_checksum;
use lmeval_scoring::scorers::AnsweredDocument;
use sha2::{Digest as _, Sha256};

use crate::settings::{RunSettings, ShardNumber};

/// The file that a finished shard has.
pub(crate) const MANIFEST: &str = "shard.json";

/// The version of the manifest and of the files it names.
pub(crate) const FORMAT: i64 = 1;

/// The key of the checksum of everything else in a manifest.
pub(crate) const CHECKSUM: &str = "checksum";

/// The number of failed requests that a manifest describes.
const DESCRIBED_FAILURES: usize = 20;

/// An error that ends a run, see [`lmeval_engine::Events`].
type BoxError = Box<dyn Error + Send + Sync>;

/// Writes the answered documents of a shard while they are scored.
pub(crate) struct ShardWriter {
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Files of tasks with documents to come.
    open: HashMap<String, TaskFile>,
    /// The entries of complete tasks.
    tasks: Vec<(String, Dict)>,
    /// The fingerprint and the description of the model.
    model: Option<(String, String)>,
}

/// The answered documents of a task, in a file that is renamed when it is complete.
struct TaskFile {
    part: PathBuf,
    file: BufWriter<fs::File>,
    documents: usize,
    line: String,
    /// The hash of everything written.
    hash: Sha256,
}

impl ShardWriter {
    /// Prepares a folder. The manifest of an earlier run is removed: until this one ends, the shard is not complete.
    pub(crate) fn new(folder: &Path) -> Result<Self> {
        let manifest = folder.join(MANIFEST);
        if manifest.exists() {
            fs::remove_file(manifest)?;
        }
        Ok(Self { folder: folder.to_owned(), state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes whose answers these are.
    pub(crate) fn set_model(&self, fingerprint: String, description: String) {
        self.state().model = Some((fingerprint, description));
    }

    /// Forgets what was written from the answers of another model.
    pub(crate) fn start_over(&self) {
        let state = &mut *self.state();
        state.open.clear();
        state.tasks.clear();
    }

    /// Appends documents of a task; `last` completes its file.
    pub(crate) fn write(
        &self,
        task: &str,
        documents: &[AnsweredDocument],
        last: Option<DocumentCounts>,
    ) -> Result<(), BoxError> {
        let state = &mut *self.state();
        let mut file = match state.open.remove(task) {
            Some(file) => file,
            None => TaskFile::create(&self.folder, task)?,
        };
        for document in documents {
            file.write(task, document)?;
        }
        match last {
            None => drop(state.open.insert(task.to_owned(), file)),
            Some(counts) => {
                let entry = file.finish(&self.folder, task, &counts)?;
                state.tasks.push((task.to_owned(), entry));
            }
        }
        Ok(())
    }

    /// Writes the manifest, after everything else: a shard without one is not merged.
    pub(crate) fn finish(
        &self,
        shard: ShardNumber,
        settings: &RunSettings,
        (results, samples): (&Path, &[(String, PathBuf)]),
        evaluation: &Evaluated,
    ) -> Result<()> {
        let state = &mut *self.state();
        for (task, entry) in &mut state.tasks {
            if let Some((_, path)) = samples.iter().find(|(known, _)| known == task) {
                entry.insert("samples", file_name(path));
            }
        }
        let position = |task: &str| evaluation.tasks.iter().position(|(key, _)| key == task);
        let mut tasks: Vec<&(String, Dict)> = state.tasks.iter().collect();
        tasks.sort_by_key(|(task, _)| position(task));
        let failures = evaluation.failures.iter().take(DESCRIBED_FAILURES);
        let failures =
            failures.map(|failure| Value::from(format!("{}: {}", failure.request.describe(), failure.error)));
        let (fingerprint, description) = state.model.clone().unwrap_or_default();
        let mut manifest: Dict = [
            ("format", Value::Int(FORMAT)),
            ("lm_eval_version", Value::str(lm_eval_version())),
            ("shard", Value::Int(shard.index() as i64)),
            ("shards", Value::Int(shard.count() as i64)),
            (
                "model",
                Value::dict([
                    ("fingerprint", Value::from(fingerprint)),
                    ("identity", Value::from(description)),
                ]),
            ),
            ("settings", mask_secrets(&Value::from(settings.stored()))),
            ("results", Value::from(file_name(results))),
            (
                "tasks",
                Value::from(
                    tasks
                        .into_iter()
                        .map(|(task, entry)| (Value::str(task.as_str()), Value::from(entry.clone())))
                        .collect::<Dict>(),
                ),
            ),
            ("failed_requests", Value::Int(evaluation.failures.len() as i64)),
            ("failures", Value::list(failures)),
        ]
        .into_iter()
        .map(|(key, value)| (Value::str(key), value))
        .collect();
        // As `merge` will read it: with secrets masked, for example.
        if let Ok(read) = json::loads(&to_json(&manifest)?) {
            manifest.insert(CHECKSUM, value_checksum(&read));
        }
        Ok(write_atomically(&self.folder.join(MANIFEST), to_json(&manifest)?.as_bytes())?)
    }
}

impl TaskFile {
    fn create(folder: &Path, task: &str) -> Result<Self, ReportError> {
        let part = folder.join(format!(".answers_{}.jsonl.part", task_file_name(task)));
        let file = fs::File::create(&part).map_err(failed(&part))?;
        let file = BufWriter::with_capacity(1 << 16, file);
        Ok(Self { part, file, documents: 0, line: String::new(), hash: Sha256::new() })
    }

    fn write(&mut self, task: &str, document: &AnsweredDocument) -> Result<(), BoxError> {
        self.line.clear();
        encode_answered(&mut self.line, document).map_err(|message| {
            Diagnostic::new(format!(
                "Document {} of `{task}` cannot be stored for a merge: {message}",
                document.doc_id
            ))
        })?;
        self.line.push('\n');
        self.documents += 1;
        self.hash.update(&self.line);
        Ok(self.file.write_all(self.line.as_bytes()).map_err(failed(&self.part))?)
    }

    /// Renames the complete file; returns its entry in the manifest.
    fn finish(mut self, folder: &Path, task: &str, counts: &DocumentCounts) -> Result<Dict, ReportError> {
        let name = format!("answers_{}.jsonl", task_file_name(task));
        let path = folder.join(&name);
        self.file.flush().map_err(failed(&self.part))?;
        self.file.get_ref().sync_all().map_err(failed(&self.part))?;
        fs::rename(&self.part, &path).map_err(failed(&path))?;
        let mut entry = Dict::new();
        entry.insert("file", name);
        entry.insert("documents", self.documents as i64);
        entry.insert("built", counts.built as i64);
        entry.insert("original", counts.original as i64);
        entry.insert("data", counts.digest.as_deref().unwrap_or_default());
        entry.insert("sha256", hex(&self.hash.finalize()));
        Ok(entry)
    }
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut digits, byte| {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> ReportError {
    let path = path.to_owned();
    move |source| ReportError::Write { action: "write", path, source }
}

//! What is known of checkpoints: their results on disk, so that every watcher and every restart sees the same.

use std::path::{Path, PathBuf};

use anyhow::Result;
use fs_err as fs;
use lmeval_analysis::read::{file_name, has_extension, split_stamp};
use lmeval_journal::{ErrorKind, Lock};
use lmeval_report::write_atomically;
use serde::{Deserialize, Serialize};

/// The file that says which checkpoint the results of a folder are of.
const RECORD: &str = "checkpoint.json";

/// What is evaluated in a folder, for its lock.
const EVALUATION: &str = "evaluation";

/// The folder of results.
#[derive(Clone, Debug)]
pub(super) struct Store {
    pub out: PathBuf,
}

/// A checkpoint whose evaluation has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The name below the watched folder.
    pub name: String,
    /// The path, or the model of the hub with its revision.
    pub checkpoint: String,
    /// The path of something on this machine, which may be gone.
    pub path: Option<PathBuf>,
    /// The step.
    pub step: u64,
    /// The files with their sizes and times.
    pub signature: String,
    /// The content.
    pub identity: String,
    /// The name of the checkpoint that this one was renamed from; it has the results.
    pub renamed_from: Option<String>,
}

impl Store {
    /// The folder with the results of a checkpoint.
    pub(super) fn folder(&self, name: &str) -> PathBuf {
        self.out.join("checkpoints").join(name)
    }

    /// Saves what is known of a checkpoint.
    pub(super) fn save(&self, record: &Record) -> Result<()> {
        save(&self.folder(&record.name), record)
    }

    /// All checkpoints whose evaluation has begun.
    pub(super) fn records(&self) -> Vec<Record> {
        let mut found = Vec::new();
        let mut folders = vec![self.out.join("checkpoints")];
        while let Some(folder) = folders.pop() {
            found.extend(read(&folder));
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            folders.extend(entries.map(|entry| entry.path()).filter(|path| path.is_dir()));
        }
        found.sort_by(|left: &Record, right| (left.step, &left.name).cmp(&(right.step, &right.name)));
        found
    }

    /// The results of a checkpoint, the newest last.
    pub(super) fn results(&self, name: &str) -> Vec<PathBuf> {
        results(&self.folder(name))
    }

    /// Whether a process evaluates the checkpoint now.
    pub(super) fn is_claimed(&self, name: &str) -> bool {
        let folder = self.folder(name);
        folder.is_dir() && matches!(claim(&folder), Ok(None))
    }
}

/// The exclusive right to evaluate a checkpoint; `None` if another process has it.
pub(super) fn claim(folder: &Path) -> Result<Option<Lock>> {
    match Lock::acquire(&folder.join(EVALUATION)) {
        Ok(lock) => Ok(Some(lock)),
        Err(error) if matches!(error.kind(), ErrorKind::Locked { .. } | ErrorKind::Claimed { .. }) => {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// The results files of a folder, the newest last.
pub(super) fn results(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_results = |path: &PathBuf| {
        let name = file_name(path);
        has_extension(path, "json") && split_stamp(&name).is_some_and(|(front, _)| front == "results")
    };
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_results).collect();
    found.sort();
    found
}

/// Saves the record of a folder.
pub(super) fn save(folder: &Path, record: &Record) -> Result<()> {
    fs::create_dir_all(folder)?;
    Ok(write_atomically(&folder.join(RECORD), serde_json::to_string_pretty(record)?.as_bytes())?)
}

/// A damaged record counts as none: the checkpoint is looked at again, and its results are still there.
fn read(folder: &Path) -> Option<Record> {
    serde_json::from_slice(&fs::read(folder.join(RECORD)).ok()?).ok()
}

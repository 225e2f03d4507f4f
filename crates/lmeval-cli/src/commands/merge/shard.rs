//! Finding and reading the manifests of shards.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use fs_err as fs;
use lmeval_analysis::read::results_change;
use lmeval_core::Diagnostic;
use lmeval_pycompat::{Dict, Value, json};
use lmeval_scoring::results::value_checksum;

use crate::run::shard::{CHECKSUM, FORMAT, MANIFEST};
use crate::settings::ShardNumber;

/// How deep shards are searched for: `OUTPUT_PATH/shard-1-of-2/MODEL`.
const DEPTH: usize = 2;

/// What to do about files of a shard that cannot be used.
pub(super) const AGAIN: &str = "Run the command of the shard again; its answers are saved";

/// A finished shard.
pub(super) struct Shard {
    /// The folder of its files.
    pub(super) folder: PathBuf,
    pub(super) number: ShardNumber,
    /// The release that evaluated it.
    pub(super) version: String,
    /// The fingerprint and the description of the model.
    pub(super) model: (String, String),
    pub(super) settings: Dict,
    pub(super) tasks: Vec<(String, TaskFile)>,
    pub(super) failed_requests: usize,
    /// Descriptions of the first failed requests.
    pub(super) failures: Vec<String>,
    /// Its results file.
    pub(super) results: Dict,
}

/// The answered documents of a task.
pub(super) struct TaskFile {
    pub(super) path: PathBuf,
    /// The number of documents in the file.
    pub(super) documents: usize,
    pub(super) built: usize,
    pub(super) original: usize,
    /// The digest of all documents of the run and their few-shot examples, and the hash of the first one's requests.
    pub(super) data: String,
    /// The hash of the file.
    pub(super) sha256: String,
    /// The records of the documents, if they were logged and there are any.
    pub(super) samples: Option<PathBuf>,
}

/// The shards below some folders, and the folders of shards that have no manifest.
#[derive(Default)]
pub(super) struct FoundShards {
    pub(super) shards: Vec<Shard>,
    pub(super) unfinished: Vec<(ShardNumber, PathBuf)>,
}

impl FoundShards {
    /// Searches folders.
    pub(super) fn search(folders: &[PathBuf]) -> Result<Self> {
        let mut found = Self::default();
        for folder in folders {
            if !folder.is_dir() {
                let what = if folder.exists() { "is not a folder" } else { "does not exist" };
                let diagnostic = Diagnostic::new(format!("`{}` {what}", folder.display()));
                bail!(diagnostic.hint("Name the `--output_path` of the shards"));
            }
            let before = found.shards.len() + found.unfinished.len();
            found.add(folder, DEPTH)?;
            if found.shards.len() + found.unfinished.len() == before {
                let diagnostic = Diagnostic::new(format!("`{}` has no shards", folder.display()));
                bail!(diagnostic.hint("`lm-eval run --shard 1/2 --output_path DIR` creates one"));
            }
        }
        found.shards.sort_by_key(|shard| shard.number);
        Ok(found)
    }

    /// Adds the shards of a folder. Returns whether there are any.
    fn add(&mut self, folder: &Path, depth: usize) -> Result<bool> {
        if folder.join(MANIFEST).is_file() {
            self.shards.push(Shard::read(folder)?);
            return Ok(true);
        }
        let mut has_shards = false;
        if depth > 0 {
            let entries: Vec<PathBuf> =
                fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
            for entry in entries.into_iter().filter(|entry| entry.is_dir()) {
                has_shards |= self.add(&entry, depth - 1)?;
            }
        }
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        if let Some(number) = ShardNumber::of_folder(&name).filter(|_| !has_shards) {
            self.unfinished.push((number, folder.to_owned()));
            has_shards = true;
        }
        Ok(has_shards)
    }
}

impl Shard {
    fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(MANIFEST);
        let manifest = read_json(&path)?;
        let malformed = |key: &str| {
            let message =
                format!("`{}` is not the manifest of a shard: `{key}` is missing or wrong", path.display());
            anyhow::Error::from(Diagnostic::new(message).hint(AGAIN))
        };
        let count = |dict: &Dict, key: &str| dict.get_str(key).and_then(Value::as_i64)?.try_into().ok();
        let number = |key: &str| count(&manifest, key).ok_or_else(|| malformed(key));
        let text = |dict: &Dict, key: &str| dict.get_str(key).and_then(Value::as_str).map(str::to_owned);
        let string = |key: &str| text(&manifest, key).ok_or_else(|| malformed(key));
        let dict = |key: &str| manifest.get_str(key).and_then(Value::as_dict).ok_or_else(|| malformed(key));
        if manifest.get_str("format").and_then(Value::as_i64) != Some(FORMAT) {
            let message = format!("`{}` has a format that this version cannot read", path.display());
            bail!(
                Diagnostic::new(message).hint("Merge with the version of lm-eval that evaluated the shards")
            );
        }
        let mut unsealed = manifest.clone();
        if let Some(written) = unsealed.remove_str(CHECKSUM)
            && written != Value::from(value_checksum(&Value::from(unsealed)))
        {
            bail!(damaged(&path, "its content differs from its checksum"));
        }
        let model = dict("model")?;
        let mut tasks = Vec::new();
        for (name, entry) in dict("tasks")?.iter() {
            let entry = entry.as_dict().ok_or_else(|| malformed("tasks"))?;
            let number = |key: &str| count(entry, key).ok_or_else(|| malformed("tasks"));
            let file =
                text(entry, "file").filter(|file| !file.contains('/')).ok_or_else(|| malformed("tasks"))?;
            let file = TaskFile {
                path: folder.join(file),
                documents: number("documents")?,
                built: number("built")?,
                original: number("original")?,
                data: text(entry, "data").ok_or_else(|| malformed("tasks"))?,
                sha256: text(entry, "sha256").ok_or_else(|| malformed("tasks"))?,
                samples: text(entry, "samples").map(|samples| folder.join(samples)),
            };
            tasks.push((name.as_str().unwrap_or_default().to_owned(), file));
        }
        let results = folder.join(string("results")?);
        let content = read_json(&results)?;
        let file = results.display().to_string();
        if let Some(change) = results_change(&file, |_| true, |key| content.get_str(key).cloned()) {
            bail!(Diagnostic::new(change).hint(AGAIN));
        }
        let failures = manifest.get_str("failures").and_then(Value::as_list).unwrap_or_default();
        Ok(Self {
            folder: folder.to_owned(),
            number: ShardNumber::new(number("shard")?, number("shards")?)
                .ok_or_else(|| malformed("shard"))?,
            version: string("lm_eval_version")?,
            model: (
                text(model, "fingerprint").ok_or_else(|| malformed("model"))?,
                text(model, "identity").unwrap_or_default(),
            ),
            settings: dict("settings")?.clone(),
            tasks,
            failed_requests: number("failed_requests")?,
            failures: failures.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            results: content,
        })
    }

    /// The documents of a task.
    pub(super) fn task(&self, name: &str) -> Option<&TaskFile> {
        self.tasks.iter().find(|(known, _)| known == name).map(|(_, file)| file)
    }
}

fn read_json(path: &Path) -> Result<Dict> {
    let text = fs::read_to_string(path)?;
    match json::loads(&text) {
        Ok(Value::Dict(dict)) => Ok(Dict::clone(&dict)),
        Ok(_) => bail!(damaged(path, "not a JSON object")),
        Err(error) => bail!(damaged(path, &error.to_string())),
    }
}

/// The error for a file of a shard that is not as the shard wrote it.
fn damaged(path: &Path, message: &str) -> Diagnostic {
    Diagnostic::new(format!("`{}` is damaged: {message}", path.display())).hint(AGAIN)
}

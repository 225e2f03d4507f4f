//! Samples files, written during the run.

use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use fs_err as fs;
use lmeval_core::secrets;
use lmeval_pycompat::{Dict, Value, json, repr};
use lmeval_scoring::results::{LinesChecksum, RunResults, SampleRecord, hash_text, replace_foreign};
use sha2::{Digest, Sha256};

use crate::error::ReportError;
use crate::files::{Layout, is_abandoned, is_same_file, sync_folder};
use crate::previews::Previews;

/// How samples are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleOptions {
    /// Whether records contain hashes instead of bytes, such as images: for models that take images or audio, unless
    /// `LMEVAL_HASHMM` disables it.
    pub hash_media: bool,
}

/// Parses `LMEVAL_HASHMM`: whether to replace bytes by hashes. `None` if the value is not a boolean.
pub fn parse_hash_media(variable: Option<&str>) -> Option<bool> {
    match variable?.to_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" | "" => Some(false),
        _ => None,
    }
}

/// Writes the samples of one task, line by line.
///
/// Lines are written to a hidden file in the results folder, which is renamed when the task is complete. Files left by a
/// killed run are overwritten or removed, on a network file system after a day.
#[derive(Debug)]
pub struct SamplesWriter {
    layout: Layout,
    task: String,
    options: SampleOptions,
    part: PathBuf,
    file: BufWriter<fs::File>,
    hash: TaskHasher,
    checksum: LinesChecksum,
    line: String,
    previews: Previews,
}

/// A complete samples file.
#[derive(Clone, Debug)]
pub struct WrittenSamples {
    /// Its path.
    pub path: PathBuf,
    /// The hash of the task.
    pub hash: String,
    /// The checksum of its lines.
    pub checksum: LinesChecksum,
}

impl SamplesWriter {
    /// Creates the hidden file for a task.
    pub fn new(layout: &Layout, task: &str, options: SampleOptions) -> Result<Self, ReportError> {
        layout.make_folder()?;
        let (part, file) = open_part(layout, task)?;
        let previews = Previews::beside(&part);
        Ok(Self {
            layout: layout.clone(),
            task: task.to_owned(),
            options,
            part,
            file: BufWriter::with_capacity(1 << 16, file),
            hash: TaskHasher::default(),
            checksum: LinesChecksum::default(),
            line: String::new(),
            previews,
        })
    }

    /// Appends a record.
    pub fn write(&mut self, record: &SampleRecord) -> Result<(), ReportError> {
        self.hash.add(record);
        self.previews.add(record)?;
        self.line.clear();
        let entry = if self.options.hash_media {
            with_hashed_media(record).to_file_dict()
        } else {
            record.to_file_dict()
        };
        let options = json::Options {
            ensure_ascii: false,
            default: Some(&replace_foreign),
            ..json::Options::default()
        };
        let entry = secrets::mask_strings(Value::from(entry), secrets::mask_data);
        json::write(&mut self.line, &entry, &options).map_err(|source| ReportError::Encode {
            what: format!("document {} of `{}`", record.doc_id, self.task),
            source,
        })?;
        self.checksum.add(self.line.as_bytes());
        self.line.push('\n');
        self.file.write_all(self.line.as_bytes()).map_err(ReportError::write("write", &self.part))
    }

    /// Appends a record that was written before: its line, and its hashes of document, prompt and target.
    pub fn copy(&mut self, line: &str, hashes: [&str; 3]) -> Result<(), ReportError> {
        for hash in hashes {
            self.hash.0.update(hash.as_bytes());
        }
        self.checksum.add(line.as_bytes());
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.write_all(b"\n"));
        written.map_err(ReportError::write("write", &self.part))
    }

    /// Flushes buffered records, so that other processes can read them.
    pub fn flush(&mut self) -> Result<(), ReportError> {
        self.file.flush().map_err(ReportError::write("write", &self.part))
    }

    /// Renames the complete file.
    pub fn finish(mut self, stamp: &str) -> Result<WrittenSamples, ReportError> {
        self.flush()?;
        self.file.get_ref().sync_all().map_err(ReportError::write("write", &self.part))?;
        let path = self.layout.samples_file(&self.task, stamp);
        fs::rename(&self.part, &path).map_err(ReportError::write("write", &path))?;
        self.previews.finish(&path)?;
        sync_folder(&path);
        Ok(WrittenSamples { path, hash: self.hash.finish(), checksum: self.checksum })
    }

    /// Deletes the file, after a task has failed.
    pub fn discard(self) -> Result<(), ReportError> {
        self.previews.discard()?;
        fs::remove_file(&self.part).map_err(ReportError::write("remove", &self.part))
    }
}

/// Creates the first hidden file that no other run has, or takes over an abandoned one.
fn open_part(layout: &Layout, task: &str) -> Result<(PathBuf, fs::File), ReportError> {
    let mut attempt = 1;
    loop {
        let path = layout.part_file(task, attempt);
        match fs::OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => {
                // Not every file system has locks; a new file is ours regardless.
                let _ = file.file().try_lock();
                return Ok((path, file));
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(ReportError::write("write", &path)(error)),
        }
        if let Ok(file) = fs::OpenOptions::new().write(true).open(&path)
            && is_abandoned(&file)
            && is_same_file(&path, &file)
        {
            file.set_len(0).map_err(ReportError::write("write", &path))?;
            return Ok((path, file));
        }
        attempt += 1;
    }
}

/// The hash of a task, computed from the hashes of its records.
#[derive(Clone, Debug, Default)]
struct TaskHasher(Sha256);

impl TaskHasher {
    fn add(&mut self, record: &SampleRecord) {
        for hash in [&record.hashes.doc, &record.hashes.prompt, &record.hashes.target] {
            self.0.update(hash.as_bytes());
        }
    }

    fn finish(self) -> String {
        use std::fmt::Write as _;
        self.0.finalize().iter().fold(String::with_capacity(64), |mut hash, byte| {
            // Writing to a string cannot fail.
            let _ = write!(hash, "{byte:02x}");
            hash
        })
    }
}

/// `task_hashes` of the samples in the results.
pub fn task_hashes(results: &RunResults) -> Dict {
    let tasks = results.samples.iter();
    tasks
        .map(|(task, records)| {
            let mut hash = TaskHasher::default();
            for record in records {
                hash.add(record);
            }
            (Value::str(task.as_str()), Value::from(hash.finish()))
        })
        .collect()
}

/// A copy of a record with hashes instead of bytes.
pub(crate) fn with_hashed_media(record: &SampleRecord) -> SampleRecord {
    let mut record = record.clone();
    if let Value::Dict(document) = hash_media(&Value::Dict(Arc::clone(&record.doc))) {
        record.doc = document;
    }
    for value in [&mut record.target, &mut record.arguments, &mut record.resps, &mut record.filtered_resps] {
        *value = hash_media(value);
    }
    record
}

fn hash_media(value: &Value) -> Value {
    match value {
        // Reference: hashes the `repr` of the bytes, not the bytes.
        Value::Bytes(_) => Value::from(hash_text(&repr::repr(value))),
        Value::List(items) => Value::list(items.iter().map(hash_media)),
        Value::Tuple(items) => Value::tuple(items.iter().map(hash_media)),
        Value::Dict(dict) => {
            Value::from(dict.iter().map(|(key, value)| (key.clone(), hash_media(value))).collect::<Dict>())
        }
        other => other.clone(),
    }
}

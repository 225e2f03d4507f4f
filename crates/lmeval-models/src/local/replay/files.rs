//! The files of a recording.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use lmeval_core::ModelError;
use lmeval_pycompat::json::Decoder;
use lmeval_pycompat::{Dict, Value};
use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};

use super::record::{Entries, OwnerTask, request_line, sample_line};
use super::recording::Recording;
use crate::local::arguments::{configuration, paths};

/// The files named by `path`; for a folder, the newest samples file of each task.
pub(super) fn recording_files(path: &str) -> Result<Vec<PathBuf>, ModelError> {
    let mut files = Vec::new();
    for path in paths(path) {
        if path.is_dir() {
            files.extend(samples_in(&path)?);
        } else {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(configuration("The model argument `path` does not name a file"));
    }
    Ok(files)
}

fn samples_in(folder: &Path) -> Result<Vec<PathBuf>, ModelError> {
    let unreadable =
        |error: std::io::Error| configuration(format!("The recording could not be read: {error}"));
    // Timestamps sort lexicographically.
    let mut newest: FxHashMap<String, (String, PathBuf)> = FxHashMap::default();
    for entry in fs_err::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let Some((task, stamp)) = name.and_then(task_and_stamp) else { continue };
        // Earlier versions did not replace `::`.
        let (task, stamp) = (task.replace("::", "--"), stamp.to_owned());
        if newest.get(&task).is_none_or(|(known, _)| *known < stamp) {
            newest.insert(task, (stamp, path));
        }
    }
    if newest.is_empty() {
        let error = configuration(format!("The folder `{}` has no samples file", folder.display()));
        return Err(
            error.hint("A run with `--log_samples` writes `samples_TASK_TIME.jsonl` to its model's folder")
        );
    }
    let mut files: Vec<PathBuf> = newest.into_values().map(|(_, path)| path).collect();
    files.sort();
    Ok(files)
}

/// Splits the name of a samples file, `samples_TASK_TIME.jsonl`, into task and timestamp.
fn task_and_stamp(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("samples_")?.strip_suffix(".jsonl")?.rsplit_once('_')
}

/// Adds a file's answers to the recording, and its bytes to the hash.
pub(super) fn read(path: &Path, recording: &mut Recording, hash: &mut Sha256) -> Result<(), ModelError> {
    let unreadable =
        |error: std::io::Error| configuration(format!("The recording could not be read: {error}"));
    let name = path.file_name().and_then(|name| name.to_str());
    let task = name.and_then(task_and_stamp).map(|(task, _)| OwnerTask::of_file(task));
    let mut lines = LineReader { decoder: Decoder::new(), task, filters: FxHashMap::default() };
    let mut reader = BufReader::new(fs_err::File::open(path).map_err(unreadable)?);
    let mut line = Vec::new();
    for number in 1_usize.. {
        line.clear();
        if reader.read_until(b'\n', &mut line).map_err(unreadable)? == 0 {
            break;
        }
        hash.update(&line);
        let entries = lines.entries(&line).map_err(|problem| {
            let location = format!("Line {number} of `{}` is not a recorded request", path.display());
            configuration(format!("{location}: {problem}"))
                .hint("A line must be `{\"type\", \"args\", \"response\"}`, or come from a samples file")
        })?;
        for (key, recorded) in entries {
            recording.add(key, recorded);
        }
    }
    Ok(())
}

/// State carried from line to line.
struct LineReader {
    decoder: Decoder,
    /// The task, for a samples file.
    task: Option<OwnerTask>,
    /// The filter each document was first seen with; other filters repeat the same answers.
    filters: FxHashMap<i64, Value>,
}

impl LineReader {
    fn entries(&mut self, line: &[u8]) -> Entries {
        let line = str::from_utf8(line).map_err(|error| format!("it is not UTF-8: {error}"))?;
        if line.trim().is_empty() {
            return Ok(Vec::new());
        }
        let value = self.decoder.decode(line).map_err(|error| format!("it is not JSON: {error}"))?;
        let line: &Dict = value.as_dict().ok_or("it is not a JSON object")?;
        if !line.contains_str("resps") {
            return request_line(line);
        }
        if let (Some(document), Some(filter)) =
            (line.get_str("doc_id").and_then(Value::as_i64), line.get_str("filter"))
            && self.filters.entry(document).or_insert_with(|| filter.clone()) != filter
        {
            return Ok(Vec::new());
        }
        sample_line(line, self.task.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_samples_file_names() {
        let name = "samples_g::my_task@cloze_2025-01-31T10-00-00.123456.jsonl";
        let (task, stamp) = task_and_stamp(name).unwrap();
        assert_eq!((task, stamp), ("g::my_task@cloze", "2025-01-31T10-00-00.123456"));
        assert!(OwnerTask::of_file(task).may_be("my_task") && !OwnerTask::of_file(task).may_be("task"));
        assert_eq!(task_and_stamp("results_2025.json"), None);
    }

    #[test]
    fn double_dash_is_part_of_the_name_or_follows_a_group() {
        let of = OwnerTask::of_file;
        for name in ["g--my--task@cloze", "my--task", "my::task"] {
            assert!(of(name).may_be("my--task") && of(name).may_be("task"), "{name}");
            assert!(!of(name).may_be("y--task") && !of(name).may_be("my"), "{name}");
        }
        assert!(of("my--task@x").is("my--task") && !of("my--task").is("task"));
        assert!(of("g--a_b-c").may_be("a/b:c") && of("a_b").is("a_b"));
    }

    #[test]
    fn uses_the_newest_file_of_each_task() {
        let folder = tempfile::tempdir().unwrap();
        for name in
            ["samples_g::t_2025-01-31.jsonl", "samples_g--t_2026-01-31.jsonl", "samples_u_2025-01-31.jsonl"]
        {
            fs_err::write(folder.path().join(name), "").unwrap();
        }
        let files = samples_in(folder.path()).unwrap();
        let names: Vec<_> = files.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["samples_g--t_2026-01-31.jsonl", "samples_u_2025-01-31.jsonl"]);
    }
}

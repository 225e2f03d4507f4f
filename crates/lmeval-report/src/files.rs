//! Result files, written atomically.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;
use lmeval_core::secrets;
use lmeval_pycompat::{Dict, Value, json};
use lmeval_scoring::results::{CHECKSUMS, checksums, replace_foreign, task_file_name};

use crate::clock::Moment;
use crate::error::ReportError;
use crate::zone::TimeZone;

/// A hidden file not modified for this long is abandoned: runs write theirs in one go.
const ABANDONED_AFTER: Duration = Duration::from_hours(24);

/// The file names of a run.
///
/// ```
/// use std::path::Path;
/// use lmeval_report::Layout;
///
/// let layout = Layout::new(Path::new("out"), "org__model");
/// let stamp = "2026-11-15T02-46-50.151442";
/// assert_eq!(layout.results_file(stamp), Path::new("out/org__model/results_2026-11-15T02-46-50.151442.json"));
///
/// let layout = Layout::new(Path::new("out/mine.json"), "org__model");
/// assert_eq!(layout.results_file("S"), Path::new("out/mine_S.json"));
/// assert_eq!(layout.samples_file("g1::t3", "S"), Path::new("out/samples_g1--t3_S.jsonl"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    folder: PathBuf,
    results: String,
}

impl Layout {
    /// The files for an output path: a file if it ends in `.json`, otherwise a folder with a subfolder per model.
    pub fn new(output_path: &Path, sanitized_model_name: &str) -> Self {
        let is_file = output_path.extension().is_some_and(|extension| extension == "json");
        match output_path.file_stem().filter(|_| is_file) {
            Some(stem) => Self {
                folder: output_path.parent().unwrap_or(Path::new("")).to_owned(),
                results: stem.to_string_lossy().into_owned(),
            },
            None => Self { folder: output_path.join(sanitized_model_name), results: "results".to_owned() },
        }
    }

    /// The folder that contains all files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path of the results file.
    pub fn results_file(&self, stamp: &str) -> PathBuf {
        self.folder.join(format!("{}_{stamp}.json", self.results))
    }

    /// The time stamp for the files of a run that started at a moment. If an earlier run has it, because the clock was set back or
    /// daylight saving time ended, the next free one: no run replaces the results of another.
    pub fn free_stamp(&self, moment: Moment, zone: &TimeZone) -> String {
        let mut moment = moment;
        loop {
            let stamp = moment.stamp(zone);
            if !self.results_file(&stamp).exists() {
                return stamp;
            }
            moment = moment.next();
        }
    }

    /// The path of a task's samples file.
    pub fn samples_file(&self, task: &str, stamp: &str) -> PathBuf {
        self.folder.join(format!("samples_{}_{stamp}.jsonl", task_file_name(task)))
    }

    /// The path of the hidden file for a task's samples during the run; `attempt` counts from 1.
    pub(crate) fn part_file(&self, task: &str, attempt: usize) -> PathBuf {
        let task = task_file_name(task);
        self.folder.join(match attempt {
            1 => format!(".samples_{task}.jsonl.part"),
            _ => format!(".samples_{task}.{attempt}.jsonl.part"),
        })
    }

    /// Creates the folder and checks that it is writable, so that the run does not fail at its end. Removes incomplete files
    /// left by killed runs, on a network file system after a day.
    pub fn prepare(&self) -> Result<(), ReportError> {
        self.make_folder()?;
        let probe = self.folder.join(format!(".write-test-{}", std::process::id()));
        fs::write(&probe, b"").map_err(ReportError::write("write to the folder", &self.folder))?;
        fs::remove_file(&probe).map_err(ReportError::write("remove", &probe))?;
        self.remove_leftovers();
        Ok(())
    }

    /// Removes files left by killed runs. They are harmless, so failures are ignored.
    fn remove_leftovers(&self) {
        let folder = if self.folder.as_os_str().is_empty() { Path::new(".") } else { &self.folder };
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(is_part_name) {
                remove_abandoned(&entry.path());
            }
        }
    }

    /// Checks that no two tasks would write the same samples file.
    pub fn check_tasks<'task>(&self, tasks: impl IntoIterator<Item = &'task str>) -> Result<(), ReportError> {
        let mut seen: HashMap<String, &str> = HashMap::new();
        for task in tasks {
            if let Some(other) = seen.insert(task_file_name(task), task) {
                return Err(ReportError::SameFile { one: other.to_owned(), other: task.to_owned() });
            }
        }
        Ok(())
    }

    pub(crate) fn make_folder(&self) -> Result<(), ReportError> {
        if self.folder.as_os_str().is_empty() {
            return Ok(());
        }
        fs::create_dir_all(&self.folder).map_err(ReportError::write("create the folder", &self.folder))
    }
}

/// Whether a name is that of a file being written.
fn is_part_name(name: &str) -> bool {
    let Some(name) = name.strip_prefix('.').and_then(|name| name.strip_suffix(".part")) else { return false };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match name.rsplit_once('.') {
        Some((name, "jsonl")) => name.starts_with("samples_") || name.starts_with("media_"),
        Some((name, process)) => is_number(process) && name.strip_suffix(".json").is_some(),
        None => false,
    }
}

/// Removes a file left by a killed run.
fn remove_abandoned(path: &Path) {
    let Ok(file) = fs::OpenOptions::new().write(true).open(path) else { return };
    if is_abandoned(&file) && is_same_file(path, &file) {
        let _ = fs::remove_file(path);
    }
}

/// Whether no process writes a file any more; if so, locks it. On a network file system, locks of other hosts may be
/// invisible, so the file must also be old.
pub(crate) fn is_abandoned(file: &fs::File) -> bool {
    (is_local(file) || is_old(file)) && file.file().try_lock().is_ok()
}

fn is_old(file: &fs::File) -> bool {
    let modified = file.metadata().and_then(|metadata| metadata.modified());
    // A time in the future, by another host's clock, is not an age.
    modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age >= ABANDONED_AFTER))
}

/// Whether a file is on a file system that only this machine writes to, as far as the kernel reports.
#[cfg(target_os = "linux")]
fn is_local(file: &fs::File) -> bool {
    /// The magic numbers of statfs(2): ext2 to ext4, XFS, Btrfs, tmpfs, overlayfs, F2FS, ZFS.
    const LOCAL: [i64; 7] =
        [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x794C_7630, 0xF2F5_2010, 0x2FC1_2FC1];
    rustix::fs::fstatfs(file.file()).is_ok_and(|found| LOCAL.contains(&found.f_type))
}

#[cfg(not(target_os = "linux"))]
fn is_local(_: &fs::File) -> bool {
    false
}

/// Whether a path still refers to the opened file.
#[cfg(unix)]
pub(crate) fn is_same_file(path: &Path, file: &fs::File) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    match (file.metadata(), fs::metadata(path)) {
        (Ok(opened), Ok(named)) => (opened.dev(), opened.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

#[cfg(not(unix))]
pub(crate) fn is_same_file(_: &Path, _: &fs::File) -> bool {
    // On other systems, an open file keeps its name.
    true
}

/// Creates a file and locks it, so that other runs see it is in use.
fn create_locked(path: &Path) -> std::io::Result<fs::File> {
    loop {
        let file = fs::File::create(path)?;
        // Not every file system has locks. Another run may have removed the file as a leftover before it was locked.
        let _ = file.file().lock();
        if is_same_file(path, &file) {
            return Ok(file);
        }
    }
}

/// Serializes a result object for its file: indented by two spaces, not escaped to ASCII, no trailing newline.
pub fn to_json(object: &Dict) -> Result<String, ReportError> {
    let options = json::Options {
        ensure_ascii: false,
        indent: Some(2),
        default: Some(&replace_foreign),
        ..json::Options::default()
    };
    let object = secrets::mask_strings(Value::from(object.clone()), secrets::mask_data);
    json::dumps(&object, &options)
        .map_err(|source| ReportError::Encode { what: "the results".to_owned(), source })
}

/// Adds the checksums of a result object and of its samples files, by task. Call it last: what is added later has none.
pub fn add_checksums(object: &mut Dict, samples: Dict) -> Result<(), ReportError> {
    // As readers will see it: tuples become lists, and secrets are masked.
    if let Ok(Value::Dict(read)) = json::loads(&to_json(object)?) {
        object.insert(CHECKSUMS, checksums(&read, samples));
    }
    Ok(())
}

/// Writes the results of a run; returns the path of the file.
pub fn write_results(layout: &Layout, stamp: &str, object: &Dict) -> Result<PathBuf, ReportError> {
    let text = to_json(object)?;
    layout.make_folder()?;
    let path = layout.results_file(stamp);
    write_atomically(&path, text.as_bytes())?;
    Ok(path)
}

/// Writes a file completely or not at all, even if the process or the machine stops.
pub fn write_atomically(path: &Path, content: &[u8]) -> Result<(), ReportError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let temporary = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
    let written = (|| {
        let mut file = create_locked(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // Report the first failure, not this one.
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(ReportError::write("write", path))?;
    sync_folder(path);
    Ok(())
}

/// Makes a rename durable. Not every system supports this; the file itself is safe by then.
pub(crate) fn sync_folder(path: &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Ok(folder) = fs::File::open(folder) {
        let _ = folder.sync_all();
    }
}

//! Where results are written, and how: whole or not at all.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;
use lmeval_core::results::replace_foreign;
use lmeval_core::secrets;
use lmeval_pycompat::{Dict, Value, json};

use crate::error::ReportError;
use crate::names::task_file_name;

/// A hidden file that was not written to for this long belongs to no run: it is open for as long as it takes to write.
const ABANDONED_AFTER: Duration = Duration::from_hours(24);

/// The files of a run.
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
    /// The files below an output path: a file where it ends in `.json`, otherwise a folder with one folder per model.
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

    /// The folder that all files are in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of the results.
    pub fn results_file(&self, stamp: &str) -> PathBuf {
        self.folder.join(format!("{}_{stamp}.json", self.results))
    }

    /// The file of the samples of a task.
    pub fn samples_file(&self, task: &str, stamp: &str) -> PathBuf {
        self.folder.join(format!("samples_{}_{stamp}.jsonl", task_file_name(task)))
    }

    /// The file that samples of a task are written to while the run goes on; the first has number 1.
    pub(crate) fn part_file(&self, task: &str, number: usize) -> PathBuf {
        let task = task_file_name(task);
        self.folder.join(match number {
            1 => format!(".samples_{task}.jsonl.part"),
            _ => format!(".samples_{task}.{number}.jsonl.part"),
        })
    }

    /// Makes the folder and tries whether files can be made in it, so that a run does not find out at its end. Files that
    /// killed runs left half written are removed, on a network file system a day later.
    pub fn prepare(&self) -> Result<(), ReportError> {
        self.make_folder()?;
        let probe = self.folder.join(format!(".write-test-{}", std::process::id()));
        fs::write(&probe, b"").map_err(ReportError::write("write in the folder", &self.folder))?;
        fs::remove_file(&probe).map_err(ReportError::write("remove", &probe))?;
        self.remove_leftovers();
        Ok(())
    }

    /// Removes what killed runs have left. It is in nobody's way, so what cannot be removed stays.
    fn remove_leftovers(&self) {
        let folder = if self.folder.as_os_str().is_empty() { Path::new(".") } else { &self.folder };
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(is_part_name) {
                remove_abandoned(&entry.path());
            }
        }
    }

    /// Makes sure that no two tasks would write the same samples file.
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
        fs::create_dir_all(&self.folder).map_err(ReportError::write("make the folder", &self.folder))
    }
}

/// Whether a file of this name is one that is being written, or was when its process ended.
fn is_part_name(name: &str) -> bool {
    let Some(name) = name.strip_prefix('.').and_then(|name| name.strip_suffix(".part")) else { return false };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match name.rsplit_once('.') {
        Some((name, "jsonl")) => name.starts_with("samples_"),
        Some((name, process)) => is_number(process) && name.strip_suffix(".json").is_some(),
        None => false,
    }
}

/// Removes a file that a killed run has left.
fn remove_abandoned(path: &Path) {
    let Ok(file) = fs::OpenOptions::new().write(true).open(path) else { return };
    if is_abandoned(&file) && is_still(path, &file) {
        let _ = fs::remove_file(path);
    }
}

/// Whether nobody writes a file any more; if so, it is locked now. On a network file system the lock alone does not
/// tell, because the locks of other hosts may not be seen, so the file must also be old.
pub(crate) fn is_abandoned(file: &fs::File) -> bool {
    (is_local(file) || is_old(file)) && file.file().try_lock().is_ok()
}

fn is_old(file: &fs::File) -> bool {
    let modified = file.metadata().and_then(|metadata| metadata.modified());
    // A time in the future, by the clock of another host, is not an age.
    modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age >= ABANDONED_AFTER))
}

/// Whether a file is on a file system that only this machine writes to, as far as the kernel tells.
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

/// Whether a name still leads to the file that was opened by it.
#[cfg(unix)]
pub(crate) fn is_still(path: &Path, file: &fs::File) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    match (file.metadata(), fs::metadata(path)) {
        (Ok(opened), Ok(named)) => (opened.dev(), opened.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

#[cfg(not(unix))]
pub(crate) fn is_still(_: &Path, _: &fs::File) -> bool {
    // Elsewhere, an open file keeps its name.
    true
}

/// Makes a file that other runs see is in use.
fn create_locked(path: &Path) -> std::io::Result<fs::File> {
    loop {
        let file = fs::File::create(path)?;
        // Not every file system has locks. A run that removes leftovers may have the lock, and then the file is gone.
        let _ = file.file().lock();
        if is_still(path, &file) {
            return Ok(file);
        }
    }
}

/// A result object as its file has it: indented by two, other alphabets kept, no line end behind it.
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

/// Writes the results of a run and answers the path of the file.
pub fn write_results(layout: &Layout, stamp: &str, object: &Dict) -> Result<PathBuf, ReportError> {
    let text = to_json(object)?;
    layout.make_folder()?;
    let path = layout.results_file(stamp);
    write_atomically(&path, text.as_bytes())?;
    Ok(path)
}

/// Writes a file so that it is there whole or not at all, whenever the program or the machine stops.
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
        // The first failure is the one to tell about.
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(ReportError::write("write", path))?;
    sync_folder(path);
    Ok(())
}

/// Makes a new name in a folder last. Not every system can; the file itself is safe by then.
pub(crate) fn sync_folder(path: &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Ok(folder) = fs::File::open(folder) {
        let _ = folder.sync_all();
    }
}

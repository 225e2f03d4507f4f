//! The runs below the given paths.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use fs_err as fs;
use lmeval_analysis::curve::SUFFIX;
use lmeval_analysis::read::{
    SEARCH_DEPTH, SamplesFile, file_name, has_extension, parent, split_stamp, stamp_of, task_of,
};
use lmeval_analysis::summary::Summary;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use sha2::{Digest as _, Sha256};

use crate::Error;
use crate::api::{FileProblem, RunKind, RunList, RunSummary};
use crate::curves;
use crate::results::{bare_summary, summarise};
use lmeval_core::Diagnostic;

/// How many files are looked at, so that a viewer of `/` answers.
const FILES: usize = 500_000;

/// A run that was found.
#[derive(Clone, Debug)]
pub(crate) struct FoundRun {
    /// A hash of the path: what addresses contain.
    pub(crate) id: String,
    pub(crate) kind: RunKind,
    /// The results file, the first samples file or the journal.
    pub(crate) path: PathBuf,
    /// The path relative to the folder that was given.
    pub(crate) shown: String,
    /// The time in the file name.
    pub(crate) stamp: String,
    /// Samples files, named by what their file names say.
    pub(crate) samples: Vec<SamplesFile>,
}

/// A curve that was found.
#[derive(Clone, Debug)]
pub(crate) struct FoundCurve {
    /// A hash of the path: what addresses contain.
    pub(crate) id: String,
    pub(crate) path: PathBuf,
    /// The path relative to the folder that was given.
    pub(crate) shown: String,
}

/// A folder or file that was given.
#[derive(Clone, Debug)]
struct Root {
    /// Canonical.
    path: PathBuf,
    /// The folder whose files may be read: the root, or the folder of a file.
    folder: PathBuf,
}

/// Size, time and, on Unix, inode, which identify the content of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) size: u64,
    modified: Option<SystemTime>,
    inode: u64,
}

impl Version {
    pub(crate) fn of(path: &Path) -> std::io::Result<Self> {
        let meta = fs::metadata(path)?;
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(&meta);
        #[cfg(not(unix))]
        let inode = 0;
        Ok(Self { size: meta.len(), modified: meta.modified().ok(), inode })
    }

    /// Whether this is the same file as before with more at its end.
    pub(crate) fn continues(self, before: Self) -> bool {
        self.inode == before.inode && self.size > before.size
    }
}

/// Finds runs and remembers their summaries.
pub(crate) struct Catalog {
    roots: Vec<Root>,
    /// The paths as they were given.
    given: Vec<String>,
    found: Mutex<FxHashMap<String, FoundRun>>,
    curves: Mutex<Vec<FoundCurve>>,
    /// Whether there are more files than are looked at.
    is_cut: AtomicBool,
    summaries: Mutex<FxHashMap<PathBuf, (Version, Arc<Summary>)>>,
}

impl Catalog {
    /// A catalog of everything below the paths.
    pub(crate) fn new(paths: &[PathBuf]) -> Result<Self, Error> {
        let mut roots = Vec::new();
        for given in paths {
            let path = fs::canonicalize(given).map_err(|error| {
                Diagnostic::cannot_read(given, error)
                    .hint("Name a folder of results, a results file, a samples file or a journal")
            })?;
            let folder = if path.is_dir() { path.clone() } else { path.parent().unwrap_or(&path).to_owned() };
            roots.push(Root { path, folder });
        }
        let given = paths.iter().map(|path| path.display().to_string()).collect();
        Ok(Self {
            roots,
            given,
            found: Mutex::default(),
            curves: Mutex::default(),
            is_cut: AtomicBool::new(false),
            summaries: Mutex::default(),
        })
    }

    /// Searches the folders again. The newest run is first.
    pub(crate) fn scan(&self) -> Vec<FoundRun> {
        let mut files = Vec::new();
        for root in &self.roots {
            if root.path.is_dir() {
                self.walk(&root.path, 0, &mut files);
            } else {
                files.push(root.path.clone());
                // The samples of a results file that was given are beside it.
                if has_extension(&root.path, "json") {
                    let stamp = stamp_of(&root.path);
                    let beside = self.list(&root.folder).into_iter();
                    files.extend(beside.filter(|path| {
                        !path.is_dir() && has_extension(path, "jsonl") && stamp_of(path) == stamp
                    }));
                }
            }
        }
        self.is_cut.store(files.len() >= FILES, Ordering::Relaxed);
        files.sort_unstable();
        files.dedup();
        let (curves, files) = files.into_iter().partition(|path| is_curve(path));
        *self.curves.lock().unwrap_or_else(PoisonError::into_inner) = self.found_curves(curves);
        let mut found = self.group(files);
        found.sort_by(|left, right| right.stamp.cmp(&left.stamp).then_with(|| left.path.cmp(&right.path)));
        let map = found.iter().map(|run| (run.id.clone(), run.clone())).collect();
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = map;
        found
    }

    /// The run with an id, which has to come from a scan.
    pub(crate) fn get(&self, id: &str) -> Option<FoundRun> {
        let known = |id: &str| self.found.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        known(id).or_else(|| {
            self.scan();
            known(id)
        })
    }

    /// The curve with an id, which has to come from a scan.
    pub(crate) fn curve(&self, id: &str) -> Option<FoundCurve> {
        let known = |id: &str| {
            let curves = self.curves.lock().unwrap_or_else(PoisonError::into_inner);
            curves.iter().find(|curve| curve.id == id).cloned()
        };
        known(id).or_else(|| {
            self.scan();
            known(id)
        })
    }

    /// Whether the last scan found a run.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).contains_key(id)
    }

    /// The canonical path of a file, if it is below a folder that was given.
    pub(crate) fn check(&self, path: &Path) -> Result<PathBuf, Error> {
        let refused = || Diagnostic::new(format!("`{}` is not below the given folders", path.display()));
        let canonical = fs::canonicalize(path).map_err(|error| Diagnostic::cannot_read(path, error))?;
        if self.is_inside(&canonical) { Ok(canonical) } else { Err(refused().into()) }
    }

    fn is_inside(&self, canonical: &Path) -> bool {
        self.roots.iter().any(|root| canonical.starts_with(&root.folder))
    }

    /// The summary of a results file, read again only if the file changed.
    pub(crate) fn summary(&self, path: &Path) -> Result<Arc<Summary>, Error> {
        let path = self.check(path)?;
        let version = Version::of(&path).map_err(|error| Diagnostic::new(error.to_string()))?;
        let cache = || self.summaries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, summary)) = cache().get(&path)
            && *known == version
        {
            return Ok(Arc::clone(summary));
        }
        let summary = Arc::new(Summary::read(&path)?);
        cache().insert(path, (version, Arc::clone(&summary)));
        Ok(summary)
    }

    /// Every run, and the files that cannot be read.
    pub(crate) fn list_runs(&self, is_live: bool) -> RunList {
        let found = self.scan();
        let listed: Vec<Result<RunSummary, FileProblem>> = found
            .par_iter()
            .map(|run| {
                self.describe(run)
                    .map_err(|error| FileProblem { path: run.shown.clone(), error: explain(&error) })
            })
            .collect();
        let (mut runs, mut problems) = (Vec::new(), Vec::new());
        if self.is_cut.load(Ordering::Relaxed) {
            let error = format!("There are more than {FILES} files of runs; the rest is not shown");
            problems.push(FileProblem { path: self.given.join(", "), error });
        }
        for run in listed {
            match run {
                Ok(run) => runs.push(run),
                Err(problem) => problems.push(problem),
            }
        }
        let mut curves = Vec::new();
        for found in self.curves.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            match curves::head(found) {
                Ok(head) => curves.push(head),
                Err(error) => {
                    problems.push(FileProblem { path: found.shown.clone(), error: explain(&error) });
                }
            }
        }
        let version = env!("CARGO_PKG_VERSION");
        RunList { paths: self.given.clone(), version, runs, problems, live: is_live, curves }
    }

    /// A run in a list. An unreadable journal is listed with no tasks; its page shows the error.
    pub(crate) fn describe(&self, run: &FoundRun) -> Result<RunSummary, Error> {
        Ok(match run.kind {
            RunKind::Results => summarise(run, &*self.summary(&run.path)?),
            RunKind::Samples | RunKind::Journal => summarise(run, &bare_summary(run)),
        })
    }

    fn list(&self, folder: &Path) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
        let mut paths = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name.to_string_lossy().starts_with('.') {
                continue;
            }
            let path = entry.path();
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            // A link may point anywhere; what it points to has to be below the folders as well.
            if !is_link || fs::canonicalize(&path).is_ok_and(|target| self.is_inside(&target)) {
                paths.push(path);
            }
        }
        paths
    }

    fn walk(&self, folder: &Path, depth: usize, files: &mut Vec<PathBuf>) {
        for path in self.list(folder) {
            if files.len() >= FILES {
                return;
            }
            let Ok(meta) = fs::symlink_metadata(&path) else { continue };
            if meta.is_dir() {
                if depth < SEARCH_DEPTH {
                    self.walk(&path, depth + 1, files);
                }
            } else if (is_of_a_run(&path) || is_curve(&path)) && path.is_file() {
                // A linked folder is not followed: it is below the folders, so it is found without the link.
                files.push(path);
            }
        }
    }

    /// Puts the files of a run together: those in one folder with the same time.
    fn group(&self, files: Vec<PathBuf>) -> Vec<FoundRun> {
        let mut samples: FxHashMap<(PathBuf, String), Vec<SamplesFile>> = FxHashMap::default();
        let (mut results, mut found) = (Vec::new(), Vec::new());
        for path in files {
            if has_extension(&path, "journal") {
                found.push(self.found(RunKind::Journal, path, Vec::new()));
            } else if has_extension(&path, "jsonl") {
                let key = (parent(&path).to_owned(), stamp_of(&path));
                samples.entry(key).or_default().push(SamplesFile { task: task_of(&path), path });
            } else {
                results.push(path);
            }
        }
        for path in results {
            // Without a time in its name nothing connects a results file with samples.
            let stamp = stamp_of(&path);
            let own =
                if stamp.is_empty() { None } else { samples.remove(&(parent(&path).to_owned(), stamp)) };
            found.push(self.found(RunKind::Results, path, own.unwrap_or_default()));
        }
        for ((_, stamp), mut files) in samples {
            files.sort_by(|left, right| left.task.cmp(&right.task));
            if stamp.is_empty() {
                for file in files {
                    found.push(self.found(RunKind::Samples, file.path.clone(), vec![file]));
                }
            } else if let Some(first) = files.first() {
                found.push(self.found(RunKind::Samples, first.path.clone(), files));
            }
        }
        found
    }

    fn found_curves(&self, paths: Vec<PathBuf>) -> Vec<FoundCurve> {
        let found = |path: PathBuf| FoundCurve { id: id_of(&path), shown: self.shown(&path), path };
        paths.into_iter().map(found).collect()
    }

    /// A path relative to the folder that was given.
    fn shown(&self, path: &Path) -> String {
        let root = self.roots.iter().find(|root| path.starts_with(&root.folder));
        root.and_then(|root| path.strip_prefix(&root.folder).ok()).unwrap_or(path).display().to_string()
    }

    fn found(&self, kind: RunKind, path: PathBuf, mut samples: Vec<SamplesFile>) -> FoundRun {
        samples.sort_by(|left, right| left.task.cmp(&right.task));
        FoundRun { id: id_of(&path), kind, stamp: stamp_of(&path), shown: self.shown(&path), path, samples }
    }
}

/// The id that addresses have for the run of a results file; `None` if there is no such file.
pub fn run_id(path: &Path) -> Option<String> {
    fs::canonicalize(path).ok().map(|path| id_of(&path))
}

fn id_of(path: &Path) -> String {
    let hash = Sha256::digest(path.as_os_str().as_encoded_bytes());
    hex(&hash[..8])
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// An error with its causes, on one line.
pub(crate) fn explain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.cause();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Whether a file is a curve, judged by its name.
pub(crate) fn is_curve(path: &Path) -> bool {
    file_name(path).ends_with(SUFFIX)
}

/// Whether a file in a folder is a results file, a samples file or a journal, judged by its name.
fn is_of_a_run(path: &Path) -> bool {
    let name = file_name(path);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => split_stamp(&name).is_some() || name.starts_with("results"),
        Some("jsonl") => name.starts_with("samples_"),
        Some("journal") => true,
        _ => false,
    }
}

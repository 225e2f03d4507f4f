//! Finds the task files of a library.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rayon::prelude::*;

use crate::embedded;
use crate::source::{identity, is_embedded, normalise};

/// Folders that contain copies of files, never definitions.
const IGNORED: [&str; 2] = ["__pycache__", ".ipynb_checkpoints"];

/// A task file found on disk or in the binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TaskFile {
    /// The path below the root, as the root was given.
    pub(super) path: Arc<Path>,
    /// The path with symbolic links resolved.
    pub(super) real: Arc<Path>,
    /// Whether it is known to be a regular file, as opposed to a pipe or a device.
    pub(super) regular: bool,
}

/// Every `*.yaml` file below a root, sorted by path.
///
/// Includes hidden files, hidden folders and linked files, but does not enter linked folders. A root that does not
/// exist, or a folder that cannot be read, counts as empty.
pub(super) fn task_files(root: &Path) -> Vec<TaskFile> {
    let mut found = if is_embedded(root) { embedded_files(root) } else { disk_files(root) };
    found.par_sort_unstable_by(|left, right| bytes(&left.path).cmp(bytes(&right.path)));
    found
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

fn embedded_files(root: &Path) -> Vec<TaskFile> {
    let root = normalise(root);
    embedded::files()
        .iter()
        .map(|(relative, _)| Path::new(embedded::ROOT).join(relative))
        .filter(|path| path.starts_with(&root) && path.extension() == Some(OsStr::new("yaml")))
        .map(|path| -> Arc<Path> { path.into() })
        .map(|path| TaskFile { real: Arc::clone(&path), path, regular: false })
        .collect()
}

fn disk_files(root: &Path) -> Vec<TaskFile> {
    if root.components().any(|part| IGNORED.iter().any(|ignored| part.as_os_str() == *ignored)) {
        return Vec::new();
    }
    let real_root = identity(root);
    let found = Mutex::new(Vec::new());
    rayon::scope(|scope| visit(scope, root, &real_root, &found));
    found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Reads one folder; idle threads read its subfolders.
fn visit<'scope>(
    scope: &rayon::Scope<'scope>,
    folder: &Path,
    real: &Path,
    found: &'scope Mutex<Vec<TaskFile>>,
) {
    let Ok(entries) = fs_err::read_dir(folder) else { return };
    let mut files = Vec::new();
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let name = entry.file_name();
        if kind.is_dir() {
            if !IGNORED.iter().any(|ignored| name == *ignored) {
                let (folder, real) = (folder.join(&name), real.join(&name));
                scope.spawn(move |scope| visit(scope, &folder, &real, found));
            }
            continue;
        }
        let path = folder.join(&name);
        if path.extension() != Some(OsStr::new("yaml")) {
            continue;
        }
        if kind.is_symlink() {
            if path.is_dir() {
                continue;
            }
            files.push(TaskFile { real: identity(&path).into(), path: path.into(), regular: false });
        } else {
            let path: Arc<Path> = path.into();
            // The root usually is its own real path, so that one allocation is enough.
            let real = if folder == real { Arc::clone(&path) } else { real.join(&name).into() };
            files.push(TaskFile { path, real, regular: kind.is_file() });
        }
    }
    if !files.is_empty() {
        found.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend(files);
    }
}

//! Finding the task files of a library.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rayon::prelude::*;

use crate::embedded;
use crate::source::{identity, is_embedded, normalise};

/// Folders that hold copies of files, never definitions.
const IGNORED: [&str; 2] = ["__pycache__", ".ipynb_checkpoints"];

/// A task file that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The path below the root as it was given.
    pub(super) path: Arc<Path>,
    /// The path with links followed.
    pub(super) real: Arc<Path>,
    /// Whether it is known to be a regular file, not a pipe or the like.
    pub(super) regular: bool,
}

/// Every `*.yaml` below a root, in ascending order of the whole path.
///
/// Hidden files and folders count, linked files count, linked folders are not entered. A root that does not
/// exist, or a folder that cannot be read, holds nothing.
pub(super) fn task_files(root: &Path) -> Vec<Found> {
    let mut found = if is_embedded(root) { embedded_files(root) } else { disk_files(root) };
    found.par_sort_unstable_by(|left, right| bytes(&left.path).cmp(bytes(&right.path)));
    found
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

fn embedded_files(root: &Path) -> Vec<Found> {
    let root = normalise(root);
    embedded::files()
        .iter()
        .map(|(relative, _)| Path::new(embedded::ROOT).join(relative))
        .filter(|path| path.starts_with(&root) && path.extension() == Some(OsStr::new("yaml")))
        .map(|path| -> Arc<Path> { path.into() })
        .map(|path| Found { real: Arc::clone(&path), path, regular: false })
        .collect()
}

fn disk_files(root: &Path) -> Vec<Found> {
    if root.components().any(|part| IGNORED.iter().any(|ignored| part.as_os_str() == *ignored)) {
        return Vec::new();
    }
    let real_root = identity(root);
    let found = Mutex::new(Vec::new());
    rayon::scope(|scope| visit(scope, root, &real_root, &found));
    found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Reads one folder and has its subfolders read by whoever is free.
fn visit<'scope>(scope: &rayon::Scope<'scope>, folder: &Path, real: &Path, found: &'scope Mutex<Vec<Found>>) {
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
            files.push(Found { real: identity(&path).into(), path: path.into(), regular: false });
        } else {
            let path: Arc<Path> = path.into();
            // Mostly the root is its own real path, and one name is enough.
            let real = if folder == real { Arc::clone(&path) } else { real.join(&name).into() };
            files.push(Found { path, real, regular: kind.is_file() });
        }
    }
    if !files.is_empty() {
        found.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend(files);
    }
}

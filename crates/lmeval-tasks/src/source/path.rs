//! Paths of task files, on disk or inside the binary.

use std::borrow::Cow;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;

use crate::embedded;

/// Whether the path is in the library that is compiled into the binary.
pub fn is_embedded(path: &Path) -> bool {
    embedded::contains(path)
}

/// Reads a file from disk or from the binary.
pub fn read(path: &Path) -> io::Result<Cow<'static, [u8]>> {
    if is_embedded(path) {
        return embedded::read(path).map(|text| Cow::Borrowed(text.as_bytes())).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("`{}` is not built in", path.display()))
        });
    }
    if !fs_err::metadata(path)?.is_file() {
        // Opening a pipe would wait for a writer.
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("`{}` is not a file", path.display()),
        ));
    }
    read_regular(path).map(Cow::Owned)
}

/// Reads a file that is known to be a regular one.
pub(crate) fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(4096);
    let mut file = fs_err::File::open(path)?.take(MAX_FILE_SIZE + 1);
    file.read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_SIZE {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("`{}` is larger than a task file may be ({MAX_FILE_SIZE} bytes)", path.display()),
        ));
    }
    Ok(bytes)
}

/// The maximum size of a task file. The largest real one has about 100 KB.
pub const MAX_FILE_SIZE: u64 = 64 << 20;

/// Removes `.` and `..` from a path, without looking at the disk.
pub fn normalise(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}

/// The canonical path of a file: no links, `.` or `..`. A file that does not exist is only normalised.
pub fn identity(path: &Path) -> PathBuf {
    if is_embedded(path) {
        return normalise(path);
    }
    fs_err::canonicalize(path)
        .or_else(|_| std::path::absolute(path).map(|absolute| normalise(&absolute)))
        .unwrap_or_else(|_| normalise(path))
}

/// Canonical paths of many files, with those of their folders cached: resolving links costs a system call per
/// component, and a library has thousands of files in few folders.
#[derive(Debug, Default)]
pub(crate) struct Identities {
    folders: Mutex<FxHashMap<PathBuf, PathBuf>>,
}

impl Identities {
    /// Records a path that is already canonical, so that its folder need not be resolved.
    pub(crate) fn know(&self, real: &Path) {
        let Some(folder) = real.parent() else { return };
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        if !folders.contains_key(folder) {
            folders.insert(folder.to_owned(), folder.to_owned());
        }
    }

    /// Like [`identity`].
    pub(crate) fn of(&self, path: &Path) -> PathBuf {
        if is_embedded(path) {
            return normalise(path);
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return identity(path) };
        let known = self.folders.lock().unwrap_or_else(PoisonError::into_inner).get(parent).cloned();
        let parent = known.unwrap_or_else(|| {
            let real =
                if parent.as_os_str().is_empty() { identity(Path::new(".")) } else { identity(parent) };
            let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
            folders.insert(parent.to_owned(), real.clone());
            real
        });
        let real = parent.join(name);
        match fs_err::symlink_metadata(&real) {
            Ok(metadata) if metadata.is_symlink() => identity(&real),
            _ => real,
        }
    }
}

/// The folder of a file; for a bare file name, the current folder.
pub(crate) fn folder_of(file: &Path) -> Option<&Path> {
    let folder = file.parent()?;
    Some(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
}

/// Resolves the path of an `include` or a function reference relative to a file.
pub fn beside(file: &Path, relative: &str) -> PathBuf {
    let relative = Path::new(relative);
    if relative.is_absolute() || is_embedded(relative) {
        return relative.to_owned();
    }
    file.parent().unwrap_or_else(|| Path::new("")).join(relative)
}

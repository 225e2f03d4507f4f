//! Paths of task files, on disk or inside the binary.

use std::borrow::Cow;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::embedded;

/// Whether the path lies in the library that the binary carries.
pub fn is_embedded(path: &Path) -> bool {
    embedded::contains(path)
}

/// What a file says, wherever it is.
pub fn read(path: &Path) -> io::Result<Cow<'static, [u8]>> {
    if is_embedded(path) {
        return embedded::read(path)
            .map(|text| Cow::Borrowed(text.as_bytes()))
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("`{}` is not built in", path.display())));
    }
    let metadata = fs_err::metadata(path)?;
    if !metadata.is_file() {
        // Opening a pipe would wait for a writer.
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{}` is not a file", path.display())));
    }
    let length = metadata.len();
    if length > MAX_FILE_SIZE {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("`{}` has {length} bytes, which is more than a task file may have ({MAX_FILE_SIZE})", path.display()),
        ));
    }
    fs_err::read(path).map(Cow::Owned)
}

/// The largest file that is read as a task definition. The largest real one has about 100 KB.
pub const MAX_FILE_SIZE: u64 = 64 << 20;

/// The path without `.` and `..`, by its text alone.
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

/// The one name of a file: links followed, no `.` or `..`. A file that does not exist keeps its clean name.
pub fn identity(path: &Path) -> PathBuf {
    if is_embedded(path) {
        return normalise(path);
    }
    fs_err::canonicalize(path)
        .or_else(|_| std::path::absolute(path).map(|absolute| normalise(&absolute)))
        .unwrap_or_else(|_| normalise(path))
}

/// The path that an `include` or a function reference means, seen from a file.
pub fn beside(file: &Path, relative: &str) -> PathBuf {
    let relative = Path::new(relative);
    if relative.is_absolute() || is_embedded(relative) {
        return relative.to_owned();
    }
    file.parent().unwrap_or_else(|| Path::new("")).join(relative)
}

//! Finds the Python interpreter.

use std::env;
use std::path::{Path, PathBuf};

/// The active virtual environment, from `VIRTUAL_ENV`.
pub fn active_environment() -> Option<PathBuf> {
    env::var_os("VIRTUAL_ENV").filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The interpreter to use: the requested one, else that of the virtual environment, else the first on `PATH`.
///
/// The path is absolute, so that it does not depend on the current folder.
pub fn find_python(requested: Option<&Path>, virtual_env: Option<&Path>) -> Option<PathBuf> {
    let here = |path: &Path| std::path::absolute(path).ok().filter(|path| path.is_file());
    if let Some(python) = requested {
        // A bare name is looked up on `PATH`.
        return if python.components().count() > 1 || python.is_file() {
            here(python)
        } else {
            on_path(python)
        };
    }
    let inside = if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" };
    virtual_env
        .and_then(|folder| here(&folder.join(inside)))
        .or_else(|| ["python3", "python"].into_iter().find_map(|name| on_path(Path::new(name))))
}

/// Finds a command on `PATH`. Relative entries are skipped, because they depend on the current folder.
fn on_path(name: &Path) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name).with_extension(env::consts::EXE_EXTENSION))
        .find(|candidate| is_executable(candidate))
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requested_interpreter_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let python = folder.path().join("bin/python");
        fs_err::create_dir(folder.path().join("bin")).unwrap();
        let of_environment = || find_python(None, Some(folder.path()));
        assert_ne!(of_environment(), Some(python.clone()));
        fs_err::write(&python, "").unwrap();
        assert_eq!(of_environment(), Some(python.clone()));
        assert_eq!(find_python(Some(&python), Some(Path::new("/other"))), Some(python));
        for missing in ["/no/such/python", "no-such-python-at-all"] {
            assert_eq!(find_python(Some(Path::new(missing)), Some(folder.path())), None);
        }
        // `sh` is on every search path.
        assert!(find_python(Some(Path::new("sh")), None).unwrap().is_absolute());
    }
}

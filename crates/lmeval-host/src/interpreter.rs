//! Which Python is used.

use std::env;
use std::path::{Path, PathBuf};

/// The active virtual environment.
pub fn active_environment() -> Option<PathBuf> {
    env::var_os("VIRTUAL_ENV").filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The interpreter to use: the one asked for, else that of a virtual environment, else the first on the search path.
///
/// The path is absolute, so that it means the same wherever the process is started.
pub fn find_python(asked: Option<&Path>, virtual_env: Option<&Path>) -> Option<PathBuf> {
    let here = |path: &Path| std::path::absolute(path).ok().filter(|path| path.is_file());
    if let Some(python) = asked {
        // A bare name is looked up like any command.
        return if python.components().count() > 1 || python.is_file() {
            here(python)
        } else {
            on_search_path(python)
        };
    }
    let inside = if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" };
    virtual_env
        .and_then(|folder| here(&folder.join(inside)))
        .or_else(|| ["python3", "python"].into_iter().find_map(|name| on_search_path(Path::new(name))))
}

/// A command on the search path. Relative folders in it are skipped: they mean something else in each folder.
fn on_search_path(name: &Path) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name).with_extension(env::consts::EXE_EXTENSION))
        .find(|candidate| is_program(candidate))
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_comes_first() {
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

//! Finds the Python interpreter.

use std::env;
use std::ffi::OsStr;
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

fn on_path(name: &Path) -> Option<PathBuf> {
    search(&env::var_os("PATH")?, name)
}

/// Finds a command in a search path. Relative folders are skipped: they depend on the working directory.
fn search(path: &OsStr, name: &Path) -> Option<PathBuf> {
    // On Unix the extension is empty, and `with_extension` would turn `python3.11` into `python3`.
    let name = if cfg!(windows) { name.with_extension(env::consts::EXE_EXTENSION) } else { name.to_owned() };
    env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(&name))
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

    #[cfg(unix)]
    #[test]
    fn versioned_names_are_found_as_given() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        for name in ["python3", "python3.11"] {
            fs_err::write(folder.path().join(name), "").unwrap();
            fs_err::set_permissions(folder.path().join(name), std::fs::Permissions::from_mode(0o755))
                .unwrap();
        }
        let find = |name: &str| search(folder.path().as_os_str(), Path::new(name));
        assert_eq!(find("python3.11"), Some(folder.path().join("python3.11")));
        assert_eq!(find("python3.12"), None, "another version is not a substitute");
    }
}

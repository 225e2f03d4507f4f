//! The reference harness that `scripts/test` prepares, where it has been prepared.

use std::path::{Path, PathBuf};

/// The Python interpreter that has the reference harness, named by `LM_EVAL_TEST_PYTHON`.
///
/// `None` means that tests against it are to be skipped. A variable that names something that is not there is a
/// mistake in the set-up, and skipping then would hide it.
///
/// # Panics
///
/// If the variable is set and there is no such file.
pub fn test_environment() -> Option<PathBuf> {
    named("LM_EVAL_TEST_PYTHON", Path::is_file)
}

/// The public task library, `…/lm_eval/tasks`, named by `LM_EVAL_TEST_LIBRARY`; `None` as for [`test_environment`].
///
/// # Panics
///
/// If the variable is set and there is no such folder.
pub fn reference_library() -> Option<PathBuf> {
    named("LM_EVAL_TEST_LIBRARY", Path::is_dir)
}

fn named(variable: &str, is_there: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os(variable).filter(|value| !value.is_empty())?);
    assert!(is_there(&path), "`{variable}` names `{}`, which is not there", path.display());
    Some(path)
}

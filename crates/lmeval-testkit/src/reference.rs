//! Test prerequisites that not every machine has. `scripts/test` prepares all of them.

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The Python interpreter with the reference harness, from `LM_EVAL_TEST_PYTHON`; `None` skips the test.
///
/// # Panics
///
/// As [`skip`] does, and if the variable names something that does not exist.
pub fn test_environment() -> Option<PathBuf> {
    named("LM_EVAL_TEST_PYTHON", Path::is_file)
}

/// The Python interpreter with the programs that read published files, from `LM_EVAL_PUBLISH_PYTHON`; `None` as for
/// [`test_environment`].
///
/// # Panics
///
/// As [`test_environment`] does.
pub fn publish_environment() -> Option<PathBuf> {
    named("LM_EVAL_PUBLISH_PYTHON", Path::is_file)
}

/// An interpreter for tests that need only Python: the reference's, or `python3`.
pub fn python() -> PathBuf {
    std::env::var_os("LM_EVAL_TEST_PYTHON")
        .filter(|value| !value.is_empty())
        .map_or_else(|| "python3".into(), PathBuf::from)
}

/// The public task library, `…/lm_eval/tasks`, from `LM_EVAL_TEST_LIBRARY`; `None` as for [`test_environment`].
///
/// # Panics
///
/// As [`test_environment`] does.
pub fn reference_library() -> Option<PathBuf> {
    named("LM_EVAL_TEST_LIBRARY", Path::is_dir)
}

/// Prints that the current test is skipped, and why. The test must then return.
///
/// # Panics
///
/// If `CI` is `true`: nothing may be skipped there.
pub fn skip(reason: &str) {
    assert!(!is_ci(), "This test would be skipped, which `CI=true` forbids: {reason}");
    let thread = std::thread::current();
    // Bypasses the test harness's capture, which would hide it. A closed terminal must not fail the test.
    let line = format!("SKIPPED {}: {reason}\n", thread.name().unwrap_or("test"));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Whether skipping tests is forbidden.
pub fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

fn named(variable: &str, exists: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let Some(path) = std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from) else {
        skip(&format!("`{variable}` is not set; `scripts/test` sets it"));
        return None;
    };
    assert!(exists(&path), "`{variable}` names `{}`, which does not exist", path.display());
    Some(path)
}

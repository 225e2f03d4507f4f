//! What tests need and not every machine has. `scripts/test` prepares all of it.

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The Python interpreter that has the reference harness, named by `LM_EVAL_TEST_PYTHON`; `None` skips the test.
///
/// # Panics
///
/// As [`skip`] does, and if the variable names something that does not exist.
pub fn test_environment() -> Option<PathBuf> {
    named("LM_EVAL_TEST_PYTHON", Path::is_file)
}

/// An interpreter for tests that need nothing but Python: that of the reference, or `python3`.
pub fn python() -> PathBuf {
    std::env::var_os("LM_EVAL_TEST_PYTHON")
        .filter(|value| !value.is_empty())
        .map_or_else(|| "python3".into(), PathBuf::from)
}

/// The public task library, `…/lm_eval/tasks`, named by `LM_EVAL_TEST_LIBRARY`; `None` as for [`test_environment`].
///
/// # Panics
///
/// As [`test_environment`] does.
pub fn reference_library() -> Option<PathBuf> {
    named("LM_EVAL_TEST_LIBRARY", Path::is_dir)
}

/// Says on the terminal that the current test is skipped, and why. The test has to return then.
///
/// # Panics
///
/// Where `CI` is `true`: nothing is skipped there.
pub fn skip(reason: &str) {
    assert!(!is_ci(), "This test would be skipped, which `CI=true` forbids: {reason}");
    let thread = std::thread::current();
    // Written past the capture of the test harness, which would hide it. A closed terminal is no reason to fail.
    let line = format!("SKIPPED {}: {reason}\n", thread.name().unwrap_or("test"));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Whether this is a run that must not leave anything out.
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

//! The host of task functions written in Python.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use lmeval::environment::python_options;
use lmeval_host::{Caller, PythonHost, PythonOptions};

use crate::printer::Notes;
use crate::settings::RunSettings;

/// A host for Python functions; no process starts before the first call. Lines that functions print become notes.
pub(crate) fn host(
    python: Option<&Path>,
    plugins: &[String],
    roots: &[PathBuf],
    notes: &Notes,
) -> Result<Arc<PythonHost>> {
    Ok(PythonHost::new(options(python, plugins, roots, notes)?))
}

/// Options for the Python functions and models of a run; functions of `caller` run in its process.
pub(crate) fn of_run(
    settings: &RunSettings,
    roots: &[PathBuf],
    caller: Option<&Arc<Caller>>,
    notes: &Notes,
) -> Result<PythonOptions> {
    Ok(PythonOptions {
        caller: caller.map(Arc::clone),
        run_unsafe_code: settings.scoring.confirm_run_unsafe_code,
        ..options(settings.python.python.as_deref(), settings.python.plugins(), roots, notes)?
    })
}

/// Options for the Python host, with output forwarded to notes.
pub(crate) fn options(
    python: Option<&Path>,
    plugins: &[String],
    roots: &[PathBuf],
    notes: &Notes,
) -> Result<PythonOptions> {
    let notes = notes.clone();
    Ok(PythonOptions {
        program: std::env::current_exe().ok(),
        // Only a run executes model-written code: see `of_run`.
        run_unsafe_code: true,
        log: Some(Arc::new(move |line: &str| notes.info(&format!("python: {line}")))),
        ..python_options(python, plugins, roots)?
    })
}

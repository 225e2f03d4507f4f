//! The host of task functions written in Python.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use lmeval::settings::python_options;
use lmeval_host::{PythonHost, PythonOptions};

use crate::printer::Notes;

/// A host for Python functions; no process starts before the first call. Lines that functions print become notes.
pub(crate) fn host(
    python: Option<&Path>,
    plugins: &[String],
    roots: &[PathBuf],
    notes: &Notes,
) -> Result<Arc<PythonHost>> {
    Ok(PythonHost::new(options(python, plugins, roots, notes)?))
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
        // Only a run executes model-written code, and sets this from `--confirm_run_unsafe_code`.
        run_unsafe_code: true,
        log: Some(Arc::new(move |line: &str| notes.info(&format!("python: {line}")))),
        ..python_options(python, plugins, roots)?
    })
}

//! What runs the Python functions of tasks.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use lmeval::settings::python_options;
use lmeval_host::{PythonHost, PythonOptions};

use crate::printer::Notes;

/// A host for functions; no process is started before the first one is called. What they print becomes notes.
pub(crate) fn host(
    python: Option<&Path>,
    plugins: &[String],
    roots: &[PathBuf],
    notes: &Notes,
) -> Result<Arc<PythonHost>> {
    Ok(PythonHost::new(options(python, plugins, roots, notes)?))
}

/// How functions are run.
pub(crate) fn options(
    python: Option<&Path>,
    plugins: &[String],
    roots: &[PathBuf],
    notes: &Notes,
) -> Result<PythonOptions> {
    let notes = notes.clone();
    Ok(PythonOptions {
        program: std::env::current_exe().ok(),
        // No program of a model exists before a run, which sets this to what its user says.
        run_unsafe_code: true,
        log: Some(Arc::new(move |line: &str| notes.info(&format!("python: {line}")))),
        ..python_options(python, plugins, roots)?
    })
}

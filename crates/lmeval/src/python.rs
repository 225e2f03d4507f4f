//! What runs the Python functions of tasks.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use lmeval_host::{PythonHost, PythonOptions};

use crate::environment;
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
    let mut options = PythonOptions {
        python: python.map(Path::to_owned),
        plugins: plugins.to_vec(),
        // Installed libraries are folders; the built-in one has no modules.
        task_roots: roots.iter().filter(|root| root.is_dir()).cloned().collect(),
        program: std::env::current_exe().ok(),
        // No program of a model exists before a run, which sets this to what its user says.
        run_unsafe_code: true,
        log: Some(Arc::new(move |line: &str| notes.info(&format!("python: {line}")))),
        ..PythonOptions::from_environment()
    };
    environment::limit_python(&mut options)?;
    Ok(options)
}

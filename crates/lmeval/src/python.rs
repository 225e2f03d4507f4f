//! What runs the Python functions of tasks.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lmeval_host::{PythonHost, PythonOptions};

use crate::printer::Notes;

/// A host for functions; no process is started before the first one is called. What they print becomes notes.
pub(crate) fn host(python: Option<&Path>, roots: &[PathBuf], notes: &Notes) -> Arc<PythonHost> {
    let notes = notes.clone();
    PythonHost::new(PythonOptions {
        python: python.map(Path::to_owned),
        // Installed libraries are folders; the built-in one has no modules.
        task_roots: roots.iter().filter(|root| root.is_dir()).cloned().collect(),
        log: Some(Arc::new(move |line: &str| notes.info(&format!("python: {line}")))),
        ..PythonOptions::from_environment()
    })
}

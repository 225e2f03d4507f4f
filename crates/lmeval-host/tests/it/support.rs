//! Task folders and hosts for tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lmeval_host::{PythonHost, PythonOptions};
use lmeval_pycompat::{Dict, Function, Value};
use lmeval_scoring::HostError;
use tempfile::TempDir;

/// The interpreter of the tests.
pub(crate) fn python() -> PathBuf {
    lmeval_testkit::python()
}

/// A task folder and a host.
pub(crate) struct Folder {
    pub(crate) folder: TempDir,
    pub(crate) host: Arc<PythonHost>,
}

impl Folder {
    /// A folder with `utils.py` and a host with short limits.
    pub(crate) fn new(utils: &str) -> Self {
        Self::with(utils, |_| {})
    }

    /// Like [`Folder::new`], with other options.
    pub(crate) fn with(utils: &str, change: impl FnOnce(&mut PythonOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "utils.py", utils);
        let mut options = PythonOptions {
            python: Some(python()),
            workers: 2,
            time_limit: Duration::from_mins(1),
            ..PythonOptions::default()
        };
        change(&mut options);
        Self { folder, host: PythonHost::new(options) }
    }

    pub(crate) fn function(&self, reference: &str) -> Arc<Function> {
        function(self.folder.path(), reference)
    }
}

pub(crate) fn function(folder: &Path, reference: &str) -> Arc<Function> {
    let directory = folder.to_str().unwrap().to_owned();
    Arc::new(Function { reference: reference.to_owned(), directory })
}

pub(crate) fn write(folder: &Path, name: &str, content: &str) {
    let path = folder.join(name);
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    fs_err::write(path, content).unwrap();
}

pub(crate) fn document<const N: usize>(entries: [(&str, Value); N]) -> Arc<Dict> {
    Arc::new(entries.into_iter().map(|(name, value)| (Value::str(name), value)).collect())
}

/// The message and the traceback of an error.
pub(crate) fn message_and_traceback(error: HostError) -> (String, String) {
    match error {
        HostError::Failed { message, traceback, .. } => (message, traceback.unwrap_or_default()),
        other => panic!("{other}"),
    }
}

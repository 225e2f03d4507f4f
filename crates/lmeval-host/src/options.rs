//! Options for running Python.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::caller::Caller;
use crate::error::WorkerError;
use crate::interpreter::{active_environment, find_python};

/// Receives the lines printed by functions of tasks.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// Options for running Python.
#[derive(Clone)]
pub struct PythonOptions {
    /// The interpreter; `None` searches for one.
    pub python: Option<PathBuf>,
    /// The active virtual environment; its interpreter is used if `python` is `None`.
    pub virtual_env: Option<PathBuf>,
    /// The maximum number of worker processes.
    pub workers: usize,
    /// The time limit of one call.
    pub time_limit: Duration,
    /// The address-space limit of each process in bytes.
    pub memory_limit: Option<u64>,
    /// The folders that make up `lm_eval.tasks`, so that tasks can import modules of other tasks.
    pub task_roots: Vec<PathBuf>,
    /// Modules, by name or file, that each process imports on start to register names.
    pub plugins: Vec<String>,
    /// The Python program that called the engine, for functions and models that exist only in its process.
    pub caller: Option<Arc<Caller>>,
    /// The `lm-eval` binary, which sandboxes code written by a model; `None` searches for it on demand.
    pub program: Option<PathBuf>,
    /// Whether code written by a model may run at all.
    pub run_unsafe_code: bool,
    /// Receives printed lines; `None` drops them.
    pub log: Option<Log>,
}

impl Default for PythonOptions {
    fn default() -> Self {
        Self {
            python: None,
            virtual_env: None,
            workers: thread::available_parallelism().map_or(1, usize::from),
            time_limit: Duration::from_mins(10),
            memory_limit: None,
            task_roots: Vec::new(),
            plugins: Vec::new(),
            caller: None,
            program: None,
            run_unsafe_code: false,
            log: None,
        }
    }
}

impl PythonOptions {
    /// The defaults, with the active virtual environment.
    pub fn from_environment() -> Self {
        Self { virtual_env: active_environment(), ..Self::default() }
    }

    /// The interpreter that runs Python code; `None` if there is none.
    pub fn interpreter(&self) -> Option<PathBuf> {
        find_python(self.python.as_deref(), self.virtual_env.as_deref())
    }

    /// Finds the interpreter and calls `start` with it; errors name it.
    pub(crate) fn start<T>(
        &self,
        spawn: impl FnOnce(&Path) -> io::Result<T>,
    ) -> Result<(PathBuf, T), WorkerError> {
        let asked = self.python.as_deref();
        let failed = |python: &Path, source: io::Error| WorkerError::Start {
            python: python.display().to_string(),
            source,
        };
        let python = self
            .interpreter()
            .ok_or_else(|| failed(asked.unwrap_or(Path::new("python3")), io::ErrorKind::NotFound.into()))?;
        let started = spawn(&python).map_err(|source| failed(&python, source))?;
        Ok((python, started))
    }
}

impl fmt::Debug for PythonOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PythonOptions")
            .field("python", &self.python)
            .field("virtual_env", &self.virtual_env)
            .field("workers", &self.workers)
            .field("time_limit", &self.time_limit)
            .field("memory_limit", &self.memory_limit)
            .field("task_roots", &self.task_roots)
            .field("plugins", &self.plugins)
            .finish_non_exhaustive()
    }
}

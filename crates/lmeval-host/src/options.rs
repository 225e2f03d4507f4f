//! How Python is run.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::caller::Caller;
use crate::error::WorkerError;
use crate::interpreter::{active_environment, find_python};

/// Takes the lines that functions of tasks print.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// How Python is run.
#[derive(Clone)]
pub struct PythonOptions {
    /// The interpreter; `None` looks for one.
    pub python: Option<PathBuf>,
    /// The active virtual environment, whose interpreter is taken where none is named.
    pub virtual_env: Option<PathBuf>,
    /// How many processes there are at most.
    pub workers: usize,
    /// How long one call may take.
    pub time_limit: Duration,
    /// How much address space each process may take, in bytes.
    pub memory_limit: Option<u64>,
    /// Folders that `lm_eval.tasks` consists of, so that tasks can import each other's modules.
    pub task_roots: Vec<PathBuf>,
    /// Modules, by name or file, that each process imports when it starts, so that they can register things.
    pub plugins: Vec<String>,
    /// The program that called the engine, for functions and models that exist in its process alone.
    pub caller: Option<Arc<Caller>>,
    /// The `lm-eval` program, which runs code that a model wrote; `None` looks for it when it is needed.
    pub program: Option<PathBuf>,
    /// Whether code that a model wrote may be run at all.
    pub run_unsafe_code: bool,
    /// Where printed lines go; `None` drops them.
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
    /// The defaults, with the virtual environment that is active.
    pub fn from_environment() -> Self {
        Self { virtual_env: active_environment(), ..Self::default() }
    }

    /// Starts the interpreter, and names it.
    pub(crate) fn start<T>(
        &self,
        spawn: impl FnOnce(&Path) -> io::Result<T>,
    ) -> Result<(PathBuf, T), WorkerError> {
        let asked = self.python.as_deref();
        let failed = |python: &Path, source: io::Error| WorkerError::Start {
            python: python.display().to_string(),
            source,
        };
        let python = find_python(asked, self.virtual_env.as_deref())
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

//! The Python interpreter that runs programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::error::Error;

/// Prints where an interpreter has its files. Runs without packages of the current folder.
const QUERY: &str = "\
import json, os, sys
prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
path = [os.path.abspath(entry) for entry in sys.path if entry]
executable = os.path.realpath(sys.executable)
print(json.dumps({'executable': executable, 'read': sorted(prefixes | set(path)), 'path': path}))
";

/// A Python interpreter and the location of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// The path of the interpreter.
    pub executable: PathBuf,
    /// Paths that programs may read.
    pub read: Vec<PathBuf>,
    /// `sys.path`.
    pub path: Vec<String>,
}

impl Interpreter {
    /// Queries an interpreter for its files.
    pub fn query(python: &Path) -> Result<Self, Error> {
        let mut command = Command::new(python);
        command.args(["-I", "-c", QUERY]).stdin(Stdio::null()).stderr(Stdio::null());
        let answer =
            command.output().map_err(|source| Error::Interpreter { python: python.to_owned(), source })?;
        Self::from_json(&String::from_utf8_lossy(&answer.stdout))
    }

    /// Parses `{"executable": …, "read": […], "path": […]}`.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| Error::Malformed(format!("description of an interpreter: {error}")))?;
        let missing = |name: &str| {
            Error::Malformed(format!("description of an interpreter: `{name}` is missing or invalid"))
        };
        let texts = |name: &str| {
            let items = value.get(name).and_then(Value::as_array)?;
            items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        };
        Ok(Self {
            executable: value
                .get("executable")
                .and_then(Value::as_str)
                .map(PathBuf::from)
                .ok_or_else(|| missing("executable"))?,
            read: texts("read").ok_or_else(|| missing("read"))?.into_iter().map(PathBuf::from).collect(),
            path: texts("path").ok_or_else(|| missing("path"))?,
        })
    }
}

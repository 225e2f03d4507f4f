//! Isolated runs of `lm-eval`.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use fs_err as fs;
use tempfile::TempDir;

/// A temporary folder to run the command in, with its own home and an empty environment.
#[derive(Debug)]
pub struct TestContext {
    binary: PathBuf,
    folder: TempDir,
    root: PathBuf,
}

impl TestContext {
    /// A fresh context for a binary; `env!("CARGO_BIN_EXE_lm-eval")` in the tests of its crate.
    ///
    /// # Panics
    ///
    /// If no temporary folder can be created.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be created");
        // The command prints real paths, and the temporary folder may be a link.
        let root = fs::canonicalize(folder.path()).expect("the folder exists");
        for name in ["work", "home"] {
            fs::create_dir_all(root.join(name)).expect("the folder is ours");
        }
        Self { binary: binary.into(), folder, root }
    }

    /// The working directory of commands.
    pub fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    /// The folder for the command's own files (`LM_EVAL_HOME`); does not exist at first.
    pub fn lm_eval_home(&self) -> PathBuf {
        self.root.join("lm-eval")
    }

    /// Writes a file below [`TestContext::work`] and returns its path.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.work().join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).expect("the folder is ours");
        }
        fs::write(&path, content).expect("the folder is ours");
        path
    }

    /// A command to run. Of the caller's environment, it gets only `PATH`.
    pub fn command(&self, arguments: &[&str]) -> TestCommand {
        let mut command = Command::new(&self.binary);
        command.args(arguments).current_dir(self.work()).stdin(Stdio::null()).env_clear();
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command.env("HOME", self.root.join("home")).env("LM_EVAL_HOME", self.lm_eval_home());
        let filters = [self.root.as_path(), self.folder.path()];
        let filters = filters.map(|path| (path.display().to_string(), "[TEMP]".to_owned())).to_vec();
        TestCommand { command, filters }
    }

    /// Runs the command.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).run()
    }
}

/// A command that has not been run yet.
#[derive(Debug)]
pub struct TestCommand {
    command: Command,
    filters: Vec<(String, String)>,
}

impl TestCommand {
    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Removes an environment variable.
    pub fn without(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Replaces a string in the output, after the temporary folder has become `[TEMP]`.
    pub fn filter(mut self, text: impl Into<String>, replacement: impl Into<String>) -> Self {
        self.filters.push((text.into(), replacement.into()));
        self
    }

    /// Starts the command without waiting; its output is discarded.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn spawn(mut self) -> Child {
        let silent = self.command.stdout(Stdio::null()).stderr(Stdio::null());
        silent.spawn().expect("the command can be started")
    }

    /// Starts the command without waiting; read its output with `wait_with_output`.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn spawn_piped(mut self) -> Child {
        let piped = self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        piped.spawn().expect("the command can be started")
    }

    /// Runs the command and returns its output.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn run(mut self) -> Output {
        let output = self.command.output().expect("the command can be started");
        let text = |bytes: &[u8]| {
            self.filters.iter().fold(String::from_utf8_lossy(bytes).into_owned(), |text, (old, new)| {
                if old.is_empty() { text } else { text.replace(old, new) }
            })
        };
        // A signal has no exit status; no command may end by one.
        let status = output.status.code().unwrap_or(-1);
        Output { status, stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }
}

/// The output of a command, with the temporary folder shown as `[TEMP]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The exit status; -1 if killed by a signal.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, stdout, stderr } = self;
        write!(f, "status: {status}\n--- stdout\n{stdout}\n--- stderr\n{stderr}")
    }
}

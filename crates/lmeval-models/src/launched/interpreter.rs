//! The Python interpreter of a server: what is installed in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lmeval_core::{ModelError, ModelErrorKind};
use serde_json::Value;

use super::software::Software;

/// Finds the package without importing it, since that imports torch.
const PROBE: &str = r#"
import importlib.metadata, importlib.util, json, os, re, sys
name, words = sys.argv[1], sys.argv[2:]
found = {"root": None, "version": None, "knows": []}
spec = importlib.util.find_spec(name)
roots = list(spec.submodule_search_locations or []) if spec else []
roots = [root for root in roots if os.path.isfile(os.path.join(root, "__init__.py"))]
if roots:
    root = found["root"] = roots[0]
    try:
        found["version"] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pattern = re.compile(name + r"[A-Za-z0-9_.]*-(\d[^-]*)\.dist-info")
        for entry in sorted(os.listdir(os.path.dirname(root))):
            match = pattern.fullmatch(entry)
            record = os.path.join(os.path.dirname(root), entry, "RECORD")
            if match and os.path.isfile(record):
                with open(record, encoding="utf-8", errors="replace") as file:
                    if any(line.startswith(name + "/__init__.py,") for line in file):
                        found["version"] = match[1]
    if not found["version"]:
        try:
            with open(os.path.join(root, "_version.py"), encoding="utf-8") as file:
                match = re.search(r"version\s*=\s*['\"]([^'\"]+)", file.read())
            found["version"] = match and match[1]
        except OSError:
            pass
    missing = set(words)
    for folder, _, files in os.walk(os.path.join(root, "entrypoints")):
        for file in files:
            if missing and file.endswith(".py"):
                with open(os.path.join(folder, file), encoding="utf-8", errors="replace") as text:
                    text = text.read()
                missing = {word for word in missing if not re.search(r"\b" + word + r"\b", text)}
    found["knows"] = [word for word in words if word not in missing]
print(json.dumps(found))
"#;

/// An interpreter with the server's package.
#[derive(Clone, Debug)]
pub(super) struct Interpreter {
    pub(super) python: PathBuf,
    /// The folder of the package.
    pub(super) root: PathBuf,
    /// Its version; `unknown` if it has none.
    pub(super) version: String,
    /// The words of the question that its sources contain.
    knows: Vec<String>,
}

impl Interpreter {
    /// Asks the interpreter for the package of a server.
    pub(super) fn examine(python: Option<&Path>, software: &Software) -> Result<Self, ModelError> {
        let title = software.title;
        let Some(python) = python else {
            let message = format!("{title} needs Python, and none was found");
            return Err(configuration(message).hint("`--python PATH` names the interpreter that has it"));
        };
        let mut command = Command::new(python);
        isolate(&mut command).args(["-c", PROBE, software.module]);
        command.args(software.socket.map(|_| "uds")).args(software.optional.iter().map(|(_, word)| word));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = command.output().map_err(|error| {
            let message = format!("The Python `{}` cannot be started: {error}", python.display());
            configuration(message).hint(format!("`--python PATH` names the interpreter that has {title}"))
        })?;
        let answer = output.stdout.split(|byte| *byte == b'\n').rfind(|line| line.starts_with(b"{"));
        let answer: Option<Value> = answer.and_then(|line| serde_json::from_slice(line).ok());
        let Some(answer) = answer else {
            let message = format!("The Python `{}` could not be examined for {title}", python.display());
            return Err(configuration(message).with_traceback(String::from_utf8_lossy(&output.stderr)));
        };
        let text = |name: &str| answer[name].as_str().map(str::to_owned);
        let Some(root) = text("root") else { return Err(not_installed(python, software)) };
        let words = answer["knows"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(Self {
            python: python.to_owned(),
            root: root.into(),
            version: text("version").unwrap_or_else(|| "unknown".to_owned()),
            knows: words.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect(),
        })
    }

    /// Whether the sources of the server contain a word.
    pub(super) fn knows(&self, word: &str) -> bool {
        self.knows.iter().any(|known| known == word)
    }
}

/// Keeps folders of the working directory from being imported in place of installed packages.
pub(super) fn isolate(command: &mut Command) -> &mut Command {
    command.env("PYTHONSAFEPATH", "1")
}

fn not_installed(python: &Path, software: &Software) -> ModelError {
    let Software { title, module, .. } = software;
    let message = format!("{title} is not installed in `{}`", python.display());
    ModelError::new(ModelErrorKind::Configuration, message)
        .hint(format!("`pip install {module}` installs it; `--python PATH` names another interpreter"))
        .hint(
            "`--model hf` needs no server, and `--model local-completions` uses one that is already running",
        )
}

pub(super) fn configuration(message: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorKind::Configuration, message)
}

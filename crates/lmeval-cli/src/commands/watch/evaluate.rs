//! `lm-eval watch-checkpoint`: evaluates one checkpoint, in a process of its own.
//!
//! A checkpoint that crashes the engine or needs more memory than there is then costs itself alone, and everything it had in memory or on
//! a GPU is free for the next. The process holds the lock of the checkpoint: while it lives, nobody else evaluates the same one, whatever
//! happens to its watcher.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use fs_err as fs;
use lmeval_core::Diagnostic;
use lmeval_journal::Lock;
use lmeval_pycompat::{Dict, Value, json};
use serde::{Deserialize, Serialize};

use super::store::{self, Record};
use crate::commands::{Status, run};
use crate::printer::Printer;
use crate::settings::{Options, RunSettings};
use crate::words::shell_word;

/// How often and how long a claim is tried.
const LOOKS: usize = 20;
const LOOK: Duration = Duration::from_millis(25);

/// An evaluation, as the watcher describes it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    /// The settings of the run as JSON.
    pub settings: String,
    /// Where results go.
    pub folder: PathBuf,
    /// The checkpoint, as it is saved beside its results.
    pub record: Record,
    /// The model arguments that name it.
    pub arguments: Vec<(String, String)>,
    /// Results that are not of these weights.
    pub replaces: Vec<PathBuf>,
    /// How it is converted first.
    pub convert: Option<Conversion>,
}

/// A conversion to a format that the model reads.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Conversion {
    /// The command with its places.
    pub command: String,
    /// The folder or file that is converted.
    pub input: PathBuf,
    /// Whether the copy stays.
    pub keep: bool,
}

/// Evaluates the checkpoint that standard input describes, unless it has been or another process does.
pub(super) fn evaluate(printer: &mut Printer) -> Result<Status> {
    let Job { settings, folder, record, arguments, replaces, convert } =
        serde_json::from_reader(io::stdin())?;
    fs::create_dir_all(&folder)?;
    let Some(_lock) = claim(&folder)? else { return Ok(Status::Success) };
    if store::results(&folder).iter().any(|results| !replaces.contains(results)) {
        return Ok(Status::Success);
    }
    store::save(&folder, &record)?;
    let converted =
        convert.as_ref().map(|conversion| conversion.run(&folder, record.step, printer)).transpose()?;
    let Value::Dict(stored) = json::loads(&settings)? else {
        bail!("The settings of the evaluation are not an object")
    };
    let mut stored = (*stored).clone();
    let mut model_args =
        stored.get_str("model_args").and_then(Value::as_dict).cloned().unwrap_or_else(Dict::new);
    for (name, value) in arguments {
        let value = converted.as_ref().map_or(value, |path| path.display().to_string());
        model_args.insert(name.as_str(), value);
    }
    stored.insert("model_args", model_args);
    stored.insert("output_path", folder.join("results.json").display().to_string());
    let settings = RunSettings::from_stored(&stored, &Options::default())?;
    let status = run::run_with(settings, printer, None)?;
    if let (Some(path), Some(Conversion { keep: false, .. })) = (&converted, &convert) {
        fs::remove_dir_all(path)?;
    }
    Ok(status)
}

/// Claims the checkpoint. Another watcher that only looks whether it is claimed holds the lock for a moment.
fn claim(folder: &Path) -> Result<Option<Lock>> {
    for _ in 0..LOOKS {
        if let Some(lock) = store::claim(folder)? {
            return Ok(Some(lock));
        }
        thread::sleep(LOOK);
    }
    Ok(None)
}

impl Conversion {
    /// Converts into a folder of its own, which has its name only when the command has succeeded.
    fn run(&self, folder: &Path, step: u64, printer: &Printer) -> Result<PathBuf> {
        let done = folder.join("converted");
        if done.is_dir() {
            return Ok(done);
        }
        let part = folder.join("converted.part");
        if part.exists() {
            fs::remove_dir_all(&part)?;
        }
        fs::create_dir(&part)?;
        let command = self
            .command
            .replace("{input}", &shell_word(&self.input.display().to_string()))
            .replace("{output}", &shell_word(&part.display().to_string()))
            .replace("{step}", &step.to_string());
        printer.notes().info(&format!("Converting: {command}"));
        let status = Command::new("sh")
            .arg("-c")
            .arg(&command)
            .stdin(Stdio::null())
            .stdout(Stdio::from(io::stderr()))
            .status()?;
        if !status.success() {
            let failed =
                Diagnostic::new(format!("The conversion of `{}` ended with {status}", self.input.display()));
            bail!(failed.hint(format!("The command was: {command}")));
        }
        fs::rename(&part, &done)?;
        Ok(done)
    }
}

//! `lm-eval sandbox`: runs model-written code under limits.

use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use lmeval_sandbox::{Interpreter, Limits, Outcome, Program};

use crate::cli::{SandboxArgs, SandboxPython};
use crate::commands::Status;
use crate::printer::Printer;

/// Code that does nothing, for probing the limits.
const PROBE: &str = "pass";

/// Runs a file, or shows the limits.
pub(crate) fn run(arguments: &SandboxArgs, printer: &mut Printer) -> Result<Status> {
    if let Some(plan) = &arguments.inside {
        let Err(error) = lmeval_sandbox::enter(plan);
        // The supervisor reads standard output.
        writeln!(printer.results(), "{:#}", anyhow::Error::from(error))?;
        return Ok(Status::Failure);
    }
    let Ok(time) = Duration::try_from_secs_f64(arguments.time) else {
        bail!("`--time` must be a number of seconds, not `{}`", arguments.time);
    };
    let mut limits = Limits { time, ..Limits::default() };
    if let Some(mebibytes) = arguments.memory {
        limits.memory = mebibytes.saturating_mul(1 << 20);
    }
    let text = match &arguments.program {
        None => PROBE.to_owned(),
        Some(path) => read(path)?,
    };
    let program = Program { text, interpreter: interpreter(&arguments.python)?, limits };
    let outcome = lmeval_sandbox::run(&program, &["sandbox", "--inside"].map(OsStr::new))?;
    show(&outcome, arguments, printer)?;
    Ok(if outcome.result == "passed" { Status::Success } else { Status::Failure })
}

fn read(path: &Path) -> Result<String> {
    if path == Path::new("-") {
        let mut text = Vec::new();
        std::io::stdin().read_to_end(&mut text).context("Cannot read the code from standard input")?;
        // The interpreter rejects code that is not valid text.
        return Ok(String::from_utf8_lossy(&text).into_owned());
    }
    Ok(fs_err::read_to_string(path)?)
}

fn interpreter(arguments: &SandboxPython) -> Result<Interpreter> {
    if let Some(text) = &arguments.interpreter {
        return Ok(Interpreter::from_json(text)?);
    }
    let asked = arguments.python.as_deref();
    let found = lmeval_host::find_python(asked, lmeval_host::active_environment().as_deref());
    Ok(Interpreter::query(&found.unwrap_or_else(|| asked.unwrap_or(Path::new("python3")).to_owned()))?)
}

fn show(outcome: &Outcome, arguments: &SandboxArgs, printer: &mut Printer) -> Result<()> {
    if arguments.json {
        printer.exact(&format!("{}\n", outcome.to_json()))?;
        return Ok(());
    }
    if arguments.program.is_some() {
        printer.result(&format!("{}\n", outcome.result))?;
        return Ok(());
    }
    for limit in outcome.report.limits() {
        let mark = if limit.in_force { "" } else { "NOT ENFORCED: " };
        printer.result(&format!("{:<13} {mark}{}\n", limit.name, limit.text))?;
    }
    Ok(())
}

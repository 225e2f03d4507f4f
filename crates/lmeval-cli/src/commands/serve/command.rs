//! Runs a command line for a Python program, with the extensions it has registered.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Parser;
use lmeval_pycompat::Value;

use super::Request;
use crate::cli::{Cli, Command};
use crate::commands::{self, Status, run};
use crate::printer::{self, Printer};
use crate::run::session::Program;
use crate::{legacy, report};

/// Runs the command line; returns the exit status.
pub(super) fn run(request: &Request) -> Result<Value> {
    let words = request.part("arguments");
    let words = words.as_list().unwrap_or_default();
    let words = words.iter().filter_map(Value::as_str).map(OsString::from);
    let arguments = legacy::rewrite(std::iter::once(OsString::from("lm-eval")).chain(words).collect());
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return Ok(Value::Int(crate::print_usage_error(&error, &arguments).into())),
    };
    let printer = &mut Printer::new(cli.color);
    request.use_registered();
    let done = match cli.command {
        Command::ServePython | Command::ServeModel => bail!("This command cannot be run from Python"),
        Command::Run(arguments) => {
            let program = Program {
                caller: &request.caller,
                python: request.part("python").as_str().map(PathBuf::from),
                cancel: &request.cancel,
            };
            run::run(&arguments, printer, Some(&program))
        }
        other => commands::dispatch(Cli { command: other, ..cli }, printer),
    };
    let status = match done {
        Ok(status) => status,
        Err(error) if printer::is_broken_pipe(&error) => Status::Success,
        Err(error) => {
            report::failure(printer, &error);
            report::status(&error)
        }
    };
    let flushed = printer.flush();
    if status == Status::Success {
        flushed?;
    }
    printer.notes().finish(status.code());
    Ok(Value::Int(status.code().into()))
}

//! `lm-eval completions`: a completion script for a shell.

use anyhow::Result;
use clap::CommandFactory;

use crate::cli::{Cli, CompletionsArgs};
use crate::commands::Status;
use crate::printer::Printer;

/// Prints the script.
pub(crate) fn run(arguments: &CompletionsArgs, printer: &mut Printer) -> Result<Status> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "lm-eval", &mut script);
    printer.result(&String::from_utf8_lossy(&script))?;
    Ok(Status::Success)
}

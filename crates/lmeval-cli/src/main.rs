//! The `lm-eval` command.

mod browser;
mod cli;
mod commands;
mod crash;
mod csv;
mod environment;
mod excerpt;
mod fold;
mod foreign;
mod json_line;
mod legacy;
mod library;
mod log;
mod pager;
mod printer;
mod progress;
mod python;
mod report;
mod roots;
mod run;
mod settings;
mod stored;
mod table;
mod tokenizer;
mod words;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use lmeval_core::secrets;

use crate::cli::Cli;
use crate::commands::Status;
use crate::printer::Printer;

fn main() -> ExitCode {
    crash::install_panic_hook();
    secrets::learn_environment();
    let arguments = legacy::rewrite(std::env::args_os().collect());
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(print_usage_error(&error, &arguments)),
    };
    let mut printer = Printer::new(cli.color);
    let status = match commands::dispatch(cli, &mut printer) {
        Ok(status) => status,
        Err(error) if printer::is_broken_pipe(&error) => Status::Success,
        Err(error) => {
            report::failure(&mut printer, &error);
            report::status(&error)
        }
    };
    printer.notes().finish(status.code());
    ExitCode::from(status.code())
}

/// Prints help or a usage error, with secrets in the arguments masked; returns the exit status.
pub(crate) fn print_usage_error(error: &clap::Error, arguments: &[OsString]) -> u8 {
    for pair in arguments.windows(2) {
        let [name, value] = [&pair[0], &pair[1]].map(|word| word.to_string_lossy());
        if name.starts_with("--") && secrets::is_secret(&name) {
            secrets::remember(&value);
        }
        secrets::learn_from_text(&value);
    }
    let text = error.render().to_string();
    let shown = secrets::mask(&text);
    // A closed output stream is not a failure.
    let _ = if shown == text { error.print() } else { std::io::stderr().write_all(shown.as_bytes()) };
    u8::try_from(error.exit_code()).unwrap_or(2)
}

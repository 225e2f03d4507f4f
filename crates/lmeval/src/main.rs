//! The `lm-eval` command.

mod cli;
mod commands;
mod environment;
mod fold;
mod json_line;
mod legacy;
mod library;
mod printer;
mod progress;
mod python;
mod report;
mod roots;
mod run;
mod table;
mod words;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;
use crate::commands::Status;
use crate::printer::Printer;

fn main() -> ExitCode {
    let arguments = legacy::rewrite(std::env::args_os().collect());
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            // Help that cannot be printed because the reader is gone is no failure.
            let _ = error.print();
            return ExitCode::from(code);
        }
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

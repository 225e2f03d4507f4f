//! `lm_eval`, the older name of the command: runs the `lm-eval` binary in the same folder with the same arguments.

use std::env;
use std::io::{self, Write as _};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let program = env::current_exe()
        .and_then(|own| own.canonicalize())
        .map(|own| own.with_file_name(format!("lm-eval{}", env::consts::EXE_SUFFIX)));
    let outcome = program.and_then(|program| run(Command::new(program).args(env::args_os().skip(1))));
    match outcome {
        Ok(code) => code,
        Err(error) => {
            let message = format!(
                "error: Cannot start `lm-eval` next to `lm_eval`: {error}\nhint: Install both again\n"
            );
            // Nothing can be reported if standard error is closed.
            let _ = io::stderr().write_all(message.as_bytes());
            ExitCode::FAILURE
        }
    }
}

/// Replaces this process, so that signals and the exit status are those of the command.
#[cfg(unix)]
fn run(command: &mut Command) -> io::Result<ExitCode> {
    use std::os::unix::process::CommandExt as _;

    Err(command.exec())
}

#[cfg(not(unix))]
fn run(command: &mut Command) -> io::Result<ExitCode> {
    let status = command.status()?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

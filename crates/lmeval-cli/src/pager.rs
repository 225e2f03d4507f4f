//! Standard output, or a pager in front of it.

use std::io::{self, IsTerminal as _, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use crate::environment;

/// Where results go.
pub(crate) enum Output {
    /// Standard output.
    Stdout(io::Stdout),
    /// The input of a pager.
    Pager(Pager),
}

/// A running pager.
pub(crate) struct Pager {
    child: Child,
    input: ChildStdin,
}

impl Output {
    /// Standard output.
    pub(crate) fn stdout() -> Self {
        Self::Stdout(io::stdout())
    }

    /// The user's pager if standard output is a terminal, otherwise standard output.
    pub(crate) fn paged() -> Self {
        if !io::stdout().is_terminal() || !environment::terminal_moves() {
            return Self::stdout();
        }
        let mut command = match environment::pager() {
            None => {
                let mut less = Command::new("less");
                less.arg("-R");
                less
            }
            Some(command) if command.trim().is_empty() || command.trim() == "cat" => return Self::stdout(),
            Some(command) => {
                // A command line, with arguments and quotes as in a shell.
                let mut shell = Command::new("sh");
                shell.args(["-c", &command]);
                shell
            }
        };
        if let Some((name, value)) = environment::pager_default() {
            command.env(name, value);
        }
        match command.stdin(Stdio::piped()).spawn() {
            Ok(mut child) => match child.stdin.take() {
                Some(input) => Self::Pager(Pager { child, input }),
                None => Self::stdout(),
            },
            // `less` is not installed.
            Err(_) => Self::stdout(),
        }
    }

    /// Whether this is a pager.
    pub(crate) fn is_pager(&self) -> bool {
        matches!(self, Self::Pager(_))
    }

    /// Waits until the user has left the pager; its exit status, if there is one.
    pub(crate) fn close(self) -> io::Result<Option<ExitStatus>> {
        match self {
            Self::Stdout(_) => Ok(None),
            Self::Pager(Pager { mut child, input }) => {
                drop(input);
                child.wait().map(Some)
            }
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(stdout) => stdout.write(bytes),
            Self::Pager(pager) => pager.input.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(stdout) => stdout.flush(),
            Self::Pager(pager) => pager.input.flush(),
        }
    }
}

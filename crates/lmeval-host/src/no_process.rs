//! Stubs for systems without workers. [`socket`](crate::socket) fails there, so no worker is ever started.

use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use crate::options::Log;
use crate::socket::Socket;

/// A worker process; never instantiated.
#[derive(Debug)]
pub(crate) enum Process {}

impl Process {
    pub(crate) fn spawn(
        _: &Path,
        _: &str,
        _: Socket,
        _: &[(&str, &str)],
        _: Option<Log>,
    ) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn signals(&self) -> Signals {
        match *self {}
    }

    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        match *self {}
    }

    pub(crate) fn last_output(&self) -> String {
        match *self {}
    }

    pub(crate) fn end(&mut self, _: Duration) -> Option<ExitStatus> {
        match *self {}
    }
}

/// A handle for sending signals; never instantiated.
#[derive(Clone, Debug)]
pub(crate) enum Signals {}

impl Signals {
    pub(crate) fn interrupt(&self) {
        match *self {}
    }

    pub(crate) fn kill(&self) {
        match *self {}
    }
}

/// Describes how a process ended.
pub(crate) fn described(status: ExitStatus) -> String {
    format!("ended with {status}")
}

//! `lm-eval view`: runs in a browser.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use lmeval::environment;
use lmeval_view::{Listen, Server, Viewer};

use crate::commands::Status;
use crate::printer::Printer;

/// Arguments of `view`.
#[derive(Args, Debug)]
#[command(
    after_help = "The server only reads, and only below PATH. It listens on this machine alone unless --host says otherwise; then the\nprinted address contains a token without which nothing is shown. Ctrl-C stops it.\n\nExamples:\n  lm-eval view                        everything below the current folder\n  lm-eval view results other/run.json\n  lm-eval view results --port 8080 --no-open"
)]
pub(crate) struct ViewArgs {
    /// Folders, results files, samples files or journals. [default: the current folder]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    /// The port; 0 takes any free one. [default: 7373, or the next free one]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,

    /// The address to listen on, such as 0.0.0.0 for all networks. [default: 127.0.0.1]
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,

    /// Do not open a browser.
    #[arg(long)]
    pub no_open: bool,
}

/// Serves until the process is stopped.
pub(crate) fn run(arguments: &ViewArgs, printer: &mut Printer) -> Result<Status> {
    let paths = if arguments.paths.is_empty() { vec![PathBuf::from(".")] } else { arguments.paths.clone() };
    let viewer = Viewer::new(&paths)?;
    let listen = Listen { host: arguments.host.clone(), port: arguments.port };
    let server = Server::start(Arc::new(viewer), &listen)?;
    printer.result(&format!("{}\n", server.url()))?;
    printer.flush()?;
    if !server.address().ip().is_loopback() {
        printer
            .note("warning: Anyone who has this address can read the runs. The connection is not encrypted");
    }
    printer.notes().info("Press Ctrl-C to stop");
    if !arguments.no_open {
        open(server.url());
    }
    server.wait();
    Ok(Status::Success)
}

/// Opens the address in a browser if this is a session with a screen; otherwise the user has the address.
pub(crate) fn open(url: &str) {
    if !std::io::stderr().is_terminal() || !environment::has_screen() {
        return;
    }
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Ok(mut child) = command.spawn() {
        // The browser may run as long as the viewer; nobody waits for it but its exit status has to be collected.
        let _ = std::thread::Builder::new().spawn(move || child.wait());
    }
}

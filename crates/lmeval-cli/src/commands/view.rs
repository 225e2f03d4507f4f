//! `lm-eval view`: runs in a browser.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use lmeval_view::{Listen, Server, Viewer};

use crate::browser;
use crate::commands::Status;
use crate::foreign;
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
    let viewer = Viewer::new(&foreign::runs(&paths)?)?;
    let listen = Listen { host: arguments.host.clone(), port: arguments.port };
    let server = Server::start(Arc::new(viewer), &listen)?;
    printer.result(&format!("{}\n", server.url()))?;
    printer.flush()?;
    if !server.address().ip().is_loopback() {
        printer.warn("Anyone who has this address can read the runs. The connection is not encrypted");
    }
    printer.notes().info("Press Ctrl-C to stop");
    if !arguments.no_open {
        browser::open(server.url());
    }
    server.wait();
    Ok(Status::Success)
}

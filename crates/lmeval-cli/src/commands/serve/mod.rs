//! `lm-eval serve-python`: serves the Python package.
//!
//! The package starts this command with a socket as standard input, sends one request, and handles calls of functions
//! in its own process until the result arrives.

mod command;
mod evaluate;
mod failure;
mod model;
mod results;
mod steps;
mod tasks;

use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use lmeval_core::{Diagnostic, Level};
use lmeval_engine::Cancel;
use lmeval_host::Caller;
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::registry::Registry;

use crate::commands::Status;
use crate::printer::Printer;

/// How long a run may take to stop gracefully after the calling program has ended.
const GRACE: Duration = Duration::from_secs(10);

/// A request and its sender.
struct Request {
    fields: Arc<Dict>,
    caller: Arc<Caller>,
    /// Cancels the run in progress.
    cancel: Arc<OnceLock<Cancel>>,
}

impl Request {
    /// A field of the request, or null.
    fn part(&self, name: &str) -> Value {
        self.fields.get_str(name).cloned().unwrap_or_default()
    }

    /// Lets functions, filters, metrics, scorers and models registered by the caller run in its process.
    fn use_registered(&self) {
        let registered = self.part("registered");
        let names = registered.as_list().unwrap_or_default();
        self.caller.add_registered(names.iter().filter_map(Value::as_str).map(str::to_owned));
    }

    /// A field of the request that is a dictionary.
    fn dict(&self, name: &str) -> Dict {
        self.part(name).as_dict().cloned().unwrap_or_default()
    }
}

/// Serves one request.
pub(crate) fn run(printer: &mut Printer) -> Result<Status> {
    let cancel: Arc<OnceLock<Cancel>> = Arc::default();
    let of_run = Arc::clone(&cancel);
    let Ok(caller) = Caller::on_stdin(move || exit_without_caller(&of_run)) else {
        bail!("This command is only for the Python package `lm_eval`, which connects to it over a socket");
    };
    let Some(fields) = caller.request() else {
        let diagnostic = Diagnostic::new("Malformed request");
        bail!(diagnostic.hint("The Python package and the `lm-eval` binary must have the same version"));
    };
    let request = Request { fields, caller: Arc::clone(&caller), cancel };
    if request.part("log").is_truthy() {
        let caller = Arc::clone(&caller);
        // If the caller has ended, nothing reads the log, and the run ends too.
        let forward = move |level: Level, text: &str| drop(caller.log(&level.name().to_uppercase(), text));
        printer.notes().set_listener(Arc::new(forward));
    }
    let done = match request.part("op").as_str() {
        Some("names") => tasks::names(&request, printer),
        Some("roots") => tasks::roots(printer),
        Some("load") => tasks::load(&request, printer),
        Some("splits") => tasks::splits(&request, printer),
        Some("requests") => steps::requests(&request, printer),
        Some("score") => steps::score(&request, printer),
        Some("aggregate") => steps::aggregate(&request, printer),
        Some("aggregate_values") => {
            Registry::default().aggregate_for_python(&request.fields).map_err(|error| (*error).into())
        }
        Some("format") => tasks::format(&request),
        Some("render") => tasks::render(&request),
        Some("table") => results::table(&request),
        Some("read_config") => results::read_config(&request),
        Some("read_yaml") => results::read_yaml(&request),
        Some("evaluate") => evaluate::run(&request, printer),
        Some("model") => model::serve(&request, printer),
        Some("command") => command::run(&request),
        _ => bail!("Unknown request"),
    };
    match done {
        Ok(value) => {
            caller.send_reply("result", &value)?;
            Ok(Status::Success)
        }
        Err(error) => {
            caller.send_reply("failure", &failure::described(&error))?;
            // The caller prints the error, not this command.
            Ok(Status::Failure)
        }
    }
}

/// Cancels the run and exits soon after: nobody waits for the result anymore.
#[expect(clippy::exit, reason = "a call to the caller may never return once it has ended")]
fn exit_without_caller(cancel: &OnceLock<Cancel>) {
    if let Some(cancel) = cancel.get() {
        cancel.cancel();
        thread::sleep(GRACE);
    }
    std::process::exit(1);
}

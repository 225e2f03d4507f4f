//! `lm-eval serve-python`: does for the Python package what it was called for.
//!
//! The package starts this command with a socket as standard input, sends one request, and answers calls of what exists
//! in its process alone until the result comes.

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
use lmeval_core::Diagnostic;
use lmeval_engine::Cancel;
use lmeval_host::Caller;
use lmeval_pycompat::{Dict, Value};

use crate::commands::Status;
use crate::printer::{Level, Printer};

/// How long a run may take to end in order when the program that wants it has ended.
const GRACE: Duration = Duration::from_secs(10);

/// A request, and what it was made by.
struct Request {
    fields: Arc<Dict>,
    caller: Arc<Caller>,
    /// What ends the run that is under way.
    cancel: Arc<OnceLock<Cancel>>,
}

impl Request {
    /// A part of the request, null where it is not there.
    fn part(&self, name: &str) -> Value {
        self.fields.get_str(name).cloned().unwrap_or_default()
    }

    /// Lets functions, filters, metrics, scorers and models that the caller has registered run in its process.
    fn use_registered(&self) {
        let registered = self.part("registered");
        let names = registered.as_list().unwrap_or_default();
        self.caller.add_registered(names.iter().filter_map(Value::as_str).map(str::to_owned));
    }

    /// A part of the request that is a dictionary.
    fn dict(&self, name: &str) -> Dict {
        self.part(name).as_dict().cloned().unwrap_or_default()
    }
}

/// Serves one request.
pub(crate) fn run(printer: &mut Printer) -> Result<Status> {
    let cancel: Arc<OnceLock<Cancel>> = Arc::default();
    let of_run = Arc::clone(&cancel);
    let Ok(caller) = Caller::on_stdin(move || leave(&of_run)) else {
        bail!("This command is for the Python package `lm_eval`, which talks with it over a socket");
    };
    let Some(fields) = caller.request() else {
        let told = Diagnostic::new("The request is not understood");
        bail!(told.hint("The Python package and the program must be of the same version"));
    };
    let request = Request { fields, caller: Arc::clone(&caller), cancel };
    if request.part("log").is_truthy() {
        let caller = Arc::clone(&caller);
        // A caller that has ended reads nothing, and the run ends with it.
        let tell = move |level: Level, text: &str| drop(caller.log(level.name(), text));
        printer.notes().tell(Arc::new(tell));
    }
    let done = match request.part("op").as_str() {
        Some("names") => tasks::names(&request, printer),
        Some("roots") => tasks::roots(printer),
        Some("load") => tasks::load(&request, printer),
        Some("splits") => tasks::splits(&request, printer),
        Some("requests") => steps::requests(&request, printer),
        Some("score") => steps::score(&request, printer),
        Some("aggregate") => steps::aggregate(&request, printer),
        Some("format") => tasks::format(&request),
        Some("render") => tasks::render(&request),
        Some("table") => results::table(&request),
        Some("read_config") => results::read_config(&request),
        Some("read_yaml") => results::read_yaml(&request),
        Some("evaluate") => evaluate::run(&request, printer),
        Some("model") => model::serve(&request, printer),
        Some("command") => command::run(&request),
        _ => bail!("The request asks for what nobody does"),
    };
    match done {
        Ok(value) => {
            caller.tell("result", &value)?;
            Ok(Status::Success)
        }
        Err(error) => {
            caller.tell("failure", &failure::described(&error))?;
            // The caller says what went wrong, not this command.
            Ok(Status::Failure)
        }
    }
}

/// Ends the run, and soon after it the command: nobody waits for the result any more.
#[expect(clippy::exit, reason = "what is under way may never end without the caller")]
fn leave(cancel: &OnceLock<Cancel>) {
    if let Some(cancel) = cancel.get() {
        cancel.cancel();
        thread::sleep(GRACE);
    }
    std::process::exit(1);
}

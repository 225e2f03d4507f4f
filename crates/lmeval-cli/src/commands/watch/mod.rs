//! `lm-eval watch`: evaluates the checkpoints of a training run as they appear.

mod arguments;
mod complete;
mod evaluate;
mod find;
mod publish;
mod revisions;
mod settings;
mod store;
mod tensorboard;
mod tracking;
mod watcher;

use anyhow::Result;
#[cfg(feature = "view")]
use anyhow::bail;

pub(crate) use self::arguments::WatchArgs;
use self::settings::prepare;
use crate::commands::Status;
use crate::commands::curve::table;
use crate::printer::Printer;

/// Watches until nothing is left to do, a goal is reached, or somebody stops it.
pub(crate) fn run(arguments: &WatchArgs, printer: &mut Printer) -> Result<Status> {
    let mut watcher = prepare(arguments, printer)?;
    let _page = page(&watcher, arguments, printer)?;
    let ended = watcher.watch(printer)?;
    if !ended.curve.steps.is_empty() {
        printer.table(&table(&ended.curve))?;
        printer.flush()?;
    }
    for note in &ended.curve.notes {
        printer.note(&format!("note: {note}"));
    }
    for waiting in &ended.curve.waiting {
        printer.note(&format!("Not evaluated: `{}`: {}", waiting.checkpoint, waiting.reason));
    }
    printer.notes().info(&format!("The curve is in {}", watcher.publisher.store.out.display()));
    Ok(ended.status)
}

/// Evaluates one checkpoint on behalf of a watcher.
pub(crate) fn evaluate(printer: &mut Printer) -> Result<Status> {
    evaluate::evaluate(printer)
}

/// Serves the page of the curve while the watcher runs.
#[cfg(feature = "view")]
fn page(
    watcher: &watcher::Watcher,
    arguments: &WatchArgs,
    printer: &Printer,
) -> Result<Option<lmeval_view::Server>> {
    use lmeval_view::{Listen, Server, Viewer};

    if arguments.settings.view != Some(true) {
        return Ok(None);
    }
    let viewer = Viewer::new(std::slice::from_ref(&watcher.publisher.store.out))?;
    let server = match Server::start(std::sync::Arc::new(viewer), &Listen::default()) {
        Ok(server) => server,
        Err(error) => bail!(error),
    };
    let url = format!("{}#/curve", server.url());
    printer.notes().note(&format!("Follow the curve at {url}"));
    crate::browser::open(&url);
    Ok(Some(server))
}

#[cfg(not(feature = "view"))]
fn page(_: &watcher::Watcher, arguments: &WatchArgs, _: &Printer) -> Result<Option<()>> {
    if arguments.settings.view == Some(true) { Err(crate::run::live::missing().into()) } else { Ok(None) }
}

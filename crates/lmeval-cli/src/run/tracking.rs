//! Reports a finished run to experiment trackers.

use std::path::{Path, PathBuf};

use anyhow::Result;
use lmeval_host::{Tracked, Trackers};
use lmeval_pycompat::{Dict, Value};
use lmeval_report::Layout;

use super::output::Objects;
use super::session::Session;
use crate::printer::Printer;
use crate::report;

/// Reports the files of the run; returns whether every tracker has it. Results that were not saved are written to a
/// temporary folder for the trackers.
pub(crate) fn report(
    trackers: Trackers,
    objects: &Objects,
    results: Option<&Path>,
    session: &Session,
    samples: &[(String, PathBuf)],
    printer: &mut Printer,
) -> bool {
    match try_report(trackers, objects, results, session, samples) {
        Ok(Tracked { done, failed }) => {
            for line in &done {
                printer.notes().info(line);
            }
            for line in &failed {
                printer.error(&format!("The run could not be reported to {line}"));
            }
            failed.is_empty()
        }
        Err(error) => {
            report::failure(printer, &error);
            false
        }
    }
}

fn try_report(
    trackers: Trackers,
    objects: &Objects,
    results: Option<&Path>,
    session: &Session,
    samples: &[(String, PathBuf)],
) -> Result<Tracked> {
    let folder = tempfile::tempdir()?;
    let results = match results {
        Some(path) => path.to_owned(),
        None => {
            let layout = Layout::new(folder.path(), &session.model_name.sanitized);
            layout.prepare()?;
            objects.save_as(&layout, &session.clock.moment.stamp(&crate::environment::time_zone()))?
        }
    };
    let samples: Dict =
        samples.iter().map(|(task, path)| (Value::str(task.as_str()), Value::from(absolute(path)))).collect();
    Ok(trackers.log(&absolute(&results), &samples)?)
}

/// The worker has the same working directory today; an absolute path stays right whatever its packages do.
fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}

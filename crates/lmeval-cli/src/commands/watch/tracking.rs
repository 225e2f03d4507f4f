//! Reports each step to experiment trackers, as one run of theirs.

use std::path::PathBuf;

use anyhow::Result;
use fs_err as fs;
use lmeval_host::{PythonOptions, Trackers};
use lmeval_hub::hexadecimal;
use lmeval_journal::Lock;
use lmeval_pycompat::{Dict, Value};
use lmeval_report::write_atomically;
use sha2::{Digest as _, Sha256};

use super::store::{Record, Store};
use crate::printer::Printer;

/// The file beside results that says that trackers have them.
const TRACKED: &str = "tracked";

/// The open runs of trackers. Of several watchers, one reports.
pub(super) struct Tracking {
    python: PythonOptions,
    settings: Dict,
    open: Option<(Trackers, Lock)>,
}

impl Tracking {
    /// Opens the runs, so that a missing package is known before the first evaluation.
    pub(super) fn start(python: PythonOptions, settings: Dict, store: &Store, name: &str) -> Result<Self> {
        let mut tracking = Self { python, settings: with_defaults(settings, store, name), open: None };
        tracking.open(store)?;
        Ok(tracking)
    }

    /// Opens the runs unless another watcher has them.
    fn open(&mut self, store: &Store) -> Result<()> {
        if self.open.is_none()
            && let Ok(lock) = Lock::acquire(&store.out.join("trackers"))
        {
            self.open = Some((Trackers::start(&self.python, &self.settings)?, lock));
        }
        Ok(())
    }

    /// Reports all steps that trackers do not have. A failure is a warning: the next report tries again.
    pub(super) fn report(&mut self, store: &Store, records: &[Record], printer: &mut Printer) {
        if let Err(error) = self.try_report(store, records, printer) {
            crate::report::failure(printer, &error);
        }
    }

    fn try_report(&mut self, store: &Store, records: &[Record], printer: &Printer) -> Result<()> {
        self.open(store)?;
        let Some((trackers, _)) = &mut self.open else { return Ok(()) };
        for record in records {
            let Some(results) = store.results(&record.name).pop() else { continue };
            let mark = mark(store, record);
            let own = results.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if fs::read_to_string(&mark).ok().as_ref() == Some(&own) {
                continue;
            }
            let path = std::path::absolute(&results)?;
            let tracked = trackers.log_step(&path.to_string_lossy(), record.step)?;
            for line in &tracked.failed {
                printer.notes().warn(&format!("Step {} could not be reported to {line}", record.step));
            }
            if tracked.failed.is_empty() {
                write_atomically(&mark, own.as_bytes())?;
            }
        }
        Ok(())
    }
}

fn mark(store: &Store, record: &Record) -> PathBuf {
    store.folder(&record.name).join(TRACKED)
}

/// Adds what makes a restarted watcher continue the same run of a tracker, unless the user has chosen.
fn with_defaults(mut settings: Dict, store: &Store, name: &str) -> Dict {
    let path = std::path::absolute(&store.out).unwrap_or_else(|_| store.out.clone());
    let id = hexadecimal(&Sha256::digest(path.as_os_str().as_encoded_bytes())[..8]);
    for (tracker, key) in [("wandb", "id"), ("trackio", "name")] {
        let Some(mut arguments) = settings.get_str(tracker).and_then(Value::as_dict).cloned() else {
            continue;
        };
        if arguments.is_empty() || arguments.contains_str(key) || arguments.contains_str("resume") {
            continue;
        }
        arguments.insert(key, if key == "id" { id.clone() } else { format!("{name}-{}", &id[..6]) });
        arguments.insert("resume", "allow");
        if tracker == "wandb" && !arguments.contains_str("name") {
            arguments.insert("name", name);
        }
        settings.insert(tracker, arguments);
    }
    settings
}

impl Tracking {
    /// Closes the runs of the trackers.
    pub(super) fn finish(self, printer: &mut Printer) {
        let Some((trackers, _lock)) = self.open else { return };
        match trackers.finish() {
            Ok(tracked) => {
                for line in &tracked.done {
                    printer.notes().info(line);
                }
                for line in &tracked.failed {
                    printer.error(&format!("The run could not be closed in {line}"));
                }
            }
            Err(error) => crate::report::failure(printer, &error.into()),
        }
    }
}

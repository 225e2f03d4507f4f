//! The log of a run: every request with its times, retries and sizes, and the decisions of the scheduler.
//!
//! Without a subscriber, each event costs the comparison of a level. Events of other crates are never shown: those of HTTP
//! libraries contain headers.

use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result};
use lmeval_core::secrets;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::environment;
use crate::printer::{Notes, escape_controls};

/// The crates of this workspace start with this.
const OWN: &str = "lmeval";

/// Writes a line.
type Writer = Box<dyn Fn(&str) + Send + Sync>;

/// Starts the log, unless there is one already: in the file that the environment names, or on standard error if `is_wanted`.
pub(crate) fn start(is_wanted: bool, notes: &Notes) -> Result<()> {
    let write: Writer = match environment::log_file() {
        Some(path) => to_file(&path).with_context(|| format!("Cannot write the log `{}`", path.display()))?,
        None if is_wanted => {
            let notes = notes.clone();
            Box::new(move |line| notes.log(line))
        }
        None => return Ok(()),
    };
    // Set before only by an earlier call in this process.
    let _ = tracing::subscriber::set_global_default(Log { write, started: Instant::now() });
    Ok(())
}

/// Appends each line to a file at once, since a run may be killed.
fn to_file(path: &Path) -> Result<Writer> {
    let file = fs_err::OpenOptions::new().create(true).append(true).open(path)?;
    let file = Mutex::new(file);
    Ok(Box::new(move |line| {
        // A full disk must not end the run.
        let _ = writeln!(file.lock().unwrap_or_else(PoisonError::into_inner), "{line}");
    }))
}

/// Writes events as lines.
struct Log {
    write: Writer,
    started: Instant,
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        !metadata.is_span() && *metadata.level() <= LevelFilter::DEBUG && metadata.target().starts_with(OWN)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let metadata = event.metadata();
        let text = format!(
            "{:.3} {} {}: {}{}",
            self.started.elapsed().as_secs_f64(),
            metadata.level(),
            metadata.target(),
            line.message,
            line.fields
        );
        (self.write)(&escape_controls(&secrets::mask(&text)));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The message and the fields of an event.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = if field.name() == "message" {
            write!(self.message, "{value:?}")
        } else {
            write!(self.fields, " {}={value:?}", field.name())
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn shows_own_events_without_secrets() {
        secrets::remember("sk-log-secret-0123456789");
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let written = Arc::clone(&lines);
        let write = Box::new(move |line: &str| written.lock().unwrap().push(line.to_owned()));
        let log = Log { write, started: Instant::now() };
        tracing::subscriber::with_default(log, || {
            tracing::debug!(target: "lmeval_models::http", bytes = 12, about = "a\nb sk-log-secret-0123456789", "Answered");
            tracing::trace!(target: "lmeval_models::http", "too detailed");
            tracing::debug!(target: "h2::client", header = "Bearer", "foreign");
        });
        let lines = lines.lock().unwrap();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(
            lines[0].ends_with(r#" DEBUG lmeval_models::http: Answered bytes=12 about="a\nb ***""#),
            "{lines:?}"
        );
    }
}

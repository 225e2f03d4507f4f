//! Where output goes: results to standard output, everything else to standard error.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anstream::{AutoStream, ColorChoice};
use clap::ValueEnum;
use lmeval_pycompat::{Dict, Value};

use crate::fold::fold;
use crate::json_line;
use crate::run::interrupt;

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal that shows it, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl From<Color> for ColorChoice {
    fn from(color: Color) -> Self {
        match color {
            Color::Auto => Self::Auto,
            Color::Always => Self::Always,
            Color::Never => Self::Never,
        }
    }
}

/// The two streams of the command.
pub(crate) struct Printer {
    /// Results carry no styles, so nothing need look for them.
    out: io::BufWriter<io::Stdout>,
    notes: Notes,
}

impl Printer {
    /// The streams of this process.
    pub(crate) fn new(color: Color) -> Self {
        let out = io::BufWriter::with_capacity(1 << 16, io::stdout());
        Self { out, notes: Notes::new(color) }
    }

    /// Writes a result.
    pub(crate) fn result(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())
    }

    /// Where results are written.
    pub(crate) fn results(&mut self) -> &mut impl Write {
        &mut self.out
    }

    /// Writes a table: folded where it is wider than the terminal that it goes to, unchanged everywhere else.
    pub(crate) fn table(&mut self, table: &str) -> io::Result<()> {
        match columns(terminal_size::terminal_size_of(io::stdout())) {
            Some(width) => self.result(&fold(table, width)),
            None => self.result(table),
        }
    }

    /// Hands all results to the reader.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes a line for the person at the terminal. There is nobody to tell if that fails.
    pub(crate) fn note(&mut self, text: &str) {
        let _ = self.out.flush();
        self.notes.note(text);
    }

    /// What may write to standard error beside this.
    pub(crate) fn notes(&self) -> Notes {
        self.notes.clone()
    }
}

/// Standard error, shared: notes line by line, and below them a line that changes, where somebody sets one.
#[derive(Clone)]
pub(crate) struct Notes(Arc<Mutex<Screen>>);

struct Screen {
    err: AutoStream<io::Stderr>,
    /// Whether everything is an object of JSON.
    json: bool,
    /// Whether only what matters is written.
    quiet: bool,
    status: String,
    /// The files of a run, by what they are.
    files: Dict,
}

impl Notes {
    fn new(color: Color) -> Self {
        let err = AutoStream::new(io::stderr(), color.into());
        Self(Arc::new(Mutex::new(Screen {
            err,
            json: false,
            quiet: false,
            status: String::new(),
            files: Dict::new(),
        })))
    }

    /// From now on, everything is an object of JSON.
    pub(crate) fn use_json(&self) {
        self.with(|screen| screen.json = true);
    }

    /// From now on, only what matters is written.
    pub(crate) fn be_quiet(&self) {
        self.with(|screen| screen.quiet = true);
    }

    /// Writes a line.
    pub(crate) fn note(&self, text: &str) {
        self.with(|screen| screen.note(text));
    }

    /// Writes a line, unless only what matters is written.
    pub(crate) fn info(&self, text: &str) {
        self.with(|screen| {
            if !screen.quiet {
                screen.note(text);
            }
        });
    }

    /// Writes an object of JSON.
    pub(crate) fn object(&self, event: &str, facts: &Dict) {
        self.with(|_| write_object(event, facts));
    }

    /// Notes a file of the run for the last event; `task` where there is one for each.
    pub(crate) fn wrote(&self, what: &str, task: Option<&str>, path: &Path) {
        let path = Value::from(path.display().to_string());
        self.with(|screen| match task {
            None => drop(screen.files.insert(what, path)),
            Some(task) => {
                let mut of_tasks =
                    screen.files.get_str(what).and_then(Value::as_dict).cloned().unwrap_or_default();
                of_tasks.insert(task, path);
                screen.files.insert(what, of_tasks);
            }
        });
    }

    /// Writes the last event, where everything is an object of JSON.
    pub(crate) fn finish(&self, exit_status: u8) {
        self.with(|screen| {
            if !screen.json {
                return;
            }
            let mut facts = Dict::new();
            facts.insert(
                "status",
                match exit_status {
                    0 => "success",
                    interrupt::EXIT_STATUS => "interrupted",
                    _ => "failure",
                },
            );
            facts.insert("exit_status", i64::from(exit_status));
            for what in ["results", "journal"] {
                facts.insert(what, screen.files.get_str(what).cloned().unwrap_or(Value::None));
            }
            let samples = screen.files.get_str("samples").cloned();
            facts.insert("samples", samples.unwrap_or_else(|| Value::from(Dict::new())));
            write_object("finished", &facts);
        });
    }

    /// Sets the line that changes; an empty one takes it away. For terminals alone.
    pub(crate) fn status(&self, line: &str) {
        self.with(|screen| {
            if screen.status != line {
                line.clone_into(&mut screen.status);
                screen.draw();
            }
        });
    }

    /// How many columns a line on standard error may take without reaching the edge of the terminal.
    #[expect(clippy::unused_self, reason = "the width is that of where this writes")]
    pub(crate) fn width(&self) -> usize {
        error_columns().unwrap_or(USUAL_COLUMNS).saturating_sub(1)
    }

    fn with(&self, change: impl FnOnce(&mut Screen)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Screen {
    fn note(&mut self, text: &str) {
        if self.json {
            let plain = anstream::adapter::strip_str(text).to_string();
            let level = level_of(&plain);
            write_object(
                "message",
                &[("level", Value::from(level)), ("text", Value::from(plain))]
                    .into_iter()
                    .map(|(name, value)| (Value::str(name), value))
                    .collect(),
            );
            return;
        }
        if self.status.is_empty() {
            let _ = writeln!(self.err, "{text}");
            return;
        }
        // The styles of the line that changes must reach the terminal even where colours must not.
        let _ = write!(io::stderr(), "\r\x1b[2K");
        let _ = writeln!(self.err, "{text}");
        self.draw();
    }

    /// Writes the line that changes, cut off at the edge of the terminal.
    fn draw(&self) {
        let _ = write!(io::stderr(), "\r\x1b[2K\x1b[?7l{}\x1b[?7h", self.status);
        let _ = io::stderr().flush();
    }
}

/// The width of a terminal that does not tell its own.
const USUAL_COLUMNS: usize = 80;

/// How many columns the terminal behind a stream has; `None` where there is none, or where it does not say.
fn columns(size: Option<(terminal_size::Width, terminal_size::Height)>) -> Option<usize> {
    size.map(|(terminal_size::Width(width), _)| usize::from(width))
}

/// How wide errors may be; `None` where they do not go to a terminal.
pub(crate) fn error_columns() -> Option<usize> {
    columns(terminal_size::terminal_size_of(io::stderr()))
}

/// How serious a note is, as it says itself.
fn level_of(text: &str) -> &'static str {
    ["error", "warning"]
        .into_iter()
        .find(|level| text.strip_prefix(level).is_some_and(|rest| rest.starts_with(':')))
        .unwrap_or("info")
}

/// Writes a line of JSON to standard error.
fn write_object(event: &str, facts: &Dict) {
    let mut object = Dict::new();
    object.insert("event", event);
    object.update(facts);
    let mut line = String::new();
    if json_line::write(&mut line, &Value::from(object)).is_ok() {
        let _ = io::stderr().write_all(line.as_bytes());
    }
}

/// Whether an error means that the reader of our output has gone.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

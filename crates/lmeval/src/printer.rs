//! Where output goes: results to standard output, everything else to standard error.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anstream::{AutoStream, ColorChoice};
use clap::ValueEnum;
use lmeval_core::secrets;
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

    /// Writes a result for a reader: without secrets, and with control characters escaped.
    pub(crate) fn result(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(visible(&secrets::mask_data(text)).as_bytes())
    }

    /// Writes a result for a program, such as JSON: without secrets, and otherwise byte for byte.
    pub(crate) fn exact(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(secrets::mask_data(text).as_bytes())
    }

    /// Where results for programs are written that hold no settings.
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

    /// Writes a line with styles of our own, from [`crate::report`].
    pub(crate) fn styled(&mut self, text: &str) {
        let _ = self.out.flush();
        self.notes.styled(text);
    }

    /// What may write to standard error beside this.
    pub(crate) fn notes(&self) -> Notes {
        self.notes.clone()
    }
}

/// How serious a note is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Good to know.
    Info,
    /// Something may not be as meant.
    Warning,
    /// Something failed.
    Error,
}

impl Level {
    /// The level that the first word of a note announces, and the text after it.
    fn of(text: &str) -> (Self, &str) {
        let after = |word: &str| text.strip_prefix(word).map(str::trim_start);
        match (after("warning:"), after("error:")) {
            (Some(rest), _) => (Self::Warning, rest),
            (_, Some(rest)) => (Self::Error, rest),
            _ => (Self::Info, text),
        }
    }

    /// The name that Python's `logging` has for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Info => "INFO",
            Self::Warning => "WARNING",
            Self::Error => "ERROR",
        }
    }
}

/// Takes notes in place of standard error.
pub(crate) type Listener = Arc<dyn Fn(Level, &str) + Send + Sync>;

/// Standard error, shared: notes line by line, and below them a line that changes, where somebody sets one.
#[derive(Clone)]
pub(crate) struct Notes(Arc<Mutex<Screen>>);

struct Screen {
    err: AutoStream<io::Stderr>,
    /// Whether everything is an object of JSON.
    json: bool,
    /// Whether only what matters is written.
    quiet: bool,
    /// What notes go to; without one they go to standard error.
    listener: Option<Listener>,
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
            listener: None,
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

    /// From now on, notes go to a listener instead of standard error.
    pub(crate) fn tell(&self, listener: Listener) {
        self.with(|screen| screen.listener = Some(listener));
    }

    /// Writes a line.
    pub(crate) fn note(&self, text: &str) {
        self.with(|screen| screen.note(&visible(text)));
    }

    /// Writes a line with styles of our own, from [`crate::report`].
    pub(crate) fn styled(&self, text: &str) {
        self.with(|screen| screen.note(text));
    }

    /// Writes a line, unless only what matters is written.
    pub(crate) fn info(&self, text: &str) {
        self.with(|screen| {
            if !screen.quiet {
                screen.note(&visible(text));
            }
        });
    }

    /// Writes a line about progress, which is for whoever watches and not for a listener.
    pub(crate) fn progress(&self, text: &str) {
        self.with(|screen| {
            if !screen.quiet {
                screen.write(&secrets::mask(text));
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
        let masked = secrets::mask(line);
        let line = visible(&masked);
        self.with(|screen| {
            if screen.status != line {
                screen.status = line.into_owned();
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
    /// Writes a line; every note comes through here.
    fn note(&mut self, text: &str) {
        let masked = secrets::mask(text);
        let text = &*escaped(&masked, true);
        if let Some(listener) = &self.listener {
            if !self.status.is_empty() {
                // The listener may write to the same terminal; the next status is drawn below that.
                let _ = write!(io::stderr(), "\r\x1b[2K");
                self.status.clear();
            }
            let plain = anstream::adapter::strip_str(text).to_string();
            let (level, text) = Level::of(&plain);
            listener(level, text);
            return;
        }
        self.write(text);
    }

    /// Writes a line to standard error.
    fn write(&mut self, text: &str) {
        if self.json {
            let plain = anstream::adapter::strip_str(text).to_string();
            let level = Level::of(&plain).0.name().to_ascii_lowercase();
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

/// Writes a line of JSON to standard error.
fn write_object(event: &str, facts: &Dict) {
    let mut object = Dict::new();
    object.insert("event", event);
    object.update(facts);
    let mut line = String::new();
    let object = secrets::mask_strings(Value::from(object), secrets::mask);
    if json_line::write(&mut line, &object).is_ok() {
        let _ = io::stderr().write_all(line.as_bytes());
    }
}

/// The text with control characters escaped, as in `\x1b`: what data, files, servers and models say must not move the
/// cursor or change the terminal. Line ends and tabs stay.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, false)
}

/// The same; styles are escape sequences, so text that has them keeps its escape characters.
fn escaped(text: &str, has_styles: bool) -> Cow<'_, str> {
    let is_shown = |c: char| !c.is_control() || matches!(c, '\n' | '\t') || (has_styles && c == '\x1b');
    if text.chars().all(is_shown) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '\r' => out.push_str("\\r"),
            shown if is_shown(shown) => out.push(shown),
            // All control characters are below U+00A0.
            hidden => {
                let _ = write!(out, "\\x{:02x}", u32::from(hidden));
            }
        }
    }
    Cow::Owned(out)
}

/// Whether an error means that the reader of our output has gone.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_have_levels() {
        assert_eq!(Level::of("warning: a column is missing"), (Level::Warning, "a column is missing"));
        assert_eq!(Level::of("error: no\nhint: yes"), (Level::Error, "no\nhint: yes"));
        assert_eq!(Level::of("12 of 40 requests"), (Level::Info, "12 of 40 requests"));
    }

    #[test]
    fn a_listener_gets_plain_text() {
        let heard: Arc<Mutex<Vec<(Level, String)>>> = Arc::default();
        let notes = Notes::new(Color::Always);
        let kept = Arc::clone(&heard);
        notes.tell(Arc::new(move |level, text| kept.lock().unwrap().push((level, text.to_owned()))));
        notes.styled("\x1b[33mwarning\x1b[0m: odd");
        notes.be_quiet();
        notes.info("not worth a word");
        assert_eq!(*heard.lock().unwrap(), [(Level::Warning, "odd".to_owned())]);
    }

    #[test]
    fn the_line_that_changes_shows_no_secret() {
        secrets::remember("sk-status-1234");
        let notes = Notes::new(Color::Never);
        notes.status("asking sk-status-1234");
        notes.with(|screen| assert_eq!(std::mem::take(&mut screen.status), "asking ***"));
    }

    #[test]
    fn control_characters_are_shown() {
        assert_eq!(visible("a\tb\nc é日 \u{200f}"), "a\tb\nc é日 \u{200f}");
        assert_eq!(visible("\x1b[31mred\x07\r\n\x7f\u{9b}2J\0"), "\\x1b[31mred\\x07\\r\n\\x7f\\x9b2J\\x00");
        assert_eq!(escaped("\x1b[1mbold\x1b[0m\u{9b}", true), "\x1b[1mbold\x1b[0m\\x9b");
    }
}

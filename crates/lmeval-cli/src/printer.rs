//! Terminal output: results on standard output, everything else on standard error.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anstream::{AutoStream, ColorChoice};
use anyhow::{Result, bail};
use clap::ValueEnum;
use lmeval_core::{Diagnostic, Level, secrets};
use lmeval_pycompat::{Dict, Value};

use crate::fold::fold;
use crate::json_line;
use crate::pager::Output;
use crate::run::interrupt;

/// When to color the output.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal that supports it, unless `NO_COLOR` is set.
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

/// Standard output and standard error of the command.
pub(crate) struct Printer {
    /// Results have no styles, so they need no stripping.
    out: io::BufWriter<Output>,
    notes: Notes,
}

impl Printer {
    /// Opens the streams of this process.
    pub(crate) fn new(color: Color) -> Self {
        Self { out: buffered(Output::stdout()), notes: Notes::new(color) }
    }

    /// Sends results to the user's pager, if standard output is a terminal.
    pub(crate) fn start_pager(&mut self) -> io::Result<()> {
        self.out.flush()?;
        self.out = buffered(Output::paged());
        if self.out.get_ref().is_pager() {
            // Ctrl-C is for the pager.
            interrupt::ignore();
        }
        Ok(())
    }

    /// Waits until the user has left the pager. Leaving it before the end of the output is not an error.
    pub(crate) fn end_pager(&mut self) -> Result<()> {
        let flushed = self.out.flush();
        let (output, _) = std::mem::replace(&mut self.out, buffered(Output::stdout())).into_parts();
        if !output.is_pager() {
            return Ok(flushed?);
        }
        let status = output.close()?;
        if let Some(code @ (126 | 127)) = status.and_then(|status| status.code()) {
            let diagnostic = Diagnostic::new(format!("The pager of `PAGER` ended with status {code}"));
            bail!(diagnostic.hint("Set `PAGER` to a program that is installed, or use --no-pager"));
        }
        match flushed {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Writes a result for people: secrets masked, control characters escaped.
    pub(crate) fn result(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(escape_controls(&secrets::mask_data(text)).as_bytes())
    }

    /// Writes a result for programs, such as JSON: secrets masked, otherwise byte for byte.
    pub(crate) fn exact(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(secrets::mask_data(text).as_bytes())
    }

    /// Writes a result for programs. If a terminal shows it, control characters are escaped: in JSON so that it stays the
    /// same JSON.
    pub(crate) fn data(&mut self, text: &str, is_json: bool) -> io::Result<()> {
        let masked = secrets::mask_data(text);
        match (io::stdout().is_terminal(), is_json) {
            (false, _) => self.out.write_all(masked.as_bytes()),
            (true, false) => self.out.write_all(escape_controls(&masked).as_bytes()),
            (true, true) => self.out.write_all(escape_json_controls(&masked).as_bytes()),
        }
    }

    /// The width of the terminal on standard output; `None` if it is not one.
    #[expect(clippy::unused_self, reason = "the width of the stream this writes to")]
    pub(crate) fn columns(&self) -> Option<usize> {
        columns(terminal_size::terminal_size_of(io::stdout()))
    }

    /// Standard output for machine-readable results that contain no settings, and so no secrets.
    pub(crate) fn results(&mut self) -> &mut impl Write {
        &mut self.out
    }

    /// Writes a table, folded if standard output is a narrower terminal.
    pub(crate) fn table(&mut self, table: &str) -> io::Result<()> {
        match self.columns() {
            Some(width) => self.result(&fold(table, width)),
            None => self.result(table),
        }
    }

    /// Flushes buffered results.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes a line to standard error; errors are ignored, because there is nowhere to report them.
    pub(crate) fn note(&mut self, text: &str) {
        let _ = self.out.flush();
        self.notes.note(text);
    }

    /// Writes a warning to standard error.
    pub(crate) fn warn(&mut self, text: &str) {
        let _ = self.out.flush();
        self.notes.warn(text);
    }

    /// Writes an error to standard error.
    pub(crate) fn error(&mut self, text: &str) {
        let _ = self.out.flush();
        self.notes.line(Level::Error, text);
    }

    /// Writes a message that [`crate::report`] has rendered, which has ANSI styles and begins with its level.
    pub(crate) fn rendered(&mut self, level: Level, text: &str) {
        let _ = self.out.flush();
        self.notes.rendered(level, text);
    }

    /// A handle to standard error, shared with other threads.
    pub(crate) fn notes(&self) -> Notes {
        self.notes.clone()
    }
}

/// Receives notes instead of standard error.
pub(crate) type Listener = Arc<dyn Fn(Level, &str) + Send + Sync>;

/// Standard error, shared between threads: notes line by line, with an optional status line below them.
#[derive(Clone)]
pub(crate) struct Notes(Arc<Mutex<Screen>>);

struct Screen {
    err: AutoStream<io::Stderr>,
    /// Whether everything is written as JSON objects.
    json: bool,
    /// Whether informational notes are suppressed.
    quiet: bool,
    /// Receives notes instead of standard error.
    listener: Option<Listener>,
    status: String,
    /// The files the run wrote, by kind.
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

    /// Switches to JSON objects.
    pub(crate) fn use_json(&self) {
        self.with(|screen| screen.json = true);
    }

    /// Suppresses informational notes.
    pub(crate) fn be_quiet(&self) {
        self.with(|screen| screen.quiet = true);
    }

    /// Sends notes to a listener instead of standard error.
    pub(crate) fn set_listener(&self, listener: Listener) {
        self.with(|screen| screen.listener = Some(listener));
    }

    /// Writes a line.
    pub(crate) fn note(&self, text: &str) {
        self.line(Level::Info, text);
    }

    /// Writes a warning.
    pub(crate) fn warn(&self, text: &str) {
        self.line(Level::Warning, text);
    }

    /// Writes a line of a level.
    pub(crate) fn line(&self, level: Level, text: &str) {
        let text = escape_controls(text);
        self.rendered(
            level,
            &match level {
                Level::Info => text,
                Level::Warning | Level::Error => format!("{}: {text}", level.name()).into(),
            },
        );
    }

    /// Writes a message that [`crate::report`] has rendered, which has ANSI styles and begins with its level.
    pub(crate) fn rendered(&self, level: Level, text: &str) {
        self.with(|screen| screen.note(level, text));
    }

    /// Writes a line unless informational notes are suppressed.
    pub(crate) fn info(&self, text: &str) {
        self.with(|screen| {
            if !screen.quiet {
                screen.note(Level::Info, &escape_controls(text));
            }
        });
    }

    /// Writes a line about progress, which listeners do not receive.
    pub(crate) fn progress(&self, text: &str) {
        self.with(|screen| {
            if !screen.quiet {
                screen.write(Level::Info, &secrets::mask(text));
            }
        });
    }

    /// Writes a line of the log, which listeners do not receive.
    pub(crate) fn log(&self, line: &str) {
        self.with(|screen| {
            if screen.json {
                let line = [(Value::str("text"), Value::str(line))];
                write_object("log", &line.into_iter().collect());
            } else {
                screen.write(Level::Info, line);
            }
        });
    }

    /// Writes a JSON object.
    pub(crate) fn object(&self, event: &str, facts: &Dict) {
        self.with(|_| write_object(event, facts));
    }

    /// Records a file of the run for the `finished` event; `task` for files written per task.
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

    /// Writes the `finished` event in JSON mode.
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

    /// Sets the status line; an empty string removes it. Only for terminals.
    pub(crate) fn status(&self, line: &str) {
        let masked = secrets::mask(line);
        let line = escape_controls(&masked);
        self.with(|screen| {
            if screen.status != line {
                screen.status = line.into_owned();
                screen.draw();
            }
        });
    }

    /// The number of columns a line on standard error can fill without reaching the terminal's edge.
    #[expect(clippy::unused_self, reason = "the width of the stream this writes to")]
    pub(crate) fn width(&self) -> usize {
        error_columns().unwrap_or(USUAL_COLUMNS).saturating_sub(1)
    }

    fn with(&self, change: impl FnOnce(&mut Screen)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Screen {
    /// Writes a line; every note passes through here.
    fn note(&mut self, level: Level, text: &str) {
        let masked = secrets::mask(text);
        let text = &*escaped(&masked, true);
        if let Some(listener) = &self.listener {
            if !self.status.is_empty() {
                // The listener may write to the same terminal; the next status line is drawn below its output.
                let _ = write!(io::stderr(), "\r\x1b[2K");
                self.status.clear();
            }
            let plain = anstream::adapter::strip_str(text).to_string();
            let bare = plain.strip_prefix(level.name()).and_then(|rest| rest.strip_prefix(": "));
            listener(level, bare.unwrap_or(&plain));
            return;
        }
        self.write(level, text);
    }

    /// Writes a line to standard error.
    fn write(&mut self, level: Level, text: &str) {
        if self.json {
            let plain = anstream::adapter::strip_str(text).to_string();
            write_object(
                "message",
                &[("level", Value::str(level.name())), ("text", Value::from(plain))]
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
        // The control sequences of the status line must reach the terminal even when styles are stripped.
        let _ = write!(io::stderr(), "\r\x1b[2K");
        let _ = writeln!(self.err, "{text}");
        self.draw();
    }

    /// Draws the status line, cut off at the terminal's edge.
    fn draw(&self) {
        let _ = write!(io::stderr(), "\r\x1b[2K\x1b[?7l{}\x1b[?7h", self.status);
        let _ = io::stderr().flush();
    }
}

/// The assumed width of a terminal that does not report one.
const USUAL_COLUMNS: usize = 80;

/// The width of the terminal a stream is connected to, if it is one and reports its width.
fn columns(size: Option<(terminal_size::Width, terminal_size::Height)>) -> Option<usize> {
    size.map(|(terminal_size::Width(width), _)| usize::from(width))
}

/// The terminal width for errors; `None` if standard error is not a terminal.
pub(crate) fn error_columns() -> Option<usize> {
    columns(terminal_size::terminal_size_of(io::stderr()))
}

/// Writes a JSON object to standard error.
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

/// Escapes control characters, as in `\x1b`: text from data, files, servers and models must not control the
/// terminal. Newlines and tabs stay.
pub(crate) fn escape_controls(text: &str) -> Cow<'_, str> {
    escaped(text, false)
}

/// Like [`escape_controls`], but keeps the escape character of styled text.
fn escaped(text: &str, has_styles: bool) -> Cow<'_, str> {
    let is_shown = |c: char| {
        (!c.is_control() && !is_bidi_control(c)) || matches!(c, '\n' | '\t') || (has_styles && c == '\x1b')
    };
    if text.chars().all(is_shown) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '\r' => out.push_str("\\r"),
            shown if is_shown(shown) => out.push(shown),
            bidi if is_bidi_control(bidi) => {
                let _ = write!(out, "\\u{:04x}", u32::from(bidi));
            }
            // All control characters are below U+00A0.
            hidden => {
                let _ = write!(out, "\\x{:02x}", u32::from(hidden));
            }
        }
    }
    Cow::Owned(out)
}

/// Whether a character changes the direction of the text after it, which can make a line read as something else than it is.
fn is_bidi_control(character: char) -> bool {
    matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Escapes control characters in JSON, where they can only be inside of strings.
fn escape_json_controls(json: &str) -> Cow<'_, str> {
    let is_hidden = |c: char| (c.is_control() && c != '\n') || is_bidi_control(c);
    if !json.contains(is_hidden) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if is_hidden(character) {
            let _ = write!(out, "\\u{:04x}", u32::from(character));
        } else {
            out.push(character);
        }
    }
    Cow::Owned(out)
}

fn buffered(output: Output) -> io::BufWriter<Output> {
    io::BufWriter::with_capacity(1 << 16, output)
}

/// Whether an error means that the reader of our output has closed it.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listener_gets_unstyled_text() {
        let received: Arc<Mutex<Vec<(Level, String)>>> = Arc::default();
        let notes = Notes::new(Color::Always);
        let sink = Arc::clone(&received);
        notes.set_listener(Arc::new(move |level, text| sink.lock().unwrap().push((level, text.to_owned()))));
        notes.rendered(Level::Warning, "\x1b[33mwarning\x1b[0m: odd");
        notes.warn("strange");
        notes.be_quiet();
        notes.info("suppressed");
        let expected = ["odd", "strange"].map(|text| (Level::Warning, text.to_owned()));
        assert_eq!(*received.lock().unwrap(), expected);
    }

    #[test]
    fn status_line_masks_secrets() {
        secrets::remember("sk-status-1234");
        let notes = Notes::new(Color::Never);
        notes.status("asking sk-status-1234");
        notes.with(|screen| assert_eq!(std::mem::take(&mut screen.status), "asking ***"));
    }

    #[test]
    fn escapes_control_characters() {
        assert_eq!(escape_controls("a\tb\nc é日 \u{200f}"), "a\tb\nc é日 \u{200f}");
        assert_eq!(
            escape_controls("\x1b[31mred\x07\r\n\x7f\u{9b}2J\0"),
            "\\x1b[31mred\\x07\\r\n\\x7f\\x9b2J\\x00"
        );
        assert_eq!(escaped("\x1b[1mbold\x1b[0m\u{9b}", true), "\x1b[1mbold\x1b[0m\\x9b");
        assert_eq!(escape_controls("a\u{202e}b\u{2066}"), "a\\u202eb\\u2066");
        assert_eq!(escape_json_controls("\"a\u{202e}\u{9b}\"\n"), "\"a\\u202e\\u009b\"\n");
    }
}

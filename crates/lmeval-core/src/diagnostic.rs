//! Structured details of errors: source locations, hints and tracebacks.

use std::error::Error;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A location in a source file: a task file, a settings file or a template.
#[derive(Clone, Debug)]
pub struct Location {
    path: Arc<Path>,
    text: Arc<str>,
    /// The byte range in the source.
    pub range: Range<usize>,
    /// The line on which the range starts, counted from 1.
    pub line: usize,
}

impl Location {
    /// A location in `text`, which is named by the path of its file or by any other label.
    pub fn new(
        path: impl Into<Arc<Path>>,
        text: impl Into<Arc<str>>,
        range: Range<usize>,
        line: usize,
    ) -> Self {
        Self { path: path.into(), text: text.into(), range, line }
    }

    /// The path of the file, or the label of a source that is not a file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The complete source, not only the range.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path().display(), self.line)
    }
}

/// How serious a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Informational.
    Info,
    /// Something may not be as intended.
    Warning,
    /// Something failed.
    Error,
}

impl Level {
    /// The name of the level in lower case, as in front of messages and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// The details of an error beyond its message and its source.
///
/// Each error reports only its own details: the printer walks the chain of sources and queries each one. An error
/// whose message already includes that of its cause also reports the details of the cause, and omits it from
/// `source()`.
pub trait Diagnose: Error {
    /// The message in one sentence, without the location.
    fn headline(&self) -> String {
        self.to_string()
    }

    /// The locations the error is about, most specific first.
    fn locations(&self) -> Vec<Location> {
        Vec::new()
    }

    /// Suggestions for fixing the problem, one sentence each.
    fn hints(&self) -> Vec<String> {
        Vec::new()
    }

    /// The Python traceback, if the failure happened in Python code.
    fn traceback(&self) -> Option<&str> {
        None
    }
}

/// Downcasts an error, also through a box that a source is wrapped in.
pub fn downcast_error<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    error.downcast_ref().or_else(|| error.downcast_ref::<Box<T>>().map(|boxed| &**boxed))
}

type SharedError = Arc<dyn Error + Send + Sync>;

/// An error that consists of a message, a location, hints and a cause.
///
/// ```
/// use lmeval_core::{Diagnose, Diagnostic};
///
/// let error = Diagnostic::new("There is no task `arc_esy`").hint("Did you mean `arc_easy`?");
/// assert_eq!(error.to_string(), "There is no task `arc_esy`");
/// assert_eq!(error.hints(), ["Did you mean `arc_easy`?"]);
/// ```
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// The problem in one sentence.
    pub message: String,
    /// The source location; `None` if the problem is not in a file.
    pub location: Option<Location>,
    /// Suggestions for fixing the problem, one sentence each.
    pub hints: Vec<String>,
    cause: Option<SharedError>,
    /// Whether the message includes the message of the cause.
    includes_cause: bool,
}

impl Diagnostic {
    /// An error with only a message.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            location: None,
            hints: Vec::new(),
            cause: None,
            includes_cause: false,
        }
    }

    /// An input file or folder that cannot be read: says whether it is missing, forbidden or of the wrong kind, without the
    /// operating system's wording for these.
    pub fn cannot_read(path: &Path, error: io::Error) -> Self {
        let path = path.display();
        match error.kind() {
            io::ErrorKind::NotFound => Self::new(format!("`{path}` does not exist")).including_cause(error),
            io::ErrorKind::PermissionDenied => {
                Self::new(format!("You are not allowed to read `{path}`")).including_cause(error)
            }
            io::ErrorKind::IsADirectory => {
                Self::new(format!("`{path}` is a folder, not a file")).including_cause(error)
            }
            _ => Self::new(format!("Cannot read `{path}`")).caused_by(error),
        }
    }

    /// Sets the location unless one is already set: the innermost location is the most precise.
    #[must_use]
    pub fn at(mut self, location: Option<Location>) -> Self {
        self.location = self.location.or(location);
        self
    }

    /// Adds a suggestion, one sentence.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds a "Did you mean" hint if `names` is not empty.
    #[must_use]
    pub fn did_you_mean(self, names: &[&str]) -> Self {
        if names.is_empty() {
            return self;
        }
        self.hint(format!("Did you mean `{}`?", names.join("` or `")))
    }

    /// Sets a cause that the message does not repeat.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.cause = Some(Arc::from(cause.into()));
        self.includes_cause = false;
        self
    }

    /// Sets a cause whose message is already part of this one.
    #[must_use]
    pub fn including_cause(self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { includes_cause: true, ..self.caused_by(cause) }
    }

    /// The cause, whether or not the message includes it.
    pub fn cause(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as &(dyn Error + 'static))
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(location) = &self.location {
            write!(f, "{location}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl Error for Diagnostic {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let cause = self.cause()?;
        if self.includes_cause { cause.source() } else { Some(cause) }
    }
}

impl Diagnose for Diagnostic {
    fn headline(&self) -> String {
        self.message.clone()
    }

    fn locations(&self) -> Vec<Location> {
        self.location.clone().into_iter().collect()
    }

    fn hints(&self) -> Vec<String> {
        self.hints.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(error: &dyn Error) -> Vec<String> {
        let mut texts = vec![error.to_string()];
        let mut next = error.source();
        while let Some(error) = next {
            texts.push(error.to_string());
            next = error.source();
        }
        texts
    }

    #[test]
    fn chain_repeats_no_message() {
        let below = Diagnostic::new("The disk is full");
        let cause = Diagnostic::new("`a` cannot be written").caused_by(below);
        let linked = Diagnostic::new("Nothing was saved").caused_by(cause.clone());
        assert_eq!(chain(&linked), ["Nothing was saved", "`a` cannot be written", "The disk is full"]);
        let including = Diagnostic::new(format!("Nothing was saved: {cause}")).including_cause(cause);
        assert_eq!(chain(&including), ["Nothing was saved: `a` cannot be written", "The disk is full"]);
        assert_eq!(including.cause().unwrap().to_string(), "`a` cannot be written");
    }

    #[test]
    fn keeps_innermost_location() {
        let at = |line| Some(Location::new(Path::new("a.yaml"), "x: 1\ny: 2\n", 0..1, line));
        let error = Diagnostic::new("No").at(None).at(at(2)).at(at(1));
        assert_eq!(error.to_string(), "a.yaml:2: No");
    }
}

//! What errors say beside their message: a place, advice, a traceback.

use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A place in a text: a task file, a settings file, a template.
#[derive(Clone, Debug)]
pub struct Location {
    path: Arc<Path>,
    text: Arc<str>,
    /// The bytes of the text that are meant.
    pub range: Range<usize>,
    /// The line of the start, counted from 1.
    pub line: usize,
}

impl Location {
    /// A place in a text, and what the text is called: the path of a file, or a name.
    pub fn new(
        path: impl Into<Arc<Path>>,
        text: impl Into<Arc<str>>,
        range: Range<usize>,
        line: usize,
    ) -> Self {
        Self { path: path.into(), text: text.into(), range, line }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path().display(), self.line)
    }
}

/// What an error knows beside its message and its source.
///
/// Each error speaks for itself alone: whoever prints one walks the sources and asks each of them. An error whose
/// message contains that of its cause speaks for the cause as well, and leaves it out of the sources.
pub trait Diagnose: Error {
    /// What is wrong, in one sentence without the place.
    fn headline(&self) -> String {
        self.to_string()
    }

    /// The places that it is about, the most exact first.
    fn places(&self) -> Vec<Location> {
        Vec::new()
    }

    /// What to try, one sentence each.
    fn hints(&self) -> Vec<String> {
        Vec::new()
    }

    /// What Python says about it.
    fn traceback(&self) -> Option<&str> {
        None
    }
}

/// An error as what it is, also where a source is in a box.
pub fn as_known<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    error.downcast_ref().or_else(|| error.downcast_ref::<Box<T>>().map(|boxed| &**boxed))
}

type SharedError = Arc<dyn Error + Send + Sync>;

/// A message with the place it is about, what to try, and its cause.
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
    /// What is wrong, in one sentence.
    pub message: String,
    /// Where; `None` for what no file holds.
    pub location: Option<Location>,
    /// What to try, one sentence each.
    pub hints: Vec<String>,
    cause: Option<SharedError>,
    /// Whether the message contains that of the cause.
    tells_cause: bool,
}

impl Diagnostic {
    /// A message without a place or advice.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), location: None, hints: Vec::new(), cause: None, tells_cause: false }
    }

    /// Adds the place, unless one is known already: the innermost place is the most exact.
    #[must_use]
    pub fn at(mut self, location: Option<Location>) -> Self {
        self.location = self.location.or(location);
        self
    }

    /// Adds a sentence of advice.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds `did you mean` advice where there are near names.
    #[must_use]
    pub fn did_you_mean(self, names: &[&str]) -> Self {
        if names.is_empty() {
            return self;
        }
        self.hint(format!("Did you mean `{}`?", names.join("` or `")))
    }

    /// Adds the cause, which the message does not repeat.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.cause = Some(Arc::from(cause.into()));
        self.tells_cause = false;
        self
    }

    /// Adds a cause whose message is part of this one.
    #[must_use]
    pub fn telling(self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { tells_cause: true, ..self.caused_by(cause) }
    }

    /// The cause, whether or not the message contains it.
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
        if self.tells_cause { cause.source() } else { Some(cause) }
    }
}

impl Diagnose for Diagnostic {
    fn headline(&self) -> String {
        self.message.clone()
    }

    fn places(&self) -> Vec<Location> {
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
    fn no_message_is_in_the_chain_twice() {
        let below = Diagnostic::new("The disk is full");
        let cause = Diagnostic::new("`a` cannot be written").caused_by(below);
        let linked = Diagnostic::new("Nothing was saved").caused_by(cause.clone());
        assert_eq!(chain(&linked), ["Nothing was saved", "`a` cannot be written", "The disk is full"]);
        let telling = Diagnostic::new(format!("Nothing was saved: {cause}")).telling(cause);
        assert_eq!(chain(&telling), ["Nothing was saved: `a` cannot be written", "The disk is full"]);
        assert_eq!(telling.cause().unwrap().to_string(), "`a` cannot be written");
    }

    #[test]
    fn the_first_place_stays() {
        let at = |line| Some(Location::new(Path::new("a.yaml"), "x: 1\ny: 2\n", 0..1, line));
        let error = Diagnostic::new("No").at(None).at(at(2)).at(at(1));
        assert_eq!(error.to_string(), "a.yaml:2: No");
    }
}

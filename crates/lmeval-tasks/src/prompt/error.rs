//! Errors while building requests.

use std::error::Error as StdError;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use lmeval_core::{Diagnose, Diagnostic, DocId, Location};
use lmeval_scoring::HostError;

use crate::config::shortened;
use crate::source::{Mapping, Step};

/// The kind of an error; each corresponds to the Python exception that the reference raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PromptErrorKind {
    /// A template does not compile or render (`ValueError`).
    Template,
    /// A document lacks a column that a field names (`KeyError`).
    MissingColumn,
    /// A value has an unsupported type (`TypeError`, `AssertionError`).
    Type,
    /// A value of the right type that is out of range or malformed (`ValueError`, `IndexError`).
    Value,
    /// Python is needed to run a function of the task, and not available.
    NeedsPython,
    /// A function of the task failed.
    Function,
    /// Documents cannot be read, or there are none (`ValueError`).
    Documents,
    /// Examples cannot be drawn (`AssertionError`, `ValueError`).
    Examples,
    /// The chat template of the model failed.
    ChatTemplate,
    /// `limit` or `samples` selects documents that do not exist (`ValueError`, `AssertionError`).
    Selection,
    /// Nothing has this name (`KeyError`).
    UnknownName,
}

/// The document that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorDocument {
    /// An evaluated document.
    Document(DocId),
    /// A document of the example pool, by its index there.
    Example(usize),
}

/// An error while building the requests of a task.
///
/// It names the task, the document and the field if they are known; [`PromptError::hints`] suggest what to try.
#[derive(Clone, Debug)]
pub struct PromptError(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: PromptErrorKind,
    diagnostic: Diagnostic,
    task: Option<Arc<str>>,
    document: Option<ErrorDocument>,
    field: Option<&'static str>,
    template: Option<Arc<str>>,
}

impl PromptError {
    /// An error that names neither task nor document yet.
    pub fn new(kind: PromptErrorKind, message: impl Into<String>) -> Self {
        let diagnostic = Diagnostic::new(message);
        Self(Box::new(Inner { kind, diagnostic, task: None, document: None, field: None, template: None }))
    }

    /// An error from a function of the task.
    pub(crate) fn host(error: HostError) -> Self {
        let needs_python = matches!(error, HostError::NeedsPython { .. });
        let kind = if needs_python { PromptErrorKind::NeedsPython } else { PromptErrorKind::Function };
        let failure = Self::new(kind, error.to_string());
        let failure = error.hints().into_iter().fold(failure, Self::hint).including_cause(error);
        if needs_python {
            failure.hint("Run with a Python that has the packages of the task")
        } else {
            failure
        }
    }

    /// Names the task.
    pub(crate) fn of_task(mut self, task: &Arc<str>) -> Self {
        self.0.task.get_or_insert_with(|| Arc::clone(task));
        self
    }

    /// Names the document, unless one is already named.
    pub(crate) fn at(mut self, document: ErrorDocument) -> Self {
        self.0.document.get_or_insert(document);
        self
    }

    /// Names the field, unless one is already named.
    pub(crate) fn in_field(mut self, field: &'static str) -> Self {
        self.0.field.get_or_insert(field);
        self
    }

    fn with(mut self, change: impl FnOnce(Diagnostic) -> Diagnostic) -> Self {
        self.0.diagnostic = change(self.0.diagnostic);
        self
    }

    /// Adds the location in the task file, unless there already is one.
    pub(crate) fn located_at(self, location: Option<Location>) -> Self {
        self.with(|diagnostic| diagnostic.at(location))
    }

    /// Adds the location of the field in the task file, unless there already is a location.
    pub(crate) fn located(self, locations: &FieldLocations) -> Self {
        let location = self.0.field.and_then(|field| locations.get(field));
        self.located_at(location)
    }

    /// Attaches the template.
    pub(crate) fn with_template(mut self, template: &Arc<str>) -> Self {
        self.0.template = Some(Arc::clone(template));
        self
    }

    /// Adds a hint about what to try.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        self.with(|diagnostic| diagnostic.hint(hint))
    }

    /// Attaches the cause, which the message does not repeat.
    pub(crate) fn caused_by(self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.with(|diagnostic| diagnostic.caused_by(cause))
    }

    /// Attaches a cause whose message is already part of this one.
    pub(crate) fn including_cause(self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.with(|diagnostic| diagnostic.including_cause(cause))
    }

    /// Which Python exception the error corresponds to.
    pub fn kind(&self) -> PromptErrorKind {
        self.0.kind
    }

    /// The error in one sentence, without task, document and field.
    pub fn message(&self) -> &str {
        &self.0.diagnostic.message
    }

    /// The task, if known.
    pub fn task(&self) -> Option<&str> {
        self.0.task.as_deref()
    }

    /// The document, if the error is about one.
    pub fn document(&self) -> Option<ErrorDocument> {
        self.0.document
    }

    /// The key of the field, if the error is about one.
    pub fn field(&self) -> Option<&'static str> {
        self.0.field
    }

    /// The location of the field in the task file, if known.
    pub fn location(&self) -> Option<&Location> {
        self.0.diagnostic.location.as_ref()
    }

    /// The template that failed.
    pub fn template(&self) -> Option<&str> {
        self.0.template.as_deref()
    }

    /// Suggestions about what to try.
    pub fn hints(&self) -> &[String] {
        &self.0.diagnostic.hints
    }

    /// The error of the function that failed.
    pub fn host_error(&self) -> Option<&HostError> {
        HostError::find(self.0.diagnostic.cause()?)
    }
}

impl Diagnose for PromptError {
    /// Task, document and field, followed by the message.
    fn headline(&self) -> String {
        let inner = &self.0;
        let mut parts = Vec::new();
        parts.extend(inner.task.as_ref().map(|task| format!("task `{task}`")));
        parts.extend(inner.document.map(|document| match document {
            ErrorDocument::Document(id) => format!("document {id}"),
            ErrorDocument::Example(index) => format!("example {index}"),
        }));
        parts.extend(inner.field.map(|field| format!("`{field}`")));
        let mut prefix = parts.join(", ");
        if let Some(first) = prefix.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        if prefix.is_empty() { self.message().to_owned() } else { format!("{prefix}: {}", self.message()) }
    }

    /// The location in the task file, and the one in the template if the file contains it in another form.
    fn locations(&self) -> Vec<Location> {
        let cause =
            self.0.diagnostic.cause().and_then(|cause| cause.downcast_ref::<lmeval_template::Error>());
        let in_template = cause.and_then(|cause| {
            let name = Path::new(self.0.field.unwrap_or("template"));
            Some(Location::new(name, cause.template()?, cause.range()?, cause.line()?))
        });
        let exact = self.location().zip(in_template.as_ref()).and_then(|(file, inner)| within(file, inner));
        match exact {
            Some(exact) => vec![exact],
            None => self.location().cloned().into_iter().chain(in_template).collect(),
        }
    }

    fn hints(&self) -> Vec<String> {
        self.0.diagnostic.hints.clone()
    }

    fn traceback(&self) -> Option<&str> {
        self.host_error()?.traceback()
    }
}

/// Maps a location in a template to the task file. Works only if the file contains the template literally: without
/// escapes, and not folded over several lines.
fn within(file: &Location, template: &Location) -> Option<Location> {
    let value = file.text().get(file.range.clone())?;
    let start = file.range.start + value.find(template.text())?;
    let mut exact = file.clone();
    exact.range = start + template.range.start..start + template.range.end;
    exact.line += file.text().get(file.range.start..exact.range.start)?.matches('\n').count();
    Some(exact)
}

/// The locations of a task's fields in its files.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldLocations(Vec<(&'static str, Location)>);

/// The fields that errors name.
const FIELDS: [&str; 11] = [
    "doc_to_text",
    "doc_to_target",
    "doc_to_choice",
    "gen_prefix",
    "description",
    "doc_to_image",
    "doc_to_audio",
    "fewshot_config.doc_to_text",
    "fewshot_config.doc_to_target",
    "fewshot_config.doc_to_choice",
    "fewshot_config.gen_prefix",
];

impl FieldLocations {
    /// Collects the locations of a task's fields.
    pub(crate) fn new(mapping: &Mapping) -> Self {
        let locate = |field: &'static str| {
            let steps: Vec<Step> = field.split('.').map(Step::from).collect();
            // Values set by a format or on the command line have no location.
            mapping.get(field.split('.').next()?)?;
            Some((field, mapping.locate(&steps)?))
        };
        Self(FIELDS.into_iter().filter_map(locate).collect())
    }

    fn get(&self, field: &str) -> Option<Location> {
        self.0.iter().find(|(known, _)| *known == field).map(|(_, location)| location.clone())
    }
}

impl fmt::Display for PromptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.headline())?;
        if let Some(template) = &self.0.template {
            write!(f, " (template `{}`)", shortened(template))?;
        }
        Ok(())
    }
}

impl StdError for PromptError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.diagnostic.source()
    }
}

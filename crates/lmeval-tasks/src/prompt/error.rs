//! What goes wrong between a document and its requests.

use std::error::Error as StdError;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use lmeval_core::{Diagnose, Diagnostic, DocId, HostError, Location};

use crate::config::shortened;
use crate::source::{Mapping, Step};

/// The kind of a failure; each has the Python exception that the reference raises in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PromptErrorKind {
    /// A template does not compile or render (`ValueError`).
    Template,
    /// A document lacks a column that a field names (`KeyError`).
    MissingColumn,
    /// A value has a type that cannot be used (`TypeError`, `AssertionError`).
    Type,
    /// A value of the right type that makes no sense (`ValueError`, `IndexError`).
    Value,
    /// There is no Python to run a function of the task.
    NeedsPython,
    /// A function of the task failed.
    Function,
    /// Documents cannot be read, or there are none (`ValueError`).
    Documents,
    /// Examples cannot be drawn (`AssertionError`, `ValueError`).
    Examples,
    /// The chat template of the model failed.
    ChatTemplate,
    /// `limit` or `samples` choose what is not there (`ValueError`, `AssertionError`).
    Selection,
    /// A name is not known (`KeyError`).
    UnknownName,
}

/// The document that a failure is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// An evaluated document.
    Document(DocId),
    /// A document of the pool of examples, by its position there.
    Example(usize),
}

/// A failure to build the requests of a task.
///
/// It names the task, the document and the field where it can, and [`PromptError::hints`] say what to try.
#[derive(Clone, Debug)]
pub struct PromptError(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: PromptErrorKind,
    diagnostic: Diagnostic,
    task: Option<Arc<str>>,
    place: Option<Place>,
    field: Option<&'static str>,
    template: Option<Arc<str>>,
}

impl PromptError {
    /// A failure with a message.
    pub fn new(kind: PromptErrorKind, message: impl Into<String>) -> Self {
        let diagnostic = Diagnostic::new(message);
        Self(Box::new(Inner { kind, diagnostic, task: None, place: None, field: None, template: None }))
    }

    /// The failure of a function of the task.
    pub(crate) fn host(error: HostError) -> Self {
        let needs_python = matches!(error, HostError::NeedsPython { .. });
        let kind = if needs_python { PromptErrorKind::NeedsPython } else { PromptErrorKind::Function };
        let failure = Self::new(kind, error.to_string()).including_cause(error);
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

    /// Names the document, unless one is named already.
    pub(crate) fn at(mut self, place: Place) -> Self {
        self.0.place.get_or_insert(place);
        self
    }

    /// Names the field, unless one is named already.
    pub(crate) fn in_field(mut self, field: &'static str) -> Self {
        self.0.field.get_or_insert(field);
        self
    }

    fn with(mut self, change: impl FnOnce(Diagnostic) -> Diagnostic) -> Self {
        self.0.diagnostic = change(self.0.diagnostic);
        self
    }

    /// Says where the cause stands in the task file, unless that is known already.
    pub(crate) fn located_at(self, location: Option<Location>) -> Self {
        self.with(|diagnostic| diagnostic.at(location))
    }

    /// Says where the field stands in the task file, unless a place is known already.
    pub(crate) fn located(self, places: &FieldPlaces) -> Self {
        let location = self.0.field.and_then(|field| places.get(field));
        self.located_at(location)
    }

    /// Keeps the template.
    pub(crate) fn with_template(mut self, template: &Arc<str>) -> Self {
        self.0.template = Some(Arc::clone(template));
        self
    }

    /// Adds a sentence of advice.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        self.with(|diagnostic| diagnostic.hint(hint))
    }

    /// Keeps the cause, which the message does not repeat.
    pub(crate) fn caused_by(self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.with(|diagnostic| diagnostic.caused_by(cause))
    }

    /// Keeps a cause whose message is part of this one.
    pub(crate) fn including_cause(self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.with(|diagnostic| diagnostic.including_cause(cause))
    }

    /// The kind.
    pub fn kind(&self) -> PromptErrorKind {
        self.0.kind
    }

    /// The sentence that says what is wrong, without the place.
    pub fn message(&self) -> &str {
        &self.0.diagnostic.message
    }

    /// The task.
    pub fn task(&self) -> Option<&str> {
        self.0.task.as_deref()
    }

    /// The document.
    pub fn place(&self) -> Option<Place> {
        self.0.place
    }

    /// The field of the task.
    pub fn field(&self) -> Option<&'static str> {
        self.0.field
    }

    /// Where the field stands in the task file.
    pub fn location(&self) -> Option<&Location> {
        self.0.diagnostic.location.as_ref()
    }

    /// The template.
    pub fn template(&self) -> Option<&str> {
        self.0.template.as_deref()
    }

    /// The sentences of advice.
    pub fn hints(&self) -> &[String] {
        &self.0.diagnostic.hints
    }

    /// The failure of a function of the task that this is about.
    pub fn host_error(&self) -> Option<&HostError> {
        HostError::find(self.0.diagnostic.cause()?)
    }
}

impl Diagnose for PromptError {
    /// Task, document and field, and what is wrong.
    fn headline(&self) -> String {
        let inner = &self.0;
        let mut parts = Vec::new();
        parts.extend(inner.task.as_ref().map(|task| format!("task `{task}`")));
        parts.extend(inner.place.map(|place| match place {
            Place::Document(id) => format!("document {id}"),
            Place::Example(index) => format!("example {index}"),
        }));
        parts.extend(inner.field.map(|field| format!("`{field}`")));
        let mut prefix = parts.join(", ");
        if let Some(first) = prefix.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        if prefix.is_empty() { self.message().to_owned() } else { format!("{prefix}: {}", self.message()) }
    }

    /// The place in the task file, and that in the template where the file does not have the template as it is.
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

/// A place in a template as one in the task file, where the file has the template as it is: without escapes, and not
/// over several lines that YAML puts together.
fn within(file: &Location, template: &Location) -> Option<Location> {
    let value = file.text().get(file.range.clone())?;
    let start = file.range.start + value.find(template.text())?;
    let mut exact = file.clone();
    exact.range = start + template.range.start..start + template.range.end;
    exact.line += file.text().get(file.range.start..exact.range.start)?.matches('\n').count();
    Some(exact)
}

/// Where the fields of a task stand in its files.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldPlaces(Vec<(&'static str, Location)>);

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

impl FieldPlaces {
    /// The places of a task.
    pub(crate) fn new(mapping: &Mapping) -> Self {
        let locate = |field: &'static str| {
            let steps: Vec<Step> = field.split('.').map(Step::from).collect();
            // What a format or the command line has set stands in no file.
            mapping.get(field.split('.').next()?)?;
            Some((field, mapping.locate(&steps)?))
        };
        Self(FIELDS.into_iter().filter_map(locate).collect())
    }

    fn get(&self, field: &str) -> Option<Location> {
        self.0.iter().find(|(known, _)| *known == field).map(|(_, place)| place.clone())
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

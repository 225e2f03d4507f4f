//! What goes wrong between a document and its requests.

use std::fmt;
use std::sync::Arc;

use lmeval_core::{DocId, HostError};

use crate::config::shortened;
use crate::error::Location;
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
    message: String,
    task: Option<Arc<str>>,
    place: Option<Place>,
    field: Option<&'static str>,
    location: Option<Location>,
    template: Option<Arc<str>>,
    hints: Vec<String>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl PromptError {
    /// A failure with a message.
    pub fn new(kind: PromptErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            task: None,
            place: None,
            field: None,
            location: None,
            template: None,
            hints: Vec::new(),
            source: None,
        }))
    }

    /// The failure of a function of the task.
    pub(crate) fn host(error: HostError) -> Self {
        let message = error.to_string();
        let needs_python = matches!(error, HostError::NeedsPython { .. });
        let kind = if needs_python { PromptErrorKind::NeedsPython } else { PromptErrorKind::Function };
        let failure = Self::new(kind, message).caused_by(error);
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

    /// Says where the cause stands in the task file.
    pub(crate) fn located_at(mut self, location: Option<Location>) -> Self {
        self.0.location = location;
        self
    }

    /// Says where the field stands in the task file.
    pub(crate) fn located(mut self, places: &FieldPlaces) -> Self {
        self.0.location = self.0.location.or_else(|| self.0.field.and_then(|field| places.get(field)));
        self
    }

    /// Keeps the template.
    pub(crate) fn with_template(mut self, template: &Arc<str>) -> Self {
        self.0.template = Some(Arc::clone(template));
        self
    }

    /// Adds a sentence of advice.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hints.push(hint.into());
        self
    }

    /// Keeps the cause.
    pub(crate) fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// The kind.
    pub fn kind(&self) -> PromptErrorKind {
        self.0.kind
    }

    /// The sentence that says what is wrong, without the place.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Task, document and field, and what is wrong.
    pub fn headline(&self) -> String {
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
        if prefix.is_empty() { inner.message.clone() } else { format!("{prefix}: {}", inner.message) }
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
        self.0.location.as_ref()
    }

    /// The template.
    pub fn template(&self) -> Option<&str> {
        self.0.template.as_deref()
    }

    /// The sentences of advice.
    pub fn hints(&self) -> &[String] {
        &self.0.hints
    }
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

impl std::error::Error for PromptError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}
